"""DoPut to a real server, against what the reference reads of the result."""

from __future__ import annotations

import ast
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from pyarrow import flight

import flight_server
from flight_server.proto.command_pb2 import Command, Write
from flight_server.requests.commands import COMMAND_TYPE_URL
from support.clients.dying_upload import wait_for_reports
from support.clients.puts import descriptor_of, files_below, finish_message, put, send, small_tables
from support.oracles.comparison import assert_tables_equal
from support.processes.waiting import wait_until
from support.servers.served import StartServer, trips_table
from support.servers.server import RunningServer, serving

TABLE = trips_table(700).drop_columns(["city"])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


@pytest.fixture(scope="module")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(root, tmp_path_factory.mktemp("log") / "server.log") as server:
        yield server


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """An empty root for a server of its own."""
    path = tmp_path / "served"
    path.mkdir()
    return path


@pytest.fixture
def client(server: RunningServer) -> Iterator[flight.FlightClient]:
    with server.client() as client:
        yield client


@pytest.fixture
def name() -> str:
    """Name of a dataset that no other test has."""
    return f"t{uuid4().hex}"


def reference(root: Path, name: str, **arguments: Any) -> lance.LanceDataset:
    return lance.dataset(str(root / f"{name}.lance"), **arguments)


def test_create_append_and_overwrite(client: flight.FlightClient, root: Path, name: str) -> None:
    created = put(client, {"dataset": name, "mode": "create"}, TABLE, batch_rows=100)
    appended = put(client, name, TABLE.slice(0, 50))
    replaced = put(client, {"dataset": name, "mode": "overwrite"}, TABLE.select(["id"]))
    assert [result["version"] for result in (created, appended, replaced)] == [1, 2, 3]
    assert [result["rows"] for result in (created, appended, replaced)] == [700, 50, 700]
    assert_tables_equal(TABLE, reference(root, name, version=1).to_table())
    expected = pa.concat_tables([TABLE, TABLE.slice(0, 50)])
    assert_tables_equal(expected, reference(root, name, version=2).to_table())
    latest = reference(root, name)
    assert_tables_equal(TABLE.select(["id"]), latest.to_table())
    files = [file for fragment in latest.get_fragments() for file in fragment.data_files()]
    assert replaced["bytes"] == sum(file.file_size_bytes for file in files)
    assert replaced["fragments"] == len(files) == 1
    read = client.do_get(flight.Ticket(json.dumps({"scan": {"dataset": name}}))).read_all()
    assert_tables_equal(TABLE.select(["id"]), read)


def test_overwrite_creates_and_namespaces_are_made(
    client: flight.FlightClient, root: Path, name: str
) -> None:
    put(client, {"dataset": f"{name}/inner/t.lance", "mode": "overwrite"}, TABLE)
    assert_tables_equal(TABLE, reference(root, f"{name}/inner/t").to_table())
    listed = {"/".join(part.decode() for part in info.descriptor.path) for info in client.list_flights()}
    assert f"{name}/inner/t" in listed


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2", "stable"])
def test_versions_of_data_files(client: flight.FlightClient, root: Path, name: str, version: str) -> None:
    table = TABLE.select(["id", "driver", "vector"])
    put(client, {"dataset": name, "mode": "create", "data_storage_version": version}, table)
    dataset = reference(root, name)
    assert dataset.data_storage_version == {"legacy": "0.1", "stable": "2.2"}.get(version, version)
    assert_tables_equal(table, dataset.to_table())
    put(client, name, table)
    assert reference(root, name).count_rows() == 1400


def test_every_option(client: flight.FlightClient, root: Path, name: str) -> None:
    identity = str(uuid4())
    command = {
        "dataset": name,
        "mode": "create",
        "max_rows_per_file": 200,
        "enable_stable_row_ids": True,
        "transaction_id": identity,
        "properties": {"job": "nightly"},
    }
    assert put(client, command, TABLE)["fragments"] == 4
    dataset = reference(root, name)
    assert [fragment.count_rows() for fragment in dataset.get_fragments()] == [200, 200, 200, 100]
    assert dataset.has_stable_row_ids
    transaction = dataset.read_transaction(1)
    assert transaction.uuid == identity
    assert transaction.transaction_properties["job"] == "nightly"
    assert put(client, {"dataset": name, "max_bytes_per_file": 1}, TABLE, batch_rows=100)["fragments"] == 7


