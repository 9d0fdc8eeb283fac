"""Local files."""

import os
import pickle
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    CorruptFileError,
    FileMissingError,
    InvalidInputError,
    LanceError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_core.storage import Entry, LocalStorage, storage_for
from support.processes.descriptors import open_below

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "data").mkdir(parents=True)
    (tmp_path / "root" / "data" / "file").write_bytes(CONTENT)
    return tmp_path / "root"


def test_ranges_come_back_in_the_order_asked_for(root: Path) -> None:
    ranges = [(9000, 100), (0, 10), (5, 20), (10240, 0), (4, 0), (9100, 1140), (0, 10)]
    with LocalStorage(str(root)).open_file("data/file") as file:
        buffers = file.read_ranges(ranges)

    assert [bytes(buffer) for buffer in buffers] == [CONTENT[start : start + size] for start, size in ranges]


def test_buffers_are_aligned_for_typed_access(root: Path) -> None:
    with LocalStorage(str(root)).open_file("data/file") as file:
        assert file.read(64, 100).address % 64 == 0
        assert all(buffer.address % 64 == 0 for buffer in file.read_ranges([(128, 10), (192, 10), (64, 3)]))


def test_a_path_out_of_the_root_is_not_taken_for_a_missing_file(root: Path) -> None:
    """T7: the refusal of the path is an OSError, too."""
    storage = LocalStorage(str(root))
    for act in (storage.identify, storage.directory_state, storage.sync_directory):
        assert act("data/none" if act != storage.sync_directory else "data") is None
        with pytest.raises(InvalidInputError, match="leaves its root"):
            act("../root/data/file")


@pytest.mark.parametrize("span", [(-1, 1), (0, -1), (0, 10241), (10240, 1), (1 << 63, 1), (0, 1 << 63)])
def test_a_read_outside_the_file_is_refused(root: Path, span: tuple[int, int]) -> None:
    """T22: nothing is allocated for a length that the file does not have."""
    with (
        LocalStorage(str(root)).open_file("data/file") as file,
        pytest.raises(CorruptFileError, match="data/file"),
    ):
        file.read(*span)


def test_a_file_truncated_while_open_is_an_error_not_zeros(root: Path) -> None:
    """T25"""
    with LocalStorage(str(root)).open_file("data/file") as file:
        os.truncate(root / "data" / "file", 5000)
        assert bytes(file.read(0, 5000)) == CONTENT[:5000]
        with pytest.raises(CorruptFileError, match="truncated"):
            file.read(4000, 2000)


def test_the_size_that_the_caller_knows_is_checked(root: Path) -> None:
    storage = LocalStorage(str(root))

    assert storage.open_file("data/file", len(CONTENT)).size == len(CONTENT)
    assert storage.open_file("data/file", 0).size == len(CONTENT)
    with pytest.raises(CorruptFileError, match="wrong size"):
        storage.open_file("data/file", len(CONTENT) + 1)


def test_identity_changes_when_a_file_is_replaced(root: Path) -> None:
    """T14"""
    storage = LocalStorage(str(root))
    before = storage.open_file("data/file")
    (root / "data" / "new").write_bytes(CONTENT)
    os.replace(root / "data" / "new", root / "data" / "file")

    assert storage.open_file("data/file").identity != before.identity


def test_a_closed_file_is_not_read_from(root: Path) -> None:
    file = LocalStorage(str(root)).open_file("data/file")
    file.close()
    with pytest.raises(StorageError, match="closed"):
        file.read(0, 1)


def test_closing_during_reads_never_reads_another_file(root: Path) -> None:
    """T25: the number of a closed descriptor is given to the next file; a late read must not see that one."""
    storage = LocalStorage(str(root))
    (root / "other").write_bytes(b"\xee" * len(CONTENT))
    wrong: list[bytes] = []

    for _ in range(200):
        file = storage.open_file("data/file")

        def read_until_closed(file=file) -> None:
            try:
                while True:
                    if (data := bytes(file.read(0, 64))) != CONTENT[:64]:
                        wrong.append(data)
            except StorageError:
                pass

        reader = threading.Thread(target=read_until_closed)
        reader.start()
        file.close()
        with storage.open_file("other") as other:
            other.read(0, 1)
        reader.join()

    assert not wrong


def test_descriptors_are_released(root: Path) -> None:
    """T30"""
    storage = LocalStorage(str(root))
    for _ in range(50):
        storage.open_file("data/file")
        storage.list_names("data")
        storage.read_file("data/file")
        storage.read_files("data", ["file", "none"])
    assert open_below(root) == []


def test_directories_are_listed(root: Path) -> None:
    storage = LocalStorage(str(root))

    assert storage.list_directory("") == [Entry("data", is_directory=True)]
    assert storage.list_directory("data") == [Entry("file", is_directory=False)]
    assert storage.list_names("data") == ["file"]
    assert storage.exists("data/file")
    assert not storage.exists("data")
    assert not storage.exists("data/none")


@pytest.mark.parametrize("path", ["none", "data/file/below", "data/none"])
def test_missing_files_and_directories_have_their_own_error(root: Path, path: str) -> None:
    storage = LocalStorage(str(root))
    with pytest.raises(FileMissingError, match=path):
        storage.open_file(path)
    with pytest.raises(FileMissingError, match=path):
        storage.list_names(path)
    with pytest.raises(FileNotFoundError):
        storage.list_directory(path)


