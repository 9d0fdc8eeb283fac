"""New columns that many writers prepare, each for one fragment, and that one commit adds.

A writer writes all physical rows of its fragment, so it need not know which rows are deleted. A few hundred
bytes describe the written columns; the process that commits receives them. If rows were moved meanwhile, they
would have nulls. Then the commit is refused.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_core.changes.columns.fragment_columns import FragmentColumnsWriter, fragment_of
from lance_core.changes.columns.schema_evolution import preserves_nullability, used_files, with_fields
from lance_core.changes.retry import with_retries
from lance_core.commit.commit import commit
from lance_core.commit.conflicts import Verdict, check_conflict
from lance_core.errors import CommitConflictError, InvalidInputError, VersionNotFoundError
from lance_core.proto import table_pb2
from lance_core.schema import Schema
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot, read_manifest
from lance_core.table.transaction import data_replacement, merge, new_transaction, read_transaction


@dataclass(frozen=True)
class StagedColumns:
    """The new columns of one fragment, in a file that belongs to no version yet."""

    fragment: table_pb2.DataFragment
    """The fragment with the new file as its last file."""
    fields: table_pb2.Manifest
    """The schema with the new fields, as the fields of a manifest."""
    read_version: int
    """The version that the columns were written for."""

    @property
    def fragment_id(self) -> int:
        return self.fragment.id

    def json(self) -> str:
        """Return JSON that `from_json` reads, on any machine."""
        parts = {"fragment": self.fragment, "fields": self.fields}
        encoded = {name: base64.b64encode(part.SerializeToString()).decode() for name, part in parts.items()}
        return json.dumps({**encoded, "read_version": self.read_version})

    @staticmethod
    def from_json(text: str) -> StagedColumns:
        """Return the columns from the text of `json`.

        Raises:
            InvalidInputError: The text is something else.
        """
        try:
            parts = json.loads(text)
            return StagedColumns(
                table_pb2.DataFragment.FromString(base64.b64decode(parts["fragment"])),
                table_pb2.Manifest.FromString(base64.b64decode(parts["fields"])),
                int(parts["read_version"]),
            )
        except (ValueError, KeyError, TypeError, DecodeError):
            raise InvalidInputError("staged columns", found=text[:80]) from None


class StagedColumnsWriter(FragmentColumnsWriter):
    """Writer of new columns of all physical rows of one fragment; for one thread."""

    def __init__(self, snapshot: Snapshot, fragment_id: int, schema: pa.Schema, *, sync: bool = True) -> None:
        """Begin a file for the columns of `schema`.

        Raises:
            InvalidInputError: There is no such fragment, or a column exists already.
            UnsupportedFeatureError: Files of the table's version cannot hold a type.
        """
        manifest = snapshot.manifest
        self._fragment = fragment_of(snapshot, fragment_id)
        clashing = {field.name for field in manifest.schema.fields}.intersection(schema.names)
        if clashing:
            raise InvalidInputError("column exists already", column=min(clashing))
        self._read_version = manifest.version
        self._schema, new_fields = with_fields(manifest, schema)
        super().__init__(snapshot, self._fragment, new_fields, schema, sync=sync)

    def finish(self) -> StagedColumns:
        """Complete the file; errors are those of `finish_file`."""
        message = table_pb2.DataFragment()
        message.CopyFrom(self._fragment.message)
        message.files.append(self.finish_file())
        fields = table_pb2.Manifest(fields=self._schema.messages)
        return StagedColumns(message, fields, self._read_version)


def commit_staged_columns(
    snapshot: Snapshot,
    staged: Sequence[StagedColumns],
    *,
    transaction_id: str | None = None,
    sync: bool = True,
) -> Snapshot:
    """Commit columns that were staged for different fragments as one version.

    Rows of other fragments get nulls. If the commit fails, the files stay: the caller may retry or remove
    them.

    Raises:
        InvalidInputError: There are no staged columns, two for one fragment, different columns, or none for a
            fragment though a column is non-nullable.
        CommitConflictError: A later version moved or restored rows of these fragments, or changed the schema.
            Not retryable: the columns have no values for the new rows.
        LanceError: The errors of `commit`.
    """
    if not staged:
        raise InvalidInputError("nothing was staged")
    fields = staged[0].fields
    by_id = {each.fragment_id: each for each in staged}
    if len(by_id) != len(staged):
        raise InvalidInputError("columns were staged twice for one fragment")
    if any(each.fields != fields for each in staged):
        raise InvalidInputError("different columns were staged")

    def attempt(current: Snapshot) -> Manifest:
        manifest = current.manifest
        schema = Schema(fields.fields, manifest.schema.raw_metadata)
        _check_schema(manifest, schema)
        missing = set(by_id).difference(manifest.fragment_ids)
        if missing:
            raise CommitConflictError(f"fragment {min(missing)} is no longer there", retryable=False)
        _require_same_rows(current, staged)
        fragments = []
        for message, fragment in zip(manifest.message.fragments, manifest.fragments, strict=True):
            own = table_pb2.DataFragment()
            own.CopyFrom(message)
            if fragment.id in by_id:
                before = by_id[fragment.id].fragment
                if list(own.files) != list(before.files[:-1]):
                    raise CommitConflictError(f"fragment {fragment.id} was rewritten", retryable=False)
                own.files.append(before.files[-1])
            elif fragment.num_rows:
                _require_nullable(manifest, schema, fragment.id)
            fragments.append(own)
        transaction = merge(
            new_transaction(manifest.version, uuid=transaction_id),
            used_files(fragments, schema),
            schema,
            preserves_nullability=preserves_nullability(manifest.schema, schema),
        )
        return commit(current.storage, transaction, read=manifest, sync=sync)

    return with_retries(snapshot, attempt, "merge", transaction_id=transaction_id)


def _check_schema(manifest: Manifest, schema: Schema) -> None:
    """Refuse columns that were staged on another schema, since their ids or names may be taken now."""
    current = list(manifest.schema.messages)
    if current != list(schema.messages)[: len(current)]:
        raise CommitConflictError("the schema changed since the columns were staged", retryable=False)


def _require_same_rows(current: Snapshot, staged: Sequence[StagedColumns]) -> None:
    """Refuse if a later version is in conflict with a replacement of columns: it moved rows."""
    columns = [(each.fragment_id, each.fragment.files[-1]) for each in staged]
    since = min(each.read_version for each in staged)
    mine = data_replacement(new_transaction(since), columns)
    for version in range(since + 1, current.manifest.version + 1):
        try:
            committed = read_transaction(current.storage, read_manifest(current.storage, version))
        except VersionNotFoundError:
            raise CommitConflictError(
                f"version {version} was removed before it could be compared", retryable=False
            ) from None
        if check_conflict(mine, committed) is not Verdict.OK:
            raise CommitConflictError(
                f"rows that the columns were staged for were changed by version {version}", retryable=False
            )


def _require_nullable(manifest: Manifest, schema: Schema, fragment_id: int) -> None:
    known = manifest.schema.field_by_id
    for field in schema.fields:
        if field.id not in known and not field.nullable:
            raise InvalidInputError(
                f"fragment {fragment_id} lacks a column that allows no nulls", column=field.name
            )
