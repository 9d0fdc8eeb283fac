"""Columns that clients upload: joined by key, and put in the place of others; the reference reads them."""

from __future__ import annotations

import base64
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyarrow import flight

from support.clients.actions import act, stage
from support.clients.puts import files_below, put

TABLE = pa.table({"n": pa.array(range(10), pa.int64()), "s": [f"row {i % 2}" for i in range(10)]})
JOIN: dict[str, Any] = {"dataset": "t", "mode": "add_columns", "on": ["n"]}
REPLACE: dict[str, Any] = {"dataset": "t", "mode": "replace_columns"}


@pytest.fixture
def client(empty_client: flight.FlightClient) -> flight.FlightClient:
    """Client of a server with only the dataset `t`: two fragments of five rows, and stable row ids."""
    command = {"dataset": "t", "mode": "create", "max_rows_per_file": 5, "enable_stable_row_ids": True}
    put(empty_client, command, TABLE)
    return empty_client


def column(served: Path, name: str) -> list[Any]:
    """Return the column as the reference reads it, in the order of `n`."""
    return lance.dataset(served / "t.lance").to_table().sort_by("n")[name].to_pylist()  # type: ignore[no-any-return]


def test_columns_are_joined_by_key(client: flight.FlightClient, served: Path) -> None:
    """Rows without a match get nulls, of equal keys the last row counts, and repeating it finds it done."""
    act(client, "delete", dataset="t", predicate="n = 4")
    rows = pa.table({"m": [1.5, 2.5, 3.5, 4.5], "n": [7, 2, 99, 7]})
    command = {**JOIN, "transaction_id": str(uuid.uuid4())}
    assert put(client, command, rows)["version"] == 3
    assert put(client, command, rows)["version"] == 3
    assert column(served, "m") == [None, None, 2.5, None, None, None, 4.5, None, None]
    keys = pa.table({"n": [0, 1, 3], "s": ["row 1", "row 1", "row 1"], "k": ["-", "one", "three"]})
    assert put(client, {**JOIN, "on": ["n", "s"]}, keys)["version"] == 4
    assert column(served, "k") == [None, "one", None, "three", *[None] * 5]


def test_columns_are_joined_by_row_id(client: flight.FlightClient, served: Path) -> None:
    """Values computed from rows are joined to these rows, although they have moved since; addresses are
    refused.
    """
    scan = flight.Ticket('{"scan": {"dataset": "t", "with_row_id": true, "with_row_address": true}}')
    read = client.do_get(scan).read_all()
    act(client, "delete", dataset="t", predicate="n < 3")
    act(client, "compact", dataset="t")
    rows = pa.table({"_rowid": read["_rowid"], "m": read["n"]})
    version = put(client, {**JOIN, "on": ["_rowid"]}, rows)["version"]
    assert column(served, "m") == list(range(3, 10))
    with pytest.raises(pa.ArrowInvalid, match="rows may have moved"):
        put(client, {**JOIN, "on": ["_rowaddr"]}, pa.table({"_rowaddr": read["_rowaddr"], "k": read["n"]}))
    put(client, {"dataset": "u", "mode": "create"}, TABLE)
    with pytest.raises(pa.ArrowInvalid, match="stable row ids"):
        put(client, {**JOIN, "dataset": "u", "on": ["_rowid"]}, rows)
    assert lance.dataset(served / "t.lance").version == version


def test_columns_of_many_uploads_are_joined(client: flight.FlightClient, served: Path) -> None:
    """T13: in one version, whatever was appended meanwhile; a receipt is good once."""
    receipts = [stage(client, pa.table({"n": [n, n + 5], "m": [n, n + 5]}), **JOIN) for n in range(5)]
    put(client, "t", TABLE.slice(0, 1))
    commit = {"dataset": "t", "operation": "add_columns", "staged": receipts}
    transaction_id = str(uuid.uuid4())
    assert act(client, "commit", **commit, transaction_id=transaction_id) == {"version": 3}
    assert act(client, "commit", **commit, transaction_id=transaction_id) == {"version": 3}
    assert column(served, "m") == [0, *range(10)]
    with pytest.raises(pa.ArrowInvalid, match="nothing is staged"):
        act(client, "commit", **commit)
    named = {
        file.path for each in lance.dataset(served / "t.lance").get_fragments() for file in each.data_files()
    }
    assert {path.name for path in (served / "t.lance" / "data").iterdir()} == named
    mixed = [
        stage(client, pa.table({"n": [1], "k": [1]}), **JOIN),
        stage(client, pa.table({"n": [1], "s": ["-"], "k": [1]}), **JOIN | {"on": ["n", "s"]}),
    ]
    with pytest.raises(pa.ArrowInvalid, match="different keys"):
        act(client, "commit", **commit | {"staged": mixed})
    assert act(client, "abort", dataset="t", staged=mixed) == {"removed": 2}


