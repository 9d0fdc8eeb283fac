"""Actions that change datasets, as clients call them; the reference says what became of the data."""

from __future__ import annotations

import base64
import json
import uuid
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyarrow import flight

from flight_server.handlers.actions import ACTIONS
from support.clients.actions import act, stage
from support.clients.puts import put

TABLE = pa.table({"n": pa.array(range(10), pa.int64()), "s": [f"row {i}" for i in range(10)]})


@pytest.fixture
def client(empty_client: flight.FlightClient) -> flight.FlightClient:
    """Client of a server with only the dataset `t`: two fragments of five rows, and stable row ids."""
    command = {"dataset": "t", "mode": "create", "max_rows_per_file": 5, "enable_stable_row_ids": True}
    put(empty_client, command, TABLE)
    return empty_client


@pytest.fixture
def reference(client: flight.FlightClient, served: Path) -> lance.LanceDataset:
    return lance.dataset(served / "t.lance")


def latest(dataset: lance.LanceDataset) -> lance.LanceDataset:
    return lance.dataset(dataset.uri)


def test_delete_and_update(client: flight.FlightClient, reference: lance.LanceDataset) -> None:
    assert act(client, "delete", dataset="t", predicate="n % 3 = 0") == {"version": 2, "rows": 4}
    updates = {"s": "concat('new ', s)", "n": "n + 100"}
    assert act(client, "update", dataset="t", updates=updates, where="n > 7") == {"version": 3, "rows": 1}
    rows = latest(reference).to_table().sort_by("n").to_pydict()
    assert rows == {"n": [1, 2, 4, 5, 7, 108], "s": [*(f"row {i}" for i in (1, 2, 4, 5, 7)), "new row 8"]}
    assert act(client, "update", dataset="t", updates={"s": "'x'"}) == {"version": 4, "rows": 6}


def test_columns(client: flight.FlightClient, reference: lance.LanceDataset) -> None:
    assert act(client, "add_columns", dataset="t", columns={"twice": "n * 2"}) == {"version": 2}
    schema = base64.b64encode(pa.schema([("later", pa.float32())]).serialize()).decode()
    assert act(client, "add_columns", dataset="t", schema=schema) == {"version": 3}
    alterations = [{"path": "twice", "name": "double"}]
    assert act(client, "alter_columns", dataset="t", columns=alterations) == {"version": 4}
    alterations = [{"path": "double", "data_type": "int"}]
    assert act(client, "alter_columns", dataset="t", columns=alterations) == {"version": 5}
    assert act(client, "drop_columns", dataset="t", columns=["s"]) == {"version": 6}
    alterations = [{"path": "n", "nullable": False}]
    assert act(client, "alter_columns", dataset="t", columns=alterations) == {"version": 7}
    with pytest.raises(pa.ArrowInvalid, match="later"):
        act(client, "alter_columns", dataset="t", columns=[{"path": "later", "nullable": False}])
    after = latest(reference).to_table()
    n = pa.field("n", pa.int64(), nullable=False)
    assert after.schema == pa.schema([n, ("double", pa.int32()), ("later", pa.float32())])
    assert after["double"].to_pylist() == list(range(0, 20, 2))


def test_compaction_at_once(client: flight.FlightClient, reference: lance.LanceDataset) -> None:
    done = act(client, "compact", dataset="t", options={"target_rows_per_fragment": 100})
    assert (done["fragments_removed"], done["fragments_added"]) == (2, 1)
    assert latest(reference).to_table() == TABLE
    assert len(latest(reference).get_fragments()) == 1
    again = act(client, "compact", dataset="t", options={"target_rows_per_fragment": 100})
    coverage = {"index_coverage": [], "lost_coverage": []}
    counts = dict.fromkeys(again.keys() - {"version", *coverage}, 0)
    assert again == {"version": done["version"], **coverage, **counts}


