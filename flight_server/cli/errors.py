"""Failures of the command line: one line on stderr and exit code 1, no traceback for what was foreseen."""

import os
import select
import signal
import sys

import pyarrow as pa
from pyarrow import flight
from rich.console import Console

from flight_server.cli.rendering import printable
from lance_core.errors import LanceError

stderr = Console(stderr=True, highlight=False)


def report(error: Exception, server: str | None) -> int | None:
    """Print an error that was foreseen: of the format, of Flight or of the file system.

    Args:
        error: the error that ended a verb.
        server: the address of the server that was asked.

    Returns:
        The exit code; None for an error that was not foreseen, of which nothing is printed.
    """
    if isinstance(error, BrokenPipeError):
        if not _is_reader_gone():
            return None
        # Nobody reads any more, as in `scan ... | head`: end like a program that the signal ended.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    if not isinstance(error, LanceError | pa.ArrowException | OSError):
        return None
    message = printable(message_of(error, server))
    stderr.print(f"error: {message}", markup=False, soft_wrap=True)
    return 1


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
    """Return what a server found to be wrong with a dataset.

    Raises:
        Exception: `error` itself, if it says nothing about the dataset.
    """
    from flight_client import errors as remote

    found = remote.from_flight(error)
    if isinstance(found, remote.CorruptFileError | remote.UnsupportedFeatureError):
        return str(found)
    # A file that is missing: what other errors of the storage say may be over the next time.
    if isinstance(found, remote.StorageError) and not found.retryable:
        return str(found)
    raise error
