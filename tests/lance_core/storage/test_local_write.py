"""Writing local files."""

import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import obstore
import pyarrow as pa
import pytest
from obstore.store import LocalStore

from lance_core import kernels
from lance_core.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceError,
    PutUnknownError,
    StorageError,
)
from lance_core.storage import LocalStorage
from support.processes.descriptors import open_below


@pytest.fixture(params=["unnamed", "staged"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStorage:
    """A storage on a file system with unnamed files, and on one without."""
    if request.param == "staged":
        real_open = os.open

        def open_without_unnamed_files(path, flags, *args, **options):
            if flags & os.O_TMPFILE == os.O_TMPFILE:
                raise OSError(errno.EOPNOTSUPP, "Operation not supported")
            return real_open(path, flags, *args, **options)

        monkeypatch.setattr(os, "open", open_without_unnamed_files)
    return LocalStorage(str(tmp_path / "root"))


def everything_below(path: str) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(parent, name), path)
        for parent, _, names in os.walk(path)
        for name in names
    )


@contextmanager
def files_of_at_most(num_bytes: int) -> Iterator[None]:
    """The kernel refuses to write more than so much into a file, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_is_what_was_written_to_it(storage: LocalStorage) -> None:
    large = np.random.default_rng(1).integers(0, 256, 3 << 20, dtype=np.uint8)
    parts = [b"head", pa.py_buffer(large), b"", bytearray(b"x" * 60), memoryview(large)[5:700_000], b"tail"]
    with storage.create_file("data/a.lance") as file:
        for part in parts:
            before = file.position
            file.write(part)
            assert file.position == before + memoryview(part).nbytes
    file.close()

    expected = b"".join(bytes(part) for part in parts)
    assert storage.read_file("data/a.lance") == expected
    assert everything_below(storage.uri) == ["data/a.lance"]
    with pytest.raises(StorageError, match=r"data/a\.lance"):
        file.write(b"more")


def test_the_memory_written_from_may_be_reused(storage: LocalStorage) -> None:
    scratch = bytearray(b"1" * 100)
    with storage.create_file("a") as file:
        for digit in b"123":
            scratch[:] = bytes([digit]) * 100
            file.write(scratch)

    assert storage.read_file("a") == b"1" * 100 + b"2" * 100 + b"3" * 100


def test_values_of_any_type_are_written_as_their_bytes(storage: LocalStorage) -> None:
    values = np.arange(10, dtype=np.int64)
    storage.put_if_absent("a", memoryview(values))
    storage.put_if_absent("empty", memoryview(values[:0]))
    assert storage.read_file("a") == values.tobytes()
    assert storage.read_file("empty") == b""


def test_nothing_is_seen_before_a_file_is_closed(storage: LocalStorage) -> None:
    """T35"""
    file = storage.create_file("data/a.lance")
    file.write(b"x" * (3 << 20))
    assert not storage.exists("data/a.lance")
    assert "a.lance" not in storage.list_names("data")
    file.close()
    assert storage.exists("data/a.lance")


def test_readers_built_on_object_store_do_not_list_what_is_not_complete(storage: LocalStorage) -> None:
    """T35: also where it needs a name meanwhile."""
    storage.put_if_absent("data/other", b"x")
    file = storage.create_file("data/a.lance")
    assert [meta["path"] for meta in obstore.list(LocalStore(storage.uri)).collect()] == ["data/other"]
    file.abort()


def test_an_aborted_file_leaves_nothing(storage: LocalStorage) -> None:
    file = storage.create_file("data/a.lance")
    file.write(b"x" * (3 << 20))
    file.abort()
    file.abort()
    with pytest.raises(TypeError), storage.create_file("data/b.lance") as other:
        other.write("no bytes")

    assert everything_below(storage.uri) == []
    for act in (lambda: file.write(b"x"), file.close):
        with pytest.raises(StorageError, match="closed"):
            act()


def test_an_existing_file_is_never_replaced(storage: LocalStorage) -> None:
    """T37"""
    storage.put_if_absent("_versions/1", b"first")
    late = storage.create_file("_versions/2")
    late.write(b"second")
    storage.put_if_absent("_versions/2", b"first")

    with pytest.raises(AlreadyExistsError, match="_versions/1"):
        storage.put_if_absent("_versions/1", b"second")
    with pytest.raises(AlreadyExistsError, match="_versions/1"):
        storage.create_file("_versions/1")
    with pytest.raises(FileExistsError, match="_versions/2"):
        late.close()
    assert storage.read_file("_versions/1") == storage.read_file("_versions/2") == b"first"
    assert everything_below(storage.uri) == ["_versions/1", "_versions/2"]


def test_one_of_many_writers_of_a_name_wins(storage: LocalStorage) -> None:
    """T37: threads that start at once; the file is that of the only one that was not refused."""
    for round_ in range(20):
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


def test_a_full_disk_is_an_error_and_leaves_nothing(storage: LocalStorage) -> None:
    """T40: in the middle of a large write, in what was gathered for the end, and in a small file."""
    storage.put_if_absent("kept", b"x" * 100)
    with files_of_at_most(1 << 20):
        file = storage.create_file("data/a.lance")
        file.write(b"x" * 1000)
        with pytest.raises(StorageError, match=r"too large.*data/a\.lance"):
            file.write(b"x" * (4 << 20))
        with pytest.raises(StorageError, match="closed"):
            file.close()
        checked = storage.create_file("data/c.lance")
        with pytest.raises(StorageError, match=r"too large.*data/c\.lance"):
            checked.write_checked(b"x" * (4 << 20), 0)
        with pytest.raises(StorageError, match="closed"):
            checked.close()
    with files_of_at_most(10):
        with pytest.raises(StorageError, match="too large"), storage.create_file("data/b.lance") as file:
            file.write(b"x" * 100)
        with pytest.raises(StorageError, match="too large") as caught:
            storage.put_if_absent("_versions/1", b"x" * 100)
        assert not isinstance(caught.value, PutUnknownError)

    assert everything_below(storage.uri) == ["kept"]
    storage.put_if_absent("_versions/1", b"x" * 100)


def test_a_checksum_is_that_of_the_bytes_that_were_taken() -> None:
    """T26: the system may accept only a part of the bytes, after the checksum of all of them was computed."""
    data = np.random.default_rng(3).bytes(3 << 20)
    reader, writer = os.pipe2(os.O_NONBLOCK)
    try:
        written, crc, number = kernels.write_checked(writer, data, 7)
        assert number == errno.EAGAIN
        assert 0 < written < 1 << 20
        assert os.read(reader, len(data)) == data[:written]
    finally:
        os.close(reader)
        os.close(writer)
    assert crc == kernels.crc32c_by("portable", data[:written], 7)


def test_bytes_are_synced_before_the_name_appears_and_the_name_afterwards(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T36: the names of new directories are synced too."""
    synced: list[tuple[str, bool]] = []
    real_fsync = os.fsync

    def fsync(number: int) -> None:
        path = os.readlink(f"/proc/self/fd/{number}")
        kind = os.path.relpath(path, storage.uri) if os.path.isdir(path) else "file"
        synced.append((kind, os.path.exists(os.path.join(storage.uri, "_versions/1"))))
        real_fsync(number)

    monkeypatch.setattr(os, "fsync", fsync)
    storage.put_if_absent("_versions/1", b"x")
    assert synced == [("..", False), (".", False), ("file", False), ("_versions", True)]

    synced.clear()
    with storage.create_file("_versions/2") as file:
        file.write(b"x")
    assert synced == [("file", True)]
    storage.sync_directory("_versions")
    assert synced[1:] == [("_versions", True)]

    synced.clear()
    storage.put_if_absent("other/3", b"x", sync=False)
    storage.create_file("more/4", sync=False).close()
    assert synced == []


