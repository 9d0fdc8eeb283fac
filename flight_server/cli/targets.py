"""What a verb works on: `grpc://host:port/name` or a path on this machine, behind one interface."""

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import typer
from pyarrow import flight

from lance_core.dataset import dataset
from lance_core.optimize import Compaction


@dataclass(frozen=True)
class Facts:
    """What `show` tells about one version of a dataset; -1 where it is not known."""

    version: int
    schema: pa.Schema
    num_rows: int
    num_fragments: int
    data_storage_version: str


@dataclass(frozen=True)
class Selection:
    """Which rows and columns a verb reads."""

    columns: list[str] | dict[str, str] | None = None
    filter: str | None = None
    limit: int | None = None
    offset: int | None = None

    def as_fields(self) -> dict[str, Any]:
        """The fields of a scan, without those that are not given."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Rows:
    """Rows on their way: their number if it is known, and the batches."""

    num_rows: int | None
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class Target(ABC):
    """A dataset, here or on a server."""

    @abstractmethod
    def facts(self) -> Facts: ...

    @abstractmethod
    def read(self, selection: Selection) -> AbstractContextManager[Rows]: ...

    @abstractmethod
    def take(self, offsets: list[int], columns: list[str] | dict[str, str] | None) -> pa.Table:
        """The rows at positions in dataset order."""

    @abstractmethod
    def explain(self, selection: Selection, *, analyze: bool) -> dict[str, Any]:
        """What reading takes, as `lance_core.scan.explain.Explanation.as_data` says it."""

    @abstractmethod
    def delete(self, predicate: str) -> dict[str, Any]:
        """Delete rows; the answer of the action `delete`."""

    @abstractmethod
    def compact(self, options: dict[str, int]) -> dict[str, Any]:
        """Compact; the answer of the action `compact`."""


def parse_columns(text: str | None) -> list[str] | dict[str, str] | None:
    """Names with commas between them, or a JSON object of SQL expressions by name."""
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


def is_remote(target: str) -> bool:
    return "://" in target


def connect(target: str) -> tuple[flight.FlightClient, str]:
    """A client for the server in `target`, and the dataset name after it (may be empty)."""
    parts = urlsplit(target)
    if parts.scheme not in ("grpc", "grpc+tcp") or not parts.netloc:
        raise typer.BadParameter(f"not a target: {target} (grpc://host:port/name or a local path)")
    return flight.connect(f"{parts.scheme}://{parts.netloc}"), parts.path.strip("/")


def open_target(target: str, version: int | None = None) -> Target:
    """The dataset that `target` names, at `version` (None: the latest)."""
    if not is_remote(target):
        return LocalTarget(target, version)
    client, name = connect(target)
    if not name:
        raise typer.BadParameter(f"{target} names no dataset (grpc://host:port/name)")
    return RemoteTarget(client, name, version)


class LocalTarget(Target):
    def __init__(self, path: str, version: int | None) -> None:
        self._dataset = dataset(path, version=version)

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
        scanner = self._dataset.scanner(**selection.as_fields())
        with scanner.to_reader() as reader:
            num_rows = scanner.count_rows() if selection.filter is None else None
            yield Rows(num_rows, reader.schema, reader)

    def take(self, offsets: list[int], columns: list[str] | dict[str, str] | None) -> pa.Table:
        return self._dataset.take(offsets, columns)

    def explain(self, selection: Selection, *, analyze: bool) -> dict[str, Any]:
        return self._dataset.scanner(**selection.as_fields()).explain(analyze=analyze).as_data()

    def delete(self, predicate: str) -> dict[str, Any]:
        rows = self._dataset.delete(predicate)["num_deleted_rows"]
        return {"version": self._dataset.version, "rows": rows}

    def compact(self, options: dict[str, int]) -> dict[str, Any]:
        metrics = Compaction.execute(self._dataset, options)
        return {"version": self._dataset.version, **asdict(metrics)}


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

    def explain(self, selection: Selection, *, analyze: bool) -> dict[str, Any]:
        asked = {"scan": self._dataset | selection.as_fields(), "analyze": analyze}
        return self._act("explain_scan", asked)

    def delete(self, predicate: str) -> dict[str, Any]:
        return self._act("delete", self._dataset | {"predicate": predicate})

    def compact(self, options: dict[str, int]) -> dict[str, Any]:
        return self._act("compact", self._dataset | {"options": options})

    def _act(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        (result,) = self._client.do_action(flight.Action(name, json.dumps(body).encode()))
        answer: dict[str, Any] = json.loads(result.body.to_pybytes())
        return answer

    def _batches(self, endpoints: list[flight.FlightEndpoint]) -> Iterator[pa.RecordBatch]:
        for endpoint in endpoints:
            for chunk in self._client.do_get(endpoint.ticket):
                yield chunk.data