def test_the_protobuf_form(client: flight.FlightClient, root: Path, name: str) -> None:
    value = Command(write=Write(dataset=name, mode="create", max_rows_per_file=500)).SerializeToString()
    command = AnyMessage(type_url=COMMAND_TYPE_URL, value=value).SerializeToString()
    writer, reader = client.do_put(flight.FlightDescriptor.for_command(command), TABLE.schema)
    writer.write_table(TABLE)
    writer.write_metadata(finish_message(700, 1))
    writer.done_writing()
    assert json.loads(reader.read().to_pybytes())["result"]["fragments"] == 2
    writer.close()
    assert_tables_equal(TABLE, reference(root, name).to_table())


def test_branches_are_written_to(client: flight.FlightClient, root: Path, name: str) -> None:
    put(client, {"dataset": name, "mode": "create"}, TABLE)
    reference(root, name).create_branch("team/dev", 1)
    put(client, {"dataset": name, "branch": "team/dev"}, TABLE.slice(0, 10))
    put(client, f"{name}@team/dev", TABLE.slice(0, 7))
    assert reference(root, name).count_rows() == 700
    assert reference(root, name).checkout_version(("team/dev", None)).count_rows() == 717
    with pytest.raises(KeyError, match="no branch"):
        put(client, {"dataset": name, "branch": "absent"}, TABLE)


def test_every_layout_of_arrow(client: flight.FlightClient, root: Path, name: str) -> None:
    """Views are stored as plain text, and read as such."""
    for number, table in enumerate(small_tables()):
        dataset = f"{name}/t{number}"
        put(client, {"dataset": dataset, "mode": "create"}, table, batch_rows=25)
        field = table.schema.field(0)
        expected = table.cast(pa.schema([field.with_type(pa.string())])) if field.name == "view" else table
        assert_tables_equal(expected, reference(root, dataset).to_table())


def test_dictionaries_that_change_between_batches(client: flight.FlightClient, root: Path, name: str) -> None:
    parts = [["a", "b", None, "a"], ["c", "b"], [None, None], ["z"] * 5, ["a", "c"]]
    batches = [pa.record_batch({"x": pa.array(part, pa.string()).dictionary_encode()}) for part in parts]
    send(client, {"dataset": name, "mode": "create"}, *batches, finish_message(15, 5))
    found = reference(root, name).to_table()
    assert pa.types.is_dictionary(found.schema.field("x").type)
    assert found["x"].to_pylist() == [value for part in parts for value in part]


