"""Targets of verbs: `grpc://host:port/name`, a path or a store's URL, behind one interface."""

import base64
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import typer
from pyarrow import flight

from flight_server.cli.access import Access, access
from flight_server.cli.errors import asked_server, damage_of
from flight_server.reading.index_facts import index_facts
from lance_core import ColumnOrdering, LanceDataset, dataset
from lance_core.api.serving import (
    drop_table,
    find_damage,
    index_statistics,
    is_object_store,
    parse_type,
    scheme_of,
    storage_for,
)
from lance_core.errors import InvalidInputError, LanceError, UnsupportedFeatureError

Alterations = Sequence[Mapping[str, Any]]
"""Changes of columns: `path`, and `name` or `data_type` (as SQL writes a type)."""


_PART_BYTES = 1 << 20
"""Bytes of a blob that are read at a time."""
_MOST_NAMED_FILES = 10_000
"""Limit for the files that a dry run of a cleanup names, as on a server."""


@dataclass(frozen=True)
class Facts:
    """Facts that `show` prints about one version of a dataset. A number that is not known is -1."""

    version: int
    schema: pa.Schema
    num_rows: int
    num_fragments: int
    data_storage_version: str


@dataclass(frozen=True)
class Selection:
    """Rows and columns that a verb reads."""

    columns: list[str] | dict[str, str] | None = None
    filter: str | None = None
    limit: int | None = None
    offset: int | None = None
    blob_handling: str | None = None
    full_text_query: dict[str, Any] | None = None
    order_by: tuple[ColumnOrdering, ...] | None = None
    compression: str | None = None
    nearest: Mapping[str, Any] | None = None
    """Search of the nearest rows instead."""
    hybrid: Mapping[str, Any] | None = None
    """Rule by which the rows of both searches are joined."""
    search_filter: str | None = None
    """The search that is a filter of the other one instead: "vector" or "text"."""
    index_segments: tuple[str, ...] | None = None
    """Uuids of the segments of a vector index that find the nearest rows."""
    prefilter: bool | None = None

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of a command, without those that are not given."""
        fields = {name: value for name, value in vars(self).items() if value is not None}
        if self.order_by is not None:
            fields["order_by"] = [
                {"column": each.column_name, "ascending": each.ascending, "nulls_first": each.nulls_first}
                for each in self.order_by
            ]
        return fields

    def as_arguments(self) -> dict[str, Any]:
        """Return the arguments of a local scan, without those that are not given."""
        fields = vars(self) | {"compression": None}
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True)
class Rows:
    """Rows that a verb reads: the batches, and the number of rows if it is known."""

    num_rows: int | None
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class Target(ABC):
    """A dataset in the local file system or on a server."""

    @abstractmethod
    def facts(self) -> Facts: ...

    @abstractmethod
    def read(self, selection: Selection) -> AbstractContextManager[Rows]: ...

    @abstractmethod
    def take(self, offsets: list[int], columns: list[str] | dict[str, str] | None) -> pa.Table:
        """Return the rows at positions in dataset order."""

    @abstractmethod
    def blob(self, column: str, offset: int) -> Iterator[bytes]:
        """Yield the bytes of one blob in parts; InvalidInputError if the value is null."""

    @abstractmethod
    def explain(self, selection: Selection, *, analyze: bool) -> dict[str, Any]:
        """Return what a read takes, in the form of `lance_core.scan.explain.Explanation.as_data`."""

    @abstractmethod
    def aggregate(
        self, aggregates: Mapping[str, str], group_by: list[str] | dict[str, str] | None, filter: str | None
    ) -> pa.Table:
        """Return one row per group of the rows that meet a filter, as the command `aggregate` does."""

    @abstractmethod
    def delete(self, predicate: str) -> dict[str, Any]:
        """Delete rows; the answer of the action `delete`."""

    @abstractmethod
    def update(self, updates: dict[str, str], where: str | None) -> dict[str, Any]:
        """Give columns new values; the answer of the action `update`."""

    @abstractmethod
    def compact(self, options: dict[str, Any]) -> dict[str, Any]:
        """Compact; the answer of the action `compact`."""

    @abstractmethod
    def cleanup(self, options: dict[str, Any]) -> dict[str, Any]:
        """Remove old versions; options and answer are those of the action `cleanup`."""

    @abstractmethod
    def versions(self) -> list[dict[str, Any]]:
        """Return all versions, oldest first: `version, timestamp` (ISO 8601, UTC) and `metadata`."""

    @abstractmethod
    def restore(self, version: int) -> dict[str, Any]:
        """Make an older version the latest one again; the answer of the action `restore`."""

    @abstractmethod
    def drop(self) -> None:
        """Remove the dataset with all its versions, tags and branches."""

    @abstractmethod
    def damage(self) -> list[str]:
        """Check every file of the version; return what is wrong, of a server the first thing only."""

    @abstractmethod
    def tags(self) -> dict[str, dict[str, Any]]:
        """Return all tags by name, as the action `list_tags` gives them."""

    @abstractmethod
    def create_tag(self, name: str) -> int:
        """Name the version; returns its number."""

    @abstractmethod
    def update_tag(self, name: str) -> int:
        """Let a tag name the version; returns its number."""

    @abstractmethod
    def delete_tag(self, name: str) -> None: ...

    @abstractmethod
    def branches(self) -> dict[str, dict[str, Any]]:
        """Return all branches by name, without the main branch, as the action `list_branches` gives them."""

    @abstractmethod
    def create_branch(self, name: str) -> int:
        """Begin a branch with the version; returns the number of the branch's first version."""

    @abstractmethod
    def delete_branch(self, name: str) -> None: ...

    @abstractmethod
    def add_columns(self, columns: dict[str, str]) -> int:
        """Add columns computed by SQL; returns the new version."""

    @abstractmethod
    def indices(self) -> list[dict[str, Any]]:
        """List the indices as the action `describe` does."""

    @abstractmethod
    def create_index(self, column: str, index_type: str, options: dict[str, Any]) -> int:
        """Build an index; returns the new version. Options are further fields of the action."""

    @abstractmethod
    def optimize_indices(self, options: dict[str, Any]) -> int:
        """Let indices cover all rows; returns the new version. Options are fields of the action."""

    @abstractmethod
    def index_statistics(self, name: str) -> dict[str, Any]:
        """Return facts about an index as the action `index_statistics` does."""

    @abstractmethod
    def prewarm_index(self, name: str) -> None:
        """Read the files of an index ahead of queries."""

    @abstractmethod
    def drop_index(self, name: str) -> int:
        """Drop an index; returns the new version."""

    @abstractmethod
    def drop_columns(self, columns: list[str]) -> int:
        """Remove columns; returns the new version."""

    @abstractmethod
    def alter_columns(self, alterations: Alterations) -> int:
        """Change names or types of columns; returns the new version."""


