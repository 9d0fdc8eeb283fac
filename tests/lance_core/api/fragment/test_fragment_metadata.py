"""Descriptions of fragments and sequences of row ids, with the names and warnings of the reference."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lance
import lance.fragment
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.fragment.row_id_sequence import RowIdSequence
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from support.runs.each_case import each_case

ROWS = pa.table({"a": range(30), "s": [{"x": number} for number in range(30)]})


@pytest.mark.parametrize("stable", [False, True])
def test_a_description_has_the_attributes_of_the_reference(stable: bool, tmp_path: Path) -> None:
    lance.write_dataset(ROWS, str(tmp_path / "d"), enable_stable_row_ids=stable).delete("a < 3")
    theirs = lance.dataset(str(tmp_path / "d")).get_fragments()[0].metadata
    ours = lance_core.dataset(tmp_path / "d").get_fragments()[0].metadata
    names = {name for name in dir(theirs) if not name.startswith("_")}
    assert names <= set(dir(ours))
    assert ours.overlays == theirs.overlays == []
    assert repr(ours.files[0]) == repr(theirs.files[0])
    assert ours.to_json() == theirs.to_json()


def test_old_ways_to_the_files_warn(tmp_path: Path) -> None:
    metadata = lance_core.write_dataset(ROWS, tmp_path / "d").get_fragments()[0].metadata
    file = metadata.files[0]
    for old, expected in (
        (metadata.data_files, metadata.files),
        (file.path, file.path),
        (file.field_ids, file.fields),
    ):
        with pytest.warns(DeprecationWarning, match="is deprecated. Use "):
            assert old() == expected


def test_a_path_is_text_in_every_copy() -> None:
    file = lance_core.DataFile("a.lance", [0], [0], 2, 2)
    for twin in (copy.deepcopy(file), pickle.loads(pickle.dumps(file))):
        assert twin == file
        with pytest.warns(DeprecationWarning, match="path"):
            assert twin.path() == "a.lance"
    assert json.loads(json.dumps(asdict(file)))["path"] == "a.lance"
    assert lance_core.DataFile.from_message(file.to_message()) == file
    assert "base_id" not in repr(file)
    assert "base_id=3" in repr(lance_core.DataFile("a.lance", [0], base_id=3))


def test_overlays_are_refused(tmp_path: Path) -> None:
    metadata = lance_core.write_dataset(ROWS, tmp_path / "d").get_fragments()[0].metadata
    metadata.overlays = ["an overlay"]
    with pytest.raises(UnsupportedFeatureError, match="data overlay files"):
        metadata.to_message()


def test_the_physical_schema_has_the_columns_of_the_files(tmp_path: Path) -> None:
    """The reference has no answer."""
    dataset = lance_core.write_dataset(ROWS.replace_schema_metadata({"k": "v"}), tmp_path / "d")
    dataset.add_columns(pa.field("n", pa.int8()))
    (fragment,) = dataset.get_fragments()
    assert fragment.schema.names == ["a", "s", "n"]
    assert fragment.physical_schema == dataset.schema.remove(2)
    assert fragment.physical_schema.metadata == {b"k": b"v"}


VALUES: dict[str, Any] = {
    "range": range(3, 9),
    "list": [1, 2, 3],
    "not ascending": [3, 1],
    "empty": [],
    "far apart": [0, 5, 10**19],
    "far apart and negative": [-1, 10**19],
    "generator": (number for number in [4, 7]),
    "numpy": np.array([1, 2], np.uint64),
    "arrow": pa.array([5, 6]),
    "chunks": pa.chunked_array([[1], [2]]),
    "many": list(range(0, 60, 2)),
    "twice": [1, 1],
    "negative": [-1],
    "text": ["a"],
    "null": pa.array([1, None], pa.uint64()),
}


@each_case("values", VALUES.values(), ids=VALUES)
def test_a_sequence_of_row_ids_is_that_of_the_reference(values: Any) -> None:
    if not hasattr(values, "__len__"):
        values = list(values)
    try:
        theirs = lance.fragment.RowIdSequence(values)
    except Exception as error:
        with pytest.raises(type(error)):
            RowIdSequence(values)
        return
    ours = RowIdSequence(values)
    assert ours.to_inline_metadata().asdict() == theirs.to_inline_metadata().asdict()
    assert (repr(ours), len(ours), list(ours)) == (repr(theirs), len(theirs), list(theirs))
    assert ours.to_pyarrow() == theirs.to_pyarrow()
    assert RowIdSequence.from_inline_metadata(ours.to_inline_metadata()) == ours
    assert (ours == list(ours)) == (theirs == list(theirs))


Refused = Callable[[], object]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: RowIdSequence.from_inline_metadata(3), TypeError),  # type: ignore[arg-type]
        (lambda: hash(RowIdSequence([1])), TypeError),
        (lambda: RowIdSequence([-1]), InvalidInputError),
    ],
)
def test_a_sequence_refuses(make: Refused, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


def test_rows_that_are_rewritten_by_hand_keep_their_ids(tmp_path: Path) -> None:
    """A transaction with a sequence made here is read back by the reference."""
    dataset = lance_core.write_dataset(ROWS, tmp_path / "d", enable_stable_row_ids=True)
    (fragment,) = dataset.get_fragments()
    (new,) = lance_core.write_fragments(ROWS.slice(10, 5), str(tmp_path / "d"))
    new.row_id_meta = RowIdSequence(range(10, 15)).to_inline_metadata()
    lance_core.LanceDataset.commit(
        str(tmp_path / "d"),
        lance_core.LanceOperation.Update([fragment.fragment_id], [], [new], []),
        read_version=dataset.version,
    )
    for library in (lance, lance_core):
        found = library.dataset(str(tmp_path / "d")).to_table(columns=["a"], with_row_id=True)
        assert found["_rowid"].to_pylist() == found["a"].to_pylist() == list(range(10, 15))