def test_compaction_in_steps(client: flight.FlightClient, reference: lance.LanceDataset) -> None:
    """T44: tasks run anywhere; only their receipts are committed, once."""
    for _ in range(2):
        put(client, "t", TABLE)
    options = {"target_rows_per_fragment": 20}
    plan = act(client, "compact_plan", dataset="t", options=options)
    assert (plan["read_version"], len(plan["tasks"])) == (3, 1)
    (task,) = plan["tasks"]
    done = [act(client, "compact_execute", dataset="t", task=task) for _ in range(2)]
    assert latest(reference).version == 3
    commit = {"dataset": "t", "receipts": [done[0]["receipt"]], "transaction_id": str(uuid.uuid4())}
    committed = act(client, "compact_commit", **commit)
    assert act(client, "compact_commit", **commit) == committed
    with pytest.raises(flight.FlightServerError, match="CommitConflictError"):
        act(client, "compact_commit", dataset="t", receipts=[done[1]["receipt"]])
    assert act(client, "abort", dataset="t", staged=[done[1]["receipt"]]) == {"removed": 1}
    assert latest(reference).to_table() == pa.concat_tables([TABLE] * 3)
    assert len(latest(reference).get_fragments()) == done[0]["fragments_added"] == 1


def test_a_forged_task(client: flight.FlightClient, reference: lance.LanceDataset) -> None:
    """T13: fragments that the dataset does not have are not read."""
    (task,) = act(client, "compact_plan", dataset="t", options={"target_rows_per_fragment": 20})["tasks"]
    parts = json.loads(task)
    for forged in (
        {**parts, "fragments": [base64.b64encode(b"\x08\x07").decode()]},
        {**parts, "read_version": 9},
        {**parts, "options": {**parts["options"], "num_threads": "many"}},
        [],
        {},
    ):
        with pytest.raises((pa.ArrowInvalid, flight.FlightServerError, KeyError)):
            act(client, "compact_execute", dataset="t", task=json.dumps(forged))
    doubled = json.dumps({**parts, "fragments": parts["fragments"][:1] * 2})
    with pytest.raises(pa.ArrowInvalid):
        execute_and_commit(client, doubled)
    assert latest(reference).version == 1


def execute_and_commit(client: flight.FlightClient, task: str) -> None:
    receipt = act(client, "compact_execute", dataset="t", task=task)["receipt"]
    act(client, "compact_commit", dataset="t", receipts=[receipt])


def test_versions(client: flight.FlightClient, reference: lance.LanceDataset) -> None:
    put(client, {"dataset": "t", "mode": "overwrite"}, TABLE.slice(0, 2))
    listed = act(client, "list_versions", dataset="t")["versions"]
    theirs = latest(reference).versions()
    assert [each["version"] for each in listed] == [1, 2]
    assert [each["metadata"] for each in listed] == [each["metadata"] for each in theirs]
    assert act(client, "list_versions", dataset="t", limit=1)["versions"] == listed[1:]
    assert act(client, "restore", dataset="t", version=1) == {"version": 3}
    assert latest(reference).to_table() == TABLE
    with pytest.raises(KeyError, match="version 9"):
        act(client, "restore", dataset="t", version=9)


