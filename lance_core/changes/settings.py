"""Settings and metadata of a table, its schema and its fields; and going back to an older version.

These commits write no data: what is repeated after a conflict is the transaction alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lance_core.changes.retry import with_retries
from lance_core.commit.commit import commit
from lance_core.errors import InvalidInputError
from lance_core.hints import did_you_mean
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.schema import Schema
from lance_core.schema.paths import split_path
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import new_transaction, restore, update_config, update_map

Entries = Mapping[str, str | None]
"""Keys with their new values; None removes a key."""


def restore_version(snapshot: Snapshot, *, transaction_id: str | None = None, sync: bool = True) -> Snapshot:
    """Make a version that is what `snapshot` is; ids of rows and fragments count on.

    Args:
        snapshot: the version to go back to, of the branch that it is on.
        transaction_id: a UUID; one that was committed before changes nothing.
        sync: make the version durable before returning.

    Raises:
        VersionNotFoundError: the version was cleaned up.
        CommitConflictError: other commits make this one impossible.
        CommitUnknownError: nobody can say whether the version was made.
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
    """Change maps of text by text, of the table or of fields.

    Args:
        snapshot: the version that the caller has open.
        config: settings of the table.
        table_metadata: what users noted on the table.
        schema_metadata: metadata of the schema.
        field_metadata: metadata of fields, by their dotted paths.
        replace: drop keys that are not named, in each map that is given.
        transaction_id, sync: as for `restore_version`.

    Raises:
        InvalidInputError: there is no such field, or the metadata contradicts what the format makes of it.
        TypeError: keys or values are no text.
        CommitConflictError: another commit changed the same keys.
        CommitUnknownError: nobody can say whether the version was made.
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


def _commit(
    snapshot: Snapshot,
    complete: Callable[[Transaction], Transaction],
    operation: str,
    transaction_id: str | None,
    sync: bool,
) -> Snapshot:
    def attempt(current: Snapshot) -> Manifest:
        transaction = new_transaction(current.manifest.version, uuid=transaction_id)
        return commit(current.storage, complete(transaction), sync=sync)

    return with_retries(snapshot, attempt, operation, transaction_id=transaction_id)


def _changes(entries: Entries | None, replace: bool) -> Transaction.UpdateMap | None:
    if entries is None:
        return None
    for key, text in entries.items():
        if not isinstance(key, str) or not isinstance(text, str | None):
            raise TypeError(f"settings and metadata must be text by text or None, got {key!r}: {text!r}")
    return update_map(entries, replace=replace)


def _field_id(schema: Schema, path: str) -> int:
    """Return the id of a field of any level: items of lists and entries of maps are named, too."""
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
