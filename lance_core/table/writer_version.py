"""Writer and time of a version, as its manifest records them."""

import re
from time import time_ns

from lance_core.proto import table_pb2

LIBRARY = "lance-flight"


def sign(message: table_pb2.Manifest) -> None:
    """Record this library as the writer of a manifest, and the current time.

    The time in `message` is that of the previous version. The new time is never earlier, even if the clock
    was set back.
    """
    message.writer_version.Clear()
    message.writer_version.library, message.writer_version.version = LIBRARY, _release()
    before = message.timestamp
    now = max(time_ns(), before.seconds * 1_000_000_000 + before.nanos)
    message.timestamp.seconds, message.timestamp.nanos = divmod(now, 1_000_000_000)


def _release() -> str:
    """Return the version of this package as plain numbers, because the reference parses nothing else."""
    # imported late: it is slow to find, and readers do not need it
    from lance_core.version import __version__

    numbers = re.match(r"\d+(\.\d+){0,2}", __version__)
    parts = (numbers[0] if numbers else "0").split(".")
    return ".".join([*parts, "0", "0"][:3])