def test_what_versions_did_to_rows(client: flight.FlightClient, reference: lance.LanceDataset) -> None:
    """T44: a stream of changes learns which versions have rows for it, and which remove rows."""
    put(client, {"dataset": "t"}, TABLE.slice(0, 2))
    act(client, "delete", dataset="t", predicate="n < 2")
    act(client, "compact", dataset="t")
    act(client, "add_columns", dataset="t", columns={"twice": "n * 2"})
    act(client, "drop_columns", dataset="t", columns=["twice"])
    act(client, "update", dataset="t", updates={"n": "n + 1"}, where="n = 5")
    merge = {"dataset": "t", "mode": "merge_insert", "on": ["n"], "when_not_matched": "insert_all"}
    put(client, merge, pa.table({"n": [999], "s": ["new"]}))
    put(client, {"dataset": "t", "mode": "overwrite"}, TABLE.slice(0, 2))
    listed = act(client, "list_versions", dataset="t", from_version=1, rows=True)["versions"]
    assert "rows" not in listed[0]  # nobody knows without the version before
    effects = [each["rows"] for each in listed[1:]]
    same = ["same"] * (len(listed) - 6)  # a compaction makes one or two versions
    assert effects == ["added", "changed", *same, "changed", "added", "replaced"]
    assert [rows for _, rows in listed[1]["new_fragments"]] == [2]
    assert [rows for _, rows in listed[-1]["new_fragments"]] == [2]
    assert len({each["identity"] for each in listed}) == len(listed)
    some = act(client, "list_versions", dataset="t", from_version=2, to_version=3)["versions"]
    assert [each["version"] for each in some] == [2, 3]
    act(client, "restore", dataset="t", version=2)
    assert act(client, "list_versions", dataset="t", limit=2, rows=True)["versions"][1]["rows"] == "changed"


def test_cleanup(client: flight.FlightClient, reference: lance.LanceDataset) -> None:
    put(client, {"dataset": "t", "mode": "overwrite"}, TABLE.slice(0, 2))
    clean = {"dataset": "t", "older_than_seconds": 0}
    would = act(client, "cleanup", **clean, dry_run=True)
    assert latest(reference).versions()[0]["version"] == 1
    assert sum(path.startswith("data/") for path in would.pop("files")) == 2
    assert would.pop("files_truncated") is False
    assert act(client, "cleanup", **clean) == would
    assert would["old_versions"] == 1
    assert [each["version"] for each in latest(reference).versions()] == [2]
    assert latest(reference).to_table() == TABLE.slice(0, 2)
    assert act(client, "cleanup", dataset="t")["old_versions"] == 0


def test_cleanup_spares_what_is_staged(client: flight.FlightClient, reference: lance.LanceDataset) -> None:
    """T41"""
    receipt = stage(client, TABLE, dataset="t")
    with pytest.raises(pa.ArrowInvalid, match="staged writes"):
        act(client, "cleanup", dataset="t", delete_unverified=True)
    act(client, "cleanup", dataset="t", older_than_seconds=0)
    assert act(client, "commit", dataset="t", operation="append", staged=[receipt]) == {"version": 2}
    assert latest(reference).count_rows() == 20


def test_tags(client: flight.FlightClient, reference: lance.LanceDataset) -> None:
    put(client, "t", TABLE)
    assert act(client, "create_tag", dataset="t", tag="gold", version=1) == {"version": 1}
    assert act(client, "create_tag", dataset="t", tag="gold", version=1) == {"version": 1}
    with pytest.raises(flight.FlightServerError, match="RefConflictError"):
        act(client, "create_tag", dataset="t", tag="gold")
    assert act(client, "create_tag", dataset="t@1", tag="silver") == {"version": 1}
    assert act(client, "update_tag", dataset="t", tag="silver") == {"version": 2}
    tags = act(client, "list_tags", dataset="t")["tags"]
    assert {name: tag["version"] for name, tag in tags.items()} == {"gold": 1, "silver": 2}
    assert {name: tag["version"] for name, tag in reference.tags.list().items()} == {"gold": 1, "silver": 2}
    assert act(client, "delete_tag", dataset="t", tag="gold") == {"version": 1}
    assert list(reference.tags.list()) == ["silver"]
    with pytest.raises(KeyError, match="gold"):
        act(client, "delete_tag", dataset="t", tag="gold")


