"""Streaming reads: the versions of a dataset as batches of rows.

An offset is a version up to which everything was delivered:

    {"version": 12, "identity": "...", "snapshot": false}

`identity` distinguishes the version from a version with the same number in a dataset that was dropped and
created again. If `snapshot` is true, all rows of the version itself are still to be delivered: a stream
begins this way. The rows of a batch depend on its two offsets alone, so that Spark can request the batch
again at any time.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyarrow import flight
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType

import flight_client
from flight_client import (
    DatasetNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from spark_pipeline.arrow_types import all_to_spark
from spark_pipeline.batch_read import narrowed, selection_of
from spark_pipeline.data_source_options import Options

CHANGE_TYPE = "_change_type"
"""Column with the kind of change: insert, update (the row after the change) or delete (the row before it)."""
COMMIT_VERSION = "_commit_version"
"""Column with the version that made the change."""

_KINDS = {"inserted": "insert", "updated": "update", "deleted": "delete"}
"""Kind of change of the rows in each list that the action `changes` returns."""


def with_change_columns(schema: StructType) -> StructType:
    """Return the columns of a stream that reports changes.

    Raises:
        InvalidInputError: the dataset has a column with the name of a change column.
    """
    for name in (CHANGE_TYPE, COMMIT_VERSION):
        if name in schema.names:
            raise InvalidInputError(
                f"option onChanges: the dataset has a column {name!r}, which is the name of a change column"
            )
    added = [StructField(CHANGE_TYPE, StringType()), StructField(COMMIT_VERSION, LongType())]
    return StructType([*schema.fields, *added])


@dataclass(frozen=True)
class Position:
    """Offset of a stream."""

    version: int
    identity: str
    snapshot: bool = False

    @staticmethod
    def of_version(listed: dict[str, Any]) -> Position:
        """Return the position after a version; `listed` is an entry of `Client.versions`."""
        return Position(int(listed["version"]), str(listed["identity"]))


@dataclass(frozen=True)
class _Part:
    """Rows of a batch in the form that an executor receives."""

    endpoint: bytes
    number: int
    """Number of the part. Parts with different numbers begin with different servers."""
    kind: str
    """Kind of change of the rows, see CHANGE_TYPE."""
    version: int
    """Version that made the change."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of the versions of one dataset in order. Spark makes one for the driver, and one for `read` on
    executors.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        """Prepare to read the columns that `schema` names, with the options in `given`.

        The options are not checked here, but by the first method that needs them. If a constructor raises,
        Spark 4.3 still stops the reader, and reports the failure of that instead of the error.
        """
        self._given = given
        self._schema = schema
        self._last: int | None = None
        """Last version to read; None if the stream does not end."""

    @cached_property
    def _options(self) -> Options:
        """Options of the stream. Raises InvalidInputError if an option is invalid for a stream."""
        options = Options.parse(self._given)
        options.check_use("streams that are read")
        if options.on_changes != "fail" and (options.filter or isinstance(options.columns, dict)):
            raise InvalidInputError(
                f"option onChanges {options.on_changes!r} needs names of columns and no filter: "
                "select columns of the stream and filter it instead"
            )
        return options

    @cached_property
    def _columns(self) -> StructType:
        """Columns that are read from the dataset."""
        added = (CHANGE_TYPE, COMMIT_VERSION) if self._options.on_changes == "report" else ()
        return StructType([field for field in self._schema if field.name not in added])

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the position at which a query without a checkpoint begins."""
        start = self._options.starting_version
        if start is None:  # begin with the rows of the latest version
            return asdict(replace(self._latest(), snapshot=True))
        if not isinstance(start, int):
            return asdict(self._latest())
        before = max(start - 1, 1)
        listed = self._versions(from_version=before, to_version=before)
        if not listed:
            latest = self._latest().version
            if start > latest:
                raise InvalidInputError(
                    f"option startingVersion: expected {latest} or less, the latest version, found {start}"
                )
            raise VersionNotFoundError(
                f"option startingVersion: version {before} of {self._options.table} was cleaned up, and "
                f"the changes of version {start} are unknown without it"
            )
        return asdict(replace(Position.of_version(listed[0]), snapshot=start == 1))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of versions per batch. Spark has no such limit, and passes this one back."""
        limit = self._options.max_versions_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxFiles(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Stop at the latest version of this moment."""
        self._last = self._latest().version

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch, at most `limit` versions after `start`.

        The rows of the version at which the stream began are a batch of their own. With the trigger
        `availableNow`, the end is at most the version that was the latest at the start.

        Raises:
            DatasetNotFoundError, VersionNotFoundError: the dataset or a version after `start` was removed.
        """
        begin = Position(**start)
        if begin.snapshot:
            return asdict(replace(begin, snapshot=False))
        last = begin.version + limit.max_files if isinstance(limit, ReadMaxFiles) else None
        if self._last is not None:
            last = max(begin.version, self._last if last is None else min(last, self._last))
        return asdict(Position.of_version(self._since(begin, last)[-1]))

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the latest version, for the progress of the query."""
        return asdict(self._latest())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the rows of a batch, one partition per endpoint.

        Raises:
            UnsupportedFeatureError: rows were changed or deleted, and the option `onChanges` is `fail`.
        """
        begin, finish = Position(**start), Position(**end)
        parts: list[_Part] = []
        listed = self._since(begin, finish.version, rows=True)
        if Position.of_version(listed[-1]) != replace(finish, snapshot=False):
            raise self._replaced(finish)
        if begin.snapshot and not finish.snapshot:
            parts += self._scanned(begin.version, None)
        parts += self._changed(listed)
        return [InputPartition(replace(part, number=number)) for number, part in enumerate(parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one partition with the types that Spark expects."""
        part: _Part = partition.value
        with self._options.client() as client:
            endpoint = flight.FlightEndpoint.deserialize(part.endpoint)
            batches = client.read_endpoint(endpoint, part.number)
            if self._options.on_changes == "report":
                batches = (_with_change(batch, part) for batch in batches)
            yield from all_to_spark(batches, self._schema)

    def stop(self) -> None:
        """Close the connections."""
        if "_client" in vars(self):  # otherwise there is no client
            self._client.close()

    @cached_property
    def _client(self) -> flight_client.Client:
        return self._options.client()

    def _changed(self, listed: list[dict[str, Any]]) -> Iterator[_Part]:
        """Yield the changes of all versions in the list except the first one."""
        mode = self._options.on_changes
        added: list[int] = []
        for index, version in enumerate(listed[1:], 1):
            before, after = listed[index - 1], listed[index + 1 : index + 2]
            number, effect = int(version["version"]), version["rows"]
            if effect == "replaced" and before["metadata"]["total_rows"] != "0" and mode != "ignore":
                if mode == "fail":
                    raise self._not_appended(number, "replaced all rows")
                yield from self._scanned(number - 1, None, "delete", number)
            if effect == "replaced":
                yield from self._scanned(number, None)
            elif effect == "added":
                added += [fragment for fragment, _ in version["new_fragments"]]
                # Fragments do not change while others are added: one plan reads all of them.
                if mode == "report" or not after or after[0]["rows"] != "added":
                    yield from self._scanned(number, added)
                    added = []
            elif effect == "changed":
                if mode == "fail":
                    raise self._not_appended(number, "updated or deleted rows")
                yield from self._compared(number)

    def _scanned(
        self, version: int, fragments: list[int] | None, kind: str = "insert", commit: int | None = None
    ) -> Iterator[_Part]:
        """Yield the rows of fragments of a version, of all fragments if None. `commit`, or this version, made
        the change.
        """
        snapshot = self._client.snapshot(self._options.table, version, branch=self._options.branch)
        selection = narrowed(selection_of(self._options), snapshot, self._columns)
        chosen = None if fragments is None else tuple(fragments)
        plan = snapshot.scanner(replace(selection, fragments=chosen)).plan
        if plan.total_records:
            for endpoint in plan.endpoints:
                yield _Part(endpoint.serialize(), 0, kind, version if commit is None else commit)

    def _compared(self, version: int) -> Iterator[_Part]:
        """Yield the changes that a version made to the rows of the version before, as the server reports
        them.
        """
        body = {
            "dataset": self._options.table,
            "branch": self._options.branch,
            "from_version": version - 1,
            "to_version": version,
        }
        found = self._client.action("changes", body, repeat=True)
        reported = _KINDS if self._options.on_changes == "report" else ["inserted"]
        for name in reported:
            for each in found[name]:
                endpoint = flight.FlightEndpoint(base64.b64decode(each["ticket"]), [])
                yield _Part(endpoint.serialize(), 0, _KINDS[name], version)

    def _latest(self) -> Position:
        return Position.of_version(self._versions(limit=1)[0])

    def _versions(self, **fields: Any) -> list[dict[str, Any]]:
        return self._client.versions(self._options.table, branch=self._options.branch, **fields)

    def _since(self, begin: Position, last: int | None, *, rows: bool = False) -> list[dict[str, Any]]:
        """Return the versions from that of `begin` on.

        Raises:
            DatasetNotFoundError: the dataset is not the one that the stream has read.
            VersionNotFoundError: a version was cleaned up.
        """
        listed = self._versions(from_version=begin.version, to_version=last, rows=rows)
        positions = [Position.of_version(each) for each in listed]
        if not positions and self._latest().version < begin.version:
            raise self._replaced(begin)
        expected = range(begin.version, begin.version + max(len(positions), 1))
        gone = set(expected).difference(position.version for position in positions)
        if gone:
            raise VersionNotFoundError(
                f"version {min(gone)} of {self._options.table} was cleaned up, and the changes of the next "
                "version are unknown without it: begin again with a new checkpoint, and keep versions longer"
            )
        if positions[0].identity != begin.identity:
            raise self._replaced(begin)
        return listed

    def _replaced(self, position: Position) -> DatasetNotFoundError:
        return DatasetNotFoundError(
            f"{self._options.table} is not the dataset that the stream has read up to version "
            f"{position.version}: it was dropped and created again; begin again with a new checkpoint"
        )

    def _not_appended(self, version: int, what: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"version {version} of {self._options.table} {what}, and the stream delivers added rows only: "
            "set the option onChanges to ignore or report"
        )


def _with_change(batch: pa.RecordBatch, part: _Part) -> pa.RecordBatch:
    kinds = pa.repeat(pa.scalar(part.kind), batch.num_rows)
    versions = pa.repeat(pa.scalar(part.version, pa.int64()), batch.num_rows)
    return batch.append_column(CHANGE_TYPE, kinds).append_column(COMMIT_VERSION, versions)
