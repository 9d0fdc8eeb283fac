"""Actions of a server on its datasets, one method per action."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyarrow import flight

from flight_client.errors import DatasetNotFoundError, InvalidInputError
from flight_client.network.connections import Connections
from flight_client.network.endpoints import read_endpoint
from flight_client.writing.staged_writes import WriteResult


class Actions:
    """Methods of `Client` that change datasets, their versions, tags, branches and settings.

    A `name` may end in a branch: `trips@dev`. Methods that change a dataset return the new version. A change
    carries a transaction id, its own or the given `transaction_id`, so that it happens once, even if it is
    sent again after a broken connection. All methods raise the `LanceError` that the server reported.
    """

    _connections: Connections

    def action(self, name: str, body: Mapping[str, Any], *, repeat: bool = False) -> dict[str, Any]:
        """Run any action of the server: one JSON object in, one out. Fields that are None are left out.

        Args:
            name: name of the action in the protocol.
            body: fields of the action.
            repeat: whether to repeat the call after a temporary error. For actions that change nothing, or
                that carry a `transaction_id`.
        """
        return self._connections.action(name, body, repeat=repeat)

    def health(self) -> dict[str, Any]:
        """Return the state of the server: `status`, `version`, `uptime` and the use of its caches."""
        return self.action("health", {}, repeat=True)

    def describe(self, name: str, **fields: Any) -> dict[str, Any]:
        """Return the facts in a manifest: version, schema, rows, bytes, fragments, indices, settings.

        Args:
            name: name of the dataset.
            **fields: `version`, `tag` or `asof`, and `branch`.
        """
        return self.action("describe", {"dataset": name, **fields}, repeat=True)

    def fragments(self, name: str, **fields: Any) -> list[dict[str, Any]]:
        """Return the fragments in dataset order.

        Each has `id`, `rows` (live rows), `physical_rows` (deleted ones included) and `bytes`.

        Args:
            name: name of the dataset.
            **fields: see `describe`.
        """
        return list(self.action("list_fragments", {"dataset": name, **fields}, repeat=True)["fragments"])

    def count_rows(self, name: str, filter: str | None = None, **fields: Any) -> int:
        """Return the number of rows, or of rows that meet a condition.

        Args:
            name: name of the dataset.
            filter: condition in SQL.
            **fields: see `describe`.
        """
        answer = self.action("count_rows", {"dataset": name, "filter": filter, **fields}, repeat=True)
        return int(answer["count"])

    def create_dataset(self, name: str, schema: pa.Schema, **fields: Any) -> int:
        """Create a dataset without rows, and return its version.

        Args:
            name: name of the dataset.
            schema: columns of the dataset.
            **fields: `data_storage_version`, `enable_stable_row_ids`, `transaction_id`, `properties`.
        """
        return self._change("create_dataset", name, schema=_encoded(schema), **fields)

    def drop_dataset(self, name: str) -> None:
        """Remove a dataset with all its versions, tags and branches."""
        self.action("drop_dataset", {"dataset": name})

    def shallow_clone(
        self, name: str, target: str, version: int | str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Create a dataset from a version of this one, without copying data. Return its `dataset` and
        `version`.

        Cleaning up this dataset breaks the new one, unless a tag keeps the version.

        Args:
            name: name of this dataset.
            target: name of the new dataset.
            version: number or tag; the latest version if None.
            **fields: `branch`, `transaction_id`.
        """
        if version is not None:
            fields["tag" if isinstance(version, str) else "version"] = version
        return self._changed("shallow_clone", name, target=target, **fields)

    def validate(self, name: str, **fields: Any) -> int:
        """Check every file of a version, and return its number.

        Args:
            name: name of the dataset.
            **fields: see `describe`; the latest version if not given.

        Raises:
            CorruptFileError: the first error in the files.
        """
        return int(self.action("validate", {"dataset": name, **fields}, repeat=True)["version"])

    def delete(self, name: str, predicate: str, **fields: Any) -> dict[str, Any]:
        """Delete the rows that meet a condition in SQL, and return `version` and `rows`."""
        return self._changed("delete", name, predicate=predicate, **fields)

    def update(
        self, name: str, updates: Mapping[str, str], where: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Give columns new values, and return `version` and `rows`.

        Args:
            name: name of the dataset.
            updates: SQL by column.
            where: condition in SQL; only rows that meet it are updated.
            **fields: `branch`, `transaction_id`.
        """
        return self._changed("update", name, updates=dict(updates), where=where, **fields)

    def add_columns(
        self,
        name: str,
        columns: Mapping[str, str] | Mapping[str, pa.DataType] | pa.Schema | pa.Field | Sequence[pa.Field],
        **fields: Any,
    ) -> int:
        """Add columns, and return the new version.

        Args:
            name: name of the dataset.
            columns: SQL by name, computed from other columns. For columns of nulls: Arrow types by name, a
                field, fields or a schema.
            **fields: `branch`, `transaction_id`.

        Raises:
            InvalidInputError: a column exists already, or an expression is invalid.
        """
        schema = _schema_of_nulls(columns)
        if schema is not None:
            return self._change("add_columns", name, schema=_encoded(schema), **fields)
        if not isinstance(columns, Mapping) or not all(isinstance(sql, str) for sql in columns.values()):
            raise InvalidInputError(
                "columns: expected SQL by name, or types by name, a field, fields or a schema, "
                f"found {columns!r:.200}"
            )
        return self._change("add_columns", name, columns=dict(columns), **fields)

    def drop_columns(self, name: str, columns: str | Sequence[str], **fields: Any) -> int:
        """Remove columns, nested ones by dotted paths, and return the new version."""
        if isinstance(columns, str):
            columns = [columns]
        return self._change("drop_columns", name, columns=list(columns), **fields)

    def alter_columns(self, name: str, *alterations: Mapping[str, Any], **fields: Any) -> int:
        """Change names, types and nullability of columns, and return the new version.

        Args:
            name: name of the dataset.
            *alterations: dicts with `path`, and with the changes: `name`, `nullable`, `data_type` (an Arrow
                type, or its name as in a CAST).
            **fields: `branch`, `transaction_id`.

        Raises:
            InvalidInputError: an alteration is no dict, the column does not exist, the name is taken, or a
                value does not fit the new type.
        """
        return self._change("alter_columns", name, columns=list(map(_alteration, alterations)), **fields)

    def indices(self, name: str, **fields: Any) -> list[dict[str, Any]]:
        """Return the indices of a version. Scans do not use them.

        Each has `name`, `type`, `fields`, `rows` (covered by the index), `bytes` (None if unknown) and
        `segments`.

        Args:
            name: name of the dataset.
            **fields: see `describe`.
        """
        return list(self.describe(name, **fields)["indices"])

    def create_index(
        self,
        name: str,
        column: str,
        index_type: str,
        *,
        index: str | None = None,
        replace: bool = True,
        train: bool = True,
        parameters: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> int:
        """Build an index on a column, and return the new version.

        Args:
            name: name of the dataset.
            column: name or dotted path of the column.
            index_type: kind of the index, such as "BTREE".
            index: name of the index; None for `<column>_idx`.
            replace: replace the index with this name. False refuses to.
            train: index the rows. False makes an index that covers no rows yet.
            parameters: options of the kind by name. Given centroids and codebooks (`ivf_centroids`,
                `pq_codebook`) may be lists or arrays; a request has at most 1 MiB.
            **fields: `branch`, `transaction_id`.

        Raises:
            InvalidInputError: there is no such column, its type cannot be indexed, an option is wrong, or
                the name is in use.
            UnsupportedFeatureError: there is no such kind.
        """
        body = {
            "dataset": name,
            "columns": [column],
            "index_type": index_type,
            "name": index,
            "replace": replace,
            "train": train,
            "parameters": _plain_parameters(parameters),
            "transaction_id": str(uuid4()),
        }
        return int(self.action("create_index", body | fields, repeat=True)["version"])

    def create_index_segment(
        self,
        name: str,
        column: str,
        index_type: str,
        fragment_ids: Sequence[int],
        *,
        index: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        model: str | None = None,
        **fields: Any,
    ) -> str:
        """Build a segment of an index, and return the receipt for `commit_index`.

        Args:
            name, column, index_type, index, parameters: those of `create_index`.
            fragment_ids: ids of the fragments to index.
            model: result of `train_index`; the segment then has no parameters of its own.
            **fields: `branch`.

        Raises:
            InvalidInputError: as `create_index` raises, or there is no such fragment.
        """
        body = {
            "dataset": name,
            "columns": [column],
            "index_type": index_type,
            "name": index,
            "fragment_ids": list(fragment_ids),
            "parameters": _plain_parameters(parameters),
        }
        if model is not None:
            body["model"] = model
        return str(self.action("create_index", body | fields)["receipt"])

    def train_index(
        self,
        name: str,
        column: str,
        index_type: str,
        *,
        fragment_ids: Sequence[int] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> str:
        """Train a vector index once, and return the receipt of the model for `create_index_segment`.

        Segments with the same model have the same partitions and codes. The server removes the model after a
        day, `abort` at once.

        Args:
            name, column, index_type, parameters: those of `create_index`.
            fragment_ids: ids of the fragments whose rows are sampled; None for all.
            **fields: `branch`.

        Raises:
            InvalidInputError: as `create_index` raises, or there are too few rows.
        """
        body: dict[str, Any] = {
            "dataset": name,
            "columns": [column],
            "index_type": index_type,
            "parameters": _plain_parameters(parameters),
        }
        if fragment_ids is not None:
            body["fragment_ids"] = list(fragment_ids)
        return str(self.action("train_index", body | fields)["receipt"])

    def commit_index(self, name: str, receipts: Sequence[str], **fields: Any) -> int:
        """Make one index of segments that `create_index_segment` built, and return the new version.

        Args:
            name: name of the dataset.
            receipts: results of `create_index_segment`.
            **fields: `branch`, `transaction_id`.

        Raises:
            InvalidInputError: a receipt is unknown, or two segments cover the same fragment.
            CommitConflictError: fragments were rewritten since they were indexed.
        """
        return self._change("commit_index", name, receipts=list(receipts), **fields)

    def optimize_indices(
        self,
        name: str,
        *,
        num_indices_to_merge: int | None = None,
        index_names: Sequence[str] | None = None,
        retrain: bool = False,
        **fields: Any,
    ) -> int:
        """Let indices cover the rows that they do not cover yet, and return the new version.

        Args:
            name: name of the dataset.
            num_indices_to_merge: number of the newest segments of each index that become one segment with the
                new rows; 1 if None. With 0 the new rows get a segment of their own.
            index_names: names of the indices; None means all whose kind is supported.
            retrain: build all segments of each index as one segment from the rows again.
            **fields: `branch`, `transaction_id`.

        Raises:
            IndexNotFoundError: the dataset has no index with one of the names.
        """
        names = None if index_names is None else list(index_names)
        return self._change(
            "optimize_indices",
            name,
            num_indices_to_merge=num_indices_to_merge,
            index_names=names,
            retrain=retrain,
            **fields,
        )

    def index_statistics(self, name: str, index: str) -> dict[str, Any]:
        """Return how many rows an index covers, and facts from its files, with the keys of the reference.

        Raises:
            IndexNotFoundError: the dataset has no such index.
        """
        return self.action("index_statistics", {"dataset": name, "name": index}, repeat=True)

    def prewarm_index(self, name: str, index: str) -> None:
        """Let the server read the files of an index ahead of queries.

        Raises:
            IndexNotFoundError: the dataset has no such index.
        """
        self.action("prewarm_index", {"dataset": name, "name": index}, repeat=True)

    def drop_index(self, name: str, index: str, **fields: Any) -> int:
        """Drop an index by its name, and return the new version.

        Raises:
            IndexNotFoundError: the dataset has no such index.
        """
        body = {"dataset": name, "name": index, "transaction_id": str(uuid4()), **fields}
        return int(self.action("drop_index", body, repeat=True)["version"])

    def compact(self, name: str, options: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        """Join small fragments and leave out deleted rows.

        Return the new `version`, the numbers of removed and added fragments and files, `index_coverage` and
        `lost_coverage`. `index_coverage` has all indices, each with `index`, `index_type`, `num_rows_before`
        and `num_rows_after`. `lost_coverage` has the indices that cover fewer rows than before, each with
        `index`, `index_type`, `fragment_ids` and `num_rows`.

        Args:
            name: name of the dataset.
            options: `target_rows_per_fragment`, `materialize_deletions`, ..., see the operations page.
            **fields: `branch`, `transaction_id`.
        """
        return self._changed("compact", name, options=dict(options or {}), **fields)

    def compact_plan(self, name: str, options: Mapping[str, Any] | None = None, **fields: Any) -> list[Any]:
        """Return the tasks of a compaction, for `compact_execute` at any server."""
        body = {"dataset": name, "options": dict(options or {}), **fields}
        return list(self.action("compact_plan", body, repeat=True)["tasks"])

    def compact_execute(self, name: str, task: Any, **fields: Any) -> str:
        """Run one task, and return its receipt. The result stays invisible until the commit."""
        return str(self.action("compact_execute", {"dataset": name, "task": task, **fields})["receipt"])

    def compact_commit(self, name: str, receipts: Sequence[str], **fields: Any) -> dict[str, Any]:
        """Make one version of executed tasks; return `version` and the coverage, as `compact` does."""
        return self._changed("compact_commit", name, receipts=list(receipts), **fields)

    def cleanup(self, name: str, **fields: Any) -> dict[str, Any]:
        """Remove old versions and files that no version needs, and return what was or would be removed.

        Args:
            name: name of the dataset.
            **fields: `older_than_seconds` (two weeks if no limit is given), `retain_versions`, `versions`,
                `delete_unverified`, `error_if_tagged_old_versions`, `dry_run`, `branch`.
        """
        return self.action("cleanup", {"dataset": name, **fields})

    def versions(self, name: str, *, limit: int | None = None, **fields: Any) -> list[dict[str, Any]]:
        """Return the versions, oldest first, each with `version`, `timestamp` and `metadata`.

        Args:
            name: name of the dataset.
            limit: number of versions, the newest ones; None for all.
            **fields: `from_version`, `to_version`, `branch`; `rows`, see the protocol.
        """
        body = {"dataset": name, "limit": limit, **fields}
        return list(self.action("list_versions", body, repeat=True)["versions"])

    def find_transaction(self, name: str, transaction_id: str, **fields: Any) -> WriteResult | None:
        """Return the version that a transaction made, and what it added; None if it made none.

        Args:
            name: name of the dataset. If it does not exist, no transaction made a version.
            transaction_id: UUID that was given to a write, commit or change.
            **fields: `branch`.
        """
        body = {"dataset": name, "transaction_id": transaction_id, **fields}
        try:
            found = self.action("find_transaction", body, repeat=True)
        except DatasetNotFoundError:
            return None
        return None if found["version"] is None else WriteResult(**found)

    def restore(self, name: str, version: int, **fields: Any) -> int:
        """Make an older version the latest one again, and return the new version."""
        return self._change("restore", name, version=version, **fields)

    def changes(self, name: str, from_version: int, to_version: int, **fields: Any) -> Changes:
        """Return the rows that were inserted, updated and deleted between two versions."""
        body = {"dataset": name, "from_version": from_version, "to_version": to_version, **fields}
        return Changes(self._connections, self.action("changes", body, repeat=True))

    def tags(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the tags by name, each with its `version` and `branch`."""
        return dict(self.action("list_tags", {"dataset": name}, repeat=True)["tags"])

    def create_tag(self, name: str, tag: str, version: int | None = None, **fields: Any) -> int:
        """Give a version a name, and return the version; the latest version if none is given."""
        return self._refer("create_tag", name, tag=tag, version=version, **fields)

    def update_tag(self, name: str, tag: str, version: int | None = None, **fields: Any) -> int:
        """Let a tag name another version, and return the version; the latest version if none is given."""
        return self._refer("update_tag", name, tag=tag, version=version, **fields)

    def delete_tag(self, name: str, tag: str) -> None:
        """Remove a tag; the version that it named stays."""
        self._refer("delete_tag", name, tag=tag)

    def branches(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the branches by name, each with `parent_branch`, `parent_version` and more."""
        return dict(self.action("list_branches", {"dataset": name}, repeat=True)["branches"])

    def create_branch(self, name: str, branch: str, version: int | str | None = None) -> int:
        """Begin a branch with a version (a number or a tag), the latest if none is given, and return the
        version.
        """
        key = "tag" if isinstance(version, str) else "version"
        return self._refer("create_branch", name, branch=branch, **{key: version})

    def delete_branch(self, name: str, branch: str) -> None:
        """Remove a branch with all its versions."""
        self._refer("delete_branch", name, branch=branch)

    def config(self, name: str, **fields: Any) -> dict[str, Any]:
        """Return `config`, `table_metadata` and `schema_metadata` of a version."""
        return self.action("get_config", {"dataset": name, **fields}, repeat=True)

    def update_config(self, name: str, **fields: Any) -> int:
        """Change settings and metadata, texts by name (None removes an entry), and return the new version.

        Args:
            name: name of the dataset.
            **fields: `config`, `table_metadata`, `schema_metadata`, `field_metadata`, `replace`, `branch`.
        """
        return self._change("update_config", name, **fields)

    def explain_scan(self, name: str, *, analyze: bool = False, **fields: Any) -> dict[str, Any]:
        """Return the pages that a scan reads of each fragment and column, and the pages that statistics rule
        out.

        Args:
            name: name of the dataset.
            analyze: whether to run the scan and count what it reads.
            **fields: fields of a scan command: `columns`, `filter`, `limit`, `version`, ...
        """
        body = {"scan": {"dataset": name, **fields}, "analyze": analyze}
        return self.action("explain_scan", body, repeat=True)

    # The names of these actions in the protocol.
    list_fragments = fragments
    list_versions = versions
    list_tags = tags
    list_branches = branches
    get_config = config

    def _changed(self, action: str, name: str, **fields: Any) -> dict[str, Any]:
        fields.setdefault("transaction_id", str(uuid4()))
        return self.action(action, {"dataset": name, **fields}, repeat=True)

    def _change(self, action: str, name: str, **fields: Any) -> int:
        return int(self._changed(action, name, **fields)["version"])

    def _refer(self, action: str, name: str, **fields: Any) -> int:
        """Run an action on tags or branches. They have no transactions: after a lost answer the call is not
        repeated.
        """
        return int(self.action(action, {"dataset": name, **fields})["version"])


class Changes:
    """Rows that differ between two versions. Each method reads them from the server."""

    def __init__(self, connections: Connections, answer: Mapping[str, Any]) -> None:
        self._connections = connections
        self._parts = {kind: list(answer[kind]) for kind in ("inserted", "updated", "deleted")}
        self.from_version = int(answer["from_version"])
        self.to_version = int(answer["to_version"])

    def __repr__(self) -> str:
        counts = ", ".join(f"{kind}={self._num_rows(kind)}" for kind in self._parts)
        return f"Changes({self.from_version} to {self.to_version}: {counts})"

    def inserted(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that only the later version has."""
        return self._read("inserted")

    def updated(self) -> Iterator[pa.RecordBatch]:
        """Yield the changed rows that both versions have, with the values of the later version."""
        return self._read("updated")

    def deleted(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that only the earlier version has."""
        return self._read("deleted")

    def _num_rows(self, kind: str) -> int | None:
        rows = [part["rows"] for part in self._parts[kind]]
        return None if -1 in rows else sum(rows)

    def _read(self, kind: str) -> Iterator[pa.RecordBatch]:
        for part in self._parts[kind]:
            endpoint = flight.FlightEndpoint(base64.b64decode(part["ticket"]), [])
            yield from read_endpoint(self._connections, endpoint)


def _schema_of_nulls(columns: Any) -> pa.Schema | None:
    """Return the schema of columns that begin with nulls; None if `columns` has another form."""
    if isinstance(columns, pa.Schema):
        return columns
    given = list(columns.values()) if isinstance(columns, Mapping) else columns
    given = [given] if isinstance(given, pa.Field) else given
    if not isinstance(given, Sequence) or not given:
        return None
    kind = pa.DataType if isinstance(columns, Mapping) else pa.Field
    if not all(isinstance(each, kind) for each in given):
        return None
    return pa.schema(list(columns.items()) if isinstance(columns, Mapping) else given)


def _alteration(given: Any) -> dict[str, Any]:
    """Return an alteration in the form that the action expects."""
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            'alterations: expected dicts, one argument each: alter_columns(name, {"path": ...}, ...), '
            f"found {type(given).__name__}"
        )
    body = {key: value for key, value in given.items() if value is not None}
    if isinstance(body.get("data_type"), pa.DataType):
        body["schema"] = _encoded(pa.schema([pa.field("", body.pop("data_type"))]))
    return body


def _encoded(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


def _plain_parameters(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return options of an index as JSON can hold them: arrays of NumPy and Arrow as lists."""

    def plain(value: Any) -> Any:
        if isinstance(value, pa.Array | pa.ChunkedArray):
            return value.to_pylist()
        return value.tolist() if hasattr(value, "tolist") else value

    return {name: plain(value) for name, value in (parameters or {}).items()}