def test_branches(client: flight.FlightClient, reference: lance.LanceDataset) -> None:
    put(client, "t", TABLE)
    assert act(client, "create_branch", dataset="t", branch="dev", version=1) == {"version": 1}
    assert act(client, "create_branch", dataset="t@dev", branch="dev2") == {"version": 1}
    branches = act(client, "list_branches", dataset="t")["branches"]
    assert {name: branch["parent_version"] for name, branch in branches.items()} == {"dev": 1, "dev2": 1}
    assert act(client, "delete", dataset="t", branch="dev", predicate="n < 5") == {"version": 2, "rows": 5}
    receipt = stage(client, TABLE, dataset="t@dev")
    commit = {"operation": "append", "staged": [receipt]}
    with pytest.raises(pa.ArrowInvalid, match="expected main, found dev"):
        act(client, "commit", dataset="t", **commit)
    assert act(client, "commit", dataset="t@dev", **commit) == {"version": 3}
    assert reference.checkout_version(("dev", None)).count_rows() == 15
    assert latest(reference).count_rows() == 20
    with pytest.raises(flight.FlightServerError, match="RefConflictError"):
        act(client, "delete_branch", dataset="t", branch="dev")
    assert act(client, "delete_branch", dataset="t", branch="dev2") == {"version": 2}
    assert act(client, "delete_branch", dataset="t", branch="dev") == {"version": 2}
    assert reference.branches.list() == {}


def test_config(client: flight.FlightClient, reference: lance.LanceDataset) -> None:
    changes = {
        "config": {"a": "1", "b": "2"},
        "table_metadata": {"owner": "ann"},
        "schema_metadata": {"unit": "m"},
        "field_metadata": {"n": {"k": "v"}},
    }
    assert act(client, "update_config", dataset="t", **changes) == {"version": 2}
    assert act(client, "update_config", dataset="t", config={"a": None}) == {"version": 3}
    assert act(client, "get_config", dataset="t") == {
        "version": 3,
        "config": {"b": "2"},
        "table_metadata": {"owner": "ann"},
        "schema_metadata": {"unit": "m"},
    }
    assert latest(reference).config() == {"b": "2"}
    assert latest(reference).schema.field("n").metadata == {b"k": b"v"}
    assert act(client, "get_config", dataset="t@1")["config"] == {}


def test_merge_insert(client: flight.FlightClient, reference: lance.LanceDataset) -> None:
    new = pa.table({"n": pa.array([8, 9, 10], pa.int64()), "s": ["x", "y", "z"]})
    merge = {
        "dataset": "t", "mode": "merge_insert", "on": ["n"], "when_matched": "update_all",
        "when_not_matched": "insert_all",
    }  # fmt: skip
    transaction_id = str(uuid.uuid4())
    done = put(client, {**merge, "transaction_id": transaction_id}, new)
    assert done["version"] == 2
    assert (done["num_updated_rows"], done["num_inserted_rows"], done["rows"]) == (2, 1, 3)
    assert done.keys() == {
        "version", "rows", "bytes", "fragments", "num_inserted_rows", "num_updated_rows", "num_deleted_rows",
    }  # fmt: skip
    assert put(client, {**merge, "transaction_id": transaction_id}, new) == done
    expected = {"n": list(range(11)), "s": [*(f"row {i}" for i in range(8)), "x", "y", "z"]}
    assert latest(reference).to_table().sort_by("n").to_pydict() == expected
    receipts = [stage(client, pa.table({"n": [n], "s": ["staged"]}), **merge) for n in (0, 11)]
    assert latest(reference).version == 2
    commit = {"dataset": "t", "operation": "merge_insert", "staged": receipts}
    assert act(client, "commit", **commit) == {"version": 3}
    expected = {"n": list(range(12)), "s": ["staged", *expected["s"][1:], "staged"]}
    assert latest(reference).to_table().sort_by("n").to_pydict() == expected
    with pytest.raises(pa.ArrowInvalid, match="nothing is staged"):
        act(client, "commit", **commit)
    other = stage(client, new, **merge | {"when_matched": "do_nothing"})
    receipts = [stage(client, new, **merge), other]
    with pytest.raises(pa.ArrowInvalid, match="different merges"):
        act(client, "commit", **commit | {"staged": receipts})
    with pytest.raises(pa.ArrowInvalid, match="not configured to change"):
        put(client, {"dataset": "t", "mode": "merge_insert", "on": ["n"]}, new)
    with pytest.raises(KeyError, match="no dataset is named"):
        put(client, {**merge, "dataset": "missing"}, new)


