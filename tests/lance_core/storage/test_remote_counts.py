"""Reads of remote files on other threads count for the scan that asked for them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.process.counters import Tally
from lance_core.storage import remote
from lance_core.storage.remote import RemoteFile


class _Zeros(RemoteFile):
    """A file of zeros."""

    name = "zeros"
    size = 10 << 20

    def fetch(self, offset: int, length: int) -> pa.Buffer:
        return pa.py_buffer(bytes(length))


def test_ranges_that_are_far_apart() -> None:
    tally = Tally()
    with tally.counting():
        _Zeros().read_ranges([(0, 10), (5 << 20, 20)])
    assert tally.counts() == {"requests": 2, "iops": 2, "bytes_read": 30}


def test_the_parts_of_a_large_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_MOST_PER_REQUEST", 1 << 20)
    tally = Tally()
    with tally.counting():
        _Zeros().read(0, 5 << 20)
    assert tally.counts() == {"requests": 5, "iops": 5, "bytes_read": 5 << 20}
