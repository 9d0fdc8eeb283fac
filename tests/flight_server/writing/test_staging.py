"""Staged writes: many uploads, one version. Receipts are good once, everywhere below one root."""

from __future__ import annotations

import json
import os
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyarrow import flight

from support.clients.actions import act, stage
from support.clients.puts import files_below, put, send
from support.processes.waiting import wait_until
from support.servers.served import StartServer


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64())})


@pytest.fixture
def client(empty_client: flight.FlightClient) -> flight.FlightClient:
    """Client of a server with only a new dataset `t`."""
    put(empty_client, {"dataset": "t", "mode": "create"}, rows(0))
    return empty_client


def numbers(served: Path, name: str = "t.lance") -> list[int]:
    """Return the numbers that the reference reads."""
    return sorted(lance.dataset(served / name).to_table()["n"].to_pylist())


def test_one_version_of_many_uploads(client: flight.FlightClient, served: Path) -> None:
    receipts = [stage(client, rows(10 * i, 10 * i + 1), dataset="t") for i in range(1, 6)]
    assert numbers(served) == [0]
    assert act(client, "commit", dataset="t", operation="append", staged=receipts) == {"version": 2}
    assert numbers(served) == [0, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51]
    assert [len(fragment.data_files()) for fragment in lance.dataset(served / "t.lance").get_fragments()] == [
        1
    ] * 6
    assert os.listdir(served / "t.lance" / "_staging") == []


def test_overwrite_and_create(client: flight.FlightClient, served: Path) -> None:
    """Staged for a dataset that is there, and for one that is not; nobody sees it before the commit."""
    receipts = [stage(client, rows(i), dataset="t", mode="overwrite") for i in (7, 8)]
    assert act(client, "commit", dataset="t", operation="overwrite", staged=receipts) == {"version": 2}
    assert numbers(served) == [7, 8]
    receipts = [
        stage(
            client,
            rows(i),
            dataset="ns/new",
            mode=mode,
            data_storage_version="2.1",
            enable_stable_row_ids=True,
        )
        for i, mode in ((1, "create"), (2, "overwrite"))
    ]
    assert [info.descriptor.path for info in client.list_flights()] == [[b"t"]]
    assert act(client, "commit", dataset="ns/new", operation="overwrite", staged=receipts) == {"version": 1}
    assert numbers(served, "ns/new.lance") == [1, 2]
    dataset = lance.dataset(served / "ns" / "new.lance")
    assert dataset.data_storage_version == "2.1"
    assert dataset.has_stable_row_ids


def test_a_receipt_is_good_once(client: flight.FlightClient, served: Path) -> None:
    """T13, T44: neither a second commit nor a repeated one adds rows again."""
    receipt = stage(client, rows(1), dataset="t")
    other = stage(client, rows(2), dataset="t")
    transaction_id = str(uuid.uuid4())
    commit: dict[str, Any] = {"dataset": "t", "operation": "append", "staged": [receipt]}
    assert act(client, "commit", **commit, transaction_id=transaction_id) == {"version": 2}
    with pytest.raises(pa.ArrowInvalid, match="nothing is staged"):
        act(client, "commit", **commit)
    with pytest.raises(pa.ArrowInvalid, match="nothing is staged"):
        act(client, "commit", **commit | {"staged": [other, receipt]})
    with pytest.raises(pa.ArrowInvalid, match="appears twice"):
        act(client, "commit", **commit | {"staged": [other, other]})
    assert act(client, "commit", **commit, transaction_id=transaction_id) == {"version": 2}
    assert act(client, "abort", dataset="t", staged=[receipt]) == {"removed": 0}
    assert act(client, "commit", **commit | {"staged": [other]}) == {"version": 3}
    assert numbers(served) == [0, 1, 2]
    assert lance.dataset(served / "t.lance").read_transaction(2).uuid == transaction_id


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"staged": []}, "one receipt or more"),
        ({"staged": ["0" * 32]}, "nothing is staged"),
        ({"staged": ["../../x"]}, "not a receipt"),
        ({"staged": ["0" * 31 + "/"]}, "not a receipt"),
        ({"staged": [7]}, "not a receipt"),
        ({"operation": "overwrite"}, "does not belong to this operation"),
        ({"operation": "delete"}, "operation: expected one of"),
        ({"dataset": "other"}, "nothing is staged"),
        ({"dataset": "t@1"}, "goes to the latest version"),
        ({"transaction_id": "x"}, "expected a UUID"),
        ({"mode": "append"}, "unknown field 'mode'"),
    ],
)
def test_what_is_refused(
    client: flight.FlightClient, served: Path, change: dict[str, Any], message: str
) -> None:
    """T13: made up, foreign, of another kind. The receipt stays good."""
    put(client, {"dataset": "other", "mode": "create"}, rows(0))
    commit = {"dataset": "t", "operation": "append", "staged": [stage(client, rows(1), dataset="t")]}
    with pytest.raises(pa.ArrowInvalid, match=message):
        act(client, "commit", **commit | change)
    assert act(client, "commit", **commit) == {"version": 2}
    assert numbers(served) == [0, 1]
    assert numbers(served, "other.lance") == [0]