def test_add_columns_by_upload(client: flight.FlightClient, reference: lance.LanceDataset) -> None:
    """Rows of one fragment have places for those that were deleted; those of the dataset do not."""
    act(client, "delete", dataset="t", predicate="n = 1")
    everything = pa.table({"x": [10 * n for n in range(10) if n != 1]})
    assert put(client, {"dataset": "t", "mode": "add_columns"}, everything)["version"] == 3
    parts = [pa.table({"y": [n + 0.5 for n in range(start, start + 5)]}) for start in (0, 5)]
    add = {"dataset": "t", "mode": "add_columns"}
    receipts = [stage(client, part, **add, fragment_id=number) for number, part in enumerate(parts)]
    assert act(client, "commit", dataset="t", operation="add_columns", staged=receipts) == {"version": 4}
    one = pa.table({"z": ["a"] * 5})
    assert put(client, {**add, "fragment_id": 1}, one)["version"] == 5
    rows = latest(reference).to_table().to_pydict()
    left = [n for n in range(10) if n != 1]
    assert rows["x"] == [10 * n for n in left]
    assert rows["y"] == [n + 0.5 for n in left]
    assert rows["z"] == [None] * 4 + ["a"] * 5
    with pytest.raises(pa.ArrowInvalid, match="fewer rows"):
        put(client, {**add, "fragment_id": 1}, pa.table({"w": [1]}))
    with pytest.raises(pa.ArrowInvalid, match="need a fragment_id"):
        stage(client, everything, **add)
    assert latest(reference).version == 5


def test_changes(client: flight.FlightClient, reference: lance.LanceDataset) -> None:
    put(client, "t", pa.table({"n": pa.array([10, 11], pa.int64()), "s": ["a", "b"]}))
    act(client, "update", dataset="t", updates={"s": "'new'"}, where="n = 3")
    act(client, "delete", dataset="t", predicate="n = 2 or n between 5 and 9")
    changes = act(client, "changes", dataset="t", from_version=1, to_version=4)

    def read(kind: str) -> dict[str, list[Any]]:
        tickets = [base64.b64decode(each["ticket"]) for each in changes[kind]]
        tables = [client.do_get(flight.Ticket(ticket)).read_all() for ticket in tickets]
        return pa.concat_tables(tables).sort_by("n").to_pydict()

    assert read("inserted")["n"] == [10, 11]
    assert (read("updated")["n"], read("updated")["s"]) == ([3], ["new"])
    gone = [2, 5, 6, 7, 8, 9]
    deleted = read("deleted")
    assert deleted["n"] == gone
    assert deleted["s"] == [f"row {n}" for n in gone]
    delta = latest(reference).delta(begin_version=1, end_version=4)
    theirs = pa.Table.from_batches(delta.get_inserted_rows(), delta.get_inserted_rows().schema)
    assert theirs["_rowid"].to_pylist() == read("inserted")["_rowid"]
    nothing = act(client, "changes", dataset="t", from_version=4, to_version=4)
    assert (nothing["inserted"], nothing["updated"], nothing["deleted"]) == ([], [], [])
    with pytest.raises(pa.ArrowInvalid, match="older version to a newer"):
        act(client, "changes", dataset="t", from_version=4, to_version=1)