def test_an_empty_upload(client: flight.FlightClient, root: Path, name: str) -> None:
    result = put(client, {"dataset": name, "mode": "create"}, TABLE.slice(0, 0))
    assert (result["version"], result["rows"], result["fragments"]) == (1, 0, 0)
    assert reference(root, name).schema.equals(TABLE.schema)


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        ({"mode": "append"}, KeyError, "no dataset is named"),
        ({"mode": "merge_insert", "on": ["id"]}, pa.ArrowInvalid, "not configured to change"),
        ({"mode": "create", "data_storage_version": "2.3"}, NotImplementedError, "2.3"),
        ({"mode": "create", "data_storage_version": "9"}, pa.ArrowInvalid, "data_storage_version"),
        ({"mode": "create", "branch": "dev"}, KeyError, "no dataset is named"),
    ],
)
def test_what_cannot_be_written(
    client: flight.FlightClient,
    root: Path,
    name: str,
    command: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    before = files_below(root)
    with pytest.raises(error, match=message):
        put(client, {"dataset": name, **command}, TABLE)
    assert files_below(root) == before


def test_a_dataset_is_not_created_twice(client: flight.FlightClient, root: Path, name: str) -> None:
    put(client, {"dataset": name, "mode": "create"}, TABLE)
    before = files_below(root)
    with pytest.raises(flight.FlightServerError, match=f"dataset {name} exists") as caught:
        put(client, {"dataset": name, "mode": "create"}, TABLE)
    assert json.loads(caught.value.extra_info)["code"] == 5
    assert files_below(root) == before


@pytest.mark.parametrize(
    ("table", "named"),
    [
        (TABLE.append_column("more", TABLE["id"]), "more"),
        (TABLE.drop_columns(["id"]).append_column("id", pa.array(["x"] * 700)), "id"),
        (pa.table({"a": pa.array([1]), "b": [None]}), "a"),
    ],
)
def test_a_schema_that_does_not_fit(
    client: flight.FlightClient, root: Path, name: str, table: pa.Table, named: str
) -> None:
    put(client, {"dataset": name, "mode": "create"}, TABLE)
    before = files_below(root)
    with pytest.raises(pa.ArrowInvalid, match=f"column {named}"):
        put(client, name, table)
    assert files_below(root) == before


FINISH = {
    "none": [],
    "wrong rows": [finish_message(699, 1)],
    "wrong batches": [finish_message(700, 2)],
    "twice": [finish_message(700, 1)] * 2,
    "no counts": [b'{"finish": {}}'],
    "something else": [b'{"end": true}', finish_message(700, 1)],
    "negative": [b'{"finish": {"rows": -700, "batches": 1}}'],
    "no JSON": [b"finish"],
    "large": [b" " * 5000 + finish_message(700, 1)],
}


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("messages", FINISH.values(), ids=FINISH.keys())
def test_without_the_right_finish_nothing_is_written(
    client: flight.FlightClient, root: Path, name: str, mode: str, messages: list[bytes]
) -> None:
    """T27"""
    put(client, {"dataset": name, "mode": "create"}, TABLE)
    before = files_below(root)
    with pytest.raises(pa.ArrowInvalid, match=r"\[InvalidInputError\]"):
        send(client, {"dataset": name, "mode": mode}, TABLE, *messages)
    assert files_below(root) == before


def test_nothing_comes_after_the_finish(client: flight.FlightClient, root: Path, name: str) -> None:
    before = files_below(root)
    with pytest.raises(pa.ArrowInvalid, match="comes after the finish message"):
        send(client, {"dataset": name, "mode": "create"}, TABLE, finish_message(700, 1), TABLE)
    assert files_below(root) == before


def test_the_finish_may_come_with_the_last_batch(client: flight.FlightClient, root: Path, name: str) -> None:
    writer, _ = client.do_put(descriptor_of({"dataset": name, "mode": "create"}), TABLE.schema)
    (batch,) = TABLE.to_batches()
    writer.write_with_metadata(batch, finish_message(700, 1))
    writer.close()
    assert reference(root, name).count_rows() == 700


def test_a_repeated_transaction_gives_its_first_result(
    client: flight.FlightClient, root: Path, name: str
) -> None:
    """T38, T44: a client that does not know whether a commit landed sends it again."""
    command = {"dataset": name, "mode": "create", "transaction_id": str(uuid4())}
    first = put(client, command, TABLE)
    assert put(client, command, TABLE) == first
    append = {"dataset": name, "transaction_id": str(uuid4())}
    second = put(client, append, TABLE.slice(0, 5))
    put(client, name, TABLE.slice(0, 6))
    assert put(client, append, TABLE.slice(0, 5)) == second
    assert second["version"] == 2
    assert reference(root, name).version == 3
    assert reference(root, name).count_rows() == 711


def test_progress_is_told(client: flight.FlightClient, name: str) -> None:
    table = TABLE.select(["id", "fare"])
    writer, reader = client.do_put(descriptor_of({"dataset": name, "mode": "create"}), table.schema)
    messages: list[dict[str, Any]] = []

    def read() -> None:
        while (message := reader.read()) is not None:
            messages.append(json.loads(message.to_pybytes()))

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        count = 0
        ends = time.monotonic() + 60
        while len(messages) < 2:  # a second lies between them
            assert time.monotonic() < ends
            writer.write_table(table)
            count += 1
            time.sleep(0.1)
        writer.write_metadata(finish_message(700 * count, count))
        writer.done_writing()
        reading.result(60)
    writer.close()
    *progress, last = messages
    assert [message["progress"]["rows"] for message in progress] == sorted(
        {message["progress"]["rows"] for message in progress}
    )
    assert 0 < progress[-1]["progress"]["bytes"] <= count * table.nbytes * 1.1
    assert last["result"]["rows"] == 700 * count


def test_unfinished_appends_where_they_are_allowed(serve: StartServer, served: Path) -> None:
    """T27: plain appends only."""
    with serve(served, "--allow-unfinished-append").client() as client:
        put(client, {"dataset": "t", "mode": "create"}, TABLE)
        put(client, "t", TABLE, finish=False)
        for name, mode in (("t", "overwrite"), ("u", "create")):
            with pytest.raises(pa.ArrowInvalid, match="without the message"):
                put(client, {"dataset": name, "mode": mode}, TABLE, finish=False)
    assert reference(served, "t").count_rows() == 1400


def test_appends_at_the_same_time_lose_no_row(client: flight.FlightClient, root: Path, name: str) -> None:
    """T37"""
    schema = pa.schema([("client", pa.int64()), ("row", pa.int64())])
    put(client, {"dataset": name, "mode": "create"}, schema.empty_table())

    def append(number: int) -> None:
        for start in range(0, 30, 5):
            rows = {"client": [number] * 5, "row": range(start, start + 5)}
            put(client, name, pa.table(rows, schema=schema))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(append, range(6)))
    dataset = reference(root, name)
    assert dataset.version == 37
    rows = sorted(zip(*dataset.to_table().to_pydict().values(), strict=True))
    assert rows == [(number, row) for number in range(6) for row in range(30)]