def test_messages_do_not_tell_where_the_root_is(root: Path) -> None:
    """T45"""
    storage = LocalStorage(str(root))
    (root / "pipe").mkdir()
    for path in ("none", "pipe", "data"):
        with pytest.raises(LanceError) as error:
            storage.read_file(path)
        assert str(root) not in str(error.value)


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "data/../../outside", ""])
def test_paths_out_of_the_root_are_refused(root: Path, path: str) -> None:
    """T7"""
    (root.parent / "outside").write_bytes(b"secret")
    with pytest.raises((InvalidInputError, StorageError)):
        LocalStorage(str(root)).read_file(path)


@pytest.mark.parametrize("link_to", ["../outside", "{tmp}/outside", "../root-2/outside"])
def test_links_out_of_the_root_are_not_followed(root: Path, link_to: str) -> None:
    """T8: for files and for directories on the way; a sibling whose name begins like the root is outside."""
    (root.parent / "outside").write_bytes(b"secret")
    (root.parent / "root-2").mkdir()
    (root.parent / "root-2" / "outside").write_bytes(b"secret")
    target = (root / link_to.format(tmp=root.parent)).resolve()
    (root / "link").symlink_to(target)
    (root / "folder").symlink_to(target.parent)
    (root / "data" / "link").symlink_to(target)

    storage = LocalStorage(str(root))
    for path in ("link", "folder/outside"):
        with pytest.raises(StorageError, match="link leaves"):
            storage.read_file(path)
    for directory, name in (("data/..", "link"), ("folder", "outside"), ("data", "link")):
        with pytest.raises((StorageError, InvalidInputError), match=r"link leaves|malformed"):
            storage.read_files(directory, [name])
    with pytest.raises(StorageError, match="link leaves"):
        storage.list_names("folder")
    assert LocalStorage(str(root), follow_links=True).read_file("link") == b"secret"


def test_links_inside_the_root_and_to_the_root_are_followed(root: Path) -> None:
    (root / "inner").symlink_to(root / "data" / "file")
    (root / "data" / "beside").symlink_to("file")
    (root.parent / "alias").symlink_to(root)

    assert LocalStorage(str(root)).read_file("inner") == CONTENT
    assert LocalStorage(str(root)).read_files("data", ["beside", "file"]) == [CONTENT, CONTENT]
    assert LocalStorage(str(root.parent / "alias")).read_file("data/file") == CONTENT


def test_a_pipe_does_not_block_and_is_no_file(root: Path) -> None:
    """T11: a hostile dataset cannot make a reader wait for ever."""
    os.mkfifo(root / "data" / "pipe")
    with pytest.raises(StorageError, match="not a regular file"):
        LocalStorage(str(root)).open_file("data/pipe")
    with pytest.raises(StorageError, match="not a regular file"):
        LocalStorage(str(root)).read_files("data", ["pipe"])


@pytest.mark.parametrize(
    "uri", ["{root}", "file://{root}", "file://localhost{root}", "{root}/", "{root}/../root"]
)
def test_spellings_of_a_local_root(root: Path, uri: str) -> None:
    storage = storage_for(uri.format(root=root))
    assert storage.uri == str(root)
    assert storage.read_file("data/file") == CONTENT


def test_a_file_url_is_decoded(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    assert storage_for(f"file://{tmp_path}/a%20b").list_names("") == []


@pytest.mark.parametrize("scheme", ["bogus", "hf", "gcs"])
def test_other_schemes_are_refused_by_name(scheme: str) -> None:
    """Known to nobody, or needing a package that is not installed."""
    with pytest.raises(UnsupportedFeatureError, match=scheme):
        storage_for(f"{scheme}://bucket/x")


@pytest.mark.parametrize("uri", ["", "a\0b"])
def test_an_impossible_uri_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInputError):
        storage_for(uri)


def test_links_are_neither_listed_nor_followed_when_a_directory_is_deleted(tmp_path: Path) -> None:
    """T9"""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_bytes(b"x")
    (tmp_path / "root" / "inner").mkdir(parents=True)
    (tmp_path / "root" / "inner" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "outer").symlink_to(tmp_path / "elsewhere")
    storage = LocalStorage(str(tmp_path / "root"))

    assert list(storage.list_files("")) == []
    storage.delete_directory("inner")
    with pytest.raises(StorageError, match="link"):
        storage.delete_directory("outer")
    assert (tmp_path / "elsewhere" / "kept").exists()


def test_a_leading_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path stays the same in a process with another directory, as in the reference."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    table = pa.table({"a": [1]})
    dataset = lance_core.write_dataset(table, "~/here.lance")
    assert lance_core.dataset("~/here.lance").to_table().equals(table)
    copy = pickle.loads(pickle.dumps(dataset))
    monkeypatch.setenv("HOME", "/nowhere")
    for path in (tmp_path / "here.lance", copy.uri):
        assert lance_core.dataset(path).to_table().equals(table)
    lance_core.write_dataset(table, "~here.lance")
    assert (tmp_path / "~here.lance").is_dir()
