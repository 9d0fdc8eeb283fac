"""Facts of a dataset, its files, ids and sessions, compared with the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lance
import lance.bitmap
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.bitmap import Bitmap
from lance_core.errors import InvalidInputError
from support.runs.each_case import each_case

ROWS = pa.table(
    {
        "x": range(100),
        "y": [f"text {number % 7}" for number in range(100)],
        "l": [[number, 2] for number in range(100)],
        "s": [{"u": 1, "v": "q", "w": [{"t": number}]} for number in range(100)],
        "d": pa.array([f"{number % 3}" for number in range(100)]).dictionary_encode(),
    }
)


def changed(path: Path, **options: Any) -> lance.LanceDataset:
    """Write a dataset with several fragments, files, deletions, versions, a tag and a branch."""
    dataset = lance.write_dataset(ROWS, str(path), max_rows_per_file=30, **options)
    dataset.delete("x in (3, 4, 55)")
    dataset.tags.create("gold", 1)
    if options.get("data_storage_version") != "legacy":
        dataset.add_columns({"z": "x + 1"})
        dataset.drop_columns(["z"])
    dataset.create_branch("dev")
    lance.write_dataset(ROWS, str(path), mode="append")
    return lance.dataset(str(path))


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
def test_statistics(tmp_path: Path, version: str) -> None:
    theirs = changed(tmp_path / "d", data_storage_version=version)
    ours = lance_core.dataset(tmp_path / "d")
    for rows in (None, 0, 10, 28, 29, 30, 31, 1000):
        arguments = [] if rows is None else [rows]
        assert ours.stats.dataset_stats(*arguments) == theirs.stats.dataset_stats(*arguments)
    assert asdict(ours.stats.data_stats()) == asdict(theirs.stats.data_stats())
    assert list(ours.fragment_ids()) == list(theirs.fragment_ids())
    assert ours.max_field_id == theirs.max_field_id
    assert ours.version_refs() == theirs.version_refs()


def test_statistics_of_an_empty_dataset(tmp_path: Path) -> None:
    theirs = lance.write_dataset(ROWS.slice(0, 0), str(tmp_path / "d"))
    ours = lance_core.dataset(tmp_path / "d")
    assert ours.stats.dataset_stats() == theirs.stats.dataset_stats()
    assert asdict(ours.stats.data_stats()) == asdict(theirs.stats.data_stats())
    assert ours.fragment_ids() == []
    assert ours.max_field_id == theirs.max_field_id


def test_statistics_of_an_index(tmp_path: Path) -> None:
    theirs = changed(tmp_path / "d")
    theirs.create_scalar_index("x", "BTREE")
    ours = lance_core.dataset(tmp_path / "d")
    assert ours.stats.index_stats("x_idx") == ours.index_statistics("x_idx")
    with pytest.raises(KeyError):
        ours.stats.index_stats("nope")


def sorted_rows(reader: pa.RecordBatchReader) -> list[dict[str, Any]]:
    """Return the rows in one order, with approximate times: both libraries round them to microseconds."""
    assert isinstance(reader, pa.RecordBatchReader)
    rows = sorted(reader.read_all().to_pylist(), key=lambda row: row["path"])
    rows.sort(key=lambda row: row.get("version", 0))
    for row in rows:
        if "last_modified" in row:
            row["last_modified"] = pytest.approx(row["last_modified"].timestamp(), rel=0, abs=2e-6)
    return rows


@pytest.mark.parametrize("branch", [None, "dev"])
def test_files(tmp_path: Path, branch: str | None) -> None:
    """An index, files in base paths and files of no version are listed as by the reference."""
    changed(tmp_path / "d").create_scalar_index("x", "BTREE")
    (tmp_path / "d" / "data" / "of nobody").write_text("x")
    theirs = lance.dataset(str(tmp_path / "d"))
    ours = lance_core.dataset(tmp_path / "d")
    if branch is not None:
        theirs, ours = (each.checkout_version((branch, None)) for each in (theirs, ours))
    for list_files in (
        lambda dataset: dataset.tracked_files(),
        lambda dataset: dataset.tracked_files(min_version=3),
        lambda dataset: dataset.all_files(),
    ):
        assert list_files(ours).schema == list_files(theirs).schema
        assert sorted_rows(list_files(ours)) == sorted_rows(list_files(theirs))
    assert ours.version_refs() == theirs.version_refs()


def test_files_in_base_paths(tmp_path: Path) -> None:
    """Files of a shallow clone are those of its base; a plain directory as a base has no `data/` in it."""
    source = changed(tmp_path / "d")
    source.shallow_clone(str(tmp_path / "clone"), source.version)
    bases = [
        lance.DatasetBasePath(str(tmp_path / "plain"), name="plain"),
        lance.DatasetBasePath(str(tmp_path / "root"), name="root", is_dataset_root=True),
    ]
    for name in ("plain", "root"):
        (tmp_path / name).mkdir()
        lance.write_dataset(ROWS, str(tmp_path / f"on {name}"), initial_bases=bases, target_bases=[name])
    for path in ("clone", "on plain", "on root"):
        ours, theirs = (library.dataset(str(tmp_path / path)) for library in (lance_core, lance))
        found = sorted_rows(ours.tracked_files())
        files = [Path(row["base_uri"]) / row["path"] for row in found]
        assert all(file.is_file() for file in files), path
        assert found == sorted_rows(theirs.tracked_files())
        assert sorted_rows(ours.all_files()) == sorted_rows(theirs.all_files())


def test_progress_of_a_listing(tmp_path: Path) -> None:
    changed(tmp_path / "d")
    ours = lance_core.dataset(tmp_path / "d")
    calls: list[tuple[int, int | None]] = []
    reader = ours.tracked_files(min_version=2, progress=lambda done, total: calls.append((done, total)))
    assert calls == []
    reader.read_all()
    assert calls == [(number, len(ours.versions()) - 1) for number in range(1, len(ours.versions()))]


def test_a_version_that_is_cleaned_up_during_a_listing_is_left_out(tmp_path: Path) -> None:
    changed(tmp_path / "d")
    ours = lance_core.dataset(tmp_path / "d")
    reader = ours.tracked_files()
    first = reader.read_next_batch()
    assert set(first["version"].to_pylist()) == {1}
    (tmp_path / "d" / "_versions" / f"{(1 << 64) - 3}.manifest").unlink()
    assert 2 not in set(reader.read_all()["version"].to_pylist())


def test_caches_have_the_size_that_is_given(tmp_path: Path) -> None:
    lance_core.write_dataset(ROWS, tmp_path / "d", max_rows_per_file=25)
    sizes = {}
    for limit in (None, 0, 1 << 20):
        session = lance_core.Session(metadata_cache_size_bytes=limit)
        dataset = lance_core.dataset(tmp_path / "d", session=session)
        assert session.cache_use()["files"].entries == 0
        assert dataset.to_table() == ROWS
        assert dataset.take([1, 99]) == ROWS.take([1, 99])
        sizes[limit] = session.cache_use()["files"].bytes
    assert sizes[0] == 0
    assert sizes[None] == sizes[1 << 20] > 0


def test_a_size_of_a_cache_makes_a_session(tmp_path: Path) -> None:
    lance_core.write_dataset(ROWS, tmp_path / "d")
    shared, other = (lance_core.dataset(tmp_path / "d") for _ in range(2))
    own = lance_core.dataset(tmp_path / "d", metadata_cache_size_bytes=1 << 20)
    assert shared.session().is_same_as(other.session())
    assert not own.session().is_same_as(shared.session())
    assert own.checkout_version(1).session().is_same_as(own.session())
    assert (
        lance_core.dataset(tmp_path / "d", session=own.session(), index_cache_size_bytes=5)
        .session()
        .is_same_as(own.session())
    )
    before = own.session().size_bytes()
    own.to_table()
    assert own.session().size_bytes() > before
    assert own.session().index_cache_size_bytes() == 0
    assert repr(own.session()) == f"Session({own.session().size_bytes()} bytes)"
    with pytest.raises(InvalidInputError, match="index_cache_size_bytes"):
        lance_core.Session(index_cache_size_bytes=-1)


def test_storage_options_are_those_of_the_caller(tmp_path: Path) -> None:
    lance_core.write_dataset(ROWS, tmp_path / "d")
    plain = lance_core.dataset(tmp_path / "d")
    assert plain.initial_storage_options is None
    assert plain.latest_storage_options() is None
    given = lance_core.dataset(tmp_path / "d", storage_options={"timeout": "3s"})
    assert given.initial_storage_options == given.latest_storage_options() == {"timeout": "3s"}


Act = Callable[[Any], Any]

BITMAP_ACTS: dict[str, Act] = {
    "repr": repr,
    "list": list,
    "length": len,
    "in": lambda bits: [value in bits for value in (1, 7, -1, 1 << 40, "a")],
    "equals": lambda bits: [bits == other for other in ([1, 2, 3], {1, 2, 3}, [1], 3, bits)],
    "order": lambda bits: [
        sign(bits, other)
        for other in ([1, 2, 3], [1, 2, 3, 4], [1])
        for sign in (
            lambda a, b: a <= b,
            lambda a, b: a < b,
            lambda a, b: a >= b,
            lambda a, b: a > b,
        )
    ],
    "algebra": lambda bits: [list(each) for each in (bits | [9], bits & [1], bits - [1], bits ^ [1, 9])],
    "algebra from the right": lambda bits: [
        list(each) for each in ([9] | bits, [1, 9] & bits, [1, 9] - bits, [1, 9] ^ bits)
    ],
    "names": lambda bits: [
        list(getattr(bits, name)([1, 9]))
        for name in ("union", "intersection", "difference", "symmetric_difference")
    ],
    "questions": lambda bits: [
        getattr(bits, name)(other)
        for name in ("issubset", "issuperset", "isdisjoint")
        for other in ([1], range(9), [77])
    ],
    "changes": lambda bits: [
        list(bits)
        for _ in (
            bits.add(40),
            bits.discard(1),
            bits.discard(99),
            bits.update([7, 8]),
            bits.remove(7),
            bits.clear(),
        )
    ],
    "pop": lambda bits: (bits.pop(), list(bits)),
    "a copy": lambda bits: (bits.copy().clear(), list(bits)),
    "hash": hash,
    "remove": lambda bits: bits.remove(77),
    "negative": lambda bits: type(bits)([-1]),
    "too large": lambda bits: type(bits)([1 << 32]),
    "text": lambda bits: type(bits)(["a"]),
    "union with a number": lambda bits: bits | 3,
    "comparison with a number": lambda bits: bits <= 3,
    "empty": lambda bits: bool(type(bits)()),
}


def in_place(kind: type[Any]) -> list[list[int]]:
    found = []
    for change in ("__ior__", "__iand__", "__isub__", "__ixor__"):
        bits = kind([1, 2, 3])
        found.append(list(getattr(bits, change)([2, 9])))
        assert list(bits) == found[-1]
    return found


@each_case("act", BITMAP_ACTS.values(), ids=BITMAP_ACTS)
def test_a_bitmap_is_the_set_of_the_reference(act: Act) -> None:
    outcomes = []
    for kind in (lance.bitmap.Bitmap, Bitmap):
        try:
            outcomes.append(act(kind([3, 1, 2])))
        except Exception as error:
            outcomes.append(type(error) if kind is not Bitmap else error)
    if isinstance(outcomes[0], type):
        assert isinstance(outcomes[1], outcomes[0])
    else:
        assert outcomes[1] == outcomes[0]


def test_a_bitmap_is_changed_in_place() -> None:
    assert in_place(Bitmap) == in_place(lance.bitmap.Bitmap)