def test_uploads_that_are_refused(client: flight.FlightClient, served: Path) -> None:
    before = files_below(served)
    with pytest.raises(KeyError, match="no dataset is named"):
        stage(client, rows(1), dataset="missing")
    with pytest.raises(flight.FlightServerError, match="exists"):
        stage(client, rows(1), dataset="t", mode="create")
    with pytest.raises(pa.ArrowInvalid, match="belongs to the action commit"):
        stage(client, rows(1), dataset="t", transaction_id=str(uuid.uuid4()))
    with pytest.raises(pa.ArrowInvalid, match="ended without the message"):
        send(client, {"dataset": "t", "stage": True}, rows(1))
    with pytest.raises(pa.ArrowInvalid, match="column"):
        stage(client, pa.table({"m": ["x"]}), dataset="t")
    assert files_below(served) == before


def test_different_schemas_do_not_go_together(client: flight.FlightClient, served: Path) -> None:
    receipts = [
        stage(client, rows(1), dataset="t", mode="overwrite"),
        stage(client, pa.table({"m": ["x"]}), dataset="t", mode="overwrite"),
    ]
    with pytest.raises(pa.ArrowInvalid, match="different schemas"):
        act(client, "commit", dataset="t", operation="overwrite", staged=receipts)
    receipts[1] = stage(client, rows(1), dataset="t", mode="overwrite", data_storage_version="2.0")
    with pytest.raises(pa.ArrowInvalid, match="different settings"):
        act(client, "commit", dataset="t", operation="overwrite", staged=receipts)
    assert numbers(served) == [0]


def test_a_file_that_is_gone(client: flight.FlightClient, served: Path) -> None:
    """T13: removed or damaged before the commit."""
    data = served / "t.lance" / "data"
    before = set(os.listdir(data))
    receipt = stage(client, rows(1), dataset="t")
    (new,) = set(os.listdir(data)) - before
    whole = (data / new).read_bytes()
    (data / new).write_bytes(whole[:-1])
    with pytest.raises(flight.FlightInternalError):
        act(client, "commit", dataset="t", operation="append", staged=[receipt])
    (data / new).unlink()
    with pytest.raises(pa.ArrowInvalid, match="is gone"):
        act(client, "commit", dataset="t", operation="append", staged=[receipt])
    assert numbers(served) == [0]


