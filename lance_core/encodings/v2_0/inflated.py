"""Bytes that were compressed as a whole, shared while anybody uses them.

A scan reads a page in several pieces when the table is wide, and each piece needs all that was compressed
with it. Pieces are read ahead of each other, so the bytes are most often still there. They are not kept for
that: with the last array that lies in them they are gone.
"""

from collections.abc import Callable
from threading import Lock
from weakref import ref

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]


class Inflated:
    """The bytes of one buffer; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._shared: ref[Bytes] | None = None

    def get(self) -> Bytes | None:
        """Return the bytes, if they are still in use."""
        shared = self._shared
        return None if shared is None else shared()

    def make(self, inflate: Callable[[], pa.Buffer]) -> Bytes:
        """Return the bytes that are in use, or the result of `inflate`; a second caller waits for the
        first.
        """
        with self._lock:
            shared = self.get()
            if shared is None:
                data = inflate()
                shared = np.frombuffer(data, np.uint8) if data.size else np.zeros(0, np.uint8)
                self._shared = ref(shared)
            return shared
