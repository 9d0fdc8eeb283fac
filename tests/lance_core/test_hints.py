"""Messages about names that do not exist: they name near ones, wherever a user gives a name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceDataset
from lance_core.errors import DatasetNotFoundError, InvalidInputError, RefNotFoundError
from lance_core.hints import did_you_mean, near_names

TABLE = pa.table({"fare": [1.0], "tip": [2.0], "place": [{"zone": "x", "city": "y"}]})


@pytest.fixture
def dataset(tmp_path: Path) -> LanceDataset:
    return lance_core.write_dataset(TABLE, tmp_path / "trips.lance")


@pytest.mark.parametrize(
    ("use", "near"),
    [
        (lambda d: d.to_table(columns=["Fares"]), "fare"),
        (lambda d: d.to_table(columns=["place.zne"]), "zone"),
        (lambda d: d.to_table(columns=["plce.zone"]), "place"),
        (lambda d: d.to_table(filter="fares > 1"), "fare"),
        (lambda d: d.to_table(columns={"x": "fares + 1"}), "fare"),
        (lambda d: d.take([0], columns=["fares"]), "fare"),
        (lambda d: d.update({"fares": "1"}), "fare"),
        (lambda d: d.update({"fare": "tipp"}), "tip"),
        (lambda d: d.delete("fares > 1"), "fare"),
        (lambda d: d.drop_columns(["fares"]), "fare"),
        (lambda d: d.drop_columns(["place.citty"]), "city"),
        (lambda d: d.alter_columns({"path": "fares", "name": "x"}), "fare"),
        (lambda d: d.add_columns({"x": "fares + 1"}), "fare"),
        (lambda d: d.update_field_metadata({"fares": {"a": "b"}}), "fare"),
        (lambda d: d.update_field_metadata({"place.zonne": {"a": "b"}}), "zone"),
        (lambda d: d.merge_insert("fares").when_not_matched_insert_all().execute(TABLE), "fare"),
        (lambda d: d.merge(TABLE, "fare", "fares"), "fare"),
    ],
)
def test_columns(dataset: LanceDataset, use: Callable[[LanceDataset], Any], near: str) -> None:
    with pytest.raises(InvalidInputError, match=f"did you mean '{near}'"):
        use(dataset)
    assert dataset.version == 1


def test_columns_without_a_near_name_are_listed(dataset: LanceDataset) -> None:
    with pytest.raises(InvalidInputError, match="there are 'fare', 'tip', 'place'"):
        dataset.drop_columns(["xyz"])


def test_tags_and_branches(dataset: LanceDataset) -> None:
    with pytest.raises(RefNotFoundError, match=r"^no tag 'gld'$"):
        dataset.tags.delete("gld")
    dataset.tags.create("gold", 1)
    dataset.create_branch("develop")
    for use in (
        lambda: dataset.tags.delete("gld"),
        lambda: dataset.tags.update("gld", 1),
        lambda: dataset.checkout_version("gld"),
    ):
        with pytest.raises(RefNotFoundError, match="did you mean 'gold'"):
            use()
    for use in (
        lambda: dataset.branches.delete("develpo"),
        lambda: dataset.checkout_version(("develpo", None)),
    ):
        with pytest.raises(RefNotFoundError, match="did you mean 'develop'"):
            use()


def test_datasets(dataset: LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Datasets beside the one that is not there, above all the same name with the suffix."""
    (tmp_path / "tripz").mkdir()
    for name in ("trips", "trips/", "Trip.lance", "tripp"):
        with pytest.raises(DatasetNotFoundError, match=rf"did you mean '{tmp_path}/trips\.lance'\?$"):
            lance_core.dataset(tmp_path / name if "/" not in name else f"{tmp_path}/{name}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatasetNotFoundError, match=r"did you mean 'trips\.lance'\?$"):
        lance_core.dataset("trips")
    with pytest.raises(DatasetNotFoundError, match=r"/other$"):
        lance_core.dataset("other")
    with pytest.raises(DatasetNotFoundError, match=r"/nowhere/trips$"):
        lance_core.dataset("nowhere/trips")


def test_functions(dataset: LanceDataset) -> None:
    with pytest.raises(InvalidInputError, match="did you mean 'upper'"):
        dataset.to_table(filter="uper(place.zone) = 'X'")
    with pytest.raises(InvalidInputError, match=r"there is no function 'zzzzzz'$"):
        dataset.to_table(filter="zzzzzz(place.zone) = 'X'")


def test_near_names() -> None:
    assert near_names("FARE", ["tip", "Fare", "fares"])[0] == "Fare"
    assert near_names("x", []) == []
    assert did_you_mean("x", []) == ""
    listed = did_you_mean("x", [f"name_{k}" for k in range(11)])
    assert listed.startswith("; there are 'name_0', ")
    assert listed.endswith("'name_9', ...")
    assert "\x1b" not in did_you_mean("fare\x1b[31m", ["fare\x1b[32m"])
