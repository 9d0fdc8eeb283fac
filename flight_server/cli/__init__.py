"""The command line: `lance-flight VERB ...`, one file per verb.

Exit codes: 0 done, 1 failed, 2 wrong usage. What machines may read goes to stdout, everything else to stderr.
"""

from typing import Annotated

import typer

import lance_core
from flight_server.cli.access import with_access
from flight_server.cli.aggregate import aggregate
from flight_server.cli.bench import bench
from flight_server.cli.blobs import blobs
from flight_server.cli.branch import branch
from flight_server.cli.cleanup import cleanup
from flight_server.cli.columns import columns
from flight_server.cli.compact import compact
from flight_server.cli.config import config
from flight_server.cli.delete import delete
from flight_server.cli.demo import demo
from flight_server.cli.drop import drop
from flight_server.cli.errors import ErrorReportingGroup
from flight_server.cli.head import head
from flight_server.cli.index import index
from flight_server.cli.inspect import inspect
from flight_server.cli.ls import ls
from flight_server.cli.pipeline import pipeline
from flight_server.cli.put import put
from flight_server.cli.restore import restore
from flight_server.cli.scan import scan
from flight_server.cli.search import search
from flight_server.cli.serve import serve
from flight_server.cli.show import show
from flight_server.cli.tag import tag
from flight_server.cli.token import token
from flight_server.cli.update import update
from flight_server.cli.validate import validate
from flight_server.cli.versions import versions

app = typer.Typer(
    name="lance-flight",
    cls=ErrorReportingGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"lance-flight {lance_core.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Serve, read and change Lance datasets over Arrow Flight."""


_READING = (ls, show, head, scan, aggregate, search, blobs, versions, validate)
_CHANGING = (put, delete, update, restore, compact, cleanup, drop)
for verb in (serve, inspect, config, demo):
    app.command()(verb)
for asking in (*_READING, *_CHANGING, bench):
    app.command()(with_access(asking))
for name, group in (
    ("columns", columns),
    ("tag", tag),
    ("branch", branch),
    ("index", index),
    ("token", token),
):
    app.add_typer(group, name=name)

# The jobs have commands and options of their own, `--help` included.
app.command(
    add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)(pipeline)