def test_a_dataset_without_a_version_can_be_created(
    client: flight.FlightClient, root: Path, name: str
) -> None:
    """T37: another client is creating the dataset, or was killed then; the directory of versions is there."""
    (root / f"{name}.lance" / "_versions").mkdir(parents=True)
    assert put(client, {"dataset": name, "mode": "create"}, TABLE)["version"] == 1
    assert reference(root, name).count_rows() == TABLE.num_rows


def test_one_of_two_that_create_wins(client: flight.FlightClient, root: Path, name: str) -> None:
    """T37"""
    began = threading.Barrier(4)

    def create(number: int) -> str:
        writer, _ = client.do_put(descriptor_of({"dataset": name, "mode": "create"}), TABLE.schema)
        writer.write_table(TABLE.slice(0, number))
        began.wait()
        writer.write_metadata(finish_message(number, 1))
        try:
            writer.close()
        except flight.FlightServerError as error:
            return str(json.loads(error.extra_info)["name"])
        return "won"

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(create, range(10, 14)))
    assert sorted(outcomes) == ["DatasetExistsError"] * 3 + ["won"]
    assert reference(root, name).count_rows() == 10 + outcomes.index("won")
    assert len(list((root / f"{name}.lance" / "data").iterdir())) == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--max-put-bytes", "100kB"), "the upload is too large"),
        (("--max-batch-bytes", "1kB"), "batch 0 is too large"),
    ],
)
def test_quotas(serve: StartServer, served: Path, option: tuple[str, str], message: str) -> None:
    """T28"""
    table = pa.table({"x": range(1000)})
    with serve(served, *option).client() as client, pytest.raises(pa.ArrowInvalid, match=message):
        send(client, {"dataset": "t", "mode": "create"}, *[table] * 20, finish_message(20_000, 20))
    assert files_below(served) == set()


def test_the_time_of_an_upload_is_bounded(serve: StartServer, served: Path) -> None:
    """T28"""
    command = {"dataset": "t", "mode": "create", "report_bytes": 1}
    with serve(served, "--max-put-seconds", "0.5").client() as client:
        writer, reports = client.do_put(descriptor_of(command), TABLE.schema)
        assert reports.read() is not None  # the time of the upload runs
        time.sleep(0.6)
        writer.write_table(TABLE)
        with pytest.raises(pa.ArrowInvalid, match=r"takes longer than 0\.5 seconds"):
            writer.close()
    assert files_below(served) == set()