def test_conflicts(client: flight.FlightClient, served: Path) -> None:
    """The version that was staged on counts: rows of an older schema are not appended to a newer one."""
    receipt = stage(client, rows(1), dataset="t")
    over = [stage(client, rows(i), dataset="t", mode="overwrite") for i in (5, 6)]
    put(client, "t", rows(2))
    assert act(client, "commit", dataset="t", operation="overwrite", staged=over[:1]) == {"version": 3}
    assert numbers(served) == [5]
    for read_version in (None, 1, 3):
        with pytest.raises(flight.FlightServerError, match=r"\[CommitConflictError\]"):
            act(
                client, "commit", dataset="t", operation="append", staged=[receipt],
                **{} if read_version is None else {"read_version": read_version},
            )  # fmt: skip
    with pytest.raises(flight.FlightServerError, match=r"\[CommitConflictError\]"):
        act(client, "commit", dataset="t", operation="overwrite", staged=over[1:])
    commit = {"dataset": "t", "operation": "overwrite", "staged": over[1:], "read_version": 3}
    assert act(client, "commit", **commit) == {"version": 4}
    assert numbers(served) == [6]
    assert act(client, "abort", dataset="t", staged=[receipt]) == {"removed": 1}


def test_rows_of_another_type_do_not_become_good(client: flight.FlightClient, served: Path) -> None:
    """Rows staged before a cast never fit the table again, and the error does not ask to repeat the
    commit.
    """
    receipt = stage(client, rows(1), dataset="t")
    act(client, "alter_columns", dataset="t", columns=[{"path": "n", "data_type": "int"}])
    commit = {"dataset": "t", "operation": "append", "staged": [receipt]}
    for _ in range(2):
        with pytest.raises(flight.FlightServerError, match="stage the rows again") as caught:
            act(client, "commit", **commit)
        assert not json.loads(caught.value.extra_info)["retryable"]
    assert act(client, "abort", dataset="t", staged=[receipt]) == {"removed": 1}
    assert numbers(served) == [0]


def test_abort(client: flight.FlightClient, served: Path) -> None:
    before = files_below(served)
    receipts = [stage(client, rows(1), dataset="t"), stage(client, rows(2), dataset="t")]
    receipts.append(stage(client, rows(1), dataset="new", mode="create"))
    assert act(client, "abort", dataset="t", staged=[*receipts, "0" * 32]) == {"removed": 2}
    assert act(client, "abort", dataset="new", staged=receipts) == {"removed": 1}
    assert act(client, "abort", dataset="new", staged=receipts) == {"removed": 0}
    assert files_below(served) - before <= {"t.lance/_staging"}
    with pytest.raises(pa.ArrowInvalid, match="nothing is staged"):
        act(client, "commit", dataset="t", operation="append", staged=receipts[:1])


def test_any_server_of_the_root(serve: StartServer, served: Path, client: flight.FlightClient) -> None:
    """Receipts of several servers, committed by one that started later; T44: of two commits one wins."""
    with serve(served).client() as second:
        receipts = [stage(each, rows(i), dataset="t") for i, each in ((1, client), (2, second))]
        with serve(served).client() as third:
            commit = {"dataset": "t", "operation": "append", "staged": receipts}
            outcomes = []
            with ThreadPoolExecutor(3) as pool:
                running = [pool.submit(act, each, "commit", **commit) for each in (client, second, third) * 2]
                for future in running:
                    try:
                        outcomes.append(future.result()["version"])
                    except (pa.ArrowInvalid, flight.FlightServerError) as error:
                        outcomes.append(str(error).partition("]")[0])
            assert [outcome for outcome in outcomes if not isinstance(outcome, str)] == [2], outcomes
            assert set(map(str, outcomes)) <= {"2", "[CommitConflictError", "[InvalidInputError"}
    assert numbers(served) == [0, 1, 2]


def test_the_same_commit_at_once(serve: StartServer, served: Path, client: flight.FlightClient) -> None:
    """T44: a driver that repeats its commit at another server gets one version."""
    with serve(served).client() as second:
        for version in range(2, 8):
            receipts = [stage(client, rows(version * 10 + i), dataset="t") for i in range(3)]
            commit = {
                "dataset": "t",
                "operation": "append",
                "staged": receipts,
                "transaction_id": str(uuid.uuid4()),
            }
            with ThreadPoolExecutor(4) as pool:
                running = [pool.submit(act, each, "commit", **commit) for each in (client, second) * 2]
            done = [future.result()["version"] for future in running if future.exception() is None]
            assert set(done) == {version}
            assert act(second, "commit", **commit) == {"version": version}
    assert numbers(served) == [0, *(10 * version + i for version in range(2, 8) for i in range(3))]