@pytest.mark.parametrize("is_checked", [True, False])
def test_the_disk_begins_before_a_file_is_complete(
    is_checked: bool, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sync of a large file then waits for few bytes. Each byte is begun once, the last by the sync."""
    begun: list[tuple[int, int]] = []

    def start(descriptor: int, offset: int, length: int) -> int:
        assert os.fstat(descriptor).st_size >= offset + length
        begun.append((offset, length))
        return real_start(descriptor, offset, length)

    real_start = kernels.start_write_back
    monkeypatch.setattr(kernels, "start_write_back", start)
    data = np.random.default_rng(5).bytes(21 << 20)

    def write(path: str, *, sync: bool) -> None:
        with storage.create_file(path, sync=sync) as file:
            for first, last in [(0, 1000), (1000, 10 << 20), (10 << 20, 12 << 20), (12 << 20, len(data))]:
                if is_checked:
                    file.write_checked(memoryview(data)[first:last], 0)
                else:
                    file.write(memoryview(data)[first:last])

    write("data/synced", sync=True)
    assert begun == [(step << 20, 4 << 20) for step in range(0, 20, 4)]
    assert storage.read_file("data/synced") == data

    begun.clear()
    write("data/unsynced", sync=False)
    assert begun == []
    assert storage.read_file("data/unsynced") == data


def test_an_error_of_the_disk_before_the_sync_leaves_nothing(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T40: the file system may find out that the disk is full when it looks for room for the bytes."""
    monkeypatch.setattr(kernels, "start_write_back", lambda *_: errno.ENOSPC)
    file = storage.create_file("data/a")
    with pytest.raises(StorageError, match=r"No space.*data/a"):
        file.write(b"x" * (4 << 20))
    with pytest.raises(StorageError, match="closed"):
        file.close()
    assert everything_below(storage.uri) == []


def test_only_files_begin_early(tmp_path: Path) -> None:
    """T40: a system that cannot do it writes the bytes with the sync; other errors are told."""
    reader, writer = os.pipe()
    try:
        assert kernels.start_write_back(writer, 0, 1) == 0
        with (tmp_path / "a").open("wb") as file:
            assert kernels.start_write_back(file.fileno(), 0, 1 << 20) == 0
    finally:
        os.close(reader)
        os.close(writer)
    assert kernels.start_write_back(writer, 0, 1) == errno.EBADF


def test_files_and_directories_are_synced_later(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T36: each of them by one of the calls, also a large file; but one of many at once."""
    storage.create_file("data/first").close()
    synced = []

    def fsync(number: int) -> None:
        synced.append(os.fstat(number).st_ino)

    monkeypatch.setattr(os, "fsync", fsync)

    def inode(path: str) -> int:
        return os.stat(os.path.join(storage.uri, path)).st_ino

    calls: list[Callable[[], None]] = []
    later = storage.syncing_later(calls)
    for name in ("data/a", "data/b"):
        with later.create_file(name) as file:
            file.write(b"x")
    later.sync_directory("data")
    with later.create_file("data/unsynced", sync=False) as file:
        file.write(b"x")
    assert synced == []
    for call in calls:
        call()
    assert synced == [inode(name) for name in ("data/a", "data/b", "data")]

    synced.clear()
    calls.clear()
    with later.create_file("data/large") as file:
        file.write(b"x" * (9 << 20))
    assert (synced, len(calls)) == ([], 1)
    calls[0]()
    assert synced == [inode("data/large")]
    synced.clear()
    for number in range(100):
        later.create_file(f"data/{number}").close()
    assert len(synced) + len(calls) == 101
    assert 0 < len(calls) < 100

    storage.create_file("data/c").close()
    assert synced[-1] == inode("data/c")

    synced.clear()
    calls.clear()
    later.create_file("new/inside/a").close()
    assert synced == []
    for call in calls:
        call()
    assert synced == [inode(path) for path in ("", "new", "new/inside/a")]


def test_a_sync_that_fails_later_names_the_file(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T40"""
    storage.create_file("data/first").close()
    calls: list[Callable[[], None]] = []
    storage.syncing_later(calls).create_file("data/a").close()
    monkeypatch.setattr(os, "fsync", fail_with_an_input_output_error)
    with pytest.raises(StorageError, match=r"Input/output.*data/a"):
        calls[0]()


def test_a_prepared_file_has_no_name(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """T36: the bytes are durable before the file has its name, and nothing is left if it is given up."""
    storage.put_if_absent("_versions/1", b"x")
    put, lost = (storage.prepare_put("_versions/2", data) for data in (b"ours", b"theirs"))
    assert not storage.exists("_versions/2")
    synced = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.readlink(f"/proc/self/fd/{number}")))
    put()
    assert [os.path.basename(path) for path in synced] == ["_versions"]
    with pytest.raises(AlreadyExistsError, match="_versions/2"):
        lost()
    given_up = storage.prepare_put("_versions/3", b"x")
    del lost, given_up
    assert everything_below(storage.uri) == ["_versions/1", "_versions/2"]
    assert storage.read_file("_versions/2") == b"ours"


def test_a_failed_sync_of_the_bytes_leaves_no_file(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T40"""
    storage.put_if_absent("data/a", b"x")
    monkeypatch.setattr(os, "fsync", fail_with_an_input_output_error)
    with pytest.raises(StorageError, match="Input/output") as caught:
        storage.put_if_absent("data/b", b"x")
    assert not isinstance(caught.value, PutUnknownError)
    assert everything_below(storage.uri) == ["data/a"]


def test_a_failed_sync_of_the_name_is_neither_success_nor_failure(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T38: the file is there, but nobody knows whether it stays."""
    storage.put_if_absent("_versions/1", b"x")
    monkeypatch.setattr(storage, "sync_directory", fail_with_a_storage_error)
    with pytest.raises(PutUnknownError, match="_versions/2"):
        storage.put_if_absent("_versions/2", b"x")


def fail_with_an_input_output_error(number: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def fail_with_a_storage_error(path: str) -> None:
    raise StorageError("input/output error", file=path)


def test_a_killed_writer_leaves_no_visible_file(tmp_path: Path) -> None:
    """T35: a process that is killed with a file open; what remains has no name at all."""
    program = f"""
import os, signal
from lance_core.storage import LocalStorage
file = LocalStorage({str(tmp_path / "root")!r}).create_file("data/a.lance")
file.write(b"x" * (3 << 20))
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert everything_below(str(tmp_path)) == []


def test_removing_a_file(storage: LocalStorage) -> None:
    storage.put_if_absent("data/a", b"x")
    storage.delete_file("data/a")
    storage.delete_file("data/a")
    storage.delete_file("none/a")
    assert everything_below(storage.uri) == []
    storage.put_if_absent("data/a", b"y")
    with pytest.raises(StorageError, match="data"):
        storage.delete_file("data")


@pytest.mark.parametrize("path", ["../outside", "/tmp/outside", "data/../../outside", "data/", "", "a\0b"])
def test_paths_out_of_the_root_are_refused(storage: LocalStorage, path: str) -> None:
    """T7"""
    for act in (storage.create_file, storage.delete_file, lambda path: storage.put_if_absent(path, b"x")):
        with pytest.raises(InvalidInputError):
            act(path)


def test_links_out_of_the_root_are_not_followed(storage: LocalStorage, tmp_path: Path) -> None:
    """T8: nothing is made, replaced or removed outside, whatever links a dataset holds."""
    storage.put_if_absent("data/a", b"x")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_bytes(b"kept")
    root = Path(storage.uri)
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "file").symlink_to(tmp_path / "outside" / "new")
    (root / "kept").symlink_to(tmp_path / "outside" / "kept")

    for path in ("folder/new", "folder/sub/new", "file", "kept"):
        with pytest.raises(StorageError):
            storage.put_if_absent(path, b"x")
    with pytest.raises(StorageError, match="link leaves"):
        storage.delete_file("folder/kept")
    storage.delete_file("kept")
    assert everything_below(str(tmp_path / "outside")) == ["kept"]
    assert (tmp_path / "outside" / "kept").read_bytes() == b"kept"


def test_a_directory_that_may_not_be_written_to_is_named(storage: LocalStorage) -> None:
    """T40, T45: relative to the dataset."""
    storage.put_if_absent("file", b"x")
    with pytest.raises(LanceError) as caught:
        storage.put_if_absent("file/a", b"x")
    assert "file" in str(caught.value)
    assert storage.uri not in str(caught.value)


def test_descriptors_are_released(storage: LocalStorage) -> None:
    """T30"""
    storage.put_if_absent("data/a", b"x", sync=False)
    for number in range(20):
        storage.put_if_absent(f"data/{number}", b"x", sync=False)
        storage.create_file(f"data/x{number}").abort()
    assert open_below(storage.uri) == []


def test_another_writer_makes_the_directories_above_the_root_meanwhile(tmp_path, monkeypatch):
    """T1: two that make a dataset in a new folder do not stumble over each other's directories."""
    make = os.mkdir

    def after_another_writer(path, *arguments, **options):
        if str(path) == str(tmp_path / "folder"):
            make(path)
        make(path, *arguments, **options)

    monkeypatch.setattr("lance_core.storage.local.os.mkdir", after_another_writer)
    storage = LocalStorage(str(tmp_path / "folder" / "dataset"))
    storage.put_if_absent("_versions/1.manifest", b"data")
    assert (tmp_path / "folder" / "dataset" / "_versions" / "1.manifest").read_bytes() == b"data"