def parse_text_query(text: str | None, option: str) -> dict[str, Any] | None:
    """Return a full text query that an option gave as words or as a JSON object."""
    if text is None or not text.lstrip().startswith("{"):
        return None if text is None else {"query": text}
    try:
        query: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(f"no JSON: {error}", param_hint=option) from None
    return query


def parse_columns(text: str | None) -> list[str] | dict[str, str] | None:
    """Parse names with commas between them, or a JSON object of SQL expressions by name."""
    if text is None or text == "":
        return None
    if not text.lstrip().startswith("{"):
        return text.split(",")
    try:
        columns = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"not a JSON object: {error}", param_hint="--columns") from None
    if not all(isinstance(value, str) for value in columns.values()):
        raise typer.BadParameter("every value must be SQL in quotes", param_hint="--columns")
    return dict(columns)


_ORDER = re.compile(r"(.+?)(?:\s+(ASC|DESC))?(?:\s+NULLS\s+(FIRST|LAST))?", re.IGNORECASE)


def parse_order(text: str) -> tuple[ColumnOrdering, ...]:
    """Parse columns to sort by, with commas between them: `population DESC NULLS FIRST, name`."""
    found = []
    for part in text.split(","):
        match = _ORDER.fullmatch(part.strip())
        if match is None:
            raise typer.BadParameter(f"expected names of columns, found {text!r}", param_hint="--order-by")
        name, way, nulls = match.groups()
        descends, nulls_first = (way or "").upper() == "DESC", (nulls or "").upper() == "FIRST"
        found.append(ColumnOrdering(name, not descends, nulls_first))
    return tuple(found)


def parse_pairs(given: Sequence[str], hint: str) -> dict[str, str]:
    """Return texts of the form `name=SQL` as SQL by name; others are wrong usage of the option `hint`."""
    pairs: dict[str, str] = {}
    for text in given:
        name, equals, sql = text.partition("=")
        if not equals or not name.strip() or not sql.strip():
            raise typer.BadParameter(f"expected column=SQL, found {text!r}", param_hint=hint)
        if name.strip() in pairs:
            raise typer.BadParameter(f"column {name.strip()!r} is given twice", param_hint=hint)
        pairs[name.strip()] = sql.strip()
    return pairs


def _null_blob(column: str, offset: int) -> InvalidInputError:
    return InvalidInputError(f"row {offset} has no value: it is null", column=column)