def test_expiry(serve: StartServer, served: Path, client: flight.FlightClient) -> None:
    """Expired uploads are removed, whoever staged them, and even if the dataset was never created; others
    stay.
    """
    before = files_below(served)
    kept = stage(client, rows(1), dataset="t")
    act(client, "commit", dataset="t", operation="append", staged=[kept])
    after = files_below(served)
    stage(client, rows(2), dataset="t")
    stage(client, rows(3), dataset="ns/new", mode="create")
    assert len(files_below(served)) > len(after) > len(before)
    late = serve(served, "--stage-expiry", "0.5")
    wait_until(lambda: not files_below(served) - after - {"ns"})
    with late.client() as other:
        receipt = stage(other, rows(4), dataset="t")
        time.sleep(0.6)
        with pytest.raises(pa.ArrowInvalid, match="expired"):
            act(other, "commit", dataset="t", operation="append", staged=[receipt])
    assert numbers(served) == [0, 1]


def test_the_reference_passes_by(client: flight.FlightClient, served: Path) -> None:
    """The reference's cleanup keeps receipts, and staged files for a week."""
    receipt = stage(client, rows(1), dataset="t")
    dataset = lance.dataset(served / "t.lance")
    dataset.insert(rows(2))
    dataset.cleanup_old_versions()
    assert act(client, "commit", dataset="t", operation="append", staged=[receipt]) == {"version": 3}
    assert numbers(served) == [0, 1, 2]


def test_staging_expiry_is_at_most_half_of_what_cleanup_spares(served: Path, serve: StartServer) -> None:
    """T41"""
    with pytest.raises(AssertionError, match="stage_expiry"):
        serve(served, "--stage-expiry", "300000")


def commit_batch(client: flight.FlightClient, batch: int, *n: int, query: str = "q", name: str = "s") -> int:
    """Commit rows as a batch of a stream, as a stream writer that does not know what came before."""
    number = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{name}/{query}/{batch}"))
    answer = act(
        client,
        "commit",
        dataset="t",
        operation="append",
        staged=[stage(client, rows(*n), dataset="t")],
        transaction_id=number,
        stream={"name": name, "query": query, "batch": batch},
    )
    return int(answer["version"])


def test_a_batch_of_a_stream_is_committed_once(client: flight.FlightClient, served: Path) -> None:
    """T44: also when no version and no transaction file tells of it any more; the rows come with the note."""
    assert [commit_batch(client, batch, batch) for batch in (3, 4)] == [2, 3]
    assert commit_batch(client, 4, 99) == 3
    assert commit_batch(client, 0, 7, name="other") == 4
    put(client, {"dataset": "t"}, rows(5))
    act(client, "cleanup", dataset="t", older_than_seconds=0, delete_unverified=False)
    assert len(act(client, "list_versions", dataset="t")["versions"]) == 1
    assert [commit_batch(client, batch, 99) for batch in (3, 4)] == [5, 5]
    noted = lance.dataset(served / "t.lance").config()
    assert noted["lance_flight.stream.s"] == '{"batch": 4, "query": "q"}'
    lance.dataset(served / "t.lance").insert(rows(6))
    assert commit_batch(client, 4, 99) == 6
    assert commit_batch(client, 5, 8) == 7
    assert numbers(served) == [0, 3, 4, 5, 6, 7, 8]


def test_another_query_is_refused_the_name_of_a_stream(client: flight.FlightClient, served: Path) -> None:
    """T44: batch 0 of another query has other rows than the committed batch 0."""
    commit_batch(client, 0, 1)
    with pytest.raises(pa.ArrowInvalid, match="stream s: another query wrote under this name"):
        commit_batch(client, 0, 2, query="new checkpoint")
    act(client, "update_config", dataset="t", config={"lance_flight.stream.s": None})
    commit_batch(client, 0, 2, query="new checkpoint")
    assert numbers(served) == [0, 1, 2]


