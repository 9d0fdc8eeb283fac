"""Names of manifests and discovery of versions."""

import json
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_core.errors import CorruptFileError, DatasetNotFoundError, VersionNotFoundError
from lance_core.storage import LocalStorage, Storage
from lance_core.table.snapshot import open_snapshot, read_manifests
from lance_core.table.versions import latest_version, list_versions, listed_manifests, manifest_path


@pytest.fixture(params=[True, False], ids=["inverted names", "plain names"])
def history(tmp_path: Path, table: pa.Table, request: pytest.FixtureRequest) -> Path:
    """Twelve versions, so that plain names do not sort by number; version n has 10 n rows."""
    path = tmp_path / "t"
    for _ in range(12):
        lance.write_dataset(table, str(path), mode="append", enable_v2_manifest_paths=request.param)
    return path


def storage(path: Path) -> Storage:
    return LocalStorage(str(path))


def test_versions_are_those_of_the_reference(history: Path) -> None:
    theirs = lance.dataset(str(history))

    assert list_versions(storage(history)) == tuple(version["version"] for version in theirs.versions())
    assert latest_version(storage(history)) == theirs.latest_version == 12
    assert open_snapshot(storage(history)).manifest.num_rows == 120


def test_any_version_opens_by_number(history: Path) -> None:
    for version in range(1, 13):
        manifest = open_snapshot(storage(history), version).manifest
        assert (manifest.version, manifest.num_rows) == (version, 10 * version)
    for version in (0, 13, -1, 1 << 63, 1 << 64):
        with pytest.raises(VersionNotFoundError, match=str(version)):
            open_snapshot(storage(history), version)


def test_versions_may_have_gaps(history: Path) -> None:
    for version in (1, 2, 5):
        (history / manifest_path(storage(history), version)).unlink()

    assert list_versions(storage(history)) == (3, 4, 6, 7, 8, 9, 10, 11, 12)
    assert latest_version(storage(history)) == 12
    with pytest.raises(VersionNotFoundError):
        open_snapshot(storage(history), 5)


@pytest.mark.parametrize("most_bytes", [1, 3000, 1 << 20])
def test_manifests_of_a_history_are_read(
    history: Path, most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone and together, without a version that a cleanup removed after the list was made."""
    monkeypatch.setattr("lance_core.table.snapshot._MOST_BYTES", most_bytes)
    snapshot = open_snapshot(storage(history))
    listed = listed_manifests(storage(history))
    assert list(listed) == list(range(1, 13))
    (history / "_versions" / listed[5]).unlink()

    found = list(read_manifests(snapshot, listed))
    assert [manifest.version for manifest in found] == [1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12]
    assert [manifest.num_rows for manifest in found] == [10 * manifest.version for manifest in found]
    assert found[0].name == manifest_path(storage(history), 1)


def test_a_damaged_manifest_of_a_history_is_named(history: Path) -> None:
    """T36"""
    listed = listed_manifests(storage(history))
    shutil.copy(history / "_versions" / listed[7], history / "_versions" / listed[8])
    with pytest.raises(CorruptFileError, match=rf"{listed[8]}.*expected 8, found 7"):
        list(read_manifests(open_snapshot(storage(history)), listed))
    (history / "_versions" / listed[8]).write_bytes(b"")
    with pytest.raises(CorruptFileError, match=listed[8]):
        list(read_manifests(open_snapshot(storage(history)), listed))


@pytest.mark.parametrize("hint", [b'{"version":3}', b'{"version":99}', b"garbage", b""])
def test_the_hint_is_not_believed(history: Path, hint: bytes) -> None:
    """T39: the hint of the latest version may be stale or torn."""
    (history / "_versions" / "latest_version_hint.json").write_bytes(hint)
    assert latest_version(storage(history)) == 12


def test_other_files_are_no_versions(history: Path) -> None:
    """T35: files of interrupted writers are invisible."""
    versions = history / "_versions"
    names = [
        ".tmp_13.manifest",
        "13.manifest#1",
        "13.manifest-5d0fcd1e-0e2b-4a6c-8e2c-1f0a6f4e8c55",
        "18446744073709551602.manifest.tmp-1",
        "foo.manifest",
        "13.manifest.manifest",
        "-13.manifest",
        "+13.manifest",
        "1_3.manifest",
        "١٣.manifest",
        "13.txt",
        "a\n13.manifest",
        ".manifest",
        "_latest.manifest",
    ]
    for name in names:
        (versions / name).write_bytes(b"")
    shutil.copy(next(versions.glob("*.manifest")), history / "_latest.manifest")

    assert list_versions(storage(history)) == tuple(range(1, 13))


def test_two_naming_schemes_in_one_table_are_refused(history: Path) -> None:
    """docs/format.md, "Versions": the reference cannot open such a table either."""
    path = history / manifest_path(storage(history), 4)
    plain, inverted = "4.manifest", f"{2**64 - 5:020}.manifest"
    path.with_name(plain if path.name == inverted else inverted).write_bytes(path.read_bytes() + b"x")

    for attempt in (
        lambda: latest_version(storage(history)),
        lambda: list_versions(storage(history)),
        lambda: open_snapshot(storage(history)),
    ):
        with pytest.raises(CorruptFileError, match="two schemes"):
            attempt()
    with pytest.raises(CorruptFileError, match="two manifests"):
        open_snapshot(storage(history), 4)


def test_a_manifest_under_another_number_is_corrupt(history: Path) -> None:
    (history / manifest_path(storage(history), 11)).rename(history / manifest_path(storage(history), 12))
    with pytest.raises(CorruptFileError, match=r"expected 12, found 11"):
        open_snapshot(storage(history))


def test_a_detached_version_opens_by_number_and_is_never_the_latest(tmp_path: Path, table: pa.Table) -> None:
    dataset = lance.write_dataset(table, str(tmp_path))
    fragments = lance.fragment.write_fragments(table, str(tmp_path))
    operation = lance.LanceOperation.Append(fragments)
    detached = lance.LanceDataset.commit(dataset, operation, read_version=1, detached=True)

    assert detached.version >= 1 << 63
    assert open_snapshot(storage(tmp_path), detached.version).manifest.num_rows == 20
    assert list_versions(storage(tmp_path)) == (1,)


@pytest.mark.parametrize("kind", ["nothing", "empty", "no versions", "file"])
def test_a_place_without_a_table(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    if kind == "file":
        path.write_bytes(b"x")
    elif kind != "nothing":
        (path / ("_versions" if kind == "no versions" else "other")).mkdir(parents=True)
        (path / "latest_version_hint.json").write_text(json.dumps({"version": 1}))

    for attempt in (
        lambda: open_snapshot(storage(path)),
        lambda: open_snapshot(storage(path), 1),
        lambda: list_versions(storage(path)),
    ):
        with pytest.raises(DatasetNotFoundError, match="no dataset") as error:
            attempt()
        assert not isinstance(error.value, VersionNotFoundError)
