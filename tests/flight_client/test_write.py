"""Writing through the client: every kind of source, every mode, errors, and repeating without doubling."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as arrow
import pytest
from pyarrow import flight

import flight_client
from support.servers.served import StartServer

ROWS = pa.table({"n": pa.array([1, 2, 3]), "s": ["a", None, "c"]})

SOURCES = {
    "table": lambda: ROWS,
    "batch": lambda: ROWS.to_batches()[0],
    "reader": lambda: ROWS.to_reader(),
    "dataset": lambda: arrow.dataset(ROWS),
    "scanner": lambda: arrow.dataset(ROWS).scanner(),
    "pandas": lambda: ROWS.to_pandas(),
    "polars": lambda: pl.from_arrow(ROWS),
    "dict": lambda: ROWS.to_pydict(),
    "dicts": lambda: ROWS.to_pylist(),
    "batches": lambda: iter(ROWS.to_batches(max_chunksize=1)),
    "empty": lambda: ROWS.slice(0, 0),
}


@pytest.fixture
def client(writer: flight_client.Client) -> flight_client.Client:
    return writer


@pytest.mark.parametrize("kind", SOURCES)
def test_sources(client: flight_client.Client, kind: str, written: Path) -> None:
    result = client.write("t", SOURCES[kind](), "create", schema=ROWS.schema if kind == "batches" else None)
    num_rows = 0 if kind == "empty" else 3
    assert (result.version, result.rows) == (1, num_rows)
    found = client.dataset("t").to_table()
    assert found.to_pydict() == ROWS.slice(0, num_rows).to_pydict()
    assert lance.dataset(written / "t.lance").to_table().to_pydict() == found.to_pydict()


def test_modes(client: flight_client.Client) -> None:
    with pytest.raises(flight_client.DatasetNotFoundError):
        client.write("t", ROWS)
    client.write("t", ROWS, "create", data_storage_version="2.1", enable_stable_row_ids=True)
    with pytest.raises(flight_client.DatasetExistsError):
        client.write("t", ROWS, "create")
    assert client.write("t", ROWS).version == 2
    assert client.dataset("t").count_rows() == 6
    client.write("t", pa.table({"x": [1.5]}), "overwrite")
    assert client.dataset("t").to_table().to_pydict() == {"x": [1.5]}
    assert client.dataset("t", 2).count_rows() == 6
    with pytest.raises(flight_client.InvalidInputError, match="columns"):
        client.write("t", ROWS)
    client.drop_dataset("t")
    assert client.datasets().names == []


def test_a_source_that_fails_writes_nothing(client: flight_client.Client) -> None:
    client.write("t", ROWS, "create")

    def batches() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        raise RuntimeError("the source is broken")

    with pytest.raises(RuntimeError, match="the source is broken"):
        client.write("t", batches(), schema=ROWS.schema)
    with pytest.raises(flight_client.InvalidInputError, match="expected record batches"):
        client.write("t", iter([ROWS.to_batches()[0], "no batch"]), schema=ROWS.schema)
    with pytest.raises(flight_client.InvalidInputError, match="found int"):
        client.write("t", 5)
    assert client.dataset("t").version == 1


def test_the_same_id_writes_once(client: flight_client.Client) -> None:
    client.write("t", ROWS, "create")
    transaction_id = str(uuid4())
    first = client.write("t", ROWS, transaction_id=transaction_id)
    assert client.write("t", ROWS, transaction_id=transaction_id) == first
    assert client.dataset("t").count_rows() == 6


def test_a_write_waits_for_a_server(tmp_path: Path, serve: StartServer) -> None:
    """A server that stops between two writes, and comes back at its port, is asked again."""
    server = serve(tmp_path)
    with flight_client.connect(server.uri) as client:
        client.write("t", ROWS, "create")
    port = server.uri.rpartition(":")[2]
    server.kill()
    back = threading.Timer(0.3, lambda: serve(tmp_path, "--port", port))
    back.start()
    patient = flight_client.connect(server.uri, attempts=12)
    assert patient.write("t", ROWS).version == 2
    back.join()
    assert patient.dataset("t").count_rows() == 6


class _DiesAtTheEnd(flight.FlightServerBase):
    """Takes all rows and the finish message, and then is gone."""

    def do_put(self, context, descriptor, reader, writer) -> None:  # type: ignore[no-untyped-def]
        for _ in reader:
            pass
        raise flight.FlightUnavailableError("gone")


@pytest.mark.parametrize("data", [ROWS, ROWS.to_reader()])
def test_a_commit_that_nobody_knows_of(data: object) -> None:
    """A client that repeats a write after an UnavailableError could double its rows, since it may have
    landed.
    """
    transaction_id = str(uuid4())
    with _DiesAtTheEnd("grpc://127.0.0.1:0") as server:
        client = flight_client.connect(f"grpc://127.0.0.1:{server.port}", attempts=2)
        with pytest.raises(flight_client.CommitUnknownError, match=transaction_id):
            client.write("t", data, transaction_id=transaction_id)
        with pytest.raises(flight_client.UnavailableError):
            client.stage("t", ROWS)


def test_staged_rows_become_one_version(client: flight_client.Client) -> None:
    client.write("t", ROWS, "create")
    receipts = [receipt for part in (0, 1, 2) for receipt in client.stage("t", ROWS.slice(part, 1))]
    assert client.dataset("t").version == 1
    transaction_id = str(uuid4())
    assert client.commit("t", receipts, transaction_id=transaction_id) == 2
    assert client.commit("t", receipts, transaction_id=transaction_id) == 2
    assert client.dataset("t").to_table()["n"].to_pylist() == [1, 2, 3, 1, 2, 3]
    with pytest.raises(flight_client.LanceError):
        client.commit("t", receipts)
    assert client.abort("t", client.stage("t", ROWS)) == 1
    assert client.dataset("t").version == 2


def test_columns(client: flight_client.Client) -> None:
    client.write("t", ROWS, "create", max_rows_per_file=2)
    transaction_id = str(uuid4())
    for _ in range(2):
        done = client.merge_columns("t", {"n": [3, 1], "m": [30, 10]}, "n", transaction_id=transaction_id)
        assert done.version == 2
    by_two = ROWS.slice(1, 1).append_column("k", pa.array(["x"]))
    assert client.merge_columns("t", by_two, ["n", "s"]).version == 3
    table = client.dataset("t").to_table()
    assert (table["m"].to_pylist(), table["k"].to_pylist()) == ([10, None, 30], [None, "x", None])
    assert client.replace_columns("t", {"m": [5]}, 1).version == 4
    values = {0: [6, 7], 1: [8]}
    receipts = [
        receipt
        for number, column in values.items()
        for receipt in client.stage("t", {"m": column}, "replace_columns", fragment_id=number)
    ]
    assert client.commit("t", receipts, "replace_columns") == 5
    assert client.dataset("t").to_table(["m"])["m"].to_pylist() == [6, 7, 8]
    stale = client.stage("t", {"m": [0]}, "replace_columns", fragment_id=1)
    client.update("t", {"m": "m + 1"}, "n = 3")
    with pytest.raises(flight_client.CommitConflictError) as caught:
        client.commit("t", stale, "replace_columns")
    assert not caught.value.retryable
    assert client.abort("t", stale) == 1


@pytest.mark.parametrize("parallel", [1, 3, 5])
def test_parallel_writes(client: flight_client.Client, parallel: int) -> None:
    table = pa.table({"x": pa.array(range(10_000))})
    assert client.write_parallel("t", table, "overwrite", parallel=parallel) == 1
    assert client.write_parallel("t", table.to_pandas(), parallel=parallel, properties={"by": "me"}) == 2
    assert client.dataset("t").to_table()["x"].to_pylist() == 2 * list(range(10_000))
    with pytest.raises(flight_client.InvalidInputError):
        client.write_parallel("t", ROWS, parallel=parallel)
    assert client.dataset("t").version == 2


def test_large_batches_are_cut(client: flight_client.Client) -> None:
    table = pa.table({"x": np.arange(2_000_000)})
    assert client.write("t", table, "create").rows == 2_000_000
    assert client.dataset("t").to_table().equals(table)


def test_frames_come_back(client: flight_client.Client) -> None:
    frame = pd.DataFrame({"n": [1, 2], "s": ["x", "y"]})
    client.write("t", frame, "create")
    pd.testing.assert_frame_equal(client.dataset("t").to_pandas(), frame)


def test_frames_of_pandas_fit_what_others_made(client: flight_client.Client) -> None:
    """Text of pandas 3 is of a type of its own, which the columns of a table are not."""
    rows = pa.table({"text": ["a", None], "n": [1, 2]})
    client.write("frames", rows, "create")
    client.write("frames", rows.to_pandas())
    found = client.dataset("frames").to_table()
    assert found.equals(pa.concat_tables([rows, rows]))


@pytest.mark.parametrize(
    "data",
    [pd.Series([1, 2], name="n"), pl.Series("n", [1]), {"n": [1, "a"]}, {"n": [1], "s": []}, pl.LazyFrame()],
    ids=["series of pandas", "series of polars", "mixed values", "lengths", "lazy frame"],
)
def test_data_that_is_no_rows(client: flight_client.Client, data: object) -> None:
    with pytest.raises(flight_client.InvalidInputError, match="data"):
        client.write("t", data, "create")


def test_frames_of_polars_are_merged(client: flight_client.Client) -> None:
    """Polars sends text as views, and categories as dictionaries of views."""
    frame = pl.DataFrame({"n": [1, 2], "s": ["x", "y"], "c": pl.Series(["p", None], dtype=pl.Categorical)})
    client.write("t", frame, "create")
    new = frame.with_columns(pl.col("n") + 1, s=pl.lit("another text, longer than a view"))
    merged = client.merge_insert("t", new, "n", when_matched="update_all", when_not_matched="insert_all")
    assert (merged.num_updated_rows, merged.num_inserted_rows) == (1, 1)
    again = client.write("t", new, "merge_insert", on=["n"], when_matched="update_all")
    assert (again.version, again.num_updated_rows, again.num_inserted_rows) == (merged.version + 1, 2, 0)
    assert client.dataset("t").to_polars().collect().equals(pl.concat([frame[:1], new]))
    client.merge_columns("t", pl.DataFrame({"s": ["x"], "more": ["z"]}), "s")
    assert client.dataset("t").to_table()["more"].to_pylist() == ["z", None, None]


def test_parallel_writes_do_not_create(
    client: flight_client.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(flight_client.InvalidInputError, match="mode"):
        client.write_parallel("new", {"a": [1]}, "create")  # type: ignore[arg-type]
    client.write_parallel("new", {"a": list(range(9))}, "overwrite", progress=True)
    assert "9/9" in capsys.readouterr().err
