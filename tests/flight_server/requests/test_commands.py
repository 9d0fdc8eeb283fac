"""Commands: both forms, every field, and everything that is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from hypothesis import given
from hypothesis import strategies as st

from flight_server.proto.command_pb2 import (
    Aggregate,
    Blobs,
    Columns,
    Command,
    Expression,
    Expressions,
    Integers,
    OrderBy,
    Ordering,
    Range,
    Ranges,
    Scan,
    Take,
)
from flight_server.requests.commands import (
    COMMAND_TYPE_URL,
    AggregateCommand,
    BlobsCommand,
    RowKeys,
    ScanCommand,
    TakeCommand,
    parse_command,
    parse_describe,
)
from flight_server.requests.names import DatasetReference
from lance_core.errors import InvalidInputError, LanceError, UnsupportedFeatureError
from support.runs.each_case import each_case


def scan(**fields: Any) -> bytes:
    return json.dumps({"scan": {"dataset": "trips", **fields}}).encode()


def packed(command: Command) -> bytes:
    return AnyMessage(type_url=COMMAND_TYPE_URL, value=command.SerializeToString()).SerializeToString()


def test_absent_fields_have_their_defaults() -> None:
    assert parse_command(scan()) == ScanCommand(DatasetReference("trips"))


def test_every_field_of_the_json_form() -> None:
    command = parse_command(
        scan(
            dataset="ns/trips",
            version="12",
            columns=["a", "b.c"],
            limit=0,
            offset="9223372036854775807",
            fragments=[3, "1"],
            with_row_id=True,
            with_row_address=True,
            batch_rows=7,
            batch_bytes=65536,
            rows_per_endpoint=100,
            max_endpoints=5,
            ordered=False,
            compression="zstd",
        )
    )
    assert command == ScanCommand(
        dataset=DatasetReference("ns/trips", 12),
        columns=("a", "b.c"),
        limit=0,
        offset=2**63 - 1,
        fragments=(3, 1),
        with_row_id=True,
        with_row_address=True,
        batch_rows=7,
        batch_bytes=65536,
        rows_per_endpoint=100,
        max_endpoints=5,
        ordered=False,
        compression="zstd",
    )


@each_case(
    ("message", "fields"),
    [
        (Scan(dataset="trips"), {}),
        (Scan(dataset="trips", columns=Columns()), {"columns": []}),
        (Scan(dataset="trips", columns=Columns(names=["a", "b.c"])), {"columns": ["a", "b.c"]}),
        (Scan(dataset="trips", limit=0, offset=2**63 - 1), {"limit": 0, "offset": 2**63 - 1}),
        (Scan(dataset="trips", fragments=Integers()), {"fragments": []}),
        (Scan(dataset="trips", fragments=Integers(values=[2, 0])), {"fragments": [2, 0]}),
        (Scan(dataset="trips@3", ordered=False), {"dataset": "trips@3", "ordered": False}),
        (Scan(dataset="trips", version=0, compression="lz4"), {"version": 0, "compression": "lz4"}),
        (Scan(dataset="trips", blob_handling="all_binary"), {"blob_handling": "all_binary"}),
        (
            Scan(
                dataset="trips",
                order_by=OrderBy(
                    values=[Ordering(column="a.b"), Ordering(column="c", ascending=False, nulls_first=True)]
                ),
            ),
            {"order_by": [{"column": "a.b"}, {"column": "c", "ascending": False, "nulls_first": True}]},
        ),
    ],
)
def test_protobuf_means_the_same_as_json(message: Scan, fields: dict[str, Any]) -> None:
    assert parse_command(packed(Command(scan=message))) == parse_command(scan(**fields))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"tag": "gold"}, DatasetReference("trips", tag="gold")),
        ({"branch": "team/dev"}, DatasetReference("trips", branch="team/dev")),
        ({"branch": "dev", "version": 3}, DatasetReference("trips", 3, branch="dev")),
        ({"dataset": "trips@gold"}, DatasetReference("trips", ref="gold")),
        (
            {"asof": "2026-01-02T03:04:05+01:00"},
            DatasetReference("trips", asof=datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC)),
        ),
        ({"asof": "2026-01-02"}, DatasetReference("trips", asof=datetime(2026, 1, 2, tzinfo=UTC))),
    ],
    ids=str,
)
def test_versions_by_name_and_time(fields: dict[str, Any], expected: DatasetReference) -> None:
    assert parse_command(scan(**fields)) == ScanCommand(expected)
    body = {"dataset": "trips"} | fields
    assert parse_describe(json.dumps(body).encode()) == expected


@each_case(
    "fields",
    [
        {"tag": "gold", "version": 1},
        {"tag": "gold", "branch": "dev"},
        {"asof": "2026-01-01", "version": 1},
        {"dataset": "trips@gold", "tag": "gold"},
        {"dataset": "trips@dev:", "version": 1},
        {"tag": "../gold"},
        {"branch": "../dev"},
        {"asof": "yesterday"},
        {"asof": 5},
        {"tag": 5},
    ],
)
def test_contradictory_versions_are_refused(fields: dict[str, Any]) -> None:
    """T9"""
    with pytest.raises(InvalidInputError):
        parse_command(scan(**fields))


def take(**fields: Any) -> bytes:
    return json.dumps({"take": {"dataset": "trips"} | fields}).encode()


def test_blobs_in_both_forms() -> None:
    ranges = Ranges(values=[Range(start=7), Range(length=0)])
    message = Blobs(
        dataset="trips", column="a.b", row_ids=Integers(values=[5, 0]), ranges=ranges, with_size=True
    )
    fields = {
        "dataset": "trips",
        "column": "a.b",
        "row_ids": [5, "0"],
        "ranges": [["7", None], [0, 0]],
        "with_size": True,
    }
    expected = BlobsCommand(
        DatasetReference("trips"), "a.b", RowKeys("row_ids", (5, 0)), ((7, None), (0, 0)), with_size=True
    )
    assert parse_command(json.dumps({"blobs": fields}).encode()) == expected
    assert parse_command(packed(Command(blobs=message))) == expected
    whole = BlobsCommand(DatasetReference("trips"), "a", RowKeys("offsets", (1,)))
    assert parse_command(b'{"blobs": {"dataset": "trips", "column": "a", "offsets": [1]}}') == whole
    message = Blobs(dataset="trips", column="a", offsets=Integers(values=[1]))
    assert parse_command(packed(Command(blobs=message))) == whole
    with pytest.raises(InvalidInputError, match="blobs: the field column is missing"):
        parse_command(b'{"blobs": {"dataset": "trips", "offsets": [1]}}')


def test_aggregates_in_both_forms() -> None:
    message = Aggregate(
        dataset="trips@2",
        filter="x > 1",
        group_by=Columns(names=["region", "x % 2"]),
        aggregates=Expressions(
            values=[Expression(name="b", sql="sum(x)"), Expression(name="a", sql="count(*)")]
        ),
    )
    fields = {
        "dataset": "trips@2",
        "filter": "x > 1",
        "group_by": ["region", "x % 2"],
        "aggregates": {"b": "sum(x)", "a": "count(*)"},
    }
    expected = AggregateCommand(
        DatasetReference("trips", 2), {"b": "sum(x)", "a": "count(*)"}, ("region", "x % 2"), "x > 1"
    )
    for form in (json.dumps({"aggregate": fields}).encode(), packed(Command(aggregate=message))):
        found = parse_command(form)
        assert found == expected
        assert isinstance(found, AggregateCommand)
        assert list(found.aggregates) == ["b", "a"]
    named = Columns(expressions=[Expression(name="half", sql="x / 2")])
    by_name = AggregateCommand(DatasetReference("trips"), {}, {"half": "x / 2"})
    assert parse_command(packed(Command(aggregate=Aggregate(dataset="trips", group_by=named)))) == by_name
    assert parse_command(b'{"aggregate": {"dataset": "trips", "group_by": {"half": "x / 2"}}}') == by_name


@each_case(
    "command",
    [
        b'{"aggregate": {}}',
        b'{"aggregate": {"dataset": "trips", "aggregates": ["sum(x)"]}}',
        b'{"aggregate": {"dataset": "trips", "aggregates": {"a": 1}}}',
        b'{"aggregate": {"dataset": "trips", "aggregates": {"a": "sum(x)", "a": "sum(y)"}}}',
        b'{"aggregate": {"dataset": "trips", "group_by": "x"}}',
        b'{"aggregate": {"dataset": "trips", "limit": 1}}',
        b'{"scan": {"dataset": "trips", "order_by": "x"}}',
        b'{"scan": {"dataset": "trips", "order_by": ["x"]}}',
        b'{"scan": {"dataset": "trips", "order_by": [{}]}}',
        b'{"scan": {"dataset": "trips", "order_by": [{"column": "x", "descending": true}]}}',
        b'{"scan": {"dataset": "trips", "order_by": [{"column": "x", "ascending": 1}]}}',
    ],
)
def test_orders_and_aggregates_that_are_none_are_refused(command: bytes) -> None:
    """T19"""
    with pytest.raises(InvalidInputError):
        parse_command(command)


def test_takes_in_both_forms() -> None:
    reference = DatasetReference("trips")
    expected = TakeCommand(reference, RowKeys("offsets", (5, 0, 5)))
    assert parse_command(take(offsets=[5, "0", 5])) == expected
    message = Take(dataset="trips", offsets=Integers(values=[5, 0, 5]))
    assert parse_command(packed(Command(take=message))) == expected
    largest = (1 << 64) - 1
    message = Take(dataset="trips@2", row_ids=Integers(values=[largest]), columns=Columns(names=["a"]))
    expected = TakeCommand(DatasetReference("trips", 2), RowKeys("row_ids", (largest,)), ("a",))
    assert parse_command(packed(Command(take=message))) == expected
    assert parse_command(take(dataset="trips@2", row_ids=[str(largest)], columns=["a"])) == expected
    addresses = TakeCommand(DatasetReference("trips", tag="gold"), RowKeys("row_addresses", ()), ())
    assert parse_command(take(tag="gold", row_addresses=[], columns=[])) == addresses


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"offsets": [1], "row_ids": [1]},
        {"offsets": 1},
        {"offsets": [-1]},
        {"offsets": [1.5]},
        {"offsets": [None]},
        {"row_ids": [1 << 64]},
        {"offsets": [1], "limit": 3},
    ],
    ids=str,
)
def test_malformed_takes_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="take"):
        parse_command(take(**fields))


@pytest.mark.parametrize(
    ("json_form", "protobuf_form", "expected"),
    [
        (scan(filter="a > 1"), Scan(dataset="trips", filter="a > 1"), {"filter": "a > 1"}),
        (
            scan(substrait_filter="AAEC"),
            Scan(dataset="trips", substrait_filter=b"\x00\x01\x02"),
            {"substrait_filter": b"\x00\x01\x02"},
        ),
        (
            scan(columns={"b": "a + 1", "a": "c"}),
            Scan(
                dataset="trips",
                columns=Columns(
                    expressions=[Expression(name="b", sql="a + 1"), Expression(name="a", sql="c")]
                ),
            ),
            {"columns": {"b": "a + 1", "a": "c"}},
        ),
    ],
    ids=["filter", "substrait", "columns"],
)
def test_expressions_are_passed_on_in_both_forms(
    json_form: bytes, protobuf_form: Scan, expected: dict[str, Any]
) -> None:
    for data in (json_form, packed(Command(scan=protobuf_form))):
        command = parse_command(data)
        assert isinstance(command, ScanCommand)
        assert {name: getattr(command, name) for name in expected} == expected
        if isinstance(command.columns, dict):
            assert list(command.columns) == ["b", "a"]


@pytest.mark.parametrize(
    "data",
    [
        take(offsets=[1], asof="2026-01-01"),
    ],
)
def test_what_is_not_served_yet_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(UnsupportedFeatureError, match="not supported yet"):
        parse_command(data)


@pytest.mark.parametrize(
    "message", ["CommandStatementQuery", "CommandGetSqlInfo", "CommandGetTables", "TicketStatementQuery"]
)
def test_flight_sql_is_refused_by_name(message: str) -> None:
    data = AnyMessage(type_url=f"type.googleapis.com/arrow.flight.protocol.sql.{message}", value=b"\x0a\x01x")
    with pytest.raises(UnsupportedFeatureError, match=rf"Flight SQL.*{message}"):
        parse_command(data.SerializeToString())


@each_case(
    ("data", "message"),
    [
        (b"", "neither JSON"),
        (b"hello", "neither JSON"),
        (b"{", "not JSON"),
        (b"{}", "exactly one key"),
        (b'{"scan": {"dataset": "a"}, "take": {}}', "exactly one key"),
        (b'{"scan": {"dataset": "a"}, "scan": {"dataset": "b"}}', "'scan' appears twice"),
        (b'{"scan": {"dataset": "a", "limit": 1, "limit": 2}}', "'limit' appears twice"),
        (b'{"query": {}}', "unknown command 'query'"),
        (b'{"scan": []}', "scan: expected an object, found a list"),
        (b'{"scan": {}}', "dataset is missing"),
        (b'{"scan": {"dataset": "a", "limits": 1}}', "unknown field 'limits'"),
        (b'{"scan": {"dataset": "a", "limit": NaN}}', "NaN"),
        (b'{"scan": {"dataset": "a", "limit": Infinity}}', "Infinity"),
        (b'{"scan": {"dataset": "a"}} x', "not JSON"),
        (b'{"scan": {"dataset": "\xff"}}', "UTF-8"),
        (b'{"scan": {"dataset": "a", "columns": ["\\ud800"]}}', "surrogate"),
        (b'{"scan": {"dataset": "a", "\\ud800": 1}}', "surrogate"),
        (b'{"scan": {"dataset": "a", "limit": ' + b"9" * 5000 + b"}}", "too long"),
        (scan(dataset=7), "scan.dataset: expected a string, found an integer"),
        (scan(limit=-1), "scan.limit: expected 0 to"),
        (scan(limit=1.0), "scan.limit: expected an integer, found a number"),
        (scan(limit=True), "scan.limit: expected an integer, found a boolean"),
        (scan(limit=None), "scan.limit: expected an integer, found null"),
        (scan(limit="1e3"), "scan.limit: expected an integer, found a string"),
        (scan(limit=2**63), "scan.limit: expected 0 to"),
        (scan(limit="9" * 30), "scan.limit: expected an integer"),
        (scan(columns="a"), "scan.columns: expected a list"),
        (scan(columns=["a", 1]), r"scan.columns\[1\]: expected a string"),
        (scan(fragments=[-1]), r"scan.fragments\[0\]"),
        (scan(with_row_id="yes"), "scan.with_row_id: expected true or false"),
        (scan(with_row_id=1), "scan.with_row_id: expected true or false"),
        (scan(batch_rows=0), "scan.batch_rows: expected 1 to"),
        (scan(batch_bytes=(2 << 20) + 1), "scan.batch_bytes: expected 1 to 2097152"),
        (scan(rows_per_endpoint=0), "scan.rows_per_endpoint"),
        (scan(max_endpoints=0), "scan.max_endpoints"),
        (scan(max_endpoints=10**9), "scan.max_endpoints"),
        (
            scan(compression="snappy"),
            "scan.compression: expected one of none, lz4, zstd, auto, found 'snappy'",
        ),
        (scan(compression=[]), "scan.compression"),
        (scan(dataset="a@1", version=1), "both give a version"),
        (scan(version=1, tag="x"), "version and tag cannot be given together"),
        (scan(filter="a", substrait_filter="AA=="), "filter and substrait_filter cannot be given together"),
        (scan(dataset="../a"), "not allowed"),
    ],
)
def test_bad_commands_say_what_is_wrong(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_command(data)


@pytest.mark.parametrize(
    "data",
    [
        AnyMessage(type_url="type.googleapis.com/other.Command", value=b"").SerializeToString(),
        AnyMessage(type_url=COMMAND_TYPE_URL, value=b"\xff\xff").SerializeToString(),
        AnyMessage(type_url=COMMAND_TYPE_URL, value=b"").SerializeToString(),
        packed(Command()) + b"\x98\x06\x01",
        packed(
            Command(scan=Scan(columns=Columns(names=["a"], expressions=[Expression(name="b")]), dataset="a"))
        ),
        # Field 99 of the scan, of the command.
        AnyMessage(type_url=COMMAND_TYPE_URL, value=b"\x0a\x06\x0a\x01a\x98\x06\x01").SerializeToString(),
        AnyMessage(type_url=COMMAND_TYPE_URL, value=b"\x0a\x03\x0a\x01a\x98\x06\x01").SerializeToString(),
    ],
)
def test_bad_protobuf_is_refused(data: bytes) -> None:
    """T19: unknown fields are refused in this form as well."""
    with pytest.raises(InvalidInputError):
        parse_command(data)


def test_size_and_depth_are_capped() -> None:
    """T19: 1 MiB and 32 levels, however the nesting is made."""
    with pytest.raises(InvalidInputError, match="at most 1048576"):
        parse_command(scan(columns=["x" * (1 << 20)]))
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        for depth in (33, 100_000):
            nested = opening * depth + b"1" + closing * depth
            with pytest.raises(InvalidInputError, match=r"nested deeper than 32|expected a JSON object"):
                parse_command(b'{"scan": ' + nested + b"}")


@given(st.binary(max_size=200))
def test_random_bytes_never_escape_as_another_error(data: bytes) -> None:
    """T19."""
    for prefix in (b"", b"{", b'{"scan": '):
        with pytest.raises(LanceError):
            parse_command(prefix + data)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)
_scan_fields = st.fixed_dictionaries(
    {"dataset": st.just("trips") | _json},
    optional=dict.fromkeys(("version", "columns", "limit", "fragments", "compression", "ordered"), _json),
)


@given(_scan_fields)
def test_random_values_are_accepted_or_refused_by_field(fields: dict[str, Any]) -> None:
    """T19: a value of any type in any field."""
    try:
        command = parse_command(json.dumps({"scan": fields}).encode())
    except LanceError:
        return
    assert command.limit is None or 0 <= command.limit < 2**63


def test_describe_body() -> None:
    assert parse_describe(b'{"dataset": "a/b"}') == DatasetReference("a/b")
    assert parse_describe(b'{"dataset": "a/b", "version": "3"}') == DatasetReference("a/b", 3)
    for body in (b"", b"{}", b'{"dataset": "a", "x": 1}', b'{"dataset": "a@1", "version": 1}'):
        with pytest.raises(InvalidInputError):
            parse_describe(body)
