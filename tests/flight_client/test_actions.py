"""Every action as a method, against a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import flight_client
import lance_core.errors
from flight_client import Client

ROWS = pa.table({"id": pa.array(range(10)), "name": [f"n{number}" for number in range(10)]})


@pytest.fixture
def client(writer: Client) -> Client:
    writer.write("t", ROWS, "create", enable_stable_row_ids=True, max_rows_per_file=4)
    return writer


def ids(client: Client, name: str = "t") -> list[int]:
    return sorted(client.dataset(name).to_table(["id"])["id"].to_pylist())


def test_rows(client: Client) -> None:
    transaction_id = str(uuid4())
    deleted = client.delete("t", "id < 2", transaction_id=transaction_id)
    assert deleted == {"version": 2, "rows": 2}
    assert client.delete("t", "id < 2", transaction_id=transaction_id) == deleted
    assert client.update("t", {"name": "upper(name)"}, "id = 5") == {"version": 3, "rows": 1}
    assert client.dataset("t").to_table(filter="id = 5")["name"].to_pylist() == ["N5"]
    source = {"id": [5, 77], "name": ["five", "new"]}
    merged = client.merge_insert("t", source, "id", when_matched="update_all", when_not_matched="insert_all")
    assert (merged.version, merged.num_updated_rows, merged.num_inserted_rows) == (4, 1, 1)
    assert ids(client) == [*range(2, 10), 77]
    changes = client.changes("t", 1, 4)
    assert [row for batch in changes.inserted() for row in batch["id"].to_pylist()] == [77]
    assert [row for batch in changes.updated() for row in batch["name"].to_pylist()] == ["five"]
    assert [row for batch in changes.deleted() for row in batch["id"].to_pylist()] == [0, 1]
    assert "inserted=" in repr(changes)
    assert client.count_rows("t", "id > 70") == 1


def test_columns(client: Client) -> None:
    assert client.add_columns("t", {"twice": "id * 2"}) == 2
    assert client.add_columns("t", pa.schema([("empty", pa.string())])) == 3
    assert client.alter_columns("t", {"path": "twice", "name": "double"}) == 4
    table = client.dataset("t").to_table()
    assert table["double"].to_pylist() == [2 * number for number in range(10)]
    assert table["empty"].null_count == 10
    assert client.drop_columns("t", "empty") == 5
    assert client.drop_columns("t", ["double"]) == 6
    assert client.dataset("t").schema.names == ["id", "name"]
    with pytest.raises(flight_client.InvalidInputError, match="nothing"):
        client.drop_columns("t", ["nothing"])


def test_types_of_columns(client: Client) -> None:
    """By types of Arrow, whether SQL has a name for them or not, and by the names of a CAST."""
    lists = pa.array([[number] for number in range(10)], pa.list_(pa.int64()))
    client.write("l", pa.table({"id": range(10), "l": lists}), "create")
    client.alter_columns("l", {"path": "id", "data_type": pa.int16()})
    client.alter_columns("l", {"path": "l", "data_type": pa.large_list(pa.int8()), "name": None})
    assert client.dataset("l").schema.types == [pa.int16(), pa.large_list(pa.int8())]
    client.alter_columns("l", {"path": "id", "data_type": "int"}, {"path": "l", "name": "list"})
    assert client.dataset("l").schema.field("id").type == pa.int32()
    assert client.dataset("l").to_table()["list"].to_pylist() == lists.to_pylist()

    vector = pa.list_(pa.float32(), 3)
    for columns in (
        {"a": vector, "b": pa.timestamp("ns", "UTC")},
        pa.field("c", pa.decimal128(9, 2)),
        [pa.field("d", pa.string())],
    ):
        client.add_columns("l", columns)
    added = client.dataset("l").schema.types[2:]
    assert added == [vector, pa.timestamp("ns", "UTC"), pa.decimal128(9, 2), pa.string()]


@pytest.mark.parametrize(
    ("alterations", "message"),
    [
        ([[{"path": "id", "name": "n"}]], "one argument each.*found list"),
        (["id"], "one argument each.*found str"),
        ([{"path": "id", "data_type": "no type"}], "type"),
        ([{"path": "id", "data_type": pa.list_(pa.int8())}], "id"),
        ([{"path": "id", "schema": "AAAA"}], "expected a schema"),
        ([{"path": "id"}], "without a change"),
        ([{"name": "n"}], "path"),
        ([{"path": "id", "nullable": "no"}], "nullable"),
        ([{"path": "id", "type": "int"}], "type"),
    ],
)
def test_alterations_that_make_no_sense(client: Client, alterations: list[Any], message: str) -> None:
    with pytest.raises(flight_client.InvalidInputError, match=message):
        client.alter_columns("t", *alterations)


@pytest.mark.parametrize(
    "columns", [{"a": 1}, {"a": pa.int8(), "b": "id"}, ["a"], [], pa.int8(), "a"], ids=str
)
def test_new_columns_that_make_no_sense(client: Client, columns: Any) -> None:
    with pytest.raises(
        flight_client.InvalidInputError, match=r"columns: expected SQL by name, or types by name"
    ):
        client.add_columns("t", columns)


def test_versions_tags_and_branches(client: Client) -> None:
    client.delete("t", "id < 5")
    assert client.create_tag("t", "first", 1) == 1
    assert client.tags("t")["first"]["version"] == 1
    assert client.update_tag("t", "first", 2) == 2
    assert client.dataset("t", "first").count_rows() == 5
    client.delete_tag("t", "first")
    assert client.tags("t") == {}
    client.create_branch("t", "dev", 1)
    assert list(client.branches("t")) == ["dev"]
    client.delete("t@dev", "id > 0")
    assert ids(client, "t@dev") == [0]
    assert client.dataset("t", branch="dev").to_table() == client.dataset("t@dev").to_table()
    assert client.dataset("t", branch="dev").take([0])["id"].to_pylist() == [0]
    assert ids(client) == list(range(5, 10))
    client.delete_branch("t", "dev")
    assert client.restore("t", 1) == 3
    assert ids(client) == list(range(10))
    assert [each["version"] for each in client.versions("t")] == [1, 2, 3]
    assert len(client.versions("t", limit=1)) == 1
    assert client.cleanup("t", older_than_seconds=0, dry_run=True)["old_versions"] == 2
    assert client.cleanup("t", older_than_seconds=0)["old_versions"] == 2
    assert [each["version"] for each in client.versions("t")] == [3]


def test_a_transaction_is_found_by_its_id(client: Client) -> None:
    """T38: a client that lost the answer to a commit can ask for it."""
    transaction_id = str(uuid4())
    assert client.find_transaction("t", transaction_id) is None
    assert client.find_transaction("nothing", transaction_id) is None
    written = client.write("t", ROWS, transaction_id=transaction_id)
    client.delete("t", "id = 3")
    assert client.find_transaction("t", transaction_id) == written
    client.create_branch("t", "dev", 1)
    assert client.find_transaction("t@dev", transaction_id) is None


def test_fragments(client: Client) -> None:
    client.delete("t", "id IN (2, 3, 8, 9)")
    found = client.fragments("t")
    assert [(each["id"], each["rows"], each["physical_rows"]) for each in found] == [(0, 2, 4), (1, 4, 4)]
    assert all(each["bytes"] > 0 for each in found)
    assert len(client.fragments("t", version=1)) == 3


def test_settings(client: Client) -> None:
    client.update_config("t", config={"a": "b"}, table_metadata={"owner": "me"})
    assert client.config("t")["config"]["a"] == "b"
    client.update_config("t", config={"a": None})
    assert "a" not in client.config("t")["config"]
    assert client.describe("t")["metadata"] == {"owner": "me"}
    assert client.health()["status"] == "ok"


def test_compaction(client: Client) -> None:
    assert client.describe("t")["fragments"] == 3
    done = client.compact("t")
    assert (done["fragments_removed"], done["fragments_added"]) == (3, 1)
    client.write("t", ROWS, max_rows_per_file=3)
    options = {"target_rows_per_fragment": 100}
    receipts = [client.compact_execute("t", task) for task in client.compact_plan("t", options)]
    assert client.compact_commit("t", receipts) == {
        "version": client.dataset("t").version,
        "index_coverage": [],
        "lost_coverage": [],
    }
    assert client.describe("t")["fragments"] == 1
    assert ids(client) == sorted([*range(10), *range(10)])


def test_datasets(client: Client) -> None:
    assert client.create_dataset("ns/empty", ROWS.schema) == 1
    assert client.datasets().names == ["ns/empty", "t"]
    client.drop_dataset("ns/empty")
    assert client.datasets().names == ["t"]


def test_a_listing_shows_the_first_columns_of_a_wide_dataset(client: Client) -> None:
    client.create_dataset("wide", pa.schema([(f"c{number}", pa.int8()) for number in range(2000)]))
    for shown in (repr(client.datasets()), client.datasets()._repr_html_()):
        assert "c0, c1, " in shown
        assert "c19, ... 1,980 more columns" in shown


def test_clones(client: Client) -> None:
    client.delete("t", "id < 5")
    client.create_tag("t", "all", 1)
    transaction_id = str(uuid4())
    for _ in range(2):
        made = client.shallow_clone("t", "ns/clone", "all", transaction_id=transaction_id)
        assert made == {"dataset": "ns/clone", "version": 1}
    client.delete("ns/clone", "id > 7")
    assert ids(client, "ns/clone") == list(range(8))
    assert ids(client) == list(range(5, 10))
    assert client.shallow_clone("t", "latest")["version"] == client.dataset("t").version
    assert ids(client, "latest") == ids(client)
    client.create_branch("t", "dev", 1)
    client.delete("t@dev", "id > 0")
    client.shallow_clone("t@dev", "of-branch")
    assert ids(client, "of-branch") == [0]
    with pytest.raises(flight_client.DatasetExistsError, match="latest"):
        client.shallow_clone("t", "latest", 1)
    with pytest.raises(flight_client.DatasetNotFoundError, match="nothing"):
        client.shallow_clone("nothing", "other")
    with pytest.raises(flight_client.DatasetNotFoundError):
        client.shallow_clone("t", "other", 77)
    with pytest.raises(flight_client.InvalidInputError, match="branch"):
        client.shallow_clone("t", "latest@dev")
    with pytest.raises(flight_client.InvalidInputError, match="elsewhere"):
        client.shallow_clone("t", "../elsewhere")
    assert "other" not in client.datasets().names


def test_validation(client: Client, written: Path) -> None:
    """T22: a change on the disk is found, and the file is named."""
    assert client.validate("t", version=1) == 1
    data_file = next(written.glob("t*/data/*"))
    data = bytearray(data_file.read_bytes())
    data[100] ^= 1
    data_file.write_bytes(data)
    with pytest.raises(flight_client.CorruptFileError, match=data_file.name):
        client.validate("t")


def test_branches_that_are_in_the_way(client: Client) -> None:
    client.write("forked", {"a": [1]}, "create")
    client.create_branch("forked", "dev")
    with pytest.raises(flight_client.RefConflictError, match="dev") as caught:
        client.create_branch("forked", "dev")
    assert isinstance(caught.value, ValueError)


def test_every_action_has_a_method_and_every_error_a_class(client: Client) -> None:
    offered = {
        action.type for action in client._connections.to(client._connections.uris[0]).client.list_actions()
    }
    ours = offered - {"CancelFlightInfo", "RenewFlightEndpoint"}  # Flight's own, where our client plans anew
    assert {name for name in ours if not hasattr(client, name)} == set()
    assert client.list_tags("t") == client.tags("t")
    assert client.explain_scan("t", filter="id > 3", columns=["id"])["pages_total"] == 3
    errors = {
        name: kind
        for name, kind in vars(lance_core.errors).items()
        if isinstance(kind, type) and issubclass(kind, lance_core.errors.LanceError)
    }
    storage = {"FileMissingError", "AlreadyExistsError", "PutUnknownError"}  # all a StorageError here
    # A server never raises MissingNameError. The others are an InvalidInputError here.
    others = {"ArgumentTypeError", "ColumnTypeError", "MissingNameError", "NegativeRowError", "TooLargeError"}
    for name in errors.keys() - storage - others - {"UnknownColumnError"}:
        builtin = {kind for kind in errors[name].__mro__ if kind.__module__ == "builtins"}
        assert builtin <= set(getattr(flight_client, name).__mro__)
