"""A file whose bytes are in memory."""

import pyarrow as pa

from lance_core.storage.base import ReadableFile


class MemoryFile(ReadableFile):
    """A file that was read completely."""

    max_gap = 0
    max_merged_read = 0

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.size = len(data)
        self.identity = ""
        self._data = data

    def read(self, offset: int, length: int) -> pa.Buffer:
        self.check_range(offset, length)
        return pa.py_buffer(self._data).slice(offset, length)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
