"""Cleanup: which versions and files are removed, which stay, and how the reference reads the rest."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    CorruptFileError,
    InvalidInputError,
    RefConflictError,
    StorageError,
)
from lance_core.maintenance import cleanup
from lance_core.maintenance.cleanup import CleanupPolicy, clean_up
from lance_core.maintenance.tags import create_tag
from lance_core.storage import LocalStorage
from lance_core.table.snapshot import open_snapshot
from support.faults.failing_storage import Fault, FaultStorage, fails

NOW = timedelta(0)
STATS = [
    "bytes_removed",
    "old_versions",
    "data_files_removed",
    "transaction_files_removed",
    "index_files_removed",
    "deletion_files_removed",
    "failed_deletes",
]
ALL = CleanupPolicy(older_than=NOW)


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def values(dataset: Any) -> list[int]:
    return sorted(dataset.to_table()["x"].to_pylist())


def history(place: Path) -> str:
    """Appends, deletions, an index, overwrites."""
    path = str(place)
    dataset = lance.write_dataset(rows(*range(100)), path)
    dataset.create_scalar_index("x", "BTREE")
    dataset.delete("x < 10")
    dataset = lance.write_dataset(rows(200), path, mode="append")
    dataset.delete("x < 20")
    lance.write_dataset(rows(*range(50)), path, mode="overwrite")
    lance.dataset(path).delete("x = 3")
    lance.write_dataset(rows(300), path, mode="append")
    return path


def files(path: str) -> dict[str, int]:
    found = {
        str(file.relative_to(path)): file.stat().st_size for file in Path(path).rglob("*") if file.is_file()
    }
    found.pop("_versions/latest_version_hint.json", None)
    return {name: size for name, size in found.items() if not name.startswith("_refs/removals/")}


def kinds(path: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in files(path):
        counts[name.split("/")[0]] = counts.get(name.split("/")[0], 0) + 1
    return counts


def readable(path: str) -> dict[int, list[int]]:
    """All versions, which the reference reads as we do."""
    found = {}
    for entry in lance.dataset(path).versions():
        number = entry["version"]
        theirs = lance.dataset(path, number)
        found[number] = values(theirs)
        assert values(lance_core.dataset(path, number)) == found[number]
    assert [entry["version"] for entry in lance_core.dataset(path).versions()] == list(found)
    return found


def set_age(path: str, days: float, *only: str) -> None:
    for name in only or files(path):
        then = time.time() - days * 86_400
        os.utime(Path(path) / name, (then, then))


Arguments = dict[str, Any]
CASES: dict[str, Arguments] = {
    "all": {"older_than": NOW},
    "default": {},
    "retain": {"retain_versions": 3},
    "retain more than there are": {"retain_versions": 99},
    "retain and young": {"older_than": timedelta(days=1), "retain_versions": 3},
    "retain and old": {"older_than": NOW, "retain_versions": 3},
    "some versions": {"versions": [2, 3, 99]},
    "the latest version": {"versions": [8]},
    "some versions, young": {"versions": [2, 3], "older_than": timedelta(days=1)},
    "unverified": {"older_than": NOW, "delete_unverified": True},
    "tagged": {"older_than": NOW, "error_if_tagged_old_versions": False},
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_goes_as_by_the_reference(case: str, tmp_path: Path) -> None:
    outcomes = []
    for library in (lance, lance_core):
        path = history(tmp_path / library.__name__)
        if case == "tagged":
            lance.dataset(path).tags.create("kept", 3)
        dataset = library.dataset(path)
        explained = dataset.explain_cleanup_old_versions(**CASES[case]).stats
        before = files(path)
        stats = dataset.cleanup_old_versions(**CASES[case])
        assert all(getattr(stats, name) == getattr(explained, name) for name in STATS)
        assert stats.bytes_removed == sum(before.values()) - sum(files(path).values())
        counts = {name: getattr(stats, name) for name in STATS[1:]}
        outcomes.append((counts, kinds(path), readable(path)))
    assert outcomes[0] == outcomes[1]


def test_what_would_go_is_named(tmp_path: Path) -> None:
    path = history(tmp_path / "t")
    arguments: Arguments = {"older_than": NOW, "include_files": True}
    ours = lance_core.dataset(path).explain_cleanup_old_versions(**arguments)
    theirs = lance.dataset(path).explain_cleanup_old_versions(**arguments)
    root = str(tmp_path / "t").lstrip("/") + "/"
    assert {(file.path, file.kind, file.unverified, file.size_bytes) for file in ours.candidate_files} == {
        (file.path.removeprefix(root), file.kind, file.unverified, file.size_bytes)
        for file in theirs.candidate_files
    }
    few = lance_core.dataset(path).explain_cleanup_old_versions(**arguments, max_files=2)
    assert (len(few.candidate_files), few.candidate_files_truncated, len(few.warnings)) == (2, True, 1)
    assert few.stats == ours.stats
    with pytest.raises(ValueError, match="max_files"):
        lance_core.dataset(path).explain_cleanup_old_versions(max_files=0)


@pytest.mark.parametrize("name", ["retain_versions", "delete_rate_limit", "delete_concurrency"])
def test_limits_without_sense_are_refused(tmp_path: Path, name: str) -> None:
    path = history(tmp_path / "t")
    with pytest.raises(InvalidInputError, match=name):
        lance_core.dataset(path).cleanup_old_versions(NOW, **{name: 0})


def test_versions_after_the_opened_one_stay(tmp_path: Path) -> None:
    path = history(tmp_path / "t")
    lance_core.dataset(path, 5).cleanup_old_versions(NOW)
    assert list(readable(path)) == [5, 6, 7, 8]


def test_tagged_versions_stay_or_are_an_error(tmp_path: Path) -> None:
    """T41"""
    path = history(tmp_path / "t")
    dataset = lance_core.dataset(path)
    dataset.tags.create("gold", 3)
    before = files(path)
    with pytest.raises(RefConflictError, match="gold"):
        dataset.cleanup_old_versions(NOW)
    assert files(path) == before
    dataset.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert readable(path) == {3: list(range(10, 100)), 8: [0, 1, 2, *range(4, 50), 300]}
    lance.dataset(path).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert list(readable(path)) == [3, 8]
    dataset.tags.delete("gold")
    assert dataset.cleanup_old_versions(NOW).old_versions == 1


@pytest.mark.parametrize("maker", [lance, lance_core])
def test_what_branches_began_with_stays(tmp_path: Path, maker: Any) -> None:
    """T41: files that only a branch of a branch uses stay, too."""
    path = history(tmp_path / "t")
    maker.dataset(path).create_branch("dev", 3)
    branch = maker.dataset(path).checkout_version(("dev", None))
    branch.create_branch("of/dev")
    dev = lance.dataset(path).checkout_version(("dev", None))
    dev.insert(rows(1000))
    lance_core.dataset(path).cleanup_old_versions(NOW)
    assert list(readable(path)) == [3, 8]
    for library in (lance, lance_core):
        opened = library.dataset(path).checkout_version(("dev", None))
        assert values(opened) == [*range(10, 100), 1000]
        assert values(library.dataset(path).checkout_version(("of/dev", None))) == [*range(10, 100)]

    lance_core.dataset(f"{path}/tree/dev").cleanup_old_versions(NOW)
    assert values(lance.dataset(path).checkout_version(("of/dev", None))) == [*range(10, 100)]
    lance_core.dataset(path).branches.delete("of/dev")
    lance_core.dataset(path).branches.delete("dev")
    lance_core.dataset(path).cleanup_old_versions(NOW)
    assert list(readable(path)) == [8]


def test_the_reference_cleans_up_beside_our_branches(tmp_path: Path) -> None:
    path = history(tmp_path / "t")
    lance_core.dataset(path).create_branch("dev", 3)
    lance.dataset(path).cleanup_old_versions(NOW)
    assert values(lance_core.dataset(path).checkout_version(("dev", None))) == list(range(10, 100))
    assert 8 in readable(path)
    lance_core.dataset(path).cleanup_old_versions(NOW)
    assert values(lance.dataset(path).checkout_version(("dev", None))) == list(range(10, 100))


ORPHANS = [
    "data/orphan.lance",
    "data/orphan/0001.blob",
    "_deletions/0-1-5.arrow",
    "_deletions/0-1-6.bin",
    "_transactions/1-x.txn",
    "_indices/11111111-2222-3333-4444-555555555555/page.lance",
    "_versions/.tmp_18446744073709551000.manifest",
    "_versions/18446744073709551000.manifest-11111111-2222-3333-4444-555555555555",
    "_transactions/1-11111111-2222-3333-4444-555555555555.txn-11111111222233334444555555555555",
    "data/orphan.lance#17",
]
FOREIGN = [
    "data/notes.txt",
    "notes.lance",
    "data/a/b/c.blob",
    "data/b/x.lance",
    "_versions/notes",
    "x/data/y.lance",
]


def test_files_of_nobody_stay_for_seven_days(tmp_path: Path) -> None:
    """T41: files without a version may belong to a commit that is in progress."""
    path = history(tmp_path / "t")
    for name in ORPHANS + FOREIGN:
        file = Path(path) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    dataset = lance_core.dataset(path)
    set_age(path, 6.9)
    dataset.cleanup_old_versions(NOW)
    assert set(ORPHANS + FOREIGN) <= set(files(path))

    set_age(path, 7.1, *ORPHANS[::2])
    stats = dataset.cleanup_old_versions(NOW)
    assert set(ORPHANS) & set(files(path)) == set(ORPHANS[1::2])
    assert stats.bytes_removed == len(ORPHANS[::2])
    dataset.cleanup_old_versions(NOW, delete_unverified=True)
    assert not set(ORPHANS) & set(files(path))
    assert set(FOREIGN) <= set(files(path))
    assert not (Path(path) / ORPHANS[5]).parent.exists()
    assert list(readable(path)) == [8]


def test_files_of_cleanups_that_died_stay_for_a_day(tmp_path: Path) -> None:
    """T41: a cleanup in an object store writes such a file while it removes versions in any order."""
    path = history(tmp_path / "t")
    removals = Path(path, "_refs", "removals")
    removals.mkdir(parents=True)
    for name, hours in (("old", 25), ("new", 23)):
        (removals / name).write_bytes(b"")
        then = time.time() - 3600 * hours
        os.utime(removals / name, (then, then))
    lance_core.dataset(path).cleanup_old_versions(NOW)
    assert [each.name for each in removals.iterdir()] == ["new"]


def warnings(path: str) -> list[str]:
    return sorted(file.name for file in Path(path, "_refs", "removals").glob("*"))


def test_a_version_that_stays_below_removed_ones_leaves_a_warning(tmp_path: Path) -> None:
    """T41: writers tell by the version before their own that no version with their number was removed."""
    path = history(tmp_path / "t")
    lance_core.dataset(path).cleanup_old_versions(versions=[1, 2])
    assert not warnings(path)
    for version in (4, 6):
        lance_core.dataset(path).cleanup_old_versions(versions=[version])
    [name] = warnings(path)
    assert name == f"{datetime.now(UTC).date()}"
    set_age(path, 1.1, f"_refs/removals/{name}")
    lance_core.dataset(path).cleanup_old_versions(NOW)
    assert not warnings(path)


def test_a_warning_has_the_date_on_which_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T41: another cleanup may be removing the file of the day on which this cleanup began."""
    path = history(tmp_path / "t")
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    list_refs = cleanup.list_refs

    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return tomorrow

    def tag_late(root: Any, calls: Iterator[int] = itertools.count()) -> tuple[Any, Any]:  # noqa: B008
        if next(calls) == 1:
            monkeypatch.setattr(cleanup, "datetime", Tomorrow)
            Path(path, "_refs/tags").mkdir(parents=True)
            Path(path, "_refs/tags/gold.json").write_text(json.dumps({"version": 3, "manifestSize": 1}))
        return list_refs(root)

    monkeypatch.setattr(cleanup, "list_refs", tag_late)
    lance_core.dataset(path).cleanup_old_versions(NOW)
    assert warnings(path) == [f"{tomorrow.date()}"]


