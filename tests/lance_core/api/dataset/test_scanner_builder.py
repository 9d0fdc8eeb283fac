"""Scans by steps, and by the defaults of a dataset, compared with the reference."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance.dataset import ColumnOrdering as TheirOrdering
from lance.dataset import ScannerBuilder as TheirBuilder

import lance_core
from lance_core import ColumnOrdering, ScannerBuilder
from support.oracles.comparison import assert_tables_equal


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four fragments."""
    path = str(tmp_path_factory.mktemp("built") / "rows.lance")
    lance.write_dataset(
        pa.table({"a": range(100), "b": [str(n) for n in range(100)]}), path, max_rows_per_file=25
    )
    return path


def test_every_step_of_the_reference_exists() -> None:
    assert {name for name in dir(TheirBuilder) if name[0] != "_"} <= set(dir(ScannerBuilder))


def test_steps_are_the_arguments_of_a_scan(path: str) -> None:
    results = []
    for library, builder, ordering in (
        (lance, TheirBuilder, TheirOrdering),
        (lance_core, ScannerBuilder, ColumnOrdering),
    ):
        dataset = library.dataset(path)
        scan = (
            builder(dataset)
            .columns(["b"])
            .filter(pc.field("a") > 30)
            .with_fragments(dataset.get_fragments()[1:])
            .order_by([ordering("a", ascending=False)])
            .limit(30)
            .offset(5)
            .with_row_id()
            .with_row_address()
            .batch_size(7)
            .strict_batch_size(True)
            .batch_readahead(2)
            .fragment_readahead(1)
            .io_buffer_size(1 << 20)
            .scan_in_order()
            .late_materialization(["b"])
            .use_stats(True)
            .use_scalar_index(True)
            .prefilter(False)
            .fast_search(False)
            .blob_handling(None)
            .scan_in_order(True)
            .to_scanner()
        )
        results.append(scan.to_table())
        assert [batch.num_rows for batch in scan.to_batches()] == [7, 7, 7, 7, 2]
    assert_tables_equal(*results)


@pytest.mark.parametrize(
    ("step", "arguments"),
    [
        ("minhash_search", ("word",)),
        ("row_addr_prefilter", (b"",)),
        ("substrait_aggregate", (b"",)),
    ],
)
def test_steps_that_are_missing_are_refused_by_name(path: str, step: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(lance_core.UnsupportedFeatureError, match=step):
        getattr(ScannerBuilder(lance_core.dataset(path)), step)(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"batch_readahead": 0}, ValueError),
        ({"fragment_readahead": -1}, ValueError),
        ({"limit": -1}, ValueError),
        ({"offset": -1}, ValueError),
        ({"fragments": [1]}, TypeError),
        ({"late_materialization": 5}, Exception),
        ({"late_materialization": ["nope"]}, Exception),
    ],
    ids=repr,
)
def test_values_out_of_range_are_refused_by_both(path: str, arguments: dict, error: type[Exception]) -> None:
    (name,) = arguments
    for library in (lance, lance_core):
        with pytest.raises(error, match=f"(?i){name}|nope"):
            library.dataset(path).scanner(**arguments)


DEFAULTS = [
    {"with_row_id": True},
    {"with_row_address": True, "columns": ["b"]},
    {"filter": "a > 40", "limit": 3, "batch_size": 1},
    {"limit": None},
]


@pytest.mark.parametrize("defaults", DEFAULTS, ids=repr)
def test_defaults_apply_to_scans_and_to_the_schema(path: str, defaults: dict) -> None:
    theirs, ours = (library.dataset(path, default_scan_options=defaults) for library in (lance, lance_core))
    assert ours.schema == theirs.schema
    assert_tables_equal(theirs.to_table(), ours.to_table())
    assert_tables_equal(theirs.to_table(limit=5), ours.to_table(limit=5))
    assert_tables_equal(theirs.to_table(columns=["a"]), ours.to_table(columns=["a"]))
    assert ours.to_table(with_row_id=False).column_names == theirs.to_table(with_row_id=False).column_names
    assert [batch.num_rows for batch in ours.to_batches(limit=2)] == [
        batch.num_rows for batch in theirs.to_batches(limit=2)
    ]


def test_defaults_do_not_apply_to_counts_takes_and_fragments(path: str) -> None:
    defaults = {"limit": 3, "columns": ["b"], "with_row_id": True}
    for library in (lance, lance_core):
        dataset = library.dataset(path, default_scan_options=defaults)
        assert (len(dataset), dataset.count_rows("a < 10")) == (100, 10)
        assert dataset.take([1]).column_names == ["a", "b"]
        fragment = dataset.get_fragments()[0]
        assert fragment.schema.names == ["a", "b"]
        assert fragment.to_table().num_rows == 25


def test_defaults_stay_with_the_dataset(path: str, tmp_path: Path) -> None:
    lance.write_dataset(lance.dataset(path).to_table(), tmp_path / "d")
    for library in (lance, lance_core):
        dataset = library.dataset(tmp_path / "d", default_scan_options={"with_row_id": True})
        dataset.insert(pa.table({"a": [1], "b": ["x"]}))
        for other in (dataset, dataset.checkout_version(1), pickle.loads(pickle.dumps(dataset))):
            assert other.schema.names == ["a", "b", "_rowid"]


@pytest.mark.parametrize("name", ["nope", "to_scanner", "apply_defaults", "arguments", "_set"])
def test_defaults_that_are_no_steps_are_refused(path: str, name: str) -> None:
    dataset = lance_core.dataset(path, default_scan_options={name: 1})
    with pytest.raises(lance_core.InvalidInputError, match=name):
        dataset.to_table()


def test_the_environment_has_the_default_size_of_batches(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_DEFAULT_BATCH_SIZE", "10")
    for library in (lance, lance_core):
        dataset = library.dataset(path)
        assert [batch.num_rows for batch in dataset.to_batches()] == [10, 10, 5] * 4
        assert {batch.num_rows for batch in dataset.to_batches(batch_size=25)} == {25}
        fragment = dataset.get_fragments()[0]
        assert [batch.num_rows for batch in fragment.to_batches()] == [10, 10, 5]
    monkeypatch.setenv("LANCE_DEFAULT_BATCH_SIZE", "many")
    with pytest.raises(lance_core.InvalidInputError, match="LANCE_DEFAULT_BATCH_SIZE"):
        lance_core.dataset(path).to_table()
