"""The log of a server process: which events it tells, in one line each, and what never stands in it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import grpc
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

import lance_core
from flight_server.logs import without_secrets
from support.clients.actions import act, stage
from support.clients.puts import put
from support.clients.raw_flight import action, call, path_descriptor, scan_json
from support.processes.waiting import wait_until
from support.servers.served import StartServer
from support.servers.server import RunningServer

TABLE = pa.table({"id": list(range(10)), "name": ["x"] * 10})
SECRET = "a-secret-that-nobody-may-see"
_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR) (\w+)((?: \w+=.*)?)")
_FACT = re.compile(r' (\w+)=("(?:[^"\\]|\\.)*"|[^ "]+)')

Event = dict[str, str]


def events(server: RunningServer, name: str | None = None) -> list[Event]:
    """Return the lines of the log as facts, with `level` and `event`; fails if a line has another form."""
    found = []
    for line in server.log.splitlines():
        match = _LINE.fullmatch(line)
        assert match, line
        facts = _FACT.findall(match[3])
        assert "".join(f" {key}={value}" for key, value in facts) == match[3], line
        texts = {key: json.loads(value) if value.startswith('"') else value for key, value in facts}
        found.append({"level": match[1], "event": match[2]} | texts)
    return [each for each in found if name in (None, each["event"])]


def only(server: RunningServer, name: str) -> Event:
    """Return the only event of this name."""
    (event,) = events(server, name)
    return event


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "served"
    lance_core.write_dataset(TABLE, root / "t.lance")
    return root


def test_a_server_says_how_it_starts_and_stops(folder: Path, tmp_path: Path, serve: StartServer) -> None:
    """T46: version, root, address and limits; the signal, and what became of streams. No key."""
    key = tmp_path / "key"
    key.write_text(SECRET)
    cache = tmp_path / "cache"
    options = ("--max-streams", "7", "--signing-key-file", str(key), "--cache-dir", str(cache))
    server = serve(folder, *options)
    started = only(server, "start")
    assert started == {
        "level": "INFO",
        "event": "start",
        "version": lance_core.__version__,
        "root": str(folder),
        "address": server.uri,
        "memory_limit": str(512 << 20),
        "max_streams": "7",
        "max_puts": "32",
        "verify_checksums": "false",
        "cache_dir": str(cache),
        "signing_key": "settings",
        "tls": "false",
        "auth": "none",
    }
    assert server.stop() == 0
    assert only(server, "stopping")["reason"] == "SIGTERM"
    stopped = only(server, "stopped")
    assert stopped.pop("ms").isdecimal()
    assert stopped == {
        "level": "INFO",
        "event": "stopped",
        "reason": "SIGTERM",
        "streams_drained": "0",
        "uploads_drained": "0",
        "streams_cut": "0",
        "uploads_cut": "0",
    }
    assert [each["event"] for each in events(server)] == ["start", "stopping", "stopped"]
    assert SECRET not in server.log


def test_a_stop_counts_what_it_drains_and_what_it_cuts(tmp_path: Path, serve: StartServer) -> None:
    """T34: a stream that goes on within the grace is drained, one that nobody reads is cut."""
    lance_core.write_dataset(pa.table({"id": np.arange(4_000_000)}), tmp_path / "large.lance")
    server = serve(tmp_path, "--drain-grace", "5")
    # Without probing, gRPC takes little more than what is read.
    options = [("grpc.http2.bdp_probe", 0)]
    reading, idle = (flight.connect(server.uri, generic_options=options) for _ in range(2))
    ticket = flight.Ticket(scan_json("large", compression="none"))
    read, stalled = reading.do_get(ticket), idle.do_get(ticket)
    stalled.read_chunk()
    num_rows = 0
    while num_rows < 3_000_000:  # the rest takes no five seconds, however busy the machine is
        num_rows += read.read_chunk().data.num_rows
    server.process.terminate()
    wait_until(lambda: bool(events(server, "stopping")))
    while True:
        try:
            read.read_chunk()
        except StopIteration:
            break
    assert server.wait() == 0
    assert only(server, "stopping") | {"streams": "2", "uploads": "0"} == only(server, "stopping")
    stopped = only(server, "stopped")
    assert (stopped["streams_drained"], stopped["streams_cut"]) == ("1", "1")
    assert 4900 <= int(stopped["ms"]) < 30_000


def test_each_change_is_one_line(folder: Path, serve: StartServer) -> None:
    """A line has the client, the dataset, the change, the version that it made, its rows and its time."""
    server = serve(folder)
    with server.client() as client:
        put(client, {"dataset": "t", "mode": "append"}, TABLE)
        act(client, "delete", dataset="t", predicate="id > 7")
        receipts = [stage(client, TABLE, dataset="t", mode="append") for _ in range(2)]
        act(client, "commit", dataset="t", operation="append", staged=receipts)
        act(client, "create_tag", dataset="t", tag="gold")
        act(client, "cleanup", dataset="t", dry_run=True)
        act(client, "describe", dataset="t")
        client.do_get(flight.Ticket(scan_json("t"))).read_all()
    changes = events(server, "change")
    for change in changes:
        assert change.pop("level") == "INFO"
        assert change.pop("event") == "change"
        assert float(change.pop("ms")) > 0
        assert re.fullmatch(r"ipv[46]:.*:\d+", change.pop("peer"))
    ids = [change.pop("request_id") for change in changes]
    assert len(set(ids)) == len(changes)
    pushed, deleted, committed, tagged, cleaned = changes
    assert int(pushed.pop("bytes")) > 0
    assert pushed == {
        "rpc": "DoPut", "dataset": "t", "operation": "append", "rows": "10", "version": "2", "fragments": "1"
    }  # fmt: skip
    assert deleted == {"rpc": "DoAction", "action": "delete", "dataset": "t", "version": "3", "rows": "4"}
    assert committed == {
        "rpc": "DoAction", "action": "commit", "dataset": "t", "operation": "append", "version": "4",
        "rows": "20", "staged": "2",
    }  # fmt: skip
    assert tagged == {
        "rpc": "DoAction", "action": "create_tag", "dataset": "t", "tag": "gold", "version": "4"
    }  # fmt: skip
    assert cleaned["action"] == "cleanup"
    assert cleaned["dry_run"] == "true"
    assert [each["event"] for each in events(server)] == ["start", *["change"] * 5]


def test_each_refused_call_is_one_line(folder: Path, serve: StartServer) -> None:
    """T45, T46: the RPC or action, the dataset, the error with its id, and who asked."""
    server = serve(folder)
    outcome = call(server.address, "GetFlightInfo", path_descriptor("missing"))
    refused = only(server, "refused")
    assert refused["error_id"] == outcome.report["error_id"]
    assert refused["message"] == outcome.report["message"]
    kept = {name: refused[name] for name in ("level", "rpc", "dataset", "error")}
    assert kept == {
        "level": "INFO", "rpc": "GetFlightInfo", "dataset": "missing", "error": "DatasetNotFoundError"
    }  # fmt: skip
    assert re.fullmatch(r"ipv[46]:.*:\d+", refused["peer"])
    body = json.dumps({"dataset": "t", "predicate": "nothing > 1"}).encode()
    assert call(server.address, "DoAction", action("delete", body)).code is grpc.StatusCode.INVALID_ARGUMENT
    refused = events(server, "refused")[-1]
    assert (refused["action"], refused["dataset"], refused["error"]) == ("delete", "t", "InvalidInputError")
    with server.client() as client, pytest.raises(pa.ArrowKeyError):
        client.do_get(flight.Ticket(scan_json("t", version=99))).read_all()
    refused = events(server, "refused")[-1]
    assert (refused["rpc"], refused["dataset"], refused["version"]) == ("DoGet", "t", "99")
    (damaged,) = (folder / "t.lance" / "data").iterdir()
    damaged.unlink()
    with server.client() as client, pytest.raises(flight.FlightUnavailableError):
        client.do_get(flight.Ticket(scan_json("t"))).read_all()
    failed = only(server, "failed")
    assert (failed["level"], failed["rpc"], failed["dataset"]) == ("WARNING", "DoGet", "t")
    assert failed["error"] == "FileMissingError"
    assert str(folder) not in server.log.split("\n", 1)[1], "the root stands in the first line alone"


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Jb", 'a" b=c', "a\u202eb", "x" * 5000, "\u00e9 \ud83d"])
def test_no_client_writes_a_line_of_its_own(name: str, folder: Path, server: RunningServer) -> None:
    """T46: control characters, quotes and long texts of clients stay within one line of the right form."""
    before = len(server.log.splitlines())
    for request in (
        action("delete", json.dumps({"dataset": name, "predicate": "id = 1"}).encode()),
        action(name.encode("utf-8", "replace").decode()),
    ):
        assert call(server.address, "DoAction", request).code is not grpc.StatusCode.OK
    lines = server.log.splitlines()[before:]
    assert len(lines) == 2
    assert all(line.isprintable() and len(line) < 3000 for line in lines)


@pytest.mark.parametrize(
    "body",
    [
        b'{"x":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"dataset": "t", "version": ' + b"9" * 4000 + b"}",
        b'{"dataset": "t", "version": ' + b"9" * 5000 + b"}",
        b'{"dataset": {"dataset": "t"}, "branch": ["x"], "tag": NaN}',
        b'{"dataset": "' + b"x" * (4 << 20) + b'"}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)  # fmt: skip
def test_a_hostile_body_is_refused_with_a_line_of_bounded_length(body: bytes, server: RunningServer) -> None:
    """T19, T46: the log leaves out what it cannot read; the client gets the error of the action."""
    before = len(server.log.splitlines())
    outcome = call(server.address, "DoAction", action("describe", body))
    assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT, outcome
    (line,) = server.log.splitlines()[before:]
    assert "refused rpc=DoAction action=describe " in line
    assert outcome.report["error_id"] in line
    assert len(line) < 3000


def test_a_log_of_json_has_one_object_per_line(folder: Path, serve: StartServer) -> None:
    """T46: facts keep their types, and a text of a client cannot end its line."""
    server = serve(folder, "--log-format", "json")
    with server.client() as client:
        put(client, {"dataset": "t", "mode": "append"}, TABLE)
    hostile = action("delete", json.dumps({"dataset": 'a\nb"\u2028', "predicate": "id = 1"}).encode())
    outcome = call(server.address, "DoAction", hostile)
    lines = [json.loads(line) for line in server.log.splitlines()]
    assert [line["event"] for line in lines] == ["start", "change", "refused"]
    started, changed, refused = lines
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", started["time"])
    assert (started["level"], started["max_streams"], started["tls"]) == ("INFO", 256, False)
    assert (changed["dataset"], changed["rows"], changed["version"]) == ("t", 10, 2)
    assert (refused["error_id"], refused["message"]) == (
        outcome.report["error_id"],
        outcome.report["message"],
    )


def test_json_lines_of_stacks_and_of_other_libraries() -> None:
    """A stack stays within its line."""
    script = (
        "import logging; from flight_server.logs import configure_logging, log_event;"
        "configure_logging('INFO', 'json'); logging.getLogger('botocore').warning('no %s', 'answer');"
        "log_event(logging.ERROR, 'failed', {'error': 'ValueError', 'ms': None}, ValueError('bad'))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    theirs, ours = (json.loads(line) for line in done.stderr.splitlines())
    assert (theirs["logger"], theirs["message"], theirs["level"]) == ("botocore", "no answer", "WARNING")
    assert ours.pop("time")
    assert ours == {"level": "ERROR", "event": "failed", "error": "ValueError", "stack": "ValueError: bad"}


def test_requests_stand_in_the_log_at_the_level_debug(folder: Path, serve: StartServer) -> None:
    """Reads are logged with rows, bytes and time; probes of health are not, and no other library is."""
    server = serve(folder, "--log-level", "debug")
    with server.client() as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path("t"))
        client.do_get(info.endpoints[0].ticket).read_all()
        list(client.list_flights())
        act(client, "describe", dataset="t")
        stage(client, TABLE, dataset="t", mode="append")
        for _ in range(3):
            act(client, "health")
    requests = events(server, "request")
    assert {each["level"] for each in requests} == {"DEBUG"}
    told = [each.get("action", each["rpc"]) for each in requests]
    assert told == ["GetFlightInfo", "DoGet", "ListFlights", "describe", "DoPut"]
    planned, read, _, _, staged = requests
    assert (planned["version"], planned["endpoints"]) == ("1", "1")
    assert (read["dataset"], read["version"], read["rows"]) == ("t", "1", "10")
    assert int(read["bytes"]) > 100
    assert float(read["ms"]) > 0
    assert (staged["rows"], staged["staged"]) == ("10", "true")


def test_probes_do_not_fill_the_log(folder: Path, serve: StartServer) -> None:
    """T46: at the default level neither probes nor reads write a line; at the level error changes do not."""
    server, quiet = serve(folder), serve(folder, "--log-level", "error")
    with server.client() as client, quiet.client() as other:
        for _ in range(20):
            act(client, "health")
            list(client.list_flights())
            client.do_get(flight.Ticket(scan_json("t"))).read_all()
        put(other, {"dataset": "t", "mode": "append"}, TABLE)
    assert [each["event"] for each in events(server)] == ["start"]
    assert quiet.log == ""


def test_a_client_that_leaves_early(tmp_path: Path, serve: StartServer) -> None:
    """A stream that its client ended is told of at the level debug only."""
    lance_core.write_dataset(pa.table({"id": np.arange(4_000_000)}), tmp_path / "large.lance")
    server = serve(tmp_path, "--log-level", "debug")
    with server.client() as client:
        reader = client.do_get(flight.Ticket(scan_json("large", compression="none")))
        reader.read_chunk()
        reader.cancel()
    wait_until(lambda: bool(events(server, "request")))
    request = only(server, "request")
    assert (request["rpc"], request["dataset"], request["ended"]) == ("DoGet", "large", "early")
    assert 0 < int(request["rows"]) < 4_000_000


def test_other_libraries_log_no_details() -> None:
    """T46: at the level debug some log request headers, with credentials in them."""
    script = (
        "import logging; from flight_server.logs import configure_logging; configure_logging('DEBUG');"
        "logging.getLogger('botocore').debug('secret'); logging.getLogger('botocore').warning('seen');"
        "logging.getLogger('lance_core.x').debug('ours')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in done.stderr.splitlines()] == ["seen", "ours"]


@pytest.mark.parametrize(
    ("root", "shown"),
    [
        ("/data/lance", "/data/lance"),
        ("s3://bucket/a", "s3://bucket/a"),
        ("s3://key:secret@bucket/a?token=x&y=", "s3://key:***@bucket/a?token=***&y=***"),
        ("s3+ddb://bucket/a?ddbTableName=versions", "s3+ddb://bucket/a?ddbTableName=versions"),
        (
            "abfss://container@account.dfs.core.windows.net/a",
            "abfss://container@account.dfs.core.windows.net/a",
        ),
    ],
)
def test_the_root_is_shown_without_secrets(root: str, shown: str) -> None:
    """T46."""
    assert without_secrets(root) == shown
