"""Grants with columns and filters: limited readers see a table that has only the visible rows and columns."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lance_core
from flight_server.handlers.actions import ACTIONS
from flight_server.reading.fresh_rows import fresh_rows
from flight_server.requests.commands import parse_command, parse_count, parse_exchange
from flight_server.requests.names import DatasetReference
from flight_server.rights.grants import Grant, Limit
from flight_server.security.identity import Identity
from flight_server.service import Service
from flight_server.settings import Settings
from lance_core.errors import DatasetNotFoundError, InvalidInputError, LanceError, UnsupportedFeatureError
from support.searches.nearest import lattice, vector_table

ROWS = 400
COLUMNS = ("id", "region", "amount", "note", "ok", "secret")
READ = frozenset(("list", "read"))

FILTERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "region = 'north'": lambda row: row["region"] == "north",
    "secret % 7 < 3": lambda row: row["secret"] % 7 < 3,
    "amount > 0.2 AND ok": lambda row: row["amount"] is not None and row["amount"] > 0.2 and row["ok"],
    "region IN ('south', 'west') OR id < 20": lambda row: (
        row["region"] in ("south", "west") or row["id"] < 20
    ),
    "ok": lambda row: row["ok"],
    "id < 0": lambda row: False,
}
"""Filters of grants, and what they mean."""


def a_table(seed: int) -> pa.Table:
    source = random.Random(seed)
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "region": pa.array(source.choices(("north", "south", "west"), k=ROWS)),
            "amount": pa.array([source.choice((None, source.random())) for _ in range(ROWS)]),
            "note": pa.array([f"note {source.randrange(50)}" for _ in range(ROWS)]),
            "ok": pa.array(source.choices((True, False, None), k=ROWS)),
            "secret": pa.array([source.randrange(100) for _ in range(ROWS)], pa.int32()),
        }
    )


def service_of(root: Path, *grants: Grant) -> Service:
    everything = Grant(("*",), frozenset(("list", "read", "write", "manage")), subject="root")
    return Service(Settings(str(root), grant=(everything, *grants)))


def reader(service: Service, subject: str = "ana", *roles: str) -> Service:
    return service.on_behalf_of(Identity(subject, frozenset(roles))).needing("read")


def a_query(source: random.Random) -> dict[str, Any]:
    """Return a scan, some of which name hidden columns or fail on some rows."""
    names = [*COLUMNS, "nothing", "ID"]
    columns: Any = source.choice(
        (
            None,
            [],
            source.sample(names, source.randrange(1, 4)),
            {"x": f"id + {source.randrange(9)}", "y": source.choice(("note", "secret * 2", "upper(region)"))},
            {"quotient": f"100 / (secret - {source.randrange(100)})"},
        )
    )
    condition = source.choice(
        (
            None,
            f"id >= {source.randrange(ROWS)}",
            f"100 / (secret - {source.randrange(100)}) >= 0",
            f"100 / (id - {source.randrange(ROWS)}) >= 0",
            f"secret = {source.randrange(100)}",
            "NOT ok",
            f"note = 'note {source.randrange(50)}'",
            "regoin = 'north'",
        )
    )
    query: dict[str, Any] = {"columns": columns, "filter": condition}
    if source.random() < 0.4:
        query["limit"] = source.randrange(30)
    if source.random() < 0.3:
        query["offset"] = source.randrange(30)
    if source.random() < 0.4:
        ascending = source.random() < 0.5
        order = [{"column": name, "ascending": ascending} for name in source.sample(names, 2)]
        query["order_by"] = order
    return {name: value for name, value in query.items() if value is not None}


def an_aggregation(source: random.Random) -> dict[str, Any]:
    """Return an aggregation, some of which name hidden columns or fail on some rows."""
    calls = ["count(*)", "sum(id)", "max(amount)", "min(secret)", "count(DISTINCT note)", "avg(regoin)"]
    calls.append(f"sum(100 / (secret - {source.randrange(100)}))")
    chosen = source.sample(calls, 2)
    return {
        "aggregates": {f"a{number}": text for number, text in enumerate(chosen)},
        "group_by": source.choice(([], ["region"], ["secret"], {"half": "id / 200", "ok": "ok"})),
        "filter": source.choice(("id >= 0", "secret > 50", "NOT ok", "id < 0")),
    }


_NO_VALUE = "the expression has no value"


def outcome(run: Callable[[], Any]) -> Any:
    """Return the result, or the class and message of the error."""
    try:
        return run()
    except LanceError as error:
        message = str(error).replace("'hidden'", "'plain'")
        # Of two expressions without a value, either may be evaluated first.
        return type(error).__name__, _NO_VALUE if _NO_VALUE in message else message


def streamed(service: Service, asked: Any) -> pa.Table:
    stream = service.reads.stream(asked)
    with closing(stream.runs) as runs:
        batches = list(chain.from_iterable(run.batches() for run in runs))
    return pa.Table.from_batches(batches, stream.schema)


def scanned(service: Service, dataset: str, query: dict[str, Any]) -> tuple[pa.Table, pa.Table]:
    """Return the rows of a scan by its tickets, and of the scan itself."""
    command = parse_command(json.dumps({"scan": {"dataset": dataset, **query}}).encode())
    planned = service.reads.plan(command)
    parts = [streamed(service, service.reads.redeem(ticket)) for ticket in planned.tickets]
    assert planned.schema.equals(parts[0].schema, check_metadata=True)
    return pa.concat_tables(parts), streamed(service, command)


def aggregated(service: Service, dataset: str, query: dict[str, Any]) -> tuple[pa.Table, pa.Table]:
    """Return the groups of an aggregation by its ticket, and of the aggregation itself."""
    command = parse_command(json.dumps({"aggregate": {"dataset": dataset, **query}}).encode())
    (ticket,) = service.reads.plan(command).tickets
    return streamed(service, service.reads.redeem(ticket)), streamed(service, command)


def counted(service: Service, dataset: str, condition: str | None) -> int:
    body = {"dataset": dataset} | ({} if condition is None else {"filter": condition})
    return service.reads.count(parse_count(json.dumps(body).encode()))


def taken(service: Service, dataset: str, take: dict[str, Any]) -> pa.Table:
    return streamed(service, parse_command(json.dumps({"take": {"dataset": dataset, **take}}).encode()))


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 108))]
)
def test_a_limited_reader_sees_the_table_that_the_grant_leaves(tmp_path: Path, seed: int) -> None:
    """T3: each answer and each error is that of a table without the hidden columns and rows."""
    source = random.Random(seed)
    table = a_table(seed)
    condition = source.choice([None, *FILTERS])
    columns = source.choice([None, frozenset(source.sample(COLUMNS, 4)), frozenset(("id", "note", "absent"))])
    hidden = lance_core.write_dataset(table, tmp_path / "hidden.lance", max_rows_per_file=90)
    hidden.delete("id % 11 = 5")
    left = [row for row in table.to_pylist() if row["id"] % 11 != 5]
    if condition is not None:
        left = [row for row in left if FILTERS[condition](row)]
    plain = pa.Table.from_pylist(left, table.schema)
    plain = plain.select([name for name in table.column_names if columns is None or name in columns])
    lance_core.write_dataset(plain, tmp_path / "plain.lance")
    service = service_of(tmp_path, Grant(("hidden",), READ, "ana", columns=columns, filter=condition))
    ana, root = reader(service), reader(service, "root")

    def compare(read: Callable[[Service, str], Any]) -> tuple[Any, Any]:
        return outcome(lambda: read(ana, "hidden")), outcome(lambda: read(root, "plain"))

    for _ in range(25):
        query = a_query(source)
        seen, expected = compare(partial(scanned, query=query))
        if seen != expected and "limit" in query:
            # A scan with a limit may end before the row that has no value.
            del query["limit"]
            assert "InvalidInputError" in (seen[0], expected[0])
            seen, expected = compare(partial(scanned, query=query))
        assert seen == expected, (condition, columns, query)
        seen, expected = compare(partial(counted, condition=query.get("filter")))
        assert seen == expected, (condition, query)
        groups = an_aggregation(source)
        seen, expected = compare(partial(aggregated, query=groups))
        assert seen == expected, (condition, columns, groups)
        take = {"offsets": [source.randrange(len(left) + 2) for _ in range(source.randrange(6))]}
        seen, expected = compare(partial(taken, take=take | {"columns": query.get("columns", list(COLUMNS))}))
        assert seen == expected, (condition, query, take)


def test_keys_of_hidden_rows_are_keys_of_no_row(tmp_path: Path) -> None:
    """T3: hidden, deleted and invented keys have the same answer, by takes and by lookups."""
    table = a_table(1)
    for stable in (False, True):
        name = f"t{stable}"
        dataset = lance_core.write_dataset(
            table, tmp_path / f"{name}.lance", max_rows_per_file=100, enable_stable_row_ids=stable
        )
        dataset.delete("id % 5 = 0")
        ana = reader(service_of(tmp_path, Grant(("*",), READ, "ana", filter="region = 'north'")))
        command = parse_command(
            json.dumps({"scan": {"dataset": name, "with_row_id": True, "with_row_address": True}}).encode()
        )
        visible = streamed(ana, command)
        for kind, key in (("row_ids", "_rowid"), ("row_addresses", "_rowaddr")):
            known = dict(zip(visible[key].to_pylist(), visible["id"].to_pylist(), strict=True))
            keys = [*range(120), 1 << 32, (2 << 32) + 99, (3 << 32) + 100, 9 << 32, (1 << 63) + 5]
            take = parse_command(
                json.dumps({"take": {"dataset": name, kind: keys, "columns": ["id"]}}).encode()
            )
            expected = [known[each] for each in keys if each in known]
            assert streamed(ana, take)["id"].to_pylist() == expected
            assert 5 < len(expected) < 60
            asked = parse_exchange(json.dumps({"take": {"dataset": name, "columns": ["id"]}}).encode())
            batch = pa.record_batch({key: pa.array(keys, pa.uint64())})
            with ana.reads.exchange(asked, batch.schema).rows(batch) as rows:
                assert rows["id"].to_pylist() == expected


def test_repeated_searches_find_no_hidden_rows(tmp_path: Path) -> None:
    """T3: searches over a DoExchange find the rows that a scan finds, and hidden columns do not exist."""
    lance_core.write_dataset(vector_table(lattice(300, 4)), tmp_path / "t.lance", max_rows_per_file=100)
    limited = Grant(("t",), READ, "ana", columns=frozenset(("id", "v")), filter="group = 3")
    ana = reader(service_of(tmp_path, limited))
    queries = pa.record_batch({"q": pa.array([[0.0, 1.0, 2.0, -1.0]], pa.list_(pa.float32(), 4))})

    def command(**fields: object) -> bytes:
        return json.dumps({"scan": {"dataset": "t", **fields}}).encode()

    asked = parse_exchange(command(nearest={"column": "v", "k": 5}))
    scan = parse_command(command(nearest={"column": "v", "k": 5, "q": queries["q"].to_pylist()}))
    with ana.reads.exchange(asked, queries.schema).rows(queries) as rows:
        assert pa.Table.from_batches([rows]) == streamed(ana, scan)
        assert {each % 7 for each in rows["id"].to_pylist()} == {3}
    for fields in ({"columns": ["group"]}, {"filter": "group = 3"}):
        with pytest.raises(InvalidInputError, match="group"):
            ana.reads.exchange(parse_exchange(command(nearest={"column": "v"}, **fields)), queries.schema)


def test_plans_and_facts_do_not_count_hidden_rows(tmp_path: Path) -> None:
    """T3: neither tickets, which are readable, nor numbers of endpoints nor facts depend on hidden values."""
    table = a_table(2)
    frame = table.to_pandas()
    with_index = pa.Table.from_pandas(frame)  # its metadata names the columns and counts the rows
    assert with_index.schema.metadata
    lance_core.write_dataset(with_index, tmp_path / "t.lance", max_rows_per_file=100)
    lance_core.dataset(tmp_path / "t.lance").update_config({"owner": "secret"})
    limited = Grant(("t",), READ, "ana", columns=frozenset(("id", "region")), filter="region = 'north'")
    ana = reader(service_of(tmp_path, limited))
    plans = []
    for condition in (None, "id < 0", "id >= 0", "id = 250"):
        scan = {"dataset": "t", "rows_per_endpoint": 10} | ({"filter": condition} if condition else {})
        plans.append(ana.reads.plan(parse_command(json.dumps({"scan": scan}).encode()), num_servers=64))
    for plan in plans:
        assert len(plan.tickets) == 4
        assert (plan.num_rows, plan.num_fragments, plan.num_fragments_pruned, plan.num_pages) == (
            -1,
            -1,
            0,
            None,
        )
        for number, ticket in enumerate(plan.tickets):
            payload = json.loads(ticket[36:])
            assert payload["tasks"] == [[number, 0, 1]]
            assert "region" not in json.dumps(payload)
    described = ACTIONS["describe"].run(ana, b'{"dataset": "t"}')
    assert isinstance(described, dict)
    assert {described[name] for name in ("rows", "bytes", "fragments")} == {-1}
    assert (described["indices"], described["config"], described["metadata"]) == ([], {}, {})
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(described["schema"])))
    assert (schema.names, schema.metadata) == (["id", "region"], None)
    (version, _) = ana.datasets.versions(DatasetReference("t"))
    assert version.metadata == {}
    for action, body in (
        ("list_fragments", {}),
        ("validate", {}),
        ("get_config", {}),
        ("list_versions", {"rows": True}),
    ):
        with pytest.raises(DatasetNotFoundError, match="that you may read as a whole is named 't'"):
            ACTIONS[action].run(ana, json.dumps({"dataset": "t", **body}).encode())
    with pytest.raises(DatasetNotFoundError):
        ACTIONS["explain_scan"].run(ana, b'{"scan": {"dataset": "t"}}')
    for query in (
        {"columns": ["_rowoffset"]},
        {"filter": "_rowoffset = 3"},
        {"columns": {"x": "_rowoffset"}},
    ):
        with pytest.raises(InvalidInputError, match="there is no column '_rowoffset'"):
            scanned(ana, "t", query)


def test_batches_do_not_tell_how_many_rows_are_hidden(tmp_path: Path) -> None:
    """T3: batches of a scan end where visible rows say, not where the scan has passed many hidden rows."""
    rows = 1 << 19
    table = pa.table({"x": pa.array(np.arange(rows) % 100_000 == 0), "n": np.arange(rows)})
    lance_core.write_dataset(table, tmp_path / "t.lance")
    service = service_of(tmp_path, Grant(("t",), READ, "ana", filter="x"))
    for who, query, batches in ((reader(service), {}, 1), (reader(service, "root"), {"filter": "x"}, 3)):
        stream = who.reads.stream(parse_command(json.dumps({"scan": {"dataset": "t", **query}}).encode()))
        with closing(stream.runs) as runs:
            found = [batch.num_rows for run in runs for batch in run.batches()]
        assert (len(found), sum(found)) == (batches, 6)


def test_the_wire_has_no_bytes_of_hidden_rows() -> None:
    """T3: neither the padding of a slice nor a dictionary holds a value of a neighbour."""
    values = pa.array([1] * 3 + [0x5A] * 40, pa.int8())
    words = pa.array(["seen"] * 3 + ["CANARY"] * 40).dictionary_encode()
    rows = pa.record_batch({"values": values, "words": words}).slice(0, 3)

    def wire(batch: pa.RecordBatch) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue().to_pybytes()

    assert b"CANARY" in wire(rows)
    assert b"\x5a" * 4 in wire(rows)
    fresh = wire(fresh_rows(rows))
    assert b"CANARY" not in fresh
    assert b"\x5a" * 4 not in fresh
    assert fresh_rows(rows).to_pylist() == rows.to_pylist()


def test_a_dictionary_inside_another_type_is_refused(tmp_path: Path) -> None:
    words = pa.array(["a", "b"]).dictionary_encode()
    table = pa.table({"id": [1, 2], "s": pa.StructArray.from_arrays([words], ["word"])})
    lance_core.write_dataset(table, tmp_path / "t.lance")
    ana = reader(service_of(tmp_path, Grant(("t",), READ, "ana", filter="id = 1")))
    with pytest.raises(UnsupportedFeatureError, match="dictionaries inside another type"):
        scanned(ana, "t", {})
    assert scanned(ana, "t", {"columns": ["id"]})[0].num_rows == 1


def test_changes_show_visible_rows_only(tmp_path: Path) -> None:
    """T3: no inserted, updated or deleted row that is hidden is in a list, nor its address in a ticket."""
    table = a_table(3).slice(0, 40)
    dataset = lance_core.write_dataset(table.slice(0, 30), tmp_path / "t.lance", enable_stable_row_ids=True)
    dataset.delete("id IN (3, 4, 5, 6, 7, 8)")
    dataset.insert(table.slice(30))
    dataset.update({"note": "'new'"}, "id IN (10, 11, 12, 13, 14)")
    latest = dataset.latest_version
    rows = {row["id"]: row["region"] for row in table.to_pylist()}
    limited = Grant(("t",), READ, "ana", columns=frozenset(("id", "note")), filter="region = 'north'")
    ana = reader(service_of(tmp_path, limited))
    found = ana.reads.differences(DatasetReference("t"), 1, latest)

    def ids(*plans: Any) -> list[int]:
        tables = [streamed(ana, ana.reads.redeem(each)) for plan in plans for each in plan.tickets]
        assert all("secret" not in each.schema.names for each in tables)
        return sorted(chain.from_iterable(each["id"].to_pylist() for each in tables))

    north = {key for key, region in rows.items() if region == "north"}
    assert ids(found.inserted) == sorted(north & set(range(30, 40)))
    assert ids(found.updated) == sorted(north & {10, 11, 12, 13, 14})
    deleted = sorted(north & {3, 4, 5, 6, 7, 8})
    assert ids(*found.deleted) == deleted
    keys = [
        json.loads(ticket[36:])["keys"]["row_addresses"] for plan in found.deleted for ticket in plan.tickets
    ]
    assert sorted(chain.from_iterable(keys)) == deleted


@pytest.mark.parametrize(
    ("roles", "columns", "rows"),
    [
        (("north",), ["id", "region", "amount", "note", "ok", "secret"], {"north"}),
        (("north", "south"), ["id", "region", "amount", "note", "ok", "secret"], {"north", "south"}),
        (("few",), ["id", "region"], {"north", "south", "west"}),
        (("few", "more"), ["id", "region", "note"], {"north", "south", "west"}),
        (("few", "north"), ["id", "region"], {"north", "south", "west"}),
        (("few of west", "north"), ["id", "region"], {"north", "west"}),
        (("few", "unfit"), ["id", "region"], {"north", "south", "west"}),
        (("few", "north", "all"), list(COLUMNS), {"north", "south", "west"}),
    ],
)
def test_several_grants(tmp_path: Path, roles: tuple[str, ...], columns: list[str], rows: set[str]) -> None:
    """T3: the rows of all, the columns that all have; no value that no single grant shows."""
    lance_core.write_dataset(a_table(4), tmp_path / "t.lance")
    few = frozenset(("id", "region"))
    grants = {
        "north": {"filter": "region = 'north'"},
        "south": {"filter": "region = 'south'"},
        "few": {"columns": few},
        "more": {"columns": frozenset(("id", "region", "note"))},
        "few of west": {"columns": few, "filter": "region = 'west'"},
        "unfit": {"filter": "no_such_column = 1"},
        "all": {},
    }
    service = service_of(
        tmp_path,
        *(Grant(("t",), READ, role=role, **given) for role, given in grants.items()),  # type: ignore[arg-type]
    )
    seen, _ = scanned(reader(service, "ana", *roles), "t", {})
    assert seen.column_names == columns
    assert set(seen["region"].to_pylist()) == rows
    assert seen.num_rows == sum(region in rows for region in a_table(4)["region"].to_pylist())


def test_a_grant_that_does_not_fit_gives_no_right(tmp_path: Path) -> None:
    """T3: a filter that names a column which the dataset does not have."""
    lance_core.write_dataset(a_table(4), tmp_path / "t.lance")
    ana = reader(service_of(tmp_path, Grant(("t",), READ, "ana", filter="tenant = 1")))
    with pytest.raises(DatasetNotFoundError, match="no dataset that you may read is named 't'"):
        scanned(ana, "t", {})
    assert Limit(filter="tenant = 1") in ana._access.to("t").limits  # type: ignore[union-attr]


def test_caches_of_one_reader_do_not_answer_another(tmp_path: Path) -> None:
    """T14: callers with different rights take turns on one version, with the same columns and keys."""
    lance_core.write_dataset(a_table(5), tmp_path / "t.lance")
    few = Grant(("t",), READ, "few", columns=frozenset(("id", "region")))
    north = Grant(("t",), READ, "north", filter="region = 'north'")
    service = service_of(tmp_path, few, north)
    seen: dict[str, list[Any]] = {}
    for _ in range(2):
        for subject in ("root", "few", "north"):
            who = reader(service, subject)
            results = [
                scanned(who, "t", {})[0],
                scanned(who, "t", {"filter": "id < 50"})[0],
                taken(who, "t", {"offsets": [0, 7]}),
                taken(who, "t", {"row_ids": list(range(20))}),
                counted(who, "t", None),
                who.reads.schema(parse_command(b'{"scan": {"dataset": "t"}}')),
            ]
            assert seen.setdefault(subject, results) == results
    assert seen["few"][0].column_names == seen["few"][2].column_names == ["id", "region"]
    assert set(seen["north"][3]["region"].to_pylist()) == {"north"}
    assert seen["root"][4] == ROWS > seen["north"][4] == seen["north"][0].num_rows


def test_tickets_are_worth_no_more_than_the_rights_of_now(tmp_path: Path) -> None:
    """T12: a server with other grants neither streams nor renews a ticket. Its owner may cancel it."""
    lance_core.write_dataset(a_table(6), tmp_path / "t.lance")
    whole, north = Grant(("t",), READ, "ana"), Grant(("t",), READ, "ana", filter="region = 'north'")
    scan = parse_command(b'{"scan": {"dataset": "t"}}')
    for made_with, met_with, error in (
        ((whole,), (), DatasetNotFoundError),
        ((whole,), (north,), InvalidInputError),
        ((north,), (whole,), InvalidInputError),
        ((north,), (), DatasetNotFoundError),
    ):
        (ticket,) = reader(service_of(tmp_path, *made_with)).reads.plan(scan).tickets
        reads = reader(service_of(tmp_path, *met_with)).reads
        with pytest.raises(error):
            reads.stream(reads.redeem(ticket))
        with pytest.raises(error):
            reads.renew(ticket)
        assert reads.cancel([ticket])
