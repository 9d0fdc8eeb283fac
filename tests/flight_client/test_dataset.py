"""A remote dataset as its users hold it: rows, projections, filters, takes, pickles."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as arrow
import pytest

import flight_client
from flight_client import InvalidInputError, RemoteDataset
from support.oracles.comparison import assert_tables_equal
from support.servers.served import Root
from support.servers.server import RunningServer, serving

FIELD = pc.field


def test_all_rows_in_order(trips: RemoteDataset, root: Root) -> None:
    assert_tables_equal(root.trips, trips.to_table())
    assert trips.schema == root.trips.schema
    assert trips.count_rows() == root.trips.num_rows
    assert trips.version == 2


@pytest.mark.parametrize("parallel", [1, 2, 8])
@pytest.mark.parametrize("max_read_bytes", [0, 1 << 26])
def test_parallel_reads_keep_the_order(
    server: RunningServer, root: Root, parallel: int, max_read_bytes: int
) -> None:
    client = flight_client.connect(server.uri, parallel=parallel, max_read_bytes=max_read_bytes)
    assert_tables_equal(root.trips, client.dataset("trips").to_table())


def test_versions_and_names(client: flight_client.Client, root: Root) -> None:
    assert_tables_equal(root.trips_before, client.dataset("trips", 1).to_table())
    assert client.dataset("trips@1").count_rows() == root.trips_before.num_rows
    assert client.dataset("ns/vectors").count_rows() == 1000
    with pytest.raises(flight_client.VersionNotFoundError):
        client.dataset("trips", 99)
    with pytest.raises(flight_client.DatasetNotFoundError, match="nothing") as caught:
        client.dataset("nothing")
    assert caught.value.code == 4
    assert caught.value.error_id


READS: dict[str, Callable[[RemoteDataset], object]] = {
    "rows": lambda dataset: dataset.to_table(),
    "filtered": lambda dataset: dataset.to_table(filter="x > 1"),
    "computed": lambda dataset: dataset.to_table({"y": "x + 1"}),
    "count": lambda dataset: dataset.count_rows("x > 1"),
    "counted here": lambda dataset: dataset.scanner([], "x > 1", limit=2).count_rows(),
    "explained": lambda dataset: dataset.scanner().explain(),
    "take": lambda dataset: dataset.take([0, 2]),
    "computed take": lambda dataset: dataset.take([0, 2], {"y": "x + 1"}),
    "large take": lambda dataset: dataset.take([0, 2] * 30_000),
    "lookup": lambda dataset: dataset.lookup().take([0]),
}


@pytest.mark.parametrize("branch", [None, "dev"])
@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_a_dataset_that_was_made_again_is_another_one(
    writer: flight_client.Client, read: Callable[[RemoteDataset], object], branch: str | None
) -> None:
    """T12, T14: an open dataset never gives the rows of what took its name and version number, and it says
    why; also where it was pickled, and with a branch.
    """

    def make(values: list[int]) -> RemoteDataset:
        made = writer.write("a", pa.table({"x": values}), mode="create")
        if branch is not None:
            writer.create_branch("a", branch)
        assert made.version == 1
        return writer.dataset("a", branch=branch)

    old = make([1, 2, 3])
    read(old)
    writer.drop_dataset("a")
    with pytest.raises(flight_client.DatasetNotFoundError, match="no dataset"):
        read(old)
    new = make([4, 5, 6])
    assert (new.version, new.schema) == (old.version, old.schema)
    for stale in (old, pickle.loads(pickle.dumps(old))):
        with pytest.raises(flight_client.DatasetNotFoundError, match="dropped and made again"):
            read(stale)
    read(new)


def test_a_lookup_is_not_reopened_in_another_dataset(writer: flight_client.Client) -> None:
    """T12, T14: the stream of the lookup ends with an error, and the next take opens a new one."""
    writer.write("a", pa.table({"x": [1, 2, 3]}), mode="create")
    with writer.dataset("a").lookup() as lookup:
        writer.drop_dataset("a")
        writer.write("a", pa.table({"x": [4, 5, 6]}), mode="create")
        with pytest.raises(flight_client.LanceError):
            lookup.take([99])
        with pytest.raises(flight_client.DatasetNotFoundError, match="dropped and made again"):
            lookup.take([0])


@pytest.mark.parametrize(
    "columns", [["driver"], ["pickup.zone", "id"], [], {"twice": "id * 2", "d": "driver"}]
)
def test_columns(trips: RemoteDataset, root: Root, columns: list[str] | dict[str, str]) -> None:
    found = trips.to_table(columns)
    assert found.num_rows == root.trips.num_rows
    if isinstance(columns, dict):
        assert found["twice"].to_pylist() == pc.multiply(root.trips["id"], 2).to_pylist()
    assert found.schema.names == list(columns)


CONDITIONS = {
    "pushed": (FIELD("id") > 100) & (FIELD("driver") == "driver 3"),
    "nested": FIELD("pickup", "zone").is_valid() & (FIELD("id") < 500),
    "dictionary": FIELD("city") == "Lund",
    "kept": pc.utf8_length(FIELD("driver")) > 8,
    "both": (FIELD("id") > 2000) & (pc.utf8_length(FIELD("driver")) > 8),
    "not in": ~FIELD("id").isin([1, 2, 3]) & (FIELD("id") < 10),
    "null in list": FIELD("pickup", "zone").isin(["zone 5", None]),
    "or": (FIELD("id") == 5) | FIELD("fare").is_null(),
    "without case": pc.starts_with(FIELD("driver"), "DRIVER 1", ignore_case=True),
    "nothing": FIELD("id") < 0,
}


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("columns", [None, ["city"], [], ["driver", "id"]])
def test_conditions_are_exact(trips: RemoteDataset, root: Root, name: str, columns: list[str] | None) -> None:
    condition = CONDITIONS[name]
    passing = root.trips.filter(condition)
    expected = passing if columns is None else passing.select(columns)
    scanner = trips.scanner(columns, condition)
    assert_tables_equal(expected, scanner.to_table())
    assert scanner.count_rows() == expected.num_rows
    assert trips.count_rows(condition) == expected.num_rows
    part = trips.scanner(columns, condition, offset=3, limit=20)
    some = passing.slice(3, 20)  # before columns are chosen: a table without any has lost its rows
    assert_tables_equal(some if columns is None else some.select(columns), part.to_table())
    assert part.count_rows() == min(20, max(0, expected.num_rows - 3))
    assert part.head(2).num_rows == min(2, some.num_rows)
    assert "condition=" in repr(part)


def test_conditions_reach_the_server(trips: RemoteDataset) -> None:
    """Fragments that cannot hold a row have no endpoint."""
    list(trips.to_batches(["id"], "id < 0"))  # a first filter learns the bounds of the pages
    scanner = trips.scanner(["id"], FIELD("id") > 2500)
    assert scanner.statistics["fragments_pruned"] == 2
    assert scanner.explain()["pages_pruned"] > 0


def test_text_and_expressions_together(trips: RemoteDataset, root: Root) -> None:
    part = trips.filter("id > 10").filter(FIELD("city") == "Lund").filter("id < 500")
    kept = root.trips.filter((FIELD("id") > 10) & (FIELD("city") == "Lund") & (FIELD("id") < 500))
    assert_tables_equal(kept, part.to_table())
    assert part.count_rows() == kept.num_rows
    assert_tables_equal(kept.select(["fare"]), part.to_table(["fare"]))
    assert_tables_equal(kept.take([4, 0]), part.take([4, 0]))


def test_computed_columns_beside_our_part_of_a_filter(trips: RemoteDataset, root: Root) -> None:
    condition = pc.utf8_length(FIELD("driver")) > 8
    found = trips.to_table({"n": "id + 1"}, condition)
    assert found["n"].to_pylist() == pc.add(root.trips.filter(condition)["id"], 1).to_pylist()
    with pytest.raises(flight_client.InvalidInputError, match="driver"):
        trips.to_table({"driver": "upper(driver)"}, condition)


def test_takes_in_one_round_trip(trips: RemoteDataset, root: Root) -> None:
    keys = [2000, 3, 3, 0]
    assert_tables_equal(root.trips.take(keys), trips.take(keys))
    assert_tables_equal(root.trips.take(keys).select(["id"]), trips.take(keys, ["id"]))
    addresses = trips.to_table(["id"], with_row_address=True)["_rowaddr"]
    assert_tables_equal(root.trips.take([7]), trips.take(row_addresses=[addresses[7].as_py()]))
    with pytest.raises(flight_client.InvalidInputError):
        trips.take([10**9])
    with pytest.raises(flight_client.InvalidInputError):
        trips.take()


@pytest.mark.parametrize(
    "keys",
    [[1.5], [1.0], [-1], [None], ["a"], ["1"], [True], [1, True], [2**64], pa.chunked_array([[-1]]), 7],
)
def test_keys_that_are_no_positions(trips: RemoteDataset, keys: object) -> None:
    """Nothing is rounded or wrapped into the position of another row."""
    with pytest.raises(flight_client.InvalidInputError, match="keys"):
        trips.take(keys)
    with trips.lookup(["id"]) as lookup, pytest.raises(flight_client.InvalidInputError, match="keys"):
        lookup.take(keys)
    with pytest.raises(flight_client.InvalidInputError, match="keys"):
        trips.filter("id < 9").take(keys)


@pytest.mark.parametrize(
    "keys", [range(3, 5), np.array([3, 4], np.int32), pa.chunked_array([[3], [4]]), pl.Series([3, 4])]
)
def test_keys_of_many_kinds(trips: RemoteDataset, root: Root, keys: object) -> None:
    assert_tables_equal(root.trips.slice(3, 2), trips.take(keys))


def test_many_takes_on_one_stream(trips: RemoteDataset, root: Root) -> None:
    with trips.lookup(["id", "city"]) as lookup:
        for keys in ([5, 3], [2699], [], [7] * 10):
            expected = root.trips.take(pa.array(keys, pa.int64())).select(["id", "city"])
            assert_tables_equal(expected, lookup.take(keys))
    with trips.lookup(["id"]) as lookup:
        with pytest.raises(flight_client.InvalidInputError, match="1000000"):
            lookup.take([10**6])
        expected = root.trips.take([5]).select(["id"])
        assert_tables_equal(expected, lookup.take([5]))  # on a new stream: the error ended the other one
    with pytest.raises(flight_client.InvalidInputError, match="closed"):
        lookup.take([5])
    with pytest.raises(flight_client.UnsupportedFeatureError):
        trips.filter("id < 5").lookup()


def test_a_take_of_more_keys_than_a_command_holds(trips: RemoteDataset, root: Root) -> None:
    keys = [number * 7 % 2700 for number in range(50_000)]
    assert_tables_equal(root.trips.take(keys).select(["id"]), trips.take(keys, ["id"]))


def test_samples(trips: RemoteDataset, root: Root) -> None:
    """None twice; a seed chooses the same rows in the same order."""
    ids = trips.sample(100, ["id"], seed=7)["id"].to_pylist()
    assert ids == trips.sample(100, ["id"], seed=7)["id"].to_pylist()
    assert ids != trips.sample(100, ["id"], seed=8)["id"].to_pylist()
    assert len(set(ids)) == 100
    assert ids != sorted(ids)
    in_order = trips.sample(100, ["id"], False, seed=7)["id"].to_pylist()
    places = {number: place for place, number in enumerate(root.trips["id"].to_pylist())}
    assert [places[number] for number in in_order] == sorted(places[number] for number in ids)
    some = trips.filter(FIELD("id") < 50).filter("id >= 10")
    assert set(some.sample(5, ["id"])["id"].to_pylist()) <= set(range(10, 50))
    everything = trips.sample(trips.count_rows(), ["id"])["id"].to_pylist()
    assert sorted(everything) == sorted(places)
    assert trips.sample(0).schema == trips.schema
    for num_rows in (-1, trips.count_rows() + 1):
        with pytest.raises(InvalidInputError, match="num_rows"):
            trips.sample(num_rows)


def test_shuffles(trips: RemoteDataset, root: Root) -> None:
    """Every row once, in an order that the seed gives; of a filtered dataset those that pass."""

    def order(dataset: RemoteDataset, seed: int | None, **arguments: Any) -> list[int]:
        batches = list(dataset.shuffle(seed, ["id"], **arguments))
        return [number for batch in batches for number in batch["id"].to_pylist()]

    ids = root.trips["id"].to_pylist()
    first = order(trips, 3)
    assert first == order(trips, 3, batch_rows=100)
    assert first != order(trips, 4)
    assert first != ids
    assert sorted(first) == sorted(order(trips, None)) == sorted(ids)
    assert [batch.num_rows for batch in trips.shuffle(batch_rows=1000)] == [1000, 1000, 700]
    some = trips.filter(FIELD("id") < 50).filter("id >= 10")
    assert order(some, 3) == order(some, 3)
    assert sorted(order(some, 3)) == [number for number in sorted(ids) if 10 <= number < 50]
    assert next(trips.shuffle(3)).schema == trips.schema
    for batch_rows in (0, -1, 1 << 21, "many"):
        with pytest.raises(InvalidInputError, match="batch_rows"):
            trips.shuffle(batch_rows=batch_rows)  # type: ignore[arg-type]


def test_rows_of_batches(trips: RemoteDataset) -> None:
    """By the name of the protocol, or that of Arrow."""
    for arguments in ({"batch_rows": 100}, {"batch_size": 100}, {"batch_size": 100, "batch_rows": 100}):
        assert max(batch.num_rows for batch in trips.to_batches(["id"], **arguments)) == 100
        assert trips.scanner(["id"], **arguments).to_table().num_rows == trips.count_rows()
    with pytest.raises(InvalidInputError, match="expected one of them, found 7 and 8"):
        trips.to_batches(batch_size=7, batch_rows=8)


def test_it_is_a_dataset_of_arrow(trips: RemoteDataset, root: Root) -> None:
    assert isinstance(trips, arrow.Dataset)
    assert_tables_equal(root.trips.slice(0, 5), trips.head(5))
    assert trips.scanner(["id"], batch_readahead=4, use_threads=True).to_reader().read_all().num_rows == 2700
    by_fare = trips.filter("id < 20").sort_by([("id", "descending")]).to_table()
    assert by_fare["id"][0].as_py() == 19
    with pytest.raises(TypeError, match="colums"):
        trips.to_table(colums=["id"])
    with pytest.raises(flight_client.UnsupportedFeatureError):
        trips.get_fragments()


def test_it_is_a_stream_of_arrow(trips: RemoteDataset, root: Root, tmp_path: Path) -> None:
    scanner = trips.scanner(["id", "driver"], "id < 50")
    expected = root.trips.filter(FIELD("id") < 50).select(["id", "driver"])
    assert_tables_equal(expected, pa.table(scanner))
    assert pl.DataFrame(scanner).equals(pl.DataFrame(expected))
    arrow.write_dataset(scanner, tmp_path / "files", format="ipc")
    assert_tables_equal(expected, arrow.dataset(tmp_path / "files", format="ipc").to_table())
    few = trips.filter("id < 50")
    assert_tables_equal(root.trips.filter(FIELD("id") < 50), pa.table(few))
    assert pl.DataFrame(few).height == expected.num_rows
    arrow.write_dataset(few, tmp_path / "more", format="ipc")
    assert arrow.dataset(tmp_path / "more", format="ipc").count_rows() == expected.num_rows


def test_what_reads_around_our_methods_fails(trips: RemoteDataset) -> None:
    """C++ code of Arrow that takes datasets finds an error, neither no rows nor a null pointer."""
    with pytest.raises(OSError, match="a remote dataset"):
        arrow.Scanner.from_dataset(trips).to_table()


def test_arguments_that_make_no_sense(trips: RemoteDataset, client: flight_client.Client) -> None:
    with pytest.raises(flight_client.InvalidInputError, match="nope"):
        trips.to_table(filter=FIELD("nope") > 3)
    with pytest.raises(flight_client.InvalidInputError, match="nope"):
        trips.filter("id < 5").to_table(filter=pc.utf8_length(FIELD("nope")) > 3)
    with pytest.raises(flight_client.InvalidInputError, match="version"):
        client.dataset("trips", 1.5)  # type: ignore[arg-type]
    for read in (trips.to_table, trips.lookup):
        with pytest.raises(flight_client.InvalidInputError, match="columns: expected a list of names"):
            read("id")
    for condition in (5, True, [("id", "=", 5)]):
        with pytest.raises(flight_client.InvalidInputError, match="filter: expected SQL or an expression"):
            trips.filter(condition)
    with pytest.raises(
        flight_client.InvalidInputError, match="expected a value that JSON can hold, found Decimal"
    ):
        trips.head(Decimal(5))  # type: ignore[arg-type]
    with pytest.raises(flight_client.InvalidInputError, match="5000"):
        trips.take([5000], filter="id < 20")


@pytest.mark.parametrize("condition", [pc.utf8_length(FIELD("id")) > 1, pc.utf8_length(FIELD("driver")) + 1])
def test_expressions_that_make_no_sense(trips: RemoteDataset, condition: pc.Expression) -> None:
    """An error of Arrow in the local evaluation of an expression becomes an error of ours."""
    with pytest.raises(flight_client.InvalidInputError, match="utf8_length"):
        trips.to_table(filter=condition)


def test_arguments_of_other_libraries(trips: RemoteDataset, client: flight_client.Client) -> None:
    """Whole numbers of numpy, and times, mean what they say."""
    assert trips.head(np.int64(3)).num_rows == 3
    part = trips.scanner(["id"], batch_size=np.int32(2), fragments=np.arange(1))
    assert max(batch.num_rows for batch in part.to_batches()) == 2
    assert client.dataset("trips", asof=dt.datetime.now(dt.UTC)).version == 2
    with pytest.raises(flight_client.VersionNotFoundError):
        client.dataset("trips", asof=dt.datetime(2020, 1, 1))


def test_it_can_be_pickled(trips: RemoteDataset, root: Root) -> None:
    again = pickle.loads(pickle.dumps(trips.filter(FIELD("id") < 50)))
    assert_tables_equal(root.trips.filter(FIELD("id") < 50), again.to_table())


def test_what_is_shown(trips: RemoteDataset, client: flight_client.Client) -> None:
    assert "version=2, rows=2,700" in repr(trips)
    assert "<td>driver</td>" in trips._repr_html_()
    listing = client.datasets()
    assert "trips" in listing.names
    assert "cannot be read" in repr(listing)
    assert client.datasets("ns/*").names == ["ns/vectors"]
    assert "limit=3" in repr(trips.scanner(limit=3))
    assert "where id &lt; 5" in trips.filter("id < 5")._repr_html_()
    assert "filter=id < 5" in repr(trips.filter("id < 5"))
    with trips.lookup(["id"]) as lookup:
        assert repr(lookup) == "Lookup('trips', version=2, columns=['id'], key=_rowoffset)"


def test_bars(trips: RemoteDataset, capsys: pytest.CaptureFixture[str]) -> None:
    """Bars go to stderr when they are asked for, or when somebody looks and waits."""
    trips.to_table(["id"])
    assert capsys.readouterr().err == ""
    for read in (trips.to_table, trips.to_pandas):
        read(["id"], progress=True)
        assert "2700/2700" in capsys.readouterr().err


def test_closing_early_ends_the_streams(server: RunningServer, trips: RemoteDataset) -> None:
    batches = trips.to_batches(batch_size=10)
    assert isinstance(batches, Iterator)
    assert next(batches).num_rows <= 10
    batches.close()  # type: ignore[attr-defined]
    assert trips.count_rows("id < 5") == 4


def test_errors_in_the_middle(client: flight_client.Client) -> None:
    damaged = client.dataset("bad/pages")
    with pytest.raises(flight_client.CorruptFileError, match="page"):
        damaged.to_table()
    with pytest.raises(flight_client.InvalidInputError, match="zz"):
        damaged.to_table(filter="zz = 1")


NULLS = pa.table(
    {
        "n": pa.array([1, 2, None, 5]),
        "b": pa.array([True, False, None, None]),
        "c": pa.array([None, True, True, True]),
        "t": pa.array([1, 3, None, 5], pa.time32("ms")),
        "two\nlines": pa.array([1, -2, None, 5]),
    }
)

NULL_CONDITIONS = {
    "list = false": FIELD("n").isin([1]) == False,  # noqa: E712
    "list is null": FIELD("n").isin([1]).is_null(),
    "if list": pc.if_else(FIELD("n").isin([1]), False, True),
    "not list, other branch": ~FIELD("n").isin([1]) | pc.if_else(FIELD("c"), FIELD("c"), False),
    "list of another column": ~pc.if_else(FIELD("c").is_valid(), FIELD("n").isin([1]), None),
    "list of DuckDB": ~pc.if_else(FIELD("n").is_valid(), FIELD("n").isin([1]), pa.scalar(None, pa.bool_())),
    "if null": pc.if_else(FIELD("b"), FIELD("n") > 9, FIELD("c")),
    "time": FIELD("t") > pa.scalar(2, pa.time32("ms")),
    "line break": (pc.abs(FIELD("two\nlines")) > 1) & (FIELD("n") > 1),
    "times": FIELD("t").isin(pa.array([3], pa.time32("ms"))),
}


@pytest.fixture(scope="module")
def nulls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteDataset]:
    folder = tmp_path_factory.mktemp("nulls")
    lance.write_dataset(NULLS, folder / "nulls.lance")
    with serving(folder, folder / "server.log") as server, flight_client.connect(server.uri) as client:
        yield client.dataset("nulls")


@pytest.mark.parametrize("name", NULL_CONDITIONS)
def test_nulls_and_types_that_the_server_reads_differently(nulls: RemoteDataset, name: str) -> None:
    """Conditions that Arrow and SQL answer differently, or whose types the server lacks, are evaluated
    locally.
    """
    condition = NULL_CONDITIONS[name]
    assert nulls.to_table(filter=condition).to_pydict() == NULLS.filter(condition).to_pydict()


def test_row_ids_with_a_condition_that_is_evaluated_here(trips: RemoteDataset) -> None:
    condition = pc.utf8_length(FIELD("driver")) > 8
    found = trips.scanner(["id"], condition, with_row_id=True, with_row_address=True).to_table()
    assert found.schema.names == ["id", "_rowid", "_rowaddr"]
    assert (
        found["_rowid"].to_pylist()
        == trips.scanner(None, condition, with_row_id=True).to_table()["_rowid"].to_pylist()
    )
