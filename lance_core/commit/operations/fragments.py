"""Adding fragments to a manifest in the making, and replacing others in it."""

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
    """Add fragments with the next ids. What they say of row ids and versions stays, if the table has these.

    Raises:
        InvalidInputError: no ids are left, or a fragment has a deletion file, which has another name.
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
    """Add fragments of rows that are new to the table."""
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
    """Put fragments in the place of those with the same ids, and remove others.

    Files of which every column was dropped since the operation was made do not come back.

    Raises:
        CommitConflictError: there is no such fragment.
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
    """Rows are in the order of the fragments, and readers expect that to be the order of their ids."""
    ids = [fragment.id for fragment in message.fragments]
    if ids != sorted(ids):
        message.fragments.sort(key=lambda fragment: fragment.id)


def last_fragment_id(message: table_pb2.Manifest) -> int:
    """Return the highest fragment id that has been used, -1 if none has; old libraries do not note it."""
    last = message.fragments[-1].id if message.fragments else -1
    return max(last, message.max_fragment_id if message.HasField("max_fragment_id") else -1)


def reserve_until(message: table_pb2.Manifest, last: int) -> None:
    """Note that fragment ids up to `last` have been used.

    Raises:
        InvalidInputError: it has more than 32 bits.
    """
    if last >= MAX_ROWS:
        raise InvalidInputError("table has no fragment ids left", expected=f"below {MAX_ROWS}")
    if not message.HasField("max_fragment_id") or message.max_fragment_id < last:
        message.max_fragment_id = last


def field_ids(message: table_pb2.Manifest) -> set[int]:
    """Return the ids of all fields of the schema."""
    return {field.id for field in message.fields}


def with_parents(message: table_pb2.Manifest, ids: Iterable[int]) -> set[int]:
    """Fields of the schema and those around them: an index may name a list where files name its items."""
    parents = {field.id: field.parent_id for field in message.fields}
    found: set[int] = set()
    for field_id in ids:
        while field_id in parents and field_id not in found:
            found.add(field_id)
            field_id = parents[field_id]
    return found


def _require(fragment_id: int, known: Collection[int]) -> None:
    if fragment_id not in known:
        raise CommitConflictError(f"fragment {fragment_id} is gone", retryable=True)