_ADDRESS = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}(/|$)")


def is_remote(target: str) -> bool:
    """Return whether a server has the target. Local paths and URLs of object stores are read by this
    process.

    Raises:
        typer.BadParameter: the target looks like the address of a server without its scheme.
    """
    if _ADDRESS.match(target) and not os.path.lexists(target.partition("/")[0]):
        raise typer.BadParameter(
            f"{target} is a local path; write grpc://{target} for a server, or ./{target}"
        )
    return scheme_of(target) != "file" and not is_object_store(target)


def connect(target: str) -> tuple[flight.FlightClient, str]:
    """Return a client for the server in `target`, and the dataset name after it (may be empty)."""
    parts = urlsplit(target)
    if parts.scheme not in ("grpc", "grpc+tcp", "grpc+tls") or not parts.netloc:
        raise typer.BadParameter(f"not a target: {target} (grpc://host:port/name or a local path)")
    uri = f"{parts.scheme}://{parts.netloc}"
    asked_server.set(uri)
    return access.get(Access()).connect(uri), parts.path.strip("/")


def open_target(target: str, version: int | None = None) -> Target:
    """Return the dataset that `target` names, at `version` (None: the latest)."""
    if not is_remote(target):
        return LocalTarget(target, version)
    client, name = connect(target)
    if not name:
        raise typer.BadParameter(f"{target} names no dataset (grpc://host:port/name)")
    return RemoteTarget(client, name, version)


class LocalTarget(Target):
    """A dataset that this process opens when it is first asked for."""

    def __init__(self, path: str, version: int | None) -> None:
        self._path = path
        self._version = version

    @cached_property
    def _dataset(self) -> LanceDataset:
        return dataset(self._path, version=self._version)

    def facts(self) -> Facts:
        return Facts(
            version=self._dataset.version,
            schema=self._dataset.schema,
            num_rows=self._dataset.count_rows(),
            num_fragments=len(self._dataset.get_fragments()),
            data_storage_version=self._dataset.data_storage_version,
        )

    @contextmanager
    def read(self, selection: Selection) -> Iterator[Rows]:
        scanner = self._dataset.scanner(**selection.as_arguments())
        with scanner.to_reader() as reader:
            is_known = (selection.filter, selection.nearest, selection.full_text_query) == (None, None, None)
            num_rows = scanner.count_rows() if is_known else None
            yield Rows(num_rows, reader.schema, reader)

    def take(self, offsets: list[int], columns: list[str] | dict[str, str] | None) -> pa.Table:
        return self._dataset.take(offsets, columns)

    def blob(self, column: str, offset: int) -> Iterator[bytes]:
        (file,) = self._dataset.take_blobs(column, indices=[offset])
        if file is None:
            raise _null_blob(column, offset)
        with file:
            yield from iter(lambda: file.read(_PART_BYTES), b"")

    def explain(self, selection: Selection, *, analyze: bool) -> dict[str, Any]:
        return self._dataset.scanner(**selection.as_arguments()).explain(analyze=analyze).as_data()

    def aggregate(
        self, aggregates: Mapping[str, str], group_by: list[str] | dict[str, str] | None, filter: str | None
    ) -> pa.Table:
        return self._dataset.scanner(filter=filter).aggregate(aggregates, group_by)

    def delete(self, predicate: str) -> dict[str, Any]:
        rows = self._dataset.delete(predicate)["num_deleted_rows"]
        return {"version": self._dataset.version, "rows": rows}

    def update(self, updates: dict[str, str], where: str | None) -> dict[str, Any]:
        rows = self._dataset.update(updates, where)["num_rows_updated"]
        return {"version": self._dataset.version, "rows": rows}

    def compact(self, options: dict[str, Any]) -> dict[str, Any]:
        metrics = self._dataset.optimize.compact_files(**options)
        return {"version": self._dataset.version, **asdict(metrics)}

    def cleanup(self, options: dict[str, Any]) -> dict[str, Any]:
        given = dict(options)
        seconds, dry_run = given.pop("older_than_seconds", None), given.pop("dry_run", False)
        if seconds is not None:
            given["older_than"] = timedelta(seconds=seconds)
        if not dry_run:
            return asdict(self._dataset.cleanup_old_versions(**given))
        explained = self._dataset.explain_cleanup_old_versions(
            **given, include_files=True, max_files=_MOST_NAMED_FILES
        )
        return asdict(explained.stats) | {
            "files": [file.path for file in explained.candidate_files],
            "files_truncated": explained.candidate_files_truncated,
        }

    def versions(self) -> list[dict[str, Any]]:
        return [{**entry, "timestamp": _in_utc(entry["timestamp"])} for entry in self._dataset.versions()]

    def restore(self, version: int) -> dict[str, Any]:
        older = self._dataset.checkout_version(version)
        older.restore()
        return {"version": older.version}

    def drop(self) -> None:
        if os.path.islink(self._path.rstrip("/")):
            raise UnsupportedFeatureError(f"dropping {self._path}, which is a link")
        drop_table(storage_for(self._path))

    def damage(self) -> list[str]:
        try:
            return [str(error) for error in find_damage(self._dataset.snapshot)]
        except LanceError as error:  # of the manifest, without which nothing else can be looked at
            return [damage_of(error)]

    def tags(self) -> dict[str, dict[str, Any]]:
        return {name: _jsonable(tag) for name, tag in self._dataset.tags.list().items()}

    def create_tag(self, name: str) -> int:
        self._dataset.tags.create(name)
        return self._dataset.version

    def update_tag(self, name: str) -> int:
        self._dataset.tags.update(name)
        return self._dataset.version

    def delete_tag(self, name: str) -> None:
        self._dataset.tags.delete(name)

    def branches(self) -> dict[str, dict[str, Any]]:
        return {name: _jsonable(branch) for name, branch in self._dataset.branches.list().items()}

    def create_branch(self, name: str) -> int:
        return self._dataset.create_branch(name).version

    def delete_branch(self, name: str) -> None:
        self._dataset.branches.delete(name)

    def add_columns(self, columns: dict[str, str]) -> int:
        self._dataset.add_columns(columns)
        return self._dataset.version

    def indices(self) -> list[dict[str, Any]]:
        fragment_ids = frozenset(fragment.fragment_id for fragment in self._dataset.get_fragments())
        return [index_facts(index, fragment_ids) for index in self._dataset.describe_indices()]

    def create_index(self, column: str, index_type: str, options: dict[str, Any]) -> int:
        given = {name: options[name] for name in options if name != "parameters"}
        self._dataset.create_scalar_index(column, index_type, **given, **options["parameters"])
        return self._dataset.version

    def optimize_indices(self, options: dict[str, Any]) -> int:
        self._dataset.optimize.optimize_indices(**options)
        return self._dataset.version

    def index_statistics(self, name: str) -> dict[str, Any]:
        return index_statistics(self._dataset.snapshot, name)

    def prewarm_index(self, name: str) -> None:
        self._dataset.prewarm_index(name)

    def drop_index(self, name: str) -> int:
        self._dataset.drop_index(name)
        return self._dataset.version

    def drop_columns(self, columns: list[str]) -> int:
        self._dataset.drop_columns(columns)
        return self._dataset.version

    def alter_columns(self, alterations: Alterations) -> int:
        parsed = [
            {**given, "data_type": parse_type(given["data_type"])} if "data_type" in given else given
            for given in alterations
        ]
        self._dataset.alter_columns(*parsed)
        return self._dataset.version


