"""Failures of the command line: one line on stderr and exit code 1, no traceback for what was foreseen."""

import os
import select
import signal
import sys
from contextvars import ContextVar
from typing import Any

import pyarrow as pa
import typer
from pyarrow import flight
from rich.console import Console
from typer.core import TyperGroup

from flight_server.cli.rendering import printable
from lance_core.api.serving import DAMAGE
from lance_core.errors import LanceError

stderr = Console(stderr=True, highlight=False)

asked_server: ContextVar[str | None] = ContextVar("asked_server", default=None)
"""The address of the server that the command talks to, which errors of the connection do not name."""


class ErrorReportingGroup(TyperGroup):
    """Group of commands. Errors of the format, of Flight and of the file system end one with exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        asked_server.set(None)
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError as error:
            if not _is_reader_gone():
                raise
            # Nobody reads any more, as in `scan ... | head`: end like a program that the signal ended.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(128 + signal.SIGPIPE) from error
        except (LanceError, pa.ArrowException, OSError) as error:
            message = printable(message_of(error, asked_server.get()))
            stderr.print(f"error: {message}", markup=False, soft_wrap=True)
            raise typer.Exit(1) from None


def _is_reader_gone() -> bool:
    """Return whether stdout is a pipe that nobody reads any more."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except OSError:  # stdout is no file, as in tests
        return False


def message_of(error: Exception, server: str | None = None) -> str:
    """Return one line that says what went wrong; `server` is the address of the one that was asked."""
    if isinstance(error, pa.ArrowException | flight.FlightError) and not isinstance(error, LanceError):
        # Imported when there is an error: most commands have none.
        from flight_client.errors import from_flight

        error = from_flight(error, server=server)
    return " ".join(str(error).split()) or type(error).__name__


def damage_of(error: Exception) -> str:
    """Return what a check found to be wrong with a dataset.

    Raises:
        Exception: `error` itself, if it says nothing about the dataset.
    """
    if isinstance(error, pa.ArrowException | flight.FlightError):
        from flight_client import errors as remote

        found = remote.from_flight(error)
        if isinstance(found, remote.CorruptFileError | remote.UnsupportedFeatureError):
            return str(found)
        # A file that is missing: what other errors of the storage say may be over the next time.
        if isinstance(found, remote.StorageError) and not found.retryable:
            return str(found)
    elif isinstance(error, DAMAGE):
        return str(error)
    raise error
