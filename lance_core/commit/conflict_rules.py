"""Rules for conflicts: whether two transactions share fragments, columns, settings or keys.

Each rule is a pure function of two transactions: `mine`, which is not committed yet, and `committed`.

Source: docs/format.md, "Two writers".
"""

from collections.abc import Callable, Iterable
from enum import Enum

import pyroaring

from lance_core.commit.index_section import coverage
from lance_core.proto.transaction_pb2 import KeyExistenceFilter, Transaction


class Verdict(Enum):
    """Meaning of a committed transaction for a transaction that is not committed."""

    OK = "ok"
    REBASE = "rebase"
    RETRY = "retry"
    FAIL = "fail"


_OK, _REBASE, _RETRY, _FAIL = Verdict.OK, Verdict.REBASE, Verdict.RETRY, Verdict.FAIL
Rule = Verdict | Callable[[Transaction, Transaction], Verdict]
"""Verdict, or a function that returns the verdict for `mine` and `committed`."""


def touched_fragments(transaction: Transaction) -> set[int]:
    """Return the fragments that a transaction changes, removes or replaces, without the fragments that it
    adds.

    The result is empty for an append, which only adds, and for an overwrite, a merge and a restore, which
    concern all fragments.
    """
    match transaction.WhichOneof("operation"):
        case "delete":
            deleted = transaction.delete
            return {each.id for each in deleted.updated_fragments} | set(deleted.deleted_fragment_ids)
        case "update":
            update = transaction.update
            return {each.id for each in update.updated_fragments} | set(update.removed_fragment_ids)
        case "rewrite":
            rewrite = transaction.rewrite
            groups = [rewrite.old_fragments, *(group.old_fragments for group in rewrite.groups)]
            return {each.id for group in groups for each in group}
        case "data_replacement":
            return {each.fragment_id for each in transaction.data_replacement.replacements}
        case "data_overlay":
            return {group.fragment_id for group in transaction.data_overlay.groups}
    return set()


def overlap(verdict: Verdict) -> Rule:
    """Return a rule that gives `verdict` if both transactions touch the same fragment, otherwise `OK`."""

    def rule(mine: Transaction, committed: Transaction) -> Verdict:
        return verdict if touched_fragments(mine) & touched_fragments(committed) else _OK

    return rule


def unless_nullability(mine: Transaction, committed: Transaction) -> Verdict:
    """Require a retry, unless the committed schema change preserves nullability.

    If no column became required, rows that were made before the change still fit the schema.
    """
    changed = getattr(committed, str(committed.WhichOneof("operation")))
    return _OK if changed.preserves_nullability else _RETRY


def append_beside_projection(mine: Transaction, committed: Transaction) -> Verdict:
    """Require a rebase if the committed projection dropped columns of the appended files.

    The dropped columns must become obsolete in these files, because a later column may get their field ids.
    """
    verdict = unless_nullability(mine, committed)
    left = {field.id for field in committed.project.schema}
    return _REBASE if verdict is _OK and _appended_fields(mine) - left else verdict


def append_beside_merge(mine: Transaction, committed: Transaction) -> Verdict:
    """Require a retry if the committed merge dropped columns of the appended files.

    A column that got another type has also got another field id, so its new field would have no values in the
    new files.
    """
    left = {field.id for field in committed.merge.schema}
    return _RETRY if _appended_fields(mine) - left else unless_nullability(mine, committed)


def _appended_fields(mine: Transaction) -> set[int]:
    files = (file for fragment in mine.append.fragments for file in fragment.files)
    return {field for file in files for field in file.fields if field >= 0}


def columns_of_projection(mine: Transaction, committed: Transaction) -> Verdict:
    """Require a retry if the committed projection dropped a column that `mine` rewrote."""
    left = {field.id for field in committed.project.schema}
    return _RETRY if set(mine.update.fields_modified) - left else unless_nullability(mine, committed)


def replaced_of_projection(mine: Transaction, committed: Transaction) -> Verdict:
    """Refuse `mine` if the committed projection dropped a column whose file `mine` replaces."""
    left = {field.id for field in committed.project.schema}
    replaced = {field for each in mine.data_replacement.replacements for field in each.new_file.fields}
    verdict = unless_nullability(mine, committed)
    return _FAIL if verdict is _OK and {field for field in replaced if field >= 0} - left else verdict


def may_need_values(mine: Transaction, committed: Transaction) -> Verdict:
    """Require a retry if `mine` makes a column required, because committed rows may have nulls in it."""
    return _OK if mine.project.preserves_nullability else _RETRY


def same_config_keys(otherwise: Verdict) -> Rule:
    """Return a rule that refuses `mine` if both change the same setting of the table, otherwise gives
    `otherwise`.
    """

    def rule(mine: Transaction, committed: Transaction) -> Verdict:
        return _FAIL if _same_keys(mine, committed) else otherwise

    return rule


