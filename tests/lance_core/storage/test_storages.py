"""Behaviour that all storages share."""

import random
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

from lance_core import kernels
from lance_core.errors import (
    AlreadyExistsError,
    CorruptFileError,
    FileMissingError,
    InvalidInputError,
    StorageError,
)
from lance_core.storage import Entry, Storage
from support.runs.each_case import each_case

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def filled(storage: Storage) -> Storage:
    storage.put_if_absent("data/file", CONTENT)
    return storage


def test_ranges_come_back_in_the_order_asked_for(filled: Storage) -> None:
    ranges = [(9000, 100), (0, 10), (5, 20), (10240, 0), (4, 0), (9100, 1140), (0, 10)]
    with filled.open_file("data/file") as file:
        buffers = file.read_ranges(ranges)

    assert [bytes(buffer) for buffer in buffers] == [CONTENT[start : start + size] for start, size in ranges]


def test_distant_ranges_are_read_too(storage: Storage) -> None:
    content = np.random.default_rng(7).integers(0, 256, 12 << 20, dtype=np.uint8).tobytes()
    with storage.create_file("data/large", sync=False) as new:
        new.write(content)
    ranges = [(start, 1000) for start in range(11 << 20, 0, -(1 << 20))] + [(100, 10 << 20)]
    with storage.open_file("data/large", len(content)) as file:
        buffers = file.read_ranges(ranges)

    assert [bytes(buffer) for buffer in buffers] == [content[start : start + size] for start, size in ranges]


def test_buffers_are_aligned_for_typed_access(filled: Storage) -> None:
    with filled.open_file("data/file") as file:
        for offset in (0, 1, 64, 777):
            assert file.read(offset, 100).address % 64 == 0


@each_case("span", [(-1, 1), (0, -1), (0, 10241), (10240, 1), (1 << 63, 1), (0, 1 << 63)])
def test_a_read_outside_the_file_is_refused(filled: Storage, span: tuple[int, int]) -> None:
    """T22"""
    with filled.open_file("data/file") as file, pytest.raises(CorruptFileError, match="data/file"):
        file.read(*span)


@each_case("wrong", [-1000, -1, 1, 1000])
def test_the_size_that_the_caller_knows_is_checked(filled: Storage, wrong: int) -> None:
    """T25: a wrong size is noticed when the file is opened, or with the first bytes that are read."""
    with filled.open_file("data/file", len(CONTENT)) as file:
        assert bytes(file.read(0, 10)) == CONTENT[:10]

    def read(offset: int, size: int) -> None:
        with filled.open_file("data/file", size) as file:
            file.read(offset, 10)

    for offset in (0, len(CONTENT) + wrong - 10):
        with pytest.raises(CorruptFileError, match=f"wrong size.*data/file.*{len(CONTENT) + wrong}.*10240"):
            read(offset, len(CONTENT) + wrong)


def test_a_closed_file_is_not_read_from(filled: Storage) -> None:
    file = filled.open_file("data/file")
    file.close()
    with pytest.raises(StorageError, match="closed"):
        file.read(0, 1)


def test_identity_changes_with_the_file(filled: Storage) -> None:
    """T14"""
    before = filled.open_file("data/file").identity
    assert filled.open_file("data/file").identity == before
    filled.delete_file("data/file")
    filled.put_if_absent("data/file", CONTENT[:-1] + b"x")
    assert filled.open_file("data/file").identity != before


def test_whole_files_are_read(filled: Storage) -> None:
    assert filled.read_file("data/file") == CONTENT
    filled.put_if_absent("empty", b"")
    assert filled.read_file("empty") == b""
    with filled.open_file("empty") as file:
        assert (file.size, bytes(file.read(0, 0))) == (0, b"")


def test_small_files_are_read_together(storage: Storage) -> None:
    contents = {f"file {number}": bytes([number]) * number for number in range(70)}
    for name, content in contents.items():
        storage.put_if_absent(f"data/{name}", content, sync=False)

    names = [*contents, "none", "file 3"]
    assert storage.read_files("data", names) == [*contents.values(), None, bytes([3]) * 3]
    assert storage.read_files("none", ["file"]) == [None]
    assert storage.read_files("data", ["file 3", "file 4", "none"], [3, 3, 1]) == [bytes([3]) * 3, None, None]
    assert storage.read_files("data", [], []) == []


