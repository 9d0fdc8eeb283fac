"""Processors of the machine, and how the processes of one server share them with short calls."""

import mmap
import os
import struct
import tempfile
import time
from typing import BinaryIO

_TIME = struct.Struct("d")
_SHORT_SECONDS = 0.1
"""Time after a short call for which others are expected to follow."""


class Processors:
    """Processors that a process may use, and the time of the latest short call to any process of the server.

    Short calls are lookups, actions, and streams that end with few bytes. Scans are not: if they counted,
    scans would leave processors to each other, and nobody would use them.

    Attributes:
        share: Number of processors for this process, 1 or more.
    """

    def __init__(self, share: int, file: BinaryIO | None = None) -> None:
        """Use so many processors. `file` is that of `shared_file`, if there are several processes."""
        self.share = share
        # The clock is that of the machine, so that processes can compare times. A time is written at once.
        self._latest: mmap.mmap | bytearray = (
            bytearray(_TIME.size) if file is None else mmap.mmap(file.fileno(), _TIME.size)
        )

    @classmethod
    def of_process(cls, num_processes: int = 1, file: BinaryIO | None = None) -> "Processors":
        """Return the share of one of the processes of a server."""
        return cls(max(1, len(os.sched_getaffinity(0)) // num_processes), file)

    def note_call(self) -> None:
        """Note that a short call, or a batch of keys, comes in now, or that a stream has ended early."""
        _TIME.pack_into(self._latest, 0, time.monotonic())

    def have_calls_since(self, begin: float) -> bool:
        """Return whether short calls come in, so that a scan should leave processors to them.

        Args:
            begin: Time since which calls count. A lookup of many bytes is a short call itself.
        """
        (latest,) = _TIME.unpack_from(self._latest)
        return bool(latest > begin and time.monotonic() - latest < _SHORT_SECONDS)


def shared_file() -> BinaryIO:
    """Return a file without a name, by which processes share the time of the latest call."""
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the supervisor keeps it as long as it lives
    file.truncate(_TIME.size)
    return file