class RemoteTarget(Target):
    def __init__(self, client: flight.FlightClient, name: str, version: int | None) -> None:
        self._client = client
        self._dataset = {"dataset": name} if version is None else {"dataset": name, "version": version}

    def facts(self) -> Facts:
        described = self._act("describe", self._dataset)
        return Facts(
            version=described["version"],
            schema=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(described["schema"]))),
            num_rows=described["rows"],
            num_fragments=described["fragments"],
            data_storage_version=described["data_storage_version"],
        )

    @contextmanager
    def read(self, selection: Selection) -> Iterator[Rows]:
        scan = {"scan": self._dataset | selection.as_fields()}
        info = self._client.get_flight_info(flight.FlightDescriptor.for_command(json.dumps(scan)))
        num_rows = info.total_records if info.total_records >= 0 else None
        yield Rows(num_rows, info.schema, self._batches(info.endpoints))

    def take(self, offsets: list[int], columns: list[str] | dict[str, str] | None) -> pa.Table:
        asked = {**self._dataset, "offsets": offsets}
        if columns is not None:
            asked["columns"] = columns
        return self._client.do_get(flight.Ticket(json.dumps({"take": asked}))).read_all()

    def blob(self, column: str, offset: int) -> Iterator[bytes]:
        asked = {**self._dataset, "column": column, "offsets": [offset]}
        for chunk in self._client.do_get(flight.Ticket(json.dumps({"blobs": asked}))):
            for part in chunk.data["bytes"].to_pylist():
                if part is None:
                    raise _null_blob(column, offset)
                yield part

    def explain(self, selection: Selection, *, analyze: bool) -> dict[str, Any]:
        asked = {"scan": self._dataset | selection.as_fields(), "analyze": analyze}
        return self._act("explain_scan", asked)

    def aggregate(
        self, aggregates: Mapping[str, str], group_by: list[str] | dict[str, str] | None, filter: str | None
    ) -> pa.Table:
        given = {"aggregates": dict(aggregates), "group_by": group_by, "filter": filter}
        asked = self._dataset | {name: value for name, value in given.items() if value is not None}
        command = flight.FlightDescriptor.for_command(json.dumps({"aggregate": asked}))
        info = self._client.get_flight_info(command)
        return pa.Table.from_batches(self._batches(info.endpoints), info.schema)

    def delete(self, predicate: str) -> dict[str, Any]:
        return self._act("delete", self._dataset | {"predicate": predicate})

    def update(self, updates: dict[str, str], where: str | None) -> dict[str, Any]:
        given = {"updates": updates} if where is None else {"updates": updates, "where": where}
        return self._act("update", self._dataset | given)

    def compact(self, options: dict[str, Any]) -> dict[str, Any]:
        return self._act("compact", self._dataset | {"options": options})

    def cleanup(self, options: dict[str, Any]) -> dict[str, Any]:
        return self._act("cleanup", self._dataset | options)

    def versions(self) -> list[dict[str, Any]]:
        found = self._act("list_versions", self._dataset)["versions"]
        return [{name: entry[name] for name in ("version", "timestamp", "metadata")} for entry in found]

    def restore(self, version: int) -> dict[str, Any]:
        return self._act("restore", self._dataset | {"version": version})

    def drop(self) -> None:
        self._act("drop_dataset", self._dataset)

    def damage(self) -> list[str]:
        try:
            self._act("validate", self._dataset)
        except (pa.ArrowException, flight.FlightError) as error:
            return [damage_of(error)]
        return []

    def tags(self) -> dict[str, dict[str, Any]]:
        return dict(self._act("list_tags", self._dataset)["tags"])

    def create_tag(self, name: str) -> int:
        return int(self._act("create_tag", self._dataset | {"tag": name})["version"])

    def update_tag(self, name: str) -> int:
        return int(self._act("update_tag", self._dataset | {"tag": name})["version"])

    def delete_tag(self, name: str) -> None:
        self._act("delete_tag", self._dataset | {"tag": name})

    def branches(self) -> dict[str, dict[str, Any]]:
        return dict(self._act("list_branches", self._dataset)["branches"])

    def create_branch(self, name: str) -> int:
        return int(self._act("create_branch", self._dataset | {"branch": name})["version"])

    def delete_branch(self, name: str) -> None:
        self._act("delete_branch", self._dataset | {"branch": name})

    def add_columns(self, columns: dict[str, str]) -> int:
        return int(self._act("add_columns", self._dataset | {"columns": columns})["version"])

    def indices(self) -> list[dict[str, Any]]:
        return list(self._act("describe", self._dataset)["indices"])

    def create_index(self, column: str, index_type: str, options: dict[str, Any]) -> int:
        body = {"columns": [column], "index_type": index_type, **options}
        return int(self._act("create_index", self._dataset | body)["version"])

    def optimize_indices(self, options: dict[str, Any]) -> int:
        return int(self._act("optimize_indices", self._dataset | options)["version"])

    def index_statistics(self, name: str) -> dict[str, Any]:
        return self._act("index_statistics", self._dataset | {"name": name})

    def prewarm_index(self, name: str) -> None:
        self._act("prewarm_index", self._dataset | {"name": name})

    def drop_index(self, name: str) -> int:
        return int(self._act("drop_index", self._dataset | {"name": name})["version"])

    def drop_columns(self, columns: list[str]) -> int:
        return int(self._act("drop_columns", self._dataset | {"columns": columns})["version"])

    def alter_columns(self, alterations: Alterations) -> int:
        return int(self._act("alter_columns", self._dataset | {"columns": list(alterations)})["version"])

    def _act(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        (result,) = self._client.do_action(flight.Action(name, json.dumps(body).encode()))
        answer: dict[str, Any] = json.loads(result.body.to_pybytes())
        return answer

    def _batches(self, endpoints: list[flight.FlightEndpoint]) -> Iterator[pa.RecordBatch]:
        for endpoint in endpoints:
            for chunk in self._client.do_get(endpoint.ticket):
                yield chunk.data


def _in_utc(time: datetime) -> str:
    """Return a time as servers write it; one without a zone is local."""
    return time.astimezone(UTC).isoformat()


def _jsonable(ref: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _in_utc(value) if isinstance(value, datetime) else value for name, value in ref.items()}
