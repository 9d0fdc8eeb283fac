"""Signature of a version: the library that made it, and the time."""

import re
from time import time_ns

from lance_core.proto import table_pb2

LIBRARY = "lance-flight"


def sign(message: table_pb2.Manifest) -> None:
    """Note this library as the writer, and the time.

    The time is none earlier than the one in the message, that of the version before: clocks go backwards.
    """
    message.writer_version.Clear()
    message.writer_version.library, message.writer_version.version = LIBRARY, _release()
    before = message.timestamp
    now = max(time_ns(), before.seconds * 1_000_000_000 + before.nanos)
    message.timestamp.seconds, message.timestamp.nanos = divmod(now, 1_000_000_000)


def _release() -> str:
    """Return the version of this package as plain numbers, which is all that the reference understands."""
    from lance_core.version import __version__  # late: finding it takes long, and readers do not sign

    numbers = re.match(r"\d+(\.\d+){0,2}", __version__)
    parts = (numbers[0] if numbers else "0").split(".")
    return ".".join([*parts, "0", "0"][:3])
