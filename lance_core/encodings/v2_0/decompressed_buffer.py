"""Decompressed bytes of a page buffer, shared by the reads that use them at the same time.

A scan of a wide table reads a page in several windows, and each window needs the whole decompressed buffer.
Windows are read ahead, so the previous window usually still holds the bytes. The bytes are freed together
with the last array that uses them.
"""

from collections.abc import Callable
from threading import Lock
from weakref import ref

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]


class Inflated:
    """The decompressed bytes of one buffer. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._shared: ref[Bytes] | None = None

    def get(self) -> Bytes | None:
        """Return the bytes if an array still uses them, else None."""
        shared = self._shared
        return None if shared is None else shared()

    def make(self, inflate: Callable[[], pa.Buffer]) -> Bytes:
        """Return the bytes, from `inflate` if no array uses them. A concurrent caller waits for the first
        call.
        """
        with self._lock:
            shared = self.get()
            if shared is None:
                data = inflate()
                shared = np.frombuffer(data, np.uint8) if data.size else np.zeros(0, np.uint8)
                self._shared = ref(shared)
            return shared