def test_uploads_beyond_the_cap_are_refused_as_retryable(serve: StartServer, served: Path) -> None:
    """T6: a silent upload holds its place, and the others hear of it at once."""
    server = serve(served, "--max-puts", "1")
    with server.client() as client:
        command = {"dataset": "t", "mode": "create", "report_bytes": 1}
        writer, reports = client.do_put(descriptor_of(command), TABLE.schema)
        writer.write_table(TABLE)
        assert reports.read() is not None  # the upload runs
        with pytest.raises(flight.FlightUnavailableError, match="1 uploads are running") as caught:
            put(client, {"dataset": "u", "mode": "create"}, TABLE)
        assert json.loads(caught.value.extra_info)["retryable"]
        writer.write_metadata(finish_message(700, 1))
        writer.close()
        put(client, "t", TABLE)
    assert reference(served, "t").count_rows() == 1400


@pytest.mark.parametrize("in_time", [True, False])
def test_a_server_that_stops_during_an_upload(serve: StartServer, served: Path, in_time: bool) -> None:
    """T34: the server waits for the end of the upload, but not forever."""
    server = serve(
        served,
        *("--drain-grace", "60" if in_time else "0.3"),
        constants={"flight_server.process._LAST_WORDS_SECONDS": 30.0},  # a busy client comes late
    )
    with server.client() as client:
        put(client, {"dataset": "t", "mode": "create"}, TABLE)
        before = files_below(served)
        writer, reports = client.do_put(descriptor_of({"dataset": "t", "report_bytes": 1}), TABLE.schema)
        writer.write_table(TABLE)
        wait_for_reports(reports, TABLE.num_rows)
        server.process.terminate()
        wait_until(lambda: " stopping " in server.log)
        if in_time:
            writer.write_table(TABLE)
            writer.write_metadata(finish_message(1400, 2))
            writer.close()
        else:
            with suppress(pa.ArrowException):
                while True:  # until the server refuses a batch
                    writer.write_table(TABLE.slice(0, 1))
                    time.sleep(0.01)
            with pytest.raises(flight.FlightUnavailableError, match="stopped before"):
                writer.close()
    assert server.wait() == 0
    assert reference(served, "t").count_rows() == (2100 if in_time else 700)
    if not in_time:
        assert files_below(served) == before


@pytest.mark.parametrize("mode", ["append", pytest.param("create", marks=pytest.mark.long)])
def test_a_silent_upload_leaves_nothing_when_the_server_stops(
    serve: StartServer, served: Path, mode: str
) -> None:
    """T34: nobody can wake who waits for a client; files that were complete are removed all the same."""
    server = serve(served, "--drain-grace", "0.2")
    with server.client() as client:
        put(client, {"dataset": "t", "mode": "create"}, TABLE)
        before = files_below(served)
        command = {"dataset": "t" if mode == "append" else "u", "mode": mode, "max_rows_per_file": 100}
        writer, _ = client.do_put(descriptor_of(command), TABLE.schema)
        writer.write_table(TABLE)
        wait_until(lambda: len(files_below(served)) >= len(before) + 5)
        assert server.stop() == 0
        assert files_below(served) == before
        with pytest.raises(flight.FlightError):
            writer.close()


def test_only_uploads_read_from_clients() -> None:
    """T15: other code that reads a batch would access it before it is validated."""
    source = Path(flight_server.__file__).parent
    reading = ("read_chunk", "read_all", "read_pandas", "to_reader")
    readers = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        if "cli" not in file.parts
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in reading
    }
    assert readers == {"handlers/incoming.py"}


def test_json_columns(client: flight.FlightClient, root: Path, name: str) -> None:
    """T27: documents arrive as text, and are stored as the reference stores them or refused."""
    texts = pa.array(['{"b": [1, 2.5], "a": null}', None, "'bare'"])
    table = pa.table({"id": range(3), "j": pa.ExtensionArray.from_storage(pa.json_(), texts)})
    put(client, {"dataset": name, "mode": "create"}, table)

    put(
        client,
        {"dataset": name, "mode": "merge_insert", "on": ["id"], "when_matched": "update_all"},
        table.slice(1, 1),
    )
    wrong = pa.table({"id": [9], "j": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{"]))})
    with pytest.raises(pa.ArrowInvalid, match=r"no JSON.*column j"):
        put(client, name, wrong)
    rows = sorted(reference(root, name).to_table().to_pylist(), key=lambda row: row["id"])
    assert [row["j"] for row in rows] == ['{"a":null,"b":[1,2.5]}', None, '"bare"']
