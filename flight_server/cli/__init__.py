"""The command line: `lance-flight VERB ...`.

The folder `commands` has one file per verb, `datasets` what verbs read and change, and `files` the formats
that `put` reads and `scan` writes. The modules beside them are what several verbs share.

Exit codes: 0 done, 1 failed, 2 wrong usage. Results go to stdout, progress and errors to stderr.
"""

from typing import Annotated

import typer

from flight_server.cli.verbs import Verbs

app = typer.Typer(
    name="lance-flight",
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        # Imported when somebody asks: reading the version takes as long as importing Typer.
        from lance_core.version import __version__

        print(f"lance-flight {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Serve, read and change Lance datasets over Arrow Flight."""
