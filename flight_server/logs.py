"""Logging of the server process: one line per event on stderr, stdout is left to the ready line."""

import logging
import sys
import traceback
from types import TracebackType

# The process runs with `sys.tracebacklimit = 0`, so that no stack reaches a client; the log says how deep
# it wants one.
_STACK_FRAMES = 40


class LogFormatter(logging.Formatter):
    """Escapes control characters, so that no name or message can write a line of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the base class
        line = super().formatMessage(record)
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)

    def formatException(  # noqa: N802 - the name of the base class
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        return "".join(traceback.format_exception(*ei, limit=_STACK_FRAMES)).rstrip()


def configure_logging(level: str) -> None:
    """Send the records of `level` and above to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
