"""Datasets on a server."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import flight

from flight_server.cli.datasets.target import Alterations, Facts, Rows, Selection, Target, null_blob
from flight_server.cli.errors import damage_of


class RemoteTarget(Target):
    """A dataset that a server reads and changes."""

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
                    raise null_blob(column, offset)
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