def test_a_version_that_is_tagged_meanwhile_leaves_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T41: at the first look after the inspection, and at the look after the versions were removed."""
    for look in (1, 2):
        path = history(tmp_path / f"t{look}")
        list_refs, calls = cleanup.list_refs, itertools.count()

        def tag_first(
            root: Any, path: str = path, look: int = look, calls: Iterator[int] = calls
        ) -> tuple[Any, Any]:
            if next(calls) == look:
                (Path(path) / "_refs/tags").mkdir(parents=True, exist_ok=True)
                tag = json.dumps({"version": 3, "manifestSize": 1})
                Path(path, "_refs/tags/gold.json").write_text(tag)
            return list_refs(root)  # noqa: B023

        with monkeypatch.context() as patch:
            patch.setattr(cleanup, "list_refs", tag_first)
            lance_core.dataset(path).cleanup_old_versions(NOW)
        assert list(readable(path)) == [3, 8]
        assert len(warnings(path)) == 1


def test_blobs_follow_their_data_file(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = pa.table({"x": pa.array([1], pa.int64()), "blob": lance.blob_array([b"x" * 200_000])})
    for _ in range(2):
        lance.write_dataset(table, path, mode="overwrite", data_storage_version="2.2")
    assert len(list(Path(path).glob("data/*/*.blob"))) == 2
    lance_core.dataset(path).cleanup_old_versions(NOW)

    assert len(list(Path(path).glob("data/*/*.blob"))) == len(list(Path(path).glob("data/*/"))) == 1
    assert lance.dataset(path).take_blobs("blob", indices=[0])[0].read() == b"x" * 200_000


def test_detached_versions_stay(tmp_path: Path) -> None:
    path = history(tmp_path / "t")
    dataset = lance.dataset(path, 1)
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    operation = lance.LanceOperation.Overwrite(dataset.schema, fragments)
    detached = lance.LanceDataset.commit(path, operation, read_version=1, detached=True)
    expected = values(detached)
    lance_core.dataset(path).cleanup_old_versions(NOW, delete_unverified=True)
    assert values(lance_core.dataset(path, detached.version)) == expected
    assert values(lance.dataset(path, detached.version)) == expected


@pytest.mark.parametrize("damage", [b"", b"x" * 100])
def test_nothing_goes_where_a_manifest_or_ref_cannot_be_read(tmp_path: Path, damage: bytes) -> None:
    """T41"""
    path = history(tmp_path / "t")
    lance_core.dataset(path).create_branch("dev", 7)
    lance_core.dataset(path).tags.create("gold", 8)
    broken = [
        lance_core.dataset(path, 2).snapshot.manifest.name,
        f"tree/dev/{lance_core.dataset(path + '/tree/dev').snapshot.manifest.name}",
        "_refs/tags/gold.json",
        "_refs/branches/dev.json",
    ]
    for name in broken:
        file = Path(path) / name
        whole = file.read_bytes()
        file.write_bytes(damage)
        before = files(path)
        with pytest.raises(CorruptFileError):
            lance_core.dataset(path).cleanup_old_versions(NOW)
        assert files(path) == before
        file.write_bytes(whole)
    assert lance_core.dataset(path).cleanup_old_versions(NOW).old_versions == 6


def test_the_hint_goes_before_the_versions(tmp_path: Path) -> None:
    """A stale hint below a hole would let the reference commit into the hole."""
    path = history(tmp_path / "t")
    hint = Path(path) / "_versions" / "latest_version_hint.json"
    hint.write_text('{"version":2}')
    stale = lance.dataset(path, 2)
    lance_core.dataset(path).tags.create("gold", 2)
    lance_core.dataset(path).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert not hint.exists()
    assert lance.write_dataset(rows(7), lance.dataset(path), mode="append").version == 9
    assert stale.version == 2
    assert list(readable(path)) == [2, 8, 9]


def storage_that(path: str, when: str, act: Callable[[], object]) -> FaultStorage:
    """Return a storage that lets something happen before its first call of this kind."""

    def acts(name: str, call: Callable[[], None]) -> None:
        act()
        call()

    return FaultStorage(path, 0, acts, only=when)


def test_a_tag_that_comes_meanwhile_keeps_its_version(tmp_path: Path) -> None:
    """T41: the tag is made between looking at tags and removing the version."""
    path = history(tmp_path / "t")
    target = open_snapshot(LocalStorage(path), 3)
    storage = storage_that(path, "delete _versions/1", lambda: create_tag(LocalStorage(path), "gold", target))
    clean_up(open_snapshot(storage), storage, ALL)
    assert readable(path) == {3: list(range(10, 100)), 8: [0, 1, 2, *range(4, 50), 300]}


def test_files_that_a_new_version_takes_up_stay(tmp_path: Path) -> None:
    """T41: an old version is restored while it is cleaned up."""
    path = history(tmp_path / "t")
    old = lance.dataset(path, 4)
    storage = storage_that(path, "delete _versions/1", old.restore)
    clean_up(open_snapshot(storage), storage, ALL)
    assert readable(path)[9] == [*range(10, 100), 200]


def test_files_that_a_new_detached_version_takes_up_stay(tmp_path: Path) -> None:
    """T41: a detached version is made on an old version while that version is cleaned up."""
    path = history(tmp_path / "t")
    old = lance.dataset(path, 1)
    operation = lance.LanceOperation.Overwrite(
        old.schema, [fragment.metadata for fragment in old.get_fragments()]
    )
    made: list[int] = []

    def detach() -> None:
        made.append(lance.LanceDataset.commit(path, operation, read_version=1, detached=True).version)

    storage = storage_that(path, "delete _versions/1", detach)
    clean_up(open_snapshot(storage), storage, ALL)
    assert values(lance_core.dataset(path, made[0])) == list(range(100))


class Killed(BaseException):
    """Ends everything, as when the process is gone."""


def killed_before(name: str, call: Callable[[], None]) -> None:
    raise Killed


def killed_after(name: str, call: Callable[[], None]) -> None:
    call()
    raise Killed


@pytest.mark.parametrize("fault", [fails, killed_before, killed_after])
def test_a_fault_at_any_call_breaks_no_version_that_is_listed(tmp_path: Path, fault: Fault) -> None:
    """T35, T40, T41: and the next cleanup removes the remaining files."""
    template = history(tmp_path / "template")
    calls = 0
    for at in range(60):
        path = str(tmp_path / f"t{at}")
        shutil.copytree(template, path)
        storage = FaultStorage(path, at, fault)
        try:
            stats = clean_up(open_snapshot(storage), storage, ALL)
        except (StorageError, Killed):
            pass
        else:
            if not stats.failed_deletes:
                calls = len(storage.calls)
                break
        assert 8 in readable(path)
        lance_core.dataset(path).cleanup_old_versions(NOW, delete_unverified=True)
        assert list(readable(path)) == [8]
        assert kinds(path) == {"_versions": 1, "_transactions": 1, "data": 2, "_deletions": 1}
    assert 20 < calls < 60


def test_a_version_that_goes_meanwhile_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = history(tmp_path / "t")
    listed = cleanup.list_all_manifests

    def removed_after(storage: Any) -> Any:
        found = listed(storage)
        lance.dataset(path).cleanup_old_versions(versions=[2])
        return found

    monkeypatch.setattr(cleanup, "list_all_manifests", removed_after)
    assert lance_core.dataset(path).cleanup_old_versions(NOW).old_versions == 6
    assert list(readable(path)) == [8]


def test_deletes_are_spread_over_time(tmp_path: Path) -> None:
    path = history(tmp_path / "t")
    begin = time.monotonic()
    stats = lance_core.dataset(path).cleanup_old_versions(NOW, delete_rate_limit=100, delete_concurrency=4)
    removed = sum(getattr(stats, name) for name in STATS[1:])
    assert time.monotonic() - begin > (removed - 2) / 100 * 0.9
