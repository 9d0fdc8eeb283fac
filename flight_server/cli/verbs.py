"""The verbs of `lance-flight`. The module of a verb is imported when the verb is called.

Importing all of them takes longer than most of them run.
"""

import sys
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cached_property
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

VERBS: Mapping[str, str] = {
    "serve": "Serve the datasets below ROOT until SIGTERM or Ctrl-C.",
    "config": (
        "Show the settings that `serve` would run with, given the same options, and where each comes from."
    ),
    "token": "Make keys and tokens for servers that ask who calls.",
    "demo": "Serve the time zones of the world, query them, and say how to connect.",
    "ls": "List datasets with their latest version, rows and bytes.",
    "show": "Show version, size and schema of a dataset.",
    "head": "Show the first rows of a dataset.",
    "scan": "Read a dataset into a file, or to stdout.",
    "aggregate": "Show counts, sums, extremes and averages, one row per group of rows.",
    "search": "Show the rows that are nearest to a vector, that contain words, or that are best by both.",
    "blobs": "Write the bytes of one blob, of any size, to a file or to stdout.",
    "versions": "List the versions of a dataset, oldest first, with their rows, fragments and bytes.",
    "validate": (
        "Check every file of a version: checksums of all bytes where files have them, else that values "
        "decode."
    ),
    "put": "Write the rows of files as a new version of a dataset: all of them, or none.",
    "delete": "Delete rows, as one new version.",
    "update": "Give columns new values, as one new version.",
    "columns": "Add, drop, rename and cast columns; each makes one new version.",
    "tag": "List, create, move and delete tags: names for versions.",
    "branch": "List, create and delete branches.",
    "index": "Build, list, extend and drop indices.",
    "restore": (
        "Make an older version the latest one again, as one new version. The versions between them stay."
    ),
    "compact": (
        "Join small fragments and leave out deleted rows, as one new version if anything is to be gained."
    ),
    "cleanup": "Remove old versions, and files that no version needs.",
    "drop": "Remove a dataset with all its versions, tags and branches. That cannot be undone.",
    "inspect": "Show the columns and pages of a data file: sizes, layouts, encodings.",
    "bench": "Measure scans, the time to their first batch, and lookups of 1 and 1000 random rows.",
    "pipeline": (
        "Run jobs on Spark: ingest, transform, backfill, merge, export, ...; `pipeline --help` lists them."
    ),
}
"""Every verb and the first line of its help, in the order of `lance-flight --help`."""

asked_server: ContextVar[str | None] = ContextVar("asked_server", default=None)
"""The address of the server that the verb talks to, which errors of the connection do not name."""


class Verb(TyperCommand):
    """Command whose module is imported when it is called. Until then a name and a line of help are known."""

    @cached_property
    def command(self) -> Any:
        """The command itself, made of the function or the `Typer` that has its name in its module."""
        assert self.name is not None
        verb = getattr(import_module(f"flight_server.cli.commands.{self.name}"), self.name)
        if not isinstance(verb, typer.Typer):
            function, verb = verb, typer.Typer(add_completion=False)
            verb.command(self.name)(function)
        command = get_command(verb)
        command.name, command.help = self.name, command.help or self.help  # a group has no docstring
        return command

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        return self.command.make_context(*arguments, **options)


class Verbs(TyperGroup):
    """The group of all verbs. Foreseen errors end a verb with one line on stderr and exit code 1."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, line in VERBS.items():
            self.add_command(Verb(name, help=line))

    def invoke(self, ctx: Any) -> Any:
        asked_server.set(None)
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except typer.Exit:
            raise
        except Exception as error:
            # Imported when there is an error: which are foreseen is known only with Arrow, which some verbs
            # do without.
            from flight_server.cli.errors import report

            code = report(error, asked_server.get())
            if code is None:
                raise
            raise typer.Exit(code) from None
