"""Every RPC and action over real sockets, as callers with different rights.

The rows of the matrix come from the registry of actions: a new action fails the tests until it has a body.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from signal import SIGHUP
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import grpc
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import flight

import flight_client
import lance_core
from flight_server.handlers.actions import ACTIONS
from flight_server.requests.names import DatasetReference
from flight_server.requests.write_command import WriteCommand
from flight_server.rights.grants import RIGHTS, parse_grants
from flight_server.rights.needed import rights_to
from flight_server.security.identity import Identity
from flight_server.service import Service
from flight_server.settings import Settings
from lance_core.errors import DatasetNotFoundError, InvalidInputError
from support.clients.puts import finish_message, flight_data, ipc_messages
from support.clients.raw_flight import (
    Outcome,
    action,
    call_on,
    command_descriptor,
    path_descriptor,
    scan_json,
    ticket,
)
from support.servers.granted import (
    HELD,
    LIMITED,
    ROWS,
    Granted,
    digest_of,
    headers_of,
    token_of,
    write_dataset,
    write_settings,
)
from support.servers.server import serving
from support.servers.tokens import Issuer

NOT_FOUND, OK = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.OK
SECRET = "hidden_salary"
NEW = ROWS.slice(0, 2)

Request = tuple[str, list[bytes]]
"""RPC and its messages."""

SCHEMA = base64.b64encode(ROWS.schema.serialize()).decode()

BODIES: dict[str, dict[str, Any]] = {
    "describe": {},
    "list_fragments": {},
    "count_rows": {},
    "validate": {},
    "explain_scan": {"scan": {}},
    "create_dataset": {"schema": SCHEMA},
    "drop_dataset": {},
    "shallow_clone": {"target": "shop/made"},
    "delete": {"predicate": "hidden_salary > 90005"},
    "update": {"updates": {"id": "id + 1"}},
    "commit": {"operation": "append", "staged": ["0" * 32]},
    "abort": {"staged": ["0" * 32]},
    "add_columns": {"columns": {"more": "id + 1"}},
    "drop_columns": {"columns": ["id"]},
    "alter_columns": {"columns": [{"path": "id", "name": "number"}]},
    "create_index": {"columns": ["id"], "index_type": "BTREE"},
    "train_index": {"columns": ["id"], "index_type": "IVF_FLAT"},
    "commit_index": {"receipts": ["0" * 32]},
    "drop_index": {"name": "none"},
    "optimize_indices": {},
    "index_statistics": {"name": "none"},
    "prewarm_index": {"name": "none"},
    "compact": {},
    "compact_plan": {},
    "compact_execute": {},
    "compact_commit": {"receipts": ["0" * 32]},
    "cleanup": {"retain_versions": 1, "error_if_tagged_old_versions": False},
    "list_versions": {},
    "find_transaction": {"transaction_id": "6f2c0a54-8d7e-4a38-9a55-1d3a5b8f5c11"},
    "restore": {"version": 1},
    "changes": {"from_version": 1, "to_version": 2},
    "list_tags": {},
    "create_tag": {"tag": "silver"},
    "update_tag": {"tag": "gold", "version": 2},
    "delete_tag": {"tag": "gold"},
    "list_branches": {},
    "create_branch": {"branch": "test"},
    "delete_branch": {"branch": "dev"},
    "get_config": {},
    "update_config": {"config": {"a": "b"}},
}
"""Bodies of all actions on one dataset, without the field `dataset`."""

WITHOUT_DATASET = {"health", "CancelFlightInfo", "RenewFlightEndpoint"}
"""Actions that name no dataset; other tests are about them."""

REACHED = {
    "commit",
    "commit_index",
    "compact_commit",
    "compact_execute",
    "drop_index",
    "index_statistics",
    "prewarm_index",
    "create_dataset",
    "train_index",
}
"""Actions whose bodies here make them fail, but only after the dataset was found."""

WHOLE = {
    "list_fragments",
    "validate",
    "get_config",
    "shallow_clone",
    "index_statistics",
    "prewarm_index",
}
"""Actions that need a right to read without limits."""

MODES = ("create", "append", "overwrite", "merge_insert", "add_columns", "replace_columns")


@cache
def a_task() -> str:
    """Return a task of a compaction of the datasets of the matrix."""
    with TemporaryDirectory() as folder:
        write_dataset(Path(folder) / "t.lance")
        service = Service(Settings(folder))
        return service.upkeep.plan_compaction(DatasetReference("t"), {}).tasks[0]


def body_of(name: str, dataset: str) -> bytes:
    body = dict(BODIES[name])
    if name == "compact_execute":
        body["task"] = a_task()
    if name == "explain_scan":
        body["scan"] = {"dataset": dataset}
    else:
        body["dataset"] = dataset
    return json.dumps(body).encode()


_FIELDS = {
    "merge_insert": {"on": ["id"], "when_matched": "update_all"},
    "add_columns": {"on": ["id"]},
    "replace_columns": {"fragment_id": 0},
}


def aggregate_json(dataset: str) -> bytes:
    fields = {"dataset": dataset, "aggregates": {"rows": "count(*)"}, "group_by": ["_rowid"]}
    return json.dumps({"aggregate": fields}).encode()


def write_json(dataset: str, mode: str, **fields: Any) -> bytes:
    command = {"dataset": dataset, "mode": mode, **_FIELDS.get(mode, {}), **fields}
    return json.dumps({"write": command}).encode()


def messages_of(command: bytes, table: pa.Table) -> list[bytes]:
    """Return the messages of an upload, without a finish message."""
    first, *others = ipc_messages(table)
    return [
        flight_data(*first, descriptor=command_descriptor(command)),
        *(flight_data(*message) for message in others),
    ]


def upload(command: bytes) -> Request:
    if b"add_columns" in command:
        table = NEW.rename_columns(["id", "more", "others"])
    else:
        table = NEW.select(["region"]) if b"replace_columns" in command else NEW
    finish = flight_data(metadata=finish_message(table.num_rows, 1))
    return "DoPut", [*messages_of(command, table), finish]


def lookup(dataset: str) -> Request:
    command = json.dumps({"take": {"dataset": dataset}}).encode()
    return "DoExchange", messages_of(command, pa.table({"_rowid": pa.array([1], pa.uint64())}))


RPCS: dict[str, tuple[tuple[str, ...], Callable[[str], Request]]] = {
    "GetFlightInfo": (("read",), lambda name: ("GetFlightInfo", [path_descriptor(*name.split("/"))])),
    "GetSchema": (("read",), lambda name: ("GetSchema", [path_descriptor(*name.split("/"))])),
    "DoGet": (("read",), lambda name: ("DoGet", [ticket(scan_json(name))])),
    "DoGet of a version": (("read",), lambda name: ("DoGet", [ticket(scan_json(f"{name}@1"))])),
    "DoGet of a branch": (("read",), lambda name: ("DoGet", [ticket(scan_json(f"{name}@dev"))])),
    "DoGet of groups": (("read",), lambda name: ("DoGet", [ticket(aggregate_json(name))])),
    "DoExchange": (("read",), lookup),
    **{
        f"DoPut {mode}": (rights_to(mode), lambda name, mode=mode: upload(write_json(name, mode)))
        for mode in MODES
    },
    **{
        f"DoPut {mode} staged": (
            rights_to(mode),
            lambda name, mode=mode: upload(write_json(name, mode, stage=True)),
        )
        for mode in MODES
    },
}
"""RPCs about one dataset, the rights that they need, and their requests."""


def cells() -> Iterator[tuple[str, tuple[str, ...], Callable[[str], Request]]]:
    """Yield the rows of the matrix: a name, the rights that are needed, and the request about a dataset."""
    for name in BODIES:
        needs = (*ACTIONS[name].needs, *(("read",) if name == "shallow_clone" else ()))
        yield name, needs, lambda dataset, name=name: ("DoAction", [action(name, body_of(name, dataset))])
    for name, (needs, request) in RPCS.items():
        yield name, needs, request


def slug(name: str) -> str:
    return "shop/" + name.replace(" ", "-").replace("_", "-").lower()


@pytest.fixture(scope="module")
def granted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Granted]:
    folder = tmp_path_factory.mktemp("granted")
    issuer = Issuer.make("EdDSA", "one")
    root = folder / "root"
    for name, _, _ in cells():
        write_dataset(root / f"{slug(name)}.lance")
    write_dataset(root / "elsewhere" / "secret.lance")
    settings = write_settings(folder, issuer)
    with serving(root, folder / "server.log", "--settings", str(settings)) as server:
        yield Granted(server, root, settings, issuer)


def told(outcome: Outcome, name: str) -> str:
    """Return the message of an error without the name of the dataset and the hint."""
    message = str(outcome.report["message"])
    return re.sub(r"; (did you mean|there are) .*", "", message.replace(name, "NAME"))


def is_allowed(subject: str, name: str, needs: tuple[str, ...]) -> bool:
    if subject in LIMITED:
        return needs == ("read",) and name not in WHOLE and (name, subject) != ("explain_scan", "of rows")
    return set(needs) <= set(HELD[subject])


def test_the_matrix(granted: Granted) -> None:
    """T3: a dataset is missing for callers without the rights, and nothing changes; the rest works."""
    assert BODIES.keys() | WITHOUT_DATASET == ACTIONS.keys(), "a new action needs a body in this matrix"
    checked = refused = 0
    with grpc.insecure_channel(granted.server.address) as channel:

        def ask(subject: str, request: Request) -> Outcome:
            return call_on(channel, request[0], *request[1], headers=headers_of(subject))

        digest = digest_of(granted.root)
        for name, needs, request in cells():
            for subject in (*HELD, *LIMITED):
                if is_allowed(subject, name, needs):
                    continue
                there, missing = (ask(subject, request(each)) for each in (slug(name), "shop/nowhere"))
                assert there.code is missing.code is NOT_FOUND, (subject, name, there, missing)
                told_there = told(there, slug(name))
                if subject in LIMITED:  # it knows that the dataset is there, since it may read a part
                    told_there = told_there.replace(" as a whole", "")
                assert told_there == told(missing, "shop/nowhere").replace(" as a whole", ""), (subject, name)
                assert told(there, slug(name)).startswith("no dataset that you may "), (subject, name)
                assert SECRET.encode() not in there.everything()
                refused += 1
        assert digest_of(granted.root) == digest, "a refused call changed something"
        for name, needs, request in cells():
            reads_only = set(needs) <= {"list", "read"}
            for subject in (*LIMITED, "reader", "owner") if reads_only else ("owner",):
                if not is_allowed(subject, name, needs):
                    continue
                outcome = ask(subject, request(slug(name)))
                if outcome.code is not OK:
                    assert name in REACHED or name.startswith("DoPut"), (subject, name, outcome)
                    assert outcome.report["name"] != "DatasetNotFoundError", (subject, name, outcome)
                    assert outcome.report["name"] != "InternalError", (subject, name, outcome)
                data = b"".join(outcome.messages)
                assert SECRET.encode() not in data or subject != "of columns", name
                assert b"south" not in data or subject != "of rows", name
                checked += 1
    assert refused > 200
    assert checked > 80
    log = granted.server.log
    assert "InternalError" not in log


def test_no_cell_passes_without_a_good_token(granted: Granted) -> None:
    """T1, T2, T3: expired, foreign and forged tokens of the owner; nothing changes."""
    digest = digest_of(granted.root)
    with grpc.insecure_channel(granted.server.address) as channel:
        for kind, headers in granted.credentials().items():
            for name, _, request in cells():
                method, messages = request(slug(name))
                outcome = call_on(channel, method, *messages, headers=headers)
                assert outcome.code is grpc.StatusCode.UNAUTHENTICATED, (kind, name, outcome)
                assert outcome.messages == []
    assert digest_of(granted.root) == digest


def test_listings_are_filtered(granted: Granted) -> None:
    """T3: a caller sees only what a grant lets the caller list, and of that only the name without `read`."""
    found: dict[str, dict[str, flight.FlightInfo]] = {}
    with flight.connect(granted.server.uri) as client:
        for subject in (*HELD, *LIMITED):
            infos = client.list_flights(options=granted.options(subject))
            found[subject] = {b"/".join(info.descriptor.path).decode(): info for info in infos}
    assert set(found["stranger"]) == {"elsewhere/secret"}
    assert found["writer"] == found["manager"] == {}
    shops = set(found["reader"])
    assert shops == set(found["lister"]) == set(found["of rows"])
    assert all(name.startswith("shop/") for name in shops)
    for name in shops:
        assert (found["lister"][name].schema.names, found["lister"][name].total_records) == ([], -1)
        assert found["of rows"][name].total_records == found["of rows"][name].total_bytes == -1
        assert SECRET not in found["of columns"][name].schema.names
    assert SECRET in found["reader"]["shop/describe"].schema.names


def test_hints_name_only_what_the_caller_may_use(granted: Granted) -> None:
    """T3: a near name of a forbidden dataset is no help."""
    with grpc.insecure_channel(granted.server.address) as channel:
        for subject, hint in (("reader", "'shop/getschema'"), ("lister", ""), ("stranger", "")):
            near = path_descriptor("shop", "getschem")
            outcome = call_on(channel, "GetSchema", near, headers=headers_of(subject))
            assert outcome.code is NOT_FOUND
            message = str(outcome.report["message"])
            assert hint in message
            assert ("did you mean" in message) == bool(hint), message
        outcome = call_on(
            channel, "GetSchema", path_descriptor("elsewhere", "secre"), headers=headers_of("reader")
        )
        assert "secret" not in str(outcome.report["message"])
        request = action("validate", b'{"dataset": "shop/getschema"}')
        outcome = call_on(channel, "DoAction", request, headers=headers_of("of rows"))
        told = "no dataset that you may read as a whole is named 'shop/getschema'"
        assert str(outcome.report["message"]).partition(";")[0] == told
        assert "did you mean 'shop/getschema'" not in str(outcome.report["message"])


def test_creation_tells_nothing(granted: Granted) -> None:
    """T3: without the right to write, a new name and a taken name are the same; names below one, too."""
    digest = digest_of(granted.root)
    names = ("shop/describe", "elsewhere/secret", "shop/new", "elsewhere/new", "elsewhere/secret/x")
    with grpc.insecure_channel(granted.server.address) as channel:
        for subject in ("reader", "manager"):
            for name in names:
                request = action("create_dataset", body_of("create_dataset", name))
                outcome = call_on(channel, "DoAction", request, headers=headers_of(subject))
                assert outcome.code is NOT_FOUND
                assert told(outcome, name) == "no dataset that you may write is named 'NAME'"
        clone = {"dataset": "shop/describe", "target": "elsewhere/secret"}
        request = action("shallow_clone", json.dumps(clone).encode())
        outcome = call_on(channel, "DoAction", request, headers=headers_of("owner"))
        assert outcome.code is NOT_FOUND
    assert digest_of(granted.root) == digest


def test_a_name_below_a_hidden_dataset(tmp_path: Path) -> None:
    """T3: the answer does not say that there is a dataset. Whoever may list it, is told."""
    lance_core.write_dataset(NEW, tmp_path / "plain")
    grants = [{"subject": name, "datasets": ["plain/*"], "rights": ["write"]} for name in ("ana", "ben")]
    grants.append({"subject": "ben", "datasets": ["plain"], "rights": ["list"]})
    service = Service(Settings(str(tmp_path), grant=parse_grants(json.dumps(grants))))
    command = WriteCommand(DatasetReference("plain/x"), mode="create")
    for subject, error, message in (
        ("ana", DatasetNotFoundError, "^no dataset that you may write is named 'plain/x'$"),
        ("ben", InvalidInputError, "'plain' is a dataset or a file"),
    ):
        caller = service.on_behalf_of(Identity(subject)).needing("write")
        with pytest.raises(error, match=message):
            caller.changes.create(command, NEW.schema)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["plain"]


def test_claims_of_a_token_are_granted(granted: Granted) -> None:
    """T3: by the value of a claim, or as one of several values."""
    request = path_descriptor("shop", "describe")
    with grpc.insecure_channel(granted.server.address) as channel:
        for department in ("north", ["x", "north"], "south", None):
            token = granted.issuer.token("nobody", department=department)
            outcome = call_on(channel, "GetSchema", request, headers=[("authorization", f"Bearer {token}")])
            assert outcome.code is (OK if department and "north" in department else NOT_FOUND), department


def test_a_client_of_a_limited_reader(granted: Granted) -> None:
    """T3: datasets of the client, DuckDB and Polars have the visible rows only."""
    lance_core.write_dataset(ROWS, granted.root / "shop" / "for-clients.lance", max_rows_per_file=15)
    north = ROWS.filter(pc.equal(ROWS["region"], "north"))
    with flight_client.connect(granted.server.uri, token=token_of("of rows")) as client:
        dataset = client.dataset("shop/for-clients")
        assert dataset.count_rows() == len(north)
        assert dataset.to_table() == north
        assert dataset.head(3) == north.slice(0, 3)
        assert dataset.take([0, 4]) == north.take([0, 4])
        with duckdb.connect() as connection:
            found = connection.sql("SELECT count(*), max(id) FROM dataset WHERE hidden_salary > 90010")
            assert found.fetchall() == [(7, 36)]
        assert dataset.to_polars().collect().height == len(north)
        with pytest.raises(flight_client.DatasetNotFoundError, match="that you may write"):
            client.write("shop/for-clients", ROWS, mode="append")
    with flight_client.connect(granted.server.uri, token=token_of("of columns")) as client:
        dataset = client.dataset("shop/for-clients")
        assert dataset.to_table() == ROWS.select(["id", "region"])
        with pytest.raises(flight_client.InvalidInputError, match="no column 'hidden_salary'; there are"):
            dataset.to_table(filter="hidden_salary > 0")


def test_every_right_is_on_the_page() -> None:
    """The list of docs/security.md is that of the registry."""
    page = (Path(__file__).parents[3] / "docs" / "security.md").read_text(encoding="utf-8")
    section = page.split("### What each right is needed for")[1].split("\n### ")[0]
    lines = re.findall(r"^- (.+?): (.*(?:\n  .*)*)", section, re.MULTILINE)
    listed = {
        name: tuple(right for right in RIGHTS if f"`{right}`" in rights)
        for rights, names in lines
        for name in re.findall(r"`(\w+)`", names)
    }
    assert listed == {name: each.needs for name, each in ACTIONS.items()}
    rpcs = {name: rights for rights, names in lines for name in re.findall(r"\b([A-Z]\w+)\b(?!`)", names)}
    assert {name: rights[0] for name, (rights, _) in RPCS.items() if " " not in name} == {
        name: rpcs[name].strip("`") for name in ("GetFlightInfo", "GetSchema", "DoGet", "DoExchange")
    }


def test_rights_that_end(granted: Granted, tmp_path: Path) -> None:
    """T3, T12: a ticket is of no use when its right is gone; a broken file changes nothing."""
    root = tmp_path / "root"
    lance_core.write_dataset(ROWS, root / "shop" / "rows.lance")
    settings = write_settings(tmp_path, granted.issuer)
    text = settings.read_text()
    of_reader = 'subject = "reader"'
    with (
        serving(root, tmp_path / "server.log", "--settings", str(settings)) as server,
        flight.connect(server.uri) as client,
    ):
        reader = granted.options("reader")
        info = client.get_flight_info(flight.FlightDescriptor.for_path("shop", "rows"), reader)
        (mine,) = [endpoint.ticket for endpoint in info.endpoints]
        assert client.do_get(mine, reader).read_all().num_rows == len(ROWS)

        def count(event: str) -> int:
            return sum(f" {event} " in line and "server.toml" in line for line in server.log.splitlines())

        def reload(content: str, event: str) -> None:
            settings.write_text(content)
            seen = count(event)
            server.process.send_signal(SIGHUP)
            while count(event) == seen:
                assert server.process.poll() is None

        reload(text.replace("[[grant]]", "[[grant"), "reload_failed")
        reload(text.split("[[grant]]")[0], "reload_failed")
        assert client.do_get(mine, reader).read_all().num_rows == len(ROWS)
        reload(text.replace(of_reader, f"filter = \"region = 'north'\"\n{of_reader}"), "reloaded")
        with pytest.raises(pa.ArrowInvalid, match="the rights to the dataset have changed"):
            client.do_get(mine, reader).read_all()
        reload(text.replace(of_reader, 'subject = "somebody"'), "reloaded")
        rows = flight.Action("count_rows", b'{"dataset": "shop/rows"}')
        for use in (
            lambda: client.do_get(mine, reader).read_all(),
            lambda: list(client.do_action(rows, reader)),
        ):
            with pytest.raises(KeyError, match="no dataset that you may read is named 'shop/rows'"):
                use()
        assert list(client.list_flights(options=reader)) == []
