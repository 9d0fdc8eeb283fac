"""Counts of reads and writes: of this process, and since a dataset was asked the last time."""

from __future__ import annotations

from dataclasses import dataclass

from lance_core import kernels


@dataclass(frozen=True)
class IOStats:
    """Reads and writes of files. A byte range that is read is one read, though a system call reads several.

    Attributes:
        read_iops: Number of reads.
        read_bytes: Bytes that were read.
        write_iops: Number of writes.
        written_bytes: Bytes that were written.
    """

    read_iops: int
    read_bytes: int
    write_iops: int
    written_bytes: int

    @classmethod
    def of_process(cls) -> IOStats:
        """Return the counts of this process since its start, by all datasets."""
        return cls(*kernels.io_counts())

    def since(self, earlier: IOStats) -> IOStats:
        """Return the difference from earlier counts."""
        return IOStats(
            self.read_iops - earlier.read_iops,
            self.read_bytes - earlier.read_bytes,
            self.write_iops - earlier.write_iops,
            self.written_bytes - earlier.written_bytes,
        )


def iops_counter() -> int:
    """Return the number of reads of this process."""
    return IOStats.of_process().read_iops


def bytes_read_counter() -> int:
    """Return the number of bytes that this process read."""
    return IOStats.of_process().read_bytes
