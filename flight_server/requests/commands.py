"""Commands: what a client writes into a descriptor or a ticket, as JSON text or as a protobuf `Any`.

Both forms become the same plain objects through one validator; a value that is not understood is refused by
the name of its field. The fields are described in protos/lance_flight/command.proto; the JSON keys are
their names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any as AnyValue
from typing import TypeVar

from google.protobuf.any_pb2 import Any
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, Message

from flight_server.proto.command_pb2 import Command
from flight_server.requests.json_fields import (
    Checker,
    base64_bytes,
    boolean,
    check_fields,
    integer,
    integers,
    list_of,
    mapping,
    one_of,
    parse_object,
    string,
    time,
    unique_keys,
    unsupported,
)
from flight_server.requests.names import MAXIMUM_VERSION, DatasetReference, parse_name, shown
from flight_server.requests.nearest_fields import (
    hybrid,
    hybrid_in_json,
    nearest,
    nearest_in_json,
    repeated_nearest,
)
from flight_server.requests.write_command import WriteCommand, write_command
from lance_core import ColumnOrdering
from lance_core.api.serving import BLOB_HANDLINGS, SEARCHES
from lance_core.errors import InvalidInputError, UnsupportedFeatureError

MAXIMUM_COMMAND_BYTES = 1 << 20
MAXIMUM_BATCH_BYTES = 2 << 20
MAXIMUM_ENDPOINTS = 1 << 16
DEFAULT_ENDPOINTS = 1024
COMPRESSIONS = ("none", "lz4", "zstd", "auto")
DEFAULT_BLOB_HANDLING = BLOB_HANDLINGS[0]

_COMMANDS = ("scan", "take", "blobs", "aggregate", "write")

COMMAND_TYPE_URL = "type.googleapis.com/lance_flight.v1.Command"
FLIGHT_SQL_TYPE_URL = "type.googleapis.com/arrow.flight.protocol.sql."


M = TypeVar("M", bound=Message)

Columns = tuple[str, ...] | Mapping[str, str] | None
"""Names, or SQL expressions by name; None: every column; empty: rows without columns."""


@dataclass(frozen=True)
class ScanCommand:
    """Rows of one version of a dataset, in dataset order; the fields of `Scan` in command.proto."""

    dataset: DatasetReference
    columns: Columns = None
    filter: str | None = None
    """SQL."""
    substrait_filter: bytes | None = None
    """A Substrait ExtendedExpression."""
    limit: int | None = None
    offset: int | None = None
    fragments: tuple[int, ...] | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    batch_rows: int | None = None
    batch_bytes: int | None = None
    rows_per_endpoint: int | None = None
    max_endpoints: int = DEFAULT_ENDPOINTS
    ordered: bool = True
    compression: str = "none"
    verify_checksums: bool = False
    """Check the pages that are read, whatever the server is set to."""
    blob_handling: str = DEFAULT_BLOB_HANDLING
    """One of `BLOB_HANDLINGS`."""
    order_by: tuple[ColumnOrdering, ...] = ()
    nearest: Mapping[str, AnyValue] | None = None
    """Search of the nearest rows instead; the fields of `Nearest`."""
    full_text_query: Mapping[str, AnyValue] | None = None
    """Search of rows that contain words instead; the JSON object of the query."""
    hybrid: Mapping[str, AnyValue] | None = None
    """Rule by which the rows of both searches are joined; the fields of `Hybrid`."""
    search_filter: str | None = None
    """One of `SEARCHES`: this search is a filter of the other one."""
    index_segments: tuple[str, ...] | None = None
    """Uuids of the segments of a vector index that find the rows of `nearest`."""
    prefilter: bool = False
    fast_search: bool = False
    use_scalar_index: bool = True
    split_search: bool = False


@dataclass(frozen=True)
class AggregateCommand:
    """Groups of the rows of one version of a dataset; the fields of `Aggregate` in command.proto."""

    dataset: DatasetReference
    aggregates: Mapping[str, str]
    """SQL by name."""
    group_by: Columns = ()
    filter: str | None = None
    substrait_filter: bytes | None = None


@dataclass(frozen=True)
class RowKeys:
    """Keys of the rows of a take: one kind of key, in the order of the rows. The fields of `Take`."""

    kind: str
    """One of `KEY_KINDS`."""
    values: tuple[int, ...]


@dataclass(frozen=True)
class TakeCommand:
    """Single rows of one version of a dataset; the fields of `Take` in command.proto."""

    dataset: DatasetReference
    keys: RowKeys
    columns: Columns = None
    blob_handling: str = DEFAULT_BLOB_HANDLING


@dataclass(frozen=True)
class LookupCommand:
    """Columns of rows whose keys come in a DoExchange; a `Take` without keys."""

    dataset: DatasetReference
    columns: Columns = None
    blob_handling: str = DEFAULT_BLOB_HANDLING


@dataclass(frozen=True)
class RepeatedSearch:
    """Search whose queries come in a DoExchange; a `Scan` with `nearest`, but without queries."""

    scan: ScanCommand
    """The scan, whose `nearest` has no `q`."""

    @property
    def dataset(self) -> DatasetReference:
        return self.scan.dataset


Ranges = tuple[tuple[int, int | None], ...]
"""Start and length of a range of each blob; the length None: to the end."""


@dataclass(frozen=True)
class BlobsCommand:
    """Bytes of the blobs of single rows; the fields of `Blobs` in command.proto."""

    dataset: DatasetReference
    column: str
    keys: RowKeys
    ranges: Ranges | None = None
    """One per key; None: whole blobs."""
    with_size: bool = False
    with_row_address: bool = False


ReadCommand = ScanCommand | TakeCommand | BlobsCommand | AggregateCommand
"""Command of a GetFlightInfo, a GetSchema or a DoGet."""

ExchangeCommand = LookupCommand | RepeatedSearch
"""Command of a DoExchange."""


@dataclass(frozen=True)
class CountCommand:
    """Count of the rows of one version that pass a filter; the body of the action `count_rows`."""

    dataset: DatasetReference
    filter: str | None = None
    substrait_filter: bytes | None = None


def parse_command(data: bytes) -> ReadCommand:
    """Return the read command in `data`: JSON when its first byte is `{`, else a protobuf `Any`.

    Raises InvalidInputError naming what is wrong and UnsupportedFeatureError for what is not served yet.
    """
    kind, fields = _kind_and_fields(data)
    if kind == "write":
        raise InvalidInputError("a write command goes to DoPut")
    parsers: Mapping[str, Callable[[AnyValue], ReadCommand]] = {
        "scan": _scan_command,
        "take": _take_command,
        "blobs": _blobs_command,
        "aggregate": _aggregate_command,
    }
    return parsers[kind](fields)


def parse_write(data: bytes) -> WriteCommand:
    """Return the write command in `data`, in either form; errors are those of `parse_command`."""
    kind, fields = _kind_and_fields(data)
    if kind != "write":
        raise InvalidInputError(f"DoPut takes a write command, not {kind}")
    return write_command(fields)


def parse_exchange(data: bytes) -> ExchangeCommand:
    """Return the command in `data`, in either form: a take without keys, or a search without queries.

    Errors are those of `parse_command`.
    """
    kind, fields = _kind_and_fields(data)
    if kind == "scan":
        return _repeated_search(fields)
    if kind != "take":
        raise InvalidInputError(f"DoExchange takes a take or a scan command, not {kind}")
    reference, values = _checked("take", fields, _TAKE_FIELDS)
    for kind in KEY_KINDS:
        if kind in values:
            raise InvalidInputError(f"take: the keys of a DoExchange come in batches, not as {kind}")
    return LookupCommand(reference, **values)


def _repeated_search(fields: AnyValue) -> RepeatedSearch:
    reference, values = _checked("scan", fields, _REPEATED_SEARCH_FIELDS, ("dataset", "nearest"))
    return RepeatedSearch(ScanCommand(dataset=reference, **values))


def _kind_and_fields(data: bytes) -> tuple[str, AnyValue]:
    if len(data) > MAXIMUM_COMMAND_BYTES:
        raise InvalidInputError(f"command of {len(data)} bytes; at most {MAXIMUM_COMMAND_BYTES}")
    kind, fields = _from_json(data) if data.startswith(b"{") else _from_protobuf(data)
    if kind not in _COMMANDS:
        raise InvalidInputError(f"unknown command {shown(kind)}; known: {', '.join(_COMMANDS)}")
    return kind, fields


def _from_json(data: bytes) -> tuple[str, AnyValue]:
    command = parse_object(data)
    if len(command) != 1:
        raise InvalidInputError(
            f"a command has exactly one key ({', '.join(_COMMANDS)}), found {len(command)}"
        )
    return next(iter(command.items()))


def _from_protobuf(data: bytes) -> tuple[str, AnyValue]:
    envelope = _parsed(Any(), data, "command")
    if envelope.type_url.startswith(FLIGHT_SQL_TYPE_URL):
        message = envelope.type_url.removeprefix(FLIGHT_SQL_TYPE_URL)
        raise UnsupportedFeatureError(f"Flight SQL is not supported yet (message {shown(message)})")
    if envelope.type_url != COMMAND_TYPE_URL:
        raise InvalidInputError(
            f"the command is neither JSON (first byte {{) nor an Any of {COMMAND_TYPE_URL}",
            found=shown(envelope.type_url),
        )
    command = _parsed(Command(), envelope.value, "lance_flight.v1.Command")
    kind = command.WhichOneof("command")
    if kind is None:
        raise InvalidInputError(f"the command is empty; it has one of {', '.join(_COMMANDS)}")
    fields = MessageToDict(getattr(command, kind), preserving_proto_field_name=True)
    return kind, {name: _json_form(name, value) for name, value in fields.items()}


def _parsed(message: M, data: bytes, what: str) -> M:
    """Fill `message` from `data`, and return it; unknown fields are refused, like unknown JSON keys."""
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise InvalidInputError(f"the {what} is neither JSON (first byte {{) nor valid protobuf") from None
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    if known.ByteSize() != message.ByteSize():
        raise InvalidInputError(f"the {what} holds fields that this server does not know")
    return message


def _json_form(name: str, value: AnyValue) -> AnyValue:
    """Return the value of a protobuf field in the form that it has in a JSON command."""
    if name in ("columns", "group_by"):
        if "expressions" not in value:
            return value.get("names", [])
        if "names" in value:
            raise InvalidInputError("columns: names and expressions cannot be given together")
        return _by_name(value["expressions"])
    if name == "aggregates":
        return _by_name(value.get("values", []))
    if name == "ranges":
        return [[each.get("start", 0), each.get("length")] for each in value.get("values", [])]
    if name == "nearest":
        return nearest_in_json(value)
    if name == "hybrid":
        return hybrid_in_json(value)
    if name == "full_text_query":
        return parse_object(string(name, value).encode())
    if isinstance(value, dict) and name != "properties":
        return value.get("values", [])
    return value


def _by_name(expressions: list[dict[str, str]]) -> dict[str, str]:
    """Return the SQL of expressions by their names, of which none may be repeated."""
    return unique_keys([(item.get("name", ""), item.get("sql", "")) for item in expressions])


def _columns(field: str, value: AnyValue) -> Columns:
    if not isinstance(value, dict):
        return list_of(string)(field, value)
    return aggregates(field, value) or ()


def aggregates(field: str, value: AnyValue) -> Mapping[str, str]:
    """Return SQL by name."""
    if not isinstance(value, dict):
        raise InvalidInputError(f"{field}: expected SQL by name, found {shown(value)}")
    return {name: string(f"{field}.{shown(name)}", text) for name, text in value.items()}


def _ordering(field: str, value: AnyValue) -> ColumnOrdering:
    table = {"column": string, "ascending": boolean, "nulls_first": boolean}
    fields = check_fields(field, value, table, required=("column",))
    return ColumnOrdering(fields.pop("column"), **fields)


COLUMNS: Checker = _columns
VERSION = integer(0, MAXIMUM_VERSION)

_BLOB_HANDLING = one_of(BLOB_HANDLINGS)

# What a scan asks for besides which rows of which version; tickets carry the same fields.
OUTPUT_FIELDS: Mapping[str, Checker] = {
    "columns": COLUMNS,
    "filter": string,
    "substrait_filter": base64_bytes,
    "with_row_id": boolean,
    "with_row_address": boolean,
    "batch_rows": integer(1),
    "batch_bytes": integer(1, MAXIMUM_BATCH_BYTES),
    "compression": one_of(COMPRESSIONS),
    "verify_checksums": boolean,
    "blob_handling": _BLOB_HANDLING,
    "order_by": list_of(_ordering),
    "nearest": nearest,
    "full_text_query": mapping,
    "hybrid": hybrid,
    "search_filter": one_of(SEARCHES),
    "index_segments": list_of(string),
    "prefilter": boolean,
    "fast_search": boolean,
    "use_scalar_index": boolean,
}

REFERENCE_FIELDS: Mapping[str, Checker] = {
    "dataset": string,
    "version": VERSION,
    "tag": string,
    "asof": time,
    "branch": string,
    "identity": string,
}

_VERSION_FIELDS = ("version", "tag", "asof", "branch", "identity")

KEY_KINDS = ("offsets", "row_ids", "row_addresses")
KEYS = integers(0, (1 << 64) - 1)


def _range(field: str, value: AnyValue) -> tuple[int, int | None]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidInputError(f"{field}: expected a start and a length")
    start, length = value
    return integer()(field, start), None if length is None else integer()(field, length)


RANGES = list_of(_range)

_SCAN_FIELDS: Mapping[str, Checker] = {
    **REFERENCE_FIELDS,
    "limit": integer(),
    "offset": integer(),
    "fragments": integers(),
    "rows_per_endpoint": integer(1),
    "max_endpoints": integer(1, MAXIMUM_ENDPOINTS),
    "ordered": boolean,
    "split_search": boolean,
    **OUTPUT_FIELDS,
}

_OF_STREAMS = (
    "rows_per_endpoint",
    "max_endpoints",
    "ordered",
    "split_search",
    "batch_rows",
    "batch_bytes",
    "compression",
)
"""Fields of a scan that divide its stream. An answer of a DoExchange is one batch."""

_REPEATED_SEARCH_FIELDS: Mapping[str, Checker] = {
    **{name: checker for name, checker in _SCAN_FIELDS.items() if name not in _OF_STREAMS},
    "nearest": repeated_nearest,
    "hybrid": unsupported,  # has one query
}

_TAKE_FIELDS: Mapping[str, Checker] = {
    **REFERENCE_FIELDS,
    "asof": unsupported,
    "columns": COLUMNS,
    "blob_handling": _BLOB_HANDLING,
    **dict.fromkeys(KEY_KINDS, KEYS),
}

_BLOB_FIELDS: Mapping[str, Checker] = {
    **REFERENCE_FIELDS,
    "asof": unsupported,
    "column": string,
    "ranges": RANGES,
    "with_size": boolean,
    "with_row_address": boolean,
    **dict.fromkeys(KEY_KINDS, KEYS),
}

_AGGREGATE_FIELDS: Mapping[str, Checker] = {
    **REFERENCE_FIELDS,
    "filter": string,
    "substrait_filter": base64_bytes,
    "group_by": COLUMNS,
    "aggregates": aggregates,
}

_EXCLUSIVE_FIELDS = (("version", "tag", "asof"), ("tag", "branch"), ("filter", "substrait_filter"))


def _scan_command(fields: AnyValue) -> ScanCommand:
    reference, values = _checked("scan", fields, _SCAN_FIELDS)
    command = ScanCommand(dataset=reference, **values)
    if command.split_search:
        _check_split(command)
    return command


def _check_split(command: ScanCommand) -> None:
    """Refuse a search whose best rows cannot be merged from the best rows of parts of the dataset."""
    is_filtered_later = not command.prefilter and (command.filter or command.substrait_filter)
    is_cut = bool(command.order_by) or (command.limit, command.offset) != (None, None)
    if command.nearest is None or command.search_filter or is_filtered_later or is_cut:
        raise InvalidInputError(
            "scan.split_search: needs nearest, and prefilter with a filter; no limit, offset, order_by or "
            "search_filter"
        )


def _take_command(fields: AnyValue) -> TakeCommand:
    reference, values = _checked("take", fields, _TAKE_FIELDS)
    keys = _pop_keys("take", values, "; a take without keys goes to DoExchange")
    return TakeCommand(reference, keys, **values)


def _blobs_command(fields: AnyValue) -> BlobsCommand:
    reference, values = _checked("blobs", fields, _BLOB_FIELDS, required=("dataset", "column"))
    keys = _pop_keys("blobs", values)
    ranges = values.get("ranges")
    if ranges is not None and len(ranges) != len(keys.values):
        raise InvalidInputError(
            f"blobs.ranges: expected one per key, {len(keys.values)}, found {len(ranges)}"
        )
    return BlobsCommand(reference, keys=keys, **values)


def _aggregate_command(fields: AnyValue) -> AggregateCommand:
    reference, values = _checked("aggregate", fields, _AGGREGATE_FIELDS)
    return AggregateCommand(reference, values.pop("aggregates", {}), **values)


def _pop_keys(where: str, values: dict[str, AnyValue], hint: str = "") -> RowKeys:
    """Remove the keys of the rows from the fields of a command, and return them."""
    given = [kind for kind in KEY_KINDS if kind in values]
    if len(given) != 1:
        raise InvalidInputError(
            f"{where}: expected one of {', '.join(KEY_KINDS)}, found {len(given)} of them"
            + (hint if not given else "")
        )
    return RowKeys(given[0], values.pop(given[0]))


def parse_count(data: bytes) -> CountCommand:
    """Return the body of the `count_rows` action."""
    table = {**REFERENCE_FIELDS, "filter": string, "substrait_filter": base64_bytes}
    reference, values = _checked("count_rows", parse_object(data), table)
    return CountCommand(reference, **values)


def parse_explain(data: bytes) -> tuple[ScanCommand, bool]:
    """Return the body of the `explain_scan` action: the scan, and whether to run it."""
    fields = check_fields(
        "explain_scan", parse_object(data), {"scan": _object, "analyze": boolean}, ("scan",)
    )
    return _scan_command(fields["scan"]), fields.get("analyze", False)


def _object(field: str, value: AnyValue) -> AnyValue:
    """Return any value unchanged. The caller checks it."""
    return value


def parse_describe(data: bytes, action: str = "describe") -> DatasetReference:
    """Return the body of an action that reads one version: the dataset, and which version as in a scan."""
    return _checked(action, parse_object(data), REFERENCE_FIELDS)[0]


def _checked(
    where: str,
    fields: AnyValue,
    table: Mapping[str, Checker],
    required: tuple[str, ...] = ("dataset",),
) -> tuple[DatasetReference, dict[str, AnyValue]]:
    """Return the dataset of a command and its other fields."""
    if isinstance(fields, dict):
        for group in _EXCLUSIVE_FIELDS:
            if len(given := [name for name in group if name in fields]) > 1:
                raise InvalidInputError(f"{where}: {' and '.join(given)} cannot be given together")
    values = check_fields(where, fields, table, required)
    name = values.pop("dataset")
    chosen = tuple([(field, values.pop(field)) for field in _VERSION_FIELDS if field in values])
    return _reference(name, chosen), values


@lru_cache(maxsize=1024)
def _reference(name: str, chosen: tuple[tuple[str, AnyValue], ...]) -> DatasetReference:
    """Return the dataset of a command whose version may stand in the name or in fields of its own, not in
    both.
    """
    reference = parse_name(name)
    if not chosen:
        return reference
    if reference.names_a_version:
        raise InvalidInputError(
            f"dataset name {shown(name)} and the field {chosen[0][0]} both give a version"
        )
    return replace(reference, **dict(chosen))
