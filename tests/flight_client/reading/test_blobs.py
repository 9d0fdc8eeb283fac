"""Tables with blobs through the client and its engines: they declare what they return, the descriptors."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import duckdb
import lance
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import flight_client
import lance_core
from flight_client import RemoteDataset

SIZES = {1: 6, 2: 100_000, 3: 5 << 20, 4: None, 5: 0, 6: 200}
"""Bytes by id; the last one lies outside the dataset."""


@pytest.fixture(
    params=[(lance, "2.2"), (lance_core, "2.2"), (lance, "2.1"), (lance_core, "2.1")],
    ids=["theirs-2.2", "ours-2.2", "theirs-2.1", "ours-2.1"],
)
def blobs(
    request: pytest.FixtureRequest, written: Path, writer: flight_client.Client, tmp_path: Path
) -> tuple[RemoteDataset, pa.Table]:
    """A table with blobs of every kind as a client reads it, and as its writer does."""
    library: ModuleType
    library, version = request.param
    (tmp_path / "outside").write_bytes(b"o" * 200)
    values = [None if size is None else b"v" * size for size in SIZES.values()]
    ids = pa.array(SIZES, pa.int64())
    if version == "2.2":
        outside = lance.Blob.from_uri(f"file://{tmp_path}/outside", position=0, size=200)
        table = pa.table({"id": ids, "b": lance.blob_array([*values[:-1], outside])})
    else:
        field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        table = pa.table(
            [ids, pa.array(values, pa.large_binary())], schema=pa.schema([pa.field("id", pa.int64()), field])
        )
    options = {"data_storage_version": version, "allow_external_blob_outside_bases": version == "2.2"}
    path = str(written / "blobs.lance")
    library.write_dataset(table, path, **options)
    return writer.dataset("blobs"), library.dataset(path).to_table()


def test_reads_return_the_declared_columns(blobs: tuple[RemoteDataset, pa.Table]) -> None:
    remote, expected = blobs

    assert remote.schema.equals(expected.schema, check_metadata=True)
    assert remote.scanner().projected_schema.equals(remote.schema, check_metadata=True)
    assert remote.to_table().equals(expected, check_metadata=True)
    assert pa.table(remote) == expected
    batches = list(remote.to_batches())
    assert all(batch.schema.equals(remote.schema, check_metadata=True) for batch in batches)
    assert pa.Table.from_batches(batches) == expected
    assert remote.take([5, 0]) == expected.take([5, 0])
    assert remote.head(2, columns=["b"]) == expected.select(["b"]).slice(0, 2)


LARGE = [number for number, size in SIZES.items() if size is not None and size > 10]


def test_conditions_on_descriptors(blobs: tuple[RemoteDataset, pa.Table]) -> None:
    """Whether the server evaluates them (SQL, and the first two) or the client does."""
    remote, expected = blobs
    size = pc.field("b", "size")
    for condition in (size > 10, pc.field("b").is_valid() & (size > 10), size + 1 > 11, "b.size > 10"):
        assert remote.to_table(["id"], condition)["id"].to_pylist() == LARGE
    assert remote.to_table(filter=pc.field("b").is_null()) == expected.filter(expected["b"].is_null())


def test_duckdb(blobs: tuple[RemoteDataset, pa.Table]) -> None:
    remote, expected = blobs
    query = duckdb.connect().register("remote", remote).sql
    rows = query("SELECT * FROM remote ORDER BY id").fetchall()
    assert rows == [tuple(row.values()) for row in expected.to_pylist()]
    large = query("SELECT id, b.size FROM remote WHERE b IS NOT NULL AND b.size > 10 ORDER BY id")
    assert large.fetchall() == [(number, SIZES[number]) for number in LARGE]


def test_polars(blobs: tuple[RemoteDataset, pa.Table]) -> None:
    remote, expected = blobs
    assert remote.to_polars().collect().to_dicts() == expected.to_pylist()
    large = remote.to_polars().filter(pl.col("b").struct.field("size") > 10).select("id").collect()
    assert large["id"].to_list() == LARGE
    assert remote.to_polars().select("b").slice(1, 1).collect().to_dicts() == [
        {"b": expected["b"][1].as_py()}
    ]


def test_rows_that_are_appended_have_values(writer: flight_client.Client, written: Path) -> None:
    """Descriptors of another dataset are no values of this one, and nothing is written for them."""
    table = pa.table({"id": [1], "b": lance.blob_array([b"v" * 100_000])})
    writer.write("blobs", table, "create")
    snapshot = writer.snapshot("blobs")
    assert snapshot.stored_schema.equals(lance.dataset(str(written / "blobs.lance")).schema)
    writer.write("blobs", table.cast(snapshot.stored_schema))
    assert writer.dataset("blobs").to_table()["b"].combine_chunks().field("size").to_pylist() == [100_000] * 2
    with pytest.raises(flight_client.InvalidInputError, match="blob"):
        writer.write("copy", writer.dataset("blobs"), "create")
    assert writer.datasets().names == ["blobs"]


def test_uploads_of_blobs_that_are_elsewhere(writer: flight_client.Client, tmp_path: Path) -> None:
    """A server does not follow URIs of clients, whatever else is in the batch."""
    blobs = lance.blob_array([b"v" * 100_000, lance.Blob.from_uri(f"file://{tmp_path}/outside")])
    with pytest.raises(flight_client.UnsupportedFeatureError, match="blobs outside the dataset"):
        writer.write("blobs", pa.table({"b": blobs}), "create")
    writer.write("blobs", pa.table({"b": blobs.slice(0, 1)}), "create")
    with pytest.raises(flight_client.UnsupportedFeatureError, match="blobs outside the dataset"):
        writer.write("blobs", pa.table({"b": blobs}))
    assert writer.dataset("blobs").count_rows() == 1


def test_parts_of_descriptors_are_columns(blobs: tuple[RemoteDataset, pa.Table]) -> None:
    remote, expected = blobs
    whole = expected["b"].to_pylist()
    for part in whole[0]:
        values = [each and each[part] for each in whole]
        assert remote.to_table(columns=[f"b.{part}"])[f"b.{part}"].to_pylist() == values
        assert remote.to_table(columns={"x": f"b.{part}"})["x"].to_pylist() == values