def test_columns_are_replaced(client: flight.FlightClient, served: Path) -> None:
    """By fragment, deleted rows included; repeating it finds it done."""
    act(client, "add_columns", dataset="t", columns={"m": "n * 2"})
    act(client, "delete", dataset="t", predicate="n = 6")
    command = {**REPLACE, "fragment_id": 1, "transaction_id": str(uuid.uuid4())}
    rows = pa.table({"m": pa.array(range(50, 55), pa.int64())})
    done = put(client, command, rows)
    assert (done["version"], done["rows"], done["fragments"]) == (4, 0, 0)
    assert done["bytes"] > 0
    assert put(client, command, rows) == done
    assert column(served, "m") == [0, 2, 4, 6, 8, 50, 52, 53, 54]
    with pytest.raises(pa.ArrowInvalid, match="used before"):
        put(client, {**JOIN, "transaction_id": command["transaction_id"]}, pa.table({"n": [1], "k": [1]}))
    changes = act(client, "changes", dataset="t", from_version=3, to_version=4)
    changed = {}
    for kind in ("inserted", "updated", "deleted"):
        tickets = [flight.Ticket(base64.b64decode(each["ticket"])) for each in changes[kind]]
        changed[kind] = [n for ticket in tickets for n in client.do_get(ticket).read_all()["n"].to_pylist()]
    assert changed == {"inserted": [], "updated": [5, 7, 8, 9], "deleted": []}
    act(client, "validate", dataset="t")


def test_columns_of_many_fragments_are_replaced_in_one_version(
    client: flight.FlightClient, served: Path
) -> None:
    """T13, T44: staged at the same time, committed once; columns of nulls are filled so, too."""
    act(client, "update_config", dataset="t", config={"a": "b"})
    act(client, "add_columns", dataset="t", columns={"m": "cast(null as string)"})

    def stage_one(number: int) -> str:
        part = pa.table({"m": [f"{number}-{n}" for n in range(5)]})
        return stage(client, part, **REPLACE, fragment_id=number)

    with ThreadPoolExecutor(2) as pool:
        receipts = list(pool.map(stage_one, (0, 1)))
    assert column(served, "m") == [None] * 10
    commit = {
        "dataset": "t",
        "operation": "replace_columns",
        "staged": receipts,
        "transaction_id": str(uuid.uuid4()),
    }
    assert act(client, "commit", **commit) == {"version": 4}
    assert act(client, "commit", **commit) == {"version": 4}
    assert column(served, "m") == [f"{number}-{n}" for number in (0, 1) for n in range(5)]
    twice = [stage_one(0), stage_one(0)]
    other = stage(client, TABLE.slice(5), **REPLACE, fragment_id=1)
    commit.pop("transaction_id")
    for staged, message in ((twice, "replaced twice"), ([twice[0], other], "different columns")):
        with pytest.raises(pa.ArrowInvalid, match=message):
            act(client, "commit", **commit | {"staged": staged})
    with pytest.raises(pa.ArrowInvalid, match="does not belong to this operation"):
        act(client, "commit", **commit | {"staged": twice, "operation": "add_columns"})
    assert act(client, "commit", **commit | {"staged": twice[:1]}) == {"version": 5}


@pytest.mark.parametrize("mode", ["replace_columns", "add_columns"])
@pytest.mark.parametrize("is_staged", [False, True])
def test_rows_that_moved_since_are_a_conflict(
    client: flight.FlightClient, served: Path, is_staged: bool, mode: str
) -> None:
    """T37: an update between an upload and its commit; or between a reading and its commit, which says so."""
    act(client, "add_columns", dataset="t", columns={"m": "n"})
    rows = pa.table({"m" if mode == "replace_columns" else "k": pa.array(range(50, 55), pa.int64())})
    command = {"dataset": "t", "mode": mode, "fragment_id": 1}
    update = {"dataset": "t", "updates": {"m": "-1"}, "where": "n = 7"}
    commit = {"dataset": "t", "operation": mode, "read_version": 2}
    if is_staged:
        receipt = stage(client, rows, **command)
        act(client, "update", **update)
    else:
        act(client, "update", **update)
        receipt = stage(client, rows, **command)
    with pytest.raises(flight.FlightServerError, match=r"\[CommitConflictError\]"):
        act(client, "commit", **commit, staged=[receipt])
    assert column(served, "m") == [*range(7), -1, 8, 9]
    assert act(client, "abort", dataset="t", staged=[receipt]) == {"removed": 1}


def test_what_is_refused_leaves_no_files(client: flight.FlightClient, served: Path) -> None:
    before = files_below(served)
    one = pa.table({"n": [1], "m": [1]})
    required = pa.schema([("n", pa.int64()), pa.field("m", pa.int64(), nullable=False)])
    refused: list[tuple[dict[str, Any], pa.Table, str]] = [
        ({**JOIN, "on": ["zz"]}, one, "zz"),
        ({**JOIN, "on": []}, one, "one or more key columns"),
        ({**JOIN, "fragment_id": 1}, one, "no fragment_id"),
        (JOIN, one.select(["n"]), "no column besides its keys"),
        (JOIN, pa.table({"n": [1], "s": ["x"]}), "exists"),
        (JOIN, pa.table({"n": ["1"], "m": [1]}), "different types"),
        (JOIN, pa.table({"n": [1], "m": [1]}, required), "allows none"),
        (REPLACE, one, "needs a fragment_id"),
        ({**REPLACE, "fragment_id": 1, "on": ["n"]}, one, "on is not allowed with mode replace_columns"),
        ({**REPLACE, "fragment_id": 7}, one.select(["n"]), "no such fragment"),
        ({**REPLACE, "fragment_id": 1}, one.select(["n"]), "together with all others"),
        ({**REPLACE, "fragment_id": 1}, TABLE.slice(0, 4), "fewer rows"),
        ({**REPLACE, "fragment_id": 1}, TABLE, "more rows"),
    ]  # fmt: skip
    for command, rows, message in refused:
        with pytest.raises(pa.ArrowInvalid, match=message):
            put(client, command, rows)
    with pytest.raises(KeyError, match="no dataset is named"):
        put(client, {**REPLACE, "dataset": "missing", "fragment_id": 0}, TABLE)
    assert files_below(served) == before
