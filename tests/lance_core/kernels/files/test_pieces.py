"""Many short ranges of a local file: read by system calls, or copied out of a map of the file."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.kernels import CorruptData, PieceReader
from support.processes.descriptors import kept_open
from support.runs.draws import draws
from support.twins import inputs

NEVER = 1 << 60
"""Ranges before a file is mapped."""

mapped_or_not = pytest.mark.parametrize("map_after", [0, NEVER], ids=["mapped", "called"])


def pieces(ranges: Sequence[tuple[int, int]]) -> tuple[memoryview, memoryview]:
    return inputs.int64s([offset for offset, _ in ranges]), inputs.int64s([length for _, length in ranges])


@settings(max_examples=draws(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 600_000), st.integers(0, 9_000)), max_size=40),
    st.integers(0, 4096),
    st.booleans(),
    st.sampled_from([0, 1, NEVER]),
)
def test_pieces_of_a_file(
    tmp_path_factory: pytest.TempPathFactory,
    ranges: list[tuple[int, int]],
    max_gap: int,
    in_order: bool,
    map_after: int,
) -> None:
    path = tmp_path_factory.getbasetemp() / "pieces"
    data = random.Random(7).randbytes(700_000)
    if not path.exists():
        path.write_bytes(data)
    if in_order:
        ranges = [*sorted(ranges), (0, len(data))]  # the last is too long to be copied
    middle = len(ranges) // 2
    parts = [ranges[:middle], ranges[middle:]]
    expected = [b"".join(data[offset : offset + length] for offset, length in part) for part in parts]
    with path.open("rb") as file:
        reader = PieceReader(kept_open(file.fileno()), len(data), max_gap, map_after)
        for _ in range(2):
            found, error, end = reader.read([pieces(part) for part in parts])
            assert (error, end) == (0, -1)
            assert [bytes(memoryview(block)) for block in found] == expected


@mapped_or_not
def test_many_pieces_share_calls(tmp_path: Path, map_after: int) -> None:
    """More ranges than one system call takes."""
    data = np.arange(40_000, dtype="<u4")
    (tmp_path / "data").write_bytes(data.tobytes())
    places = np.arange(0, 40_000, 3)
    with (tmp_path / "data").open("rb") as file:
        lengths = memoryview(np.full_like(places, 4))
        reader = PieceReader(kept_open(file.fileno()), data.nbytes, 4096, map_after)
        found, *_ = reader.read([(memoryview(places * 4), lengths)])
    assert inputs.numbers(found[0], "<u4") == places.tolist()


@mapped_or_not
def test_a_file_that_became_shorter(tmp_path: Path, map_after: int) -> None:
    """T25: truncation is noticed for ranges in the page of the new end of the file, and behind it."""
    path = tmp_path / "data"
    path.write_bytes(bytes(range(250)) * 400)
    with path.open("rb") as file:
        reader = PieceReader(kept_open(file.fileno()), 100_000, 4096, map_after)
        assert reader.read([pieces([(99_990, 10)])])[1:] == (0, -1)
        os.truncate(path, 1000)
        for offsets in ([10, 995], [10, 5000], [995], [90_000, 10]):
            _, error, end = reader.read([pieces([(offset, 10) for offset in offsets])])
            assert error == 0
            assert end >= 1000
        found, error, end = reader.read([pieces([(250, 3)])])
        assert (bytes(memoryview(found[0])), error, end) == (b"\0\1\2", 0, -1)
    assert signal.getsignal(signal.SIGBUS) == signal.SIG_DFL


def test_a_file_that_becomes_shorter_while_it_is_read(tmp_path: Path) -> None:
    """T25: threads that copy meanwhile get all bytes or an error, never a signal."""
    path = tmp_path / "data"
    data = random.Random(7).randbytes(1 << 20)
    path.write_bytes(data)
    offsets = sorted(random.Random(8).choices(range(0, 1 << 20, 64), k=5000))
    expected = b"".join(data[offset : offset + 64] for offset in offsets)
    wrong: list[object] = []
    with path.open("rb") as file:
        reader = PieceReader(kept_open(file.fileno()), len(data), 0, 0)

        def read() -> None:
            while True:
                (found,), error, end = reader.read([pieces([(offset, 64) for offset in offsets])])
                if end >= 0:
                    return
                if error or bytes(memoryview(found)) != expected:
                    wrong.append(error)
                    return

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        os.truncate(path, 300_000)
        for thread in threads:
            thread.join()
    assert not wrong


_OTHER_SIGNAL = """
import ctypes, faulthandler, mmap, os, sys, tempfile, threading
import numpy as np
from lance_core.kernels import Descriptor, PieceReader
if sys.argv[1] == "faulthandler":
    faulthandler.enable()
ours, theirs = tempfile.TemporaryFile(), tempfile.TemporaryFile()
for file in (ours, theirs):
    file.truncate(1 << 20)
reader = PieceReader(Descriptor(os.dup(ours.fileno()), b""), 1 << 20, 0, 0)
offsets = np.arange(0, 1 << 20, 16)
def read():
    while True:
        reader.read([(memoryview(offsets), memoryview(np.full_like(offsets, 16)))])
threading.Thread(target=read, daemon=True).start()
theirs_mapped = mmap.mmap(theirs.fileno(), 1 << 20, prot=mmap.PROT_READ)
os.truncate(theirs.fileno(), 0)
print("before", flush=True)
theirs_mapped[5000]
print("behind", flush=True)
"""


@pytest.mark.parametrize("handler", ["faulthandler", "none"])
def test_signals_of_others_are_left_to_others(handler: str) -> None:
    """The handler is there while files are copied; what is not about them goes where it went before."""
    done = subprocess.run(
        [sys.executable, "-c", _OTHER_SIGNAL, handler], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "before\n"
    assert done.returncode == -signal.SIGBUS
    assert ("Bus error" in done.stderr) == (handler == "faulthandler")


@mapped_or_not
def test_a_read_that_fails(tmp_path: Path, map_after: int) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        _, error, _ = PieceReader(kept_open(descriptor), 100, 0, map_after).read([pieces([(0, 10)])])
    finally:
        os.close(descriptor)
    assert error == errno.EISDIR


@mapped_or_not
@pytest.mark.parametrize("piece", [(-1, 5), (0, -1), (0, 101), (96, 5), (1 << 62, 1 << 62)])
def test_ranges_outside_the_file(piece: tuple[int, int], map_after: int) -> None:
    """T22"""
    with pytest.raises(CorruptData):
        PieceReader(kept_open(0), 100, 0, map_after).read([pieces([piece])])
