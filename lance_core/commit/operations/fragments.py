"""Adding and replacing fragments in the next manifest."""

from collections.abc import Collection, Iterable

from lance_core.commit.lineage_encoding import consecutive_row_ids, one_version
from lance_core.commit.operations.context import Context
from lance_core.errors import CommitConflictError, InvalidInputError
from lance_core.proto import table_pb2
from lance_core.table.fragment import HIDDEN, MAX_ROWS

_LINEAGE = (
    "inline_row_ids",
    "column_row_ids",
    "inline_created_at_versions",
    "column_created_at_versions",
    "inline_last_updated_at_versions",
    "column_last_updated_at_versions",
)


def add_fragments(
    message: table_pb2.Manifest, fragments: Iterable[table_pb2.DataFragment], context: Context
) -> list[table_pb2.DataFragment]:
    """Add fragments with the next free ids.

    Their row ids and versions are kept if the table has stable row ids, otherwise removed.

    Raises:
        InvalidInputError: no ids are left, or a fragment has a deletion file, whose name would contain a
            wrong id.
    """
    next_id = last_fragment_id(message) + 1
    added = []
    for fragment in fragments:
        reserve_until(message, next_id)
        message.fragments.append(fragment)
        new = message.fragments[-1]
        if fragment.HasField("deletion_file"):
            raise InvalidInputError("new fragment has a deletion file")
        if not context.stable_row_ids:
            for name in _LINEAGE:
                new.ClearField(name)
        new.id = next_id
        next_id += 1
        added.append(new)
    context.changed.extend(added)
    return added


def add_rows(
    message: table_pb2.Manifest, fragments: Iterable[table_pb2.DataFragment], context: Context
) -> None:
    """Add fragments whose rows are all new to the table."""
    for fragment in add_fragments(message, fragments, context):
        if context.stable_row_ids:
            rows = fragment.physical_rows
            fragment.inline_row_ids = consecutive_row_ids(message.next_row_id, rows)
            fragment.inline_created_at_versions = one_version(context.version, rows)
            fragment.inline_last_updated_at_versions = one_version(context.version, rows)
            message.next_row_id += rows


def replace_fragments(
    message: table_pb2.Manifest,
    updated: Iterable[table_pb2.DataFragment],
    removed_ids: Collection[int],
    context: Context,
) -> list[table_pb2.DataFragment]:
    """Replace the fragments with the ids of `updated`, remove others, and return the replaced fragments.

    Data files whose columns were all dropped meanwhile are left out.

    Raises:
        CommitConflictError: a fragment was removed; retryable.
    """
    positions = {fragment.id: position for position, fragment in enumerate(message.fragments)}
    needed = field_ids(message) | HIDDEN
    replaced = []
    for fragment in updated:
        _require(fragment.id, positions)
        place = message.fragments[positions[fragment.id]]
        place.CopyFrom(fragment)
        del place.files[:]
        place.files.extend(file for file in fragment.files if not needed.isdisjoint(file.fields))
        replaced.append(place)
    context.changed.extend(replaced)
    for fragment_id in removed_ids:
        _require(fragment_id, positions)
    for position in sorted({positions[fragment_id] for fragment_id in removed_ids}, reverse=True):
        del message.fragments[position]
    return replaced


def sort_fragments(message: table_pb2.Manifest) -> None:
    """Sort the fragments by id, because readers expect the rows in this order."""
    ids = [fragment.id for fragment in message.fragments]
    if ids != sorted(ids):
        message.fragments.sort(key=lambda fragment: fragment.id)


def last_fragment_id(message: table_pb2.Manifest) -> int:
    """Return the highest fragment id that was ever used; -1 if there is none. Old libraries did not record
    it.
    """
    last = message.fragments[-1].id if message.fragments else -1
    return max(last, message.max_fragment_id if message.HasField("max_fragment_id") else -1)


def reserve_until(message: table_pb2.Manifest, last: int) -> None:
    """Record that the fragment ids up to `last` are used.

    Raises:
        InvalidInputError: `last` does not fit in 32 bits.
    """
    if last >= MAX_ROWS:
        raise InvalidInputError("table has no fragment ids left", expected=f"below {MAX_ROWS}")
    if not message.HasField("max_fragment_id") or message.max_fragment_id < last:
        message.max_fragment_id = last


def field_ids(message: table_pb2.Manifest) -> set[int]:
    """Return the ids of all fields of the schema."""
    return {field.id for field in message.fields}


def with_parents(message: table_pb2.Manifest, ids: Iterable[int]) -> set[int]:
    """Return the given fields with their parents: an index may name a list while files name its items."""
    parents = {field.id: field.parent_id for field in message.fields}
    found: set[int] = set()
    for field_id in ids:
        while field_id in parents and field_id not in found:
            found.add(field_id)
            field_id = parents[field_id]
    return found


def _require(fragment_id: int, known: Collection[int]) -> None:
    if fragment_id not in known:
        raise CommitConflictError(f"fragment {fragment_id} was removed", retryable=True)