def test_a_batch_of_a_stream_at_many_servers_at_once(
    client: flight.FlightClient, served: Path, serve: StartServer
) -> None:
    """T44: a driver that was thought dead commits the batch beside the one that replaced it."""
    others = [serve(served) for _ in range(2)]
    clients = [other.client() for other in others]
    with ThreadPoolExecutor(6) as pool:
        for batch in range(5):
            versions = pool.map(lambda each, batch=batch: commit_batch(each, batch, batch + 1), clients * 3)
            assert len(set(versions)) == 1
    assert numbers(served) == [0, 1, 2, 3, 4, 5]
    for each in clients:
        each.close()


@pytest.mark.parametrize(
    "stream",
    [
        {"name": "s", "batch": 1},
        {"name": "", "query": "q", "batch": 1},
        {"name": "s" * 257, "query": "q", "batch": 1},
        {"name": "s", "query": "q", "batch": -1},
        "s",
    ],
)
def test_batches_of_streams_that_make_no_sense(client: flight.FlightClient, stream: Any) -> None:
    receipt = stage(client, rows(1), dataset="t")
    commit = {"dataset": "t", "operation": "append", "staged": [receipt]}
    with pytest.raises(pa.ArrowInvalid, match=r"commit\.stream"):
        act(client, "commit", **commit, transaction_id=str(uuid.uuid4()), stream=stream)
    with pytest.raises(pa.ArrowInvalid, match="needs a transaction_id"):
        act(client, "commit", **commit, stream={"name": "s", "query": "q", "batch": 1})


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("mode", ["merge_insert", "add_columns"])
def test_staged_blobs(empty_client: flight.FlightClient, served: Path, mode: str, version: str) -> None:
    """Rows that a commit reads once more have the values of their blobs, not the places where these were."""
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("n", pa.int64()), blob])
    table = pa.table({"n": [1, 2], "b": [b"old", b"kept"]}, schema)
    create = {"dataset": "t", "mode": "create", "data_storage_version": version}
    put(empty_client, create, table if mode == "merge_insert" else table.select(["n"]))
    command: dict[str, Any] = {"dataset": "t", "mode": mode, "on": ["n"]}
    if mode == "merge_insert":
        command |= {"when_matched": "update_all", "when_not_matched": "insert_all"}
    large = b"new" * 50_000
    receipts = [
        stage(empty_client, pa.table({"n": [n], "b": [value]}, schema), **command)
        for n, value in ((1, large), (3, b"more"))
    ]
    act(empty_client, "commit", dataset="t", operation=mode, staged=receipts)
    found = lance.dataset(served / "t.lance").scanner(blob_handling="all_binary").to_table()
    values = dict(zip(found["n"].to_pylist(), found["b"].to_pylist(), strict=True))
    assert values == ({1: large, 2: b"kept", 3: b"more"} if mode == "merge_insert" else {1: large, 2: None})
    act(empty_client, "validate", dataset="t")


def test_dictionaries_of_0_1_files_are_not_staged(empty_client: flight.FlightClient, served: Path) -> None:
    """The values of dictionaries are in manifests, and appended rows must use the values of the table."""
    words = pa.array(["a", "b"]).dictionary_encode()
    table = pa.table({"n": [1, 2], "w": words})
    put(empty_client, {"dataset": "t", "mode": "create", "data_storage_version": "0.1"}, table)
    before = files_below(served)
    for command in (
        {"mode": "overwrite"},
        {"mode": "merge_insert", "on": ["n"], "when_matched": "update_all"},
    ):
        with pytest.raises(NotImplementedError, match=r"dictionaries of 0.1 files \(column w"):
            stage(empty_client, table, dataset="t", **command)
    assert files_below(served) == before
    receipt = stage(empty_client, table, dataset="t")
    act(empty_client, "commit", dataset="t", operation="append", staged=[receipt])
    assert lance.dataset(served / "t.lance").to_table()["w"].to_pylist() == ["a", "b"] * 2