def _config_keys(transaction: Transaction) -> tuple[set[str], set[str]]:
    """Return the settings of the table that a transaction sets, and the settings that it removes."""
    update = transaction.update_config
    entries = update.config_updates.update_entries
    written = {entry.key for entry in entries if entry.HasField("value")} | set(update.upsert_values)
    removed = {entry.key for entry in entries if not entry.HasField("value")} | set(update.delete_keys)
    return written | set(transaction.overwrite.config_upsert_values), removed


def _same_keys(mine: Transaction, committed: Transaction) -> bool:
    (written, removed), (their_written, their_removed) = _config_keys(mine), _config_keys(committed)
    return bool(written & (their_written | their_removed) or their_written & removed)


def _describes_schema(transaction: Transaction) -> bool:
    """Return whether a settings change concerns metadata of the schema or of its fields."""
    update = transaction.update_config
    return bool(
        update.HasField("schema_metadata_updates")
        or update.field_metadata_updates
        or update.schema_metadata
        or update.field_metadata
    )


def committed_schema_metadata(verdict: Verdict) -> Rule:
    """Return a rule that gives `verdict` if `committed` changes metadata of the schema or of fields."""
    return lambda mine, committed: verdict if _describes_schema(committed) else _OK


def my_schema_metadata(verdict: Verdict) -> Rule:
    """Return a rule that gives `verdict` if `mine` changes metadata of the schema or of fields."""
    return lambda mine, committed: verdict if _describes_schema(mine) else _OK


def committed_field_metadata(mine: Transaction, committed: Transaction) -> Verdict:
    """Require a retry if field metadata changed: `mine` is a projection, which contains whole fields with old
    metadata.
    """
    update = committed.update_config
    return _RETRY if update.field_metadata_updates or update.field_metadata else _OK


def overwritten_settings(mine: Transaction, committed: Transaction) -> Verdict:
    """Refuse `mine` if it changes schema metadata, or a setting that the committed overwrite changes, too."""
    return _FAIL if _describes_schema(mine) or _same_keys(mine, committed) else _OK


def both_settings(mine: Transaction, committed: Transaction) -> Verdict:
    """Refuse `mine` if both change the same setting, table metadata or field metadata, or both the schema
    metadata.
    """
    ours, theirs = mine.update_config, committed.update_config
    both_schema = bool(
        (ours.HasField("schema_metadata_updates") or ours.schema_metadata)
        and (theirs.HasField("schema_metadata_updates") or theirs.schema_metadata)
    )
    same_fields = (set(ours.field_metadata_updates) | set(ours.field_metadata)) & (
        set(theirs.field_metadata_updates) | set(theirs.field_metadata)
    )
    same_metadata = _maps_conflict(ours.table_metadata_updates, theirs.table_metadata_updates)
    return _FAIL if both_schema or same_fields or same_metadata or _same_keys(mine, committed) else _OK


def _maps_conflict(ours: Transaction.UpdateMap, theirs: Transaction.UpdateMap) -> bool:
    changed = [bool(each.replace or each.update_entries) for each in (ours, theirs)]
    if not all(changed):
        return False
    keys = [{entry.key for entry in each.update_entries} for each in (ours, theirs)]
    return ours.replace or theirs.replace or bool(keys[0] & keys[1])


def _inserted_keys(mine: Transaction, committed: Transaction) -> Verdict:
    """Require a retry if two updates may have inserted the same key. An update without a list of keys may
    have any.
    """
    if not mine.update.HasField("inserted_rows"):
        return _OK
    ours, theirs = mine.update.inserted_rows, committed.update.inserted_rows
    if not committed.update.HasField("inserted_rows") or list(ours.field_ids) != list(theirs.field_ids):
        return _RETRY
    hashes = [_exact_keys(each) for each in (ours, theirs)]
    if hashes[0] is None or hashes[1] is None:
        return _RETRY
    return _RETRY if hashes[0] & hashes[1] else _OK


def _exact_keys(keys: KeyExistenceFilter) -> set[int] | None:
    """Return the hashes of the keys; None if the filter is a Bloom filter, which cannot list its keys."""
    return set(keys.exact.key_hashes) if keys.HasField("exact") else None


def append_beside_keys(mine: Transaction, committed: Transaction) -> Verdict:
    """Require a retry if `mine` says which keys it inserted: the appended rows may have the same keys."""
    return _RETRY if mine.update.HasField("inserted_rows") else _OK


def two_updates(on_overlap: Verdict) -> Rule:
    """Return a rule for two updates: a retry for shared keys, `on_overlap` for shared fragments, otherwise
    `OK`.
    """

    def rule(mine: Transaction, committed: Transaction) -> Verdict:
        keys = _inserted_keys(mine, committed)
        shared = touched_fragments(mine) & touched_fragments(committed)
        return on_overlap if keys is _OK and shared else keys

    return rule