def test_directories_are_listed(filled: Storage) -> None:
    filled.put_if_absent("data/sub/file", b"x")
    filled.put_if_absent("database", b"x")

    assert sorted(filled.list_directory("")) == [Entry("data", True), Entry("database", False)]
    assert sorted(filled.list_directory("data")) == [Entry("file", False), Entry("sub", True)]
    assert sorted(filled.list_names("data")) == ["file", "sub"]
    assert filled.exists("data/file")
    assert not filled.exists("data")
    assert not filled.exists("data/none")
    assert not filled.exists("dat")


def test_many_names_are_listed_whole(storage: Storage) -> None:
    """Three pages of the S3 server."""
    names = {f"{number:05}" for number in range(450)}
    threads = [
        threading.Thread(
            target=lambda part: [storage.put_if_absent(f"many/{name}", b"x", sync=False) for name in part],
            args=(sorted(names)[start::8],),
        )
        for start in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(storage.list_names("many")) == names


@pytest.mark.parametrize("path", ["none", "data/none", "data/none/below"])
def test_missing_files_and_directories_have_their_own_error(filled: Storage, path: str) -> None:
    for act in (filled.open_file, filled.list_names, filled.list_directory, filled.read_file):
        with pytest.raises(FileMissingError, match=path):
            act(path)


def test_a_storage_below_another(filled: Storage) -> None:
    below = filled.below("data")
    below.put_if_absent("new", b"y")
    assert below.read_file("file") == CONTENT
    assert filled.read_file("data/new") == b"y"
    assert below.uri == f"{filled.uri}/data"


@each_case("path", ["../outside", "/etc/passwd", "data/../../outside", "data//x", "a\0b"])
def test_paths_out_of_the_root_are_refused(filled: Storage, path: str) -> None:
    """T7: no method takes the refusal, which is an OSError, for a failure or for a missing file."""
    for act in (
        filled.open_file,
        filled.read_file,
        filled.exists,
        filled.list_directory,
        filled.list_names,
        lambda path: list(filled.list_files(path)),
        filled.below,
        filled.create_file,
        filled.delete_file,
        filled.delete_directory,
        lambda path: filled.put(path, b"x"),
        lambda path: filled.put_if_absent(path, b"x"),
    ):
        with pytest.raises(InvalidInputError, match="leaves its root"):
            act(path)


@pytest.mark.parametrize("name", ["a b", "é", "50%", "%2e%2e", "a#1", "a?b", "a+b", "a&b=c", "[x]", "a:b"])
def test_unusual_names(storage: Storage, name: str) -> None:
    """T7: nothing is decoded on the way."""
    storage.put_if_absent(f"data/{name}", name.encode())
    assert storage.read_file(f"data/{name}") == name.encode()
    assert storage.list_names("data") == [name]


@pytest.mark.parametrize("size", [0, 100, 3 << 20, (10 << 20) - 1, 10 << 20, 25 << 20])
def test_a_file_is_what_was_written_to_it(storage: Storage, size: int) -> None:
    content = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes()
    with storage.create_file("data/a.lance", sync=False) as file:
        for start in range(0, size, 1_500_000):
            file.write(memoryview(content)[start : start + 1_500_000])
        assert file.position == size
    file.close()

    assert storage.read_file("data/a.lance") == content
    assert storage.list_names("data") == ["a.lance"]
    with pytest.raises(StorageError, match="closed"):
        file.write(b"more")


@pytest.mark.parametrize("size", [0, 1, 100, (1 << 20) - 1, (5 << 18) + 77, 6 << 20])
def test_what_is_written_is_summed_up(storage: Storage, size: int) -> None:
    """T26: a checksum is that of the bytes in the file, wherever in it they begin."""
    data = random.Random(size).randbytes(size)
    with storage.create_file("data/a.lance") as file:
        file.write(b"before")
        first = file.write_checked(memoryview(data)[: size // 3], 0)
        file.write(b"between")
        second = file.write_checked(pa.py_buffer(data)[size // 3 :], first)
        assert file.position == size + 13
    head, tail = data[: size // 3], data[size // 3 :]
    assert storage.read_file("data/a.lance") == b"before" + head + b"between" + tail
    assert (first, second) == tuple(kernels.crc32c_by("portable", part) for part in (head, data))


def test_the_memory_written_from_may_be_reused(storage: Storage) -> None:
    scratch = bytearray(11 << 20)
    with storage.create_file("a", sync=False) as file:
        for digit in b"12":
            scratch[:] = bytes([digit]) * len(scratch)
            file.write(scratch)
    assert storage.read_file("a") == b"1" * len(scratch) + b"2" * len(scratch)


@pytest.mark.parametrize("size", [100, 25 << 20])
def test_nothing_is_seen_before_a_file_is_closed(storage: Storage, size: int) -> None:
    """T35"""
    storage.put_if_absent("data/other", b"x")
    file = storage.create_file("data/a.lance", sync=False)
    file.write(bytes(size))
    assert not storage.exists("data/a.lance")
    assert storage.list_names("data") == ["other"]
    file.close()
    assert storage.exists("data/a.lance")


@pytest.mark.parametrize("size", [100, 45 << 20])
def test_an_aborted_file_leaves_nothing(storage: Storage, size: int) -> None:
    storage.put_if_absent("data/other", b"x")
    file = storage.create_file("data/a.lance", sync=False)
    file.write(bytes(size))
    file.abort()
    file.abort()
    with pytest.raises(TypeError), storage.create_file("data/b.lance") as other:
        other.write("no bytes")

    assert storage.list_names("data") == ["other"]
    for act in (lambda: file.write(b"x"), file.close):
        with pytest.raises(StorageError, match="closed"):
            act()


@pytest.mark.parametrize("size", [100, 25 << 20])
def test_a_file_is_replaced_when_the_new_one_is_complete(storage: Storage, size: int) -> None:
    """T35: only for callers that ask for it; readers see the old or the new file."""
    storage.put_if_absent("data/a", b"old")
    aborted = storage.create_file("data/a", sync=False, replace=True)
    aborted.write(bytes(size))
    aborted.abort()
    with storage.create_file("data/a", replace=True) as file:
        file.write(bytes(size))
        assert storage.read_file("data/a") == b"old"
    assert storage.read_file("data/a") == bytes(size)
    assert storage.list_names("data") == ["a"]


def test_an_existing_file_is_never_replaced(storage: Storage) -> None:
    """T37"""
    storage.put_if_absent("_versions/1", b"first")
    with pytest.raises(AlreadyExistsError, match="_versions/1"):
        storage.put_if_absent("_versions/1", b"second")
    for size in (6, 25 << 20):
        with (
            pytest.raises(FileExistsError, match="_versions/1"),
            storage.create_file("_versions/1", sync=False) as file,
        ):
            file.write(bytes(size))
    assert storage.read_file("_versions/1") == b"first"


def test_one_of_many_writers_of_a_name_wins(storage: Storage) -> None:
    """T37"""
    for round_ in range(10):
        winners: list[bytes] = []
        start = threading.Barrier(8)

        def put(data: bytes, name: str, winners: list[bytes] = winners, start=start) -> None:
            start.wait()
            try:
                storage.put_if_absent(name, data, sync=False)
            except AlreadyExistsError:
                return
            winners.append(data)

        writers = [
            threading.Thread(target=put, args=(b"%d" % number, f"_versions/{round_}")) for number in range(8)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert winners == [storage.read_file(f"_versions/{round_}")]


def test_removing_a_file(filled: Storage) -> None:
    filled.put_if_absent("data/a", b"x")
    filled.delete_file("data/a")
    filled.delete_file("data/a")
    filled.delete_file("none/a")
    assert filled.list_names("data") == ["file"]
    filled.sync_directory("data")


def test_all_files_below_a_directory_are_listed(storage: Storage) -> None:
    before = time.time()
    names = ["a/one", "a/b/two", "a/b/c/three", "ab/four", "five"]
    for number, name in enumerate(names):
        storage.put_if_absent(name, bytes(number))

    assert {(file.path, file.size) for file in storage.list_files("a")} == {
        ("a/one", 0),
        ("a/b/two", 1),
        ("a/b/c/three", 2),
    }
    assert {file.path for file in storage.list_files("")} == set(names)
    assert {file.path for file in storage.below("a").list_files("b")} == {"b/two", "b/c/three"}
    assert all(before - 2 < (file.modified or 0) < time.time() + 2 for file in storage.list_files(""))
    assert list(storage.list_files("missing")) == []


def test_a_file_is_put_in_place_of_another(storage: Storage) -> None:
    storage.put("directory/file", b"first")
    storage.put("directory/file", b"second")

    assert storage.read_file("directory/file") == b"second"
    assert storage.list_names("directory") == ["file"]


def test_a_directory_is_deleted_with_all_below_it(storage: Storage) -> None:
    for name in ("a/one", "a/b/two", "ab/four"):
        storage.put_if_absent(name, b"x")
    storage.delete_directory("a")
    storage.delete_directory("a")

    assert [file.path for file in storage.list_files("")] == ["ab/four"]
    with pytest.raises(FileMissingError):
        storage.list_directory("a")
    with pytest.raises(InvalidInputError):
        storage.delete_directory("")
