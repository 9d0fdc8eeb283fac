"""Changes of settings, metadata and base paths, and the restore of an older version.

These changes write no data files. After a conflict only the transaction is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lance_core.changes.retry import with_retries
from lance_core.commit.commit import commit
from lance_core.errors import ArgumentTypeError, InvalidInputError
from lance_core.hints import did_you_mean
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.schema import Schema
from lance_core.schema.paths import split_path
from lance_core.table.bases import DatasetBasePath
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import new_transaction, restore, update_bases, update_config, update_map

Entries = Mapping[str, str | None]
"""New values by key; None removes a key."""


def restore_version(snapshot: Snapshot, *, transaction_id: str | None = None, sync: bool = True) -> Snapshot:
    """Make a new version of a branch with the content of an older one.

    Row ids and fragment ids are not reused.

    Args:
        snapshot: The older version.
        transaction_id: UUID of the transaction. Repeating it gives the first result.
        sync: Make the version durable before returning.

    Raises:
        VersionNotFoundError: The version was cleaned up.
        CommitConflictError: Another commit is in conflict with this one.
        CommitUnknownError: The storage did not tell whether the version was made.
    """
    newest = snapshot.open_version()
    return _commit(
        newest,
        lambda transaction: restore(transaction, snapshot.manifest.version),
        "restore",
        transaction_id,
        sync,
    )


def update_settings(
    snapshot: Snapshot,
    *,
    config: Entries | None = None,
    table_metadata: Entries | None = None,
    schema_metadata: Entries | None = None,
    field_metadata: Mapping[str, Entries] | None = None,
    replace: bool = False,
    transaction_id: str | None = None,
    sync: bool = True,
) -> Snapshot:
    """Change settings of the table, and metadata of the table, its schema and its fields.

    Args:
        snapshot: The opened version.
        config: Settings of the table.
        table_metadata: Metadata of the table.
        schema_metadata: Metadata of the schema.
        field_metadata: Metadata of fields, by their dotted paths.
        replace: Remove keys that are not named, in each map that is given.
        transaction_id, sync: As for `restore_version`.

    Raises:
        InvalidInputError: There is no such field, or the format gives a key a meaning that the value
            contradicts.
        ArgumentTypeError: A key or value is no text.
        CommitConflictError: Another commit changed the same keys.
        CommitUnknownError: The storage did not tell whether the version was made.
    """
    maps = [_changes(entries, replace) for entries in (config, table_metadata, schema_metadata)]
    fields = {path: _changes(entries, replace) for path, entries in (field_metadata or {}).items()}

    def change(transaction: Transaction) -> Transaction:
        return update_config(
            transaction,
            config=maps[0],
            table_metadata=maps[1],
            schema_metadata=maps[2],
            field_metadata={
                _field_id(snapshot.manifest.schema, path): changes
                for path, changes in fields.items()
                if changes is not None
            },
        )

    return _commit(snapshot, change, "update_config", transaction_id, sync)


def add_bases(
    snapshot: Snapshot,
    bases: Sequence[DatasetBasePath],
    *,
    properties: Mapping[str, str] | None = None,
    transaction_id: str | None = None,
    sync: bool = True,
) -> Snapshot:
    """Add base paths to the table.

    Args:
        snapshot: The opened version.
        bases: The base paths. The commit gives an id to those without one.
        properties: Texts that are stored in the transaction.
        transaction_id, sync: As for `restore_version`.

    Raises:
        InvalidInputError: Another base path has the same id, name or path, or a path is not absolute.
        CommitConflictError: Another commit added a base path with the same id, name or path.
        CommitUnknownError: The storage did not tell whether the version was made.
    """
    messages = [base.to_message() for base in bases]
    return _commit(
        snapshot,
        lambda transaction: update_bases(transaction, messages),
        "update_bases",
        transaction_id,
        sync,
        properties,
    )


def _commit(
    snapshot: Snapshot,
    complete: Callable[[Transaction], Transaction],
    operation: str,
    transaction_id: str | None,
    sync: bool,
    properties: Mapping[str, str] | None = None,
) -> Snapshot:
    def attempt(current: Snapshot) -> Manifest:
        transaction = new_transaction(
            current.manifest.version, uuid=transaction_id, properties=properties or {}
        )
        return commit(current.storage, complete(transaction), read=current.manifest, sync=sync)

    return with_retries(snapshot, attempt, operation, transaction_id=transaction_id)


def _changes(entries: Entries | None, replace: bool) -> Transaction.UpdateMap | None:
    if entries is None:
        return None
    if not isinstance(entries, Mapping):
        raise ArgumentTypeError(f"settings and metadata must be a mapping, got {type(entries).__name__}")
    for key, text in entries.items():
        if not isinstance(key, str) or not isinstance(text, str | None):
            raise ArgumentTypeError(
                f"keys of settings and metadata must be text, values text or None, got {key!r}: {text!r}"
            )
    return update_map(entries, replace=replace)


def _field_id(schema: Schema, path: str) -> int:
    """Return the id of a field at any depth, also of items of lists and entries of maps."""
    by_name = {field.name: field for field in schema.fields}
    name, *rest = [path] if path in by_name else split_path(path)
    field = by_name.get(name)
    while field is not None and rest:
        by_name = {child.name: child for child in field.children}
        name, *rest = rest
        field = by_name.get(name)
    if field is None:
        raise InvalidInputError(f"there is no field {path!r}{did_you_mean(name, list(by_name))}")
    return field.id