def same_index(mine: Transaction, committed: Transaction) -> Verdict:
    """Return `retry` if `mine` adds or drops segments of an index that got a segment from `committed`.

    Indices are the same if they have the same name. Otherwise the verdict is `ok`.
    """
    ours, theirs = mine.create_index, committed.create_index
    names = {each.name for each in (*ours.new_indices, *ours.removed_indices)}
    return _RETRY if names & {each.name for each in theirs.new_indices} else _OK


def _covered(transaction: Transaction, fields: Iterable[int] | None = None) -> pyroaring.BitMap:
    """Return the fragments that the new segments of a transaction cover.

    With `fields`, only segments on some of these fields count.
    """
    covered = pyroaring.BitMap()
    wanted = None if fields is None else set(fields)
    for index in transaction.create_index.new_indices:
        if wanted is None or wanted.intersection(index.fields):
            covered |= coverage(index)
    return covered


def index_of_rewritten(mine: Transaction, committed: Transaction) -> Verdict:
    """Require a retry if `committed` rewrote fragments that the new index covers, or a segment that `mine`
    removes.
    """
    rewritten = {each.old_id.uuid for each in committed.rewrite.rewritten_indices}
    if rewritten.intersection(each.uuid.uuid for each in mine.create_index.removed_indices):
        return _RETRY
    covered = _covered(mine)
    return _RETRY if any(number in covered for number in touched_fragments(committed)) else _OK


def rewritten_of_index(mine: Transaction, committed: Transaction) -> Verdict:
    """Require a retry if `committed` added an index that covers fragments that `mine` rewrites."""
    covered = _covered(committed)
    return _RETRY if any(number in covered for number in touched_fragments(mine)) else _OK


def two_rewrites(mine: Transaction, committed: Transaction) -> Verdict:
    """Require a retry if both rewrite the same fragment or the same index segment."""
    ours, theirs = (
        {each.old_id.uuid for each in transaction.rewrite.rewritten_indices}
        for transaction in (mine, committed)
    )
    return _RETRY if ours & theirs or touched_fragments(mine) & touched_fragments(committed) else _OK


def index_of_updated(mine: Transaction, committed: Transaction) -> Verdict:
    """Require a retry if `committed` changed indexed columns in fragments that the new index covers."""
    covered = _covered(mine, committed.update.fields_modified)
    return _RETRY if any(number in covered for number in touched_fragments(committed)) else _OK


def replaces_indexed(index: Transaction, replacement: Transaction) -> bool:
    """Return whether `replacement` replaces files with columns that the new segments of `index` cover."""
    indexed = {field for each in index.create_index.new_indices for field in each.fields}
    return any(
        indexed.intersection(each.new_file.fields) for each in replacement.data_replacement.replacements
    )


def removes_replaced(mine: Transaction, committed: Transaction) -> Verdict:
    """Refuse `mine` if `committed` removed a fragment whose file `mine` replaces."""
    removed = set(committed.delete.deleted_fragment_ids) | set(committed.update.removed_fragment_ids)
    return _FAIL if touched_fragments(mine) & removed else _OK


def moves_replaced(mine: Transaction, committed: Transaction) -> Verdict:
    """Require a retry if `committed` moved rows of a replaced file or rewrote its columns.

    If `committed` removed the fragment, `mine` is refused.
    """
    if removes_replaced(mine, committed) is _FAIL:
        return _FAIL
    update = committed.update
    moved = bool(update.new_fragments) and update.update_mode == Transaction.Update.REWRITE_ROWS
    shared = touched_fragments(mine) & touched_fragments(committed)
    for each in mine.data_replacement.replacements:
        rewritten = set(each.new_file.fields) & set(update.fields_modified)
        if each.fragment_id in shared and (moved or rewritten):
            return _RETRY
    return _OK


def same_replacement(mine: Transaction, committed: Transaction) -> Verdict:
    """Require a retry if both replace the file of the same field in the same fragment."""
    theirs = {
        (each.fragment_id, field)
        for each in committed.data_replacement.replacements
        for field in each.new_file.fields
    }
    replaced = (
        (each.fragment_id, field)
        for each in mine.data_replacement.replacements
        for field in each.new_file.fields
    )
    return _RETRY if any(pair in theirs for pair in replaced) else _OK


def same_files(mine: Transaction, committed: Transaction) -> Verdict:
    """Refuse an append of files that are in the table already, so that a staged write is
    committed only once.
    """
    theirs = {file.path for fragment in committed.append.fragments for file in fragment.files}
    ours = (file.path for fragment in mine.append.fragments for file in fragment.files)
    return _FAIL if any(path in theirs for path in ours) else _OK


def same_bases(mine: Transaction, committed: Transaction) -> Verdict:
    """Refuse `mine` if both add a base path with the same name, path or id."""
    for ours in mine.update_bases.new_bases:
        for theirs in committed.update_bases.new_bases:
            same_name = ours.HasField("name") and theirs.HasField("name") and ours.name == theirs.name
            if same_name or ours.path == theirs.path or ours.id == theirs.id > 0:
                return _FAIL
    return _OK