MUTATIONS: dict[str, dict[str, Any]] = {
    "delete": {"predicate": "n = 1"},
    "update": {"updates": {"s": "'x'"}},
    "add_columns": {"columns": {"twice": "n * 2"}},
    "drop_columns": {"columns": ["s"]},
    "alter_columns": {"columns": [{"path": "s", "name": "text"}]},
    "compact": {"options": {"target_rows_per_fragment": 100}},
    "restore": {"version": 1},
    "update_config": {"config": {"a": "1"}},
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_repeated_mutation(client: flight.FlightClient, reference: lance.LanceDataset, name: str) -> None:
    """T38: repeating the transaction id gives the first answer, also after other commits."""
    put(client, "t", TABLE)
    body = {"dataset": "t", "transaction_id": str(uuid.uuid4()), **MUTATIONS[name]}
    first = act(client, name, **body)
    act(client, "update_config", dataset="t", config={"other": "1"})
    assert act(client, name, **body)["version"] == first["version"]
    made = latest(reference).checkout_version(first["version"])
    assert made.read_transaction(first["version"]).uuid == body["transaction_id"]
    assert latest(reference).version == first["version"] + 1


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_under_the_id_of_an_upload(client: flight.FlightClient, name: str) -> None:
    """T38: the mutation is refused: the answer of the upload would claim that the mutation is done."""
    used = str(uuid.uuid4())
    put(client, "t", TABLE)
    made = put(client, {"dataset": "t", "mode": "append", "transaction_id": used}, TABLE)["version"]
    with pytest.raises(pa.ArrowInvalid, match="used before"):
        act(client, name, dataset="t", transaction_id=used, **MUTATIONS[name])
    assert act(client, "find_transaction", dataset="t", transaction_id=used)["version"] == made
    assert act(client, "describe", dataset="t")["version"] == made


@pytest.mark.parametrize("name", sorted(ACTIONS.keys() - {"health"}))
def test_hostile_bodies(client: flight.FlightClient, served: Path, name: str) -> None:
    """T7, T19: refused by the name of what is wrong, and nothing changes."""
    bodies: list[bytes] = [
        b"", b"[]", b"{", b'{"dataset": "t", "dataset": "t"}', b'{"dataset": "../t"}', b'{"dataset": 7}',
        b'{"dataset": "t", "surprise": 1}', b'{"dataset": NaN}', b'{"dataset": "t", "branch": "../x"}',
        b'{"dataset": "t", "tag": "../x"}', b'{"dataset": "t", "version": -1}',
        b'{"dataset": "t", "transaction_id": "x"}', b'{"x":' * 40 + b"1" + b"}" * 40,
        b'{"dataset": "t", "branch": "' + b"x" * (1 << 20) + b'"}',
    ]  # fmt: skip
    for body in bodies:
        with pytest.raises((pa.ArrowInvalid, KeyError)) as raised:
            list(client.do_action(flight.Action(name, body)))
        assert "Traceback" not in str(raised.value)
        assert str(served) not in str(raised.value)
    assert lance.dataset(served / "t.lance").version == 1


@pytest.mark.parametrize("threshold", ["1" + "0" * 400, "1e400", "-1e999", "true", '"0.1"', "null"])
def test_a_number_that_is_none(
    client: flight.FlightClient, reference: lance.LanceDataset, threshold: str
) -> None:
    """T19: JSON can write numbers that no float holds."""
    body = f'{{"dataset": "t", "options": {{"materialize_deletions_threshold": {threshold}}}}}'
    with pytest.raises(pa.ArrowInvalid, match="materialize_deletions_threshold: expected a number"):
        list(client.do_action(flight.Action("compact", body.encode())))


def test_every_action_is_on_the_page_of_the_protocol() -> None:
    page = (Path(__file__).parents[4] / "docs" / "flight-protocol.md").read_text(encoding="utf-8")
    assert [name for name in ACTIONS if f"`{name}`" not in page] == []


def test_every_action_is_described(client: flight.FlightClient) -> None:
    described = {action.type: action.description for action in client.list_actions()}
    assert described.keys() == ACTIONS.keys()
    assert all(" -> {" in text for text in described.values())
