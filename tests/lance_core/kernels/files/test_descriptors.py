"""Descriptors of files that are closed while nobody reads, and opened again for the next read."""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lance_core.kernels import Descriptor, PieceReader, close_unused_descriptors
from support.processes.descriptors import open_below
from support.twins import inputs

SIZE = 3000


def reader_of(path: Path, content: int = 0) -> PieceReader:
    path.write_bytes(bytes([content]) * SIZE)
    return PieceReader(Descriptor(os.open(path, os.O_RDONLY), os.fsencode(path)), SIZE, 0, 1 << 60)


def value_of(reader: PieceReader) -> int:
    """The byte that fills the file of a reader, or minus the number of the error."""
    block, error, end = reader.read_range(10, 5)
    assert end == -1
    return -error if error else bytes(memoryview(block))[0]


@contextmanager
def few_descriptors(most: int) -> Iterator[None]:
    """Let the process have at most this many descriptors, of which it has hardly any yet."""
    close_unused_descriptors()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_few_of_many_files_are_open(tmp_path: Path) -> None:
    """T33: a quarter of the descriptors that the process may have are for files that are read."""
    with few_descriptors(400):
        readers = [reader_of(tmp_path / str(number), number) for number in range(150)]
        assert len(open_below(tmp_path)) <= 100
        for _ in range(2):
            assert [value_of(reader) for reader in readers] == list(range(150))
            assert len(open_below(tmp_path)) <= 100


def test_the_files_used_last_stay_open(tmp_path: Path) -> None:
    with few_descriptors(400):
        first = reader_of(tmp_path / "first", 7)
        others = []
        for number in range(150):
            others.append(reader_of(tmp_path / str(number)))
            assert value_of(first) == 7
        assert str(tmp_path / "first") in open_below(tmp_path)
        assert str(tmp_path / "0") not in open_below(tmp_path)


@pytest.mark.parametrize("how", ["range", "ranges", "mapped"])
@pytest.mark.parametrize("change", ["none", "removed", "replaced", "shorter"])
def test_a_file_is_opened_again(tmp_path: Path, how: str, change: str) -> None:
    """T14, T25: another file under the same name is never read, and a missing one is an error."""
    path = tmp_path / "file"
    reader = reader_of(path, 7)
    if how == "mapped":
        reader = PieceReader(Descriptor(os.open(path, os.O_RDONLY), os.fsencode(path)), SIZE, 0, 0)
        reader.read([(inputs.int64s([0]), inputs.int64s([5]))])
    close_unused_descriptors()
    assert not open_below(tmp_path)
    if change == "removed":
        path.unlink()
    elif change == "replaced":
        (tmp_path / "new").write_bytes(bytes(SIZE))
        (tmp_path / "new").rename(path)
    elif change == "shorter":
        os.truncate(path, SIZE - 1)
    if how == "range":
        block, error, end = reader.read_range(10, 5)
    else:
        (block,), error, end = reader.read([(inputs.int64s([10]), inputs.int64s([5]))])
    assert end == -1
    expected = {"none": 0, "removed": errno.ENOENT, "replaced": errno.ESTALE, "shorter": errno.ESTALE}
    assert error == expected[change]
    assert error or bytes(memoryview(block)) == b"\7" * 5


def test_a_descriptor_without_a_path_stays_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(SIZE))
    reader = PieceReader(Descriptor(os.open(tmp_path / "file", os.O_RDONLY), b""), SIZE, 0, 0)
    close_unused_descriptors()
    assert len(open_below(tmp_path)) == 1
    assert value_of(reader) == 0
    del reader
    assert not open_below(tmp_path)


def test_threads_read_while_descriptors_are_closed(tmp_path: Path) -> None:
    readers = [reader_of(tmp_path / str(number), number) for number in range(8)]
    wrong: list[int] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            wrong.extend(number for number, reader in enumerate(readers) if value_of(reader) != number)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(2000):
        close_unused_descriptors()
    is_over.set()
    for thread in threads:
        thread.join()
    assert not wrong
    close_unused_descriptors()
    assert not open_below(tmp_path)


def test_a_forked_process_opens_for_itself(tmp_path: Path) -> None:
    """Descriptors that one process closes stay open in the other."""
    reader = reader_of(tmp_path / "file", 7)
    process = os.fork()
    if not process:
        close_unused_descriptors()
        os._exit(value_of(reader))
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7
    assert len(open_below(tmp_path)) == 1
    assert value_of(reader) == 7
