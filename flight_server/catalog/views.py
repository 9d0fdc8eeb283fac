"""Views: the parts of versions that exist for callers with limited rights to read.

A view has columns and rows. Names are bound to the columns of the view, so a hidden column is a column that
does not exist, also in errors and their hints. Hidden rows are left out before anything of the caller's is
evaluated, so no error tells a value of them (threat T3).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from flight_server.rights.grants import Limit
from lance_core.api.serving import (
    ROW_OFFSET,
    Expression,
    Schema,
    Snapshot,
    bind_filter,
    either,
    named_columns,
)
from lance_core.errors import InvalidInputError

_MOST_VIEWS = 256
"""Views of one schema that are kept."""


@dataclass(frozen=True)
class View:
    """Version of a dataset as one caller may read it."""

    snapshot: Snapshot
    """The whole version."""
    schema: Schema
    """The columns that exist for the caller."""
    guard: Expression | None = None
    """Condition of the rows that exist for the caller; it may name other columns. None: all rows."""
    limits: str | None = None
    """Text that other limits do not have; None: the view is the whole version."""

    @property
    def is_whole(self) -> bool:
        return self.limits is None

    @property
    def hides_rows(self) -> bool:
        return self.guard is not None

    @property
    def narrowed(self) -> Schema | None:
        """The columns that exist for the caller; None: the view is the whole version."""
        return None if self.is_whole else self.schema

    def check(self, names: Iterable[str]) -> None:
        """Refuse a column that would tell how many rows are hidden: offsets count them.

        Raises:
            InvalidInputError: one of the names is `_rowoffset`, and rows are hidden.
        """
        if self.guard is not None and ROW_OFFSET in names:
            raise InvalidInputError(f"there is no column {ROW_OFFSET!r}")

    def check_expression(self, expression: Expression | None) -> None:
        """Refuse an expression that names such a column; see `check`."""
        if self.guard is not None and expression is not None:
            self.check(path[0] for path in named_columns(expression))


@dataclass(frozen=True)
class _Part:
    """Columns and rows of one schema that some limits leave."""

    schema: Schema
    guard: Expression | None
    limits: str


def view_of(snapshot: Snapshot, limits: Sequence[Limit]) -> View | None:
    """Return the part of a version that limits leave; all of it if there are none.

    The view has the rows of all limits, but only the columns that all of them have: so it shows no value that
    none of them shows. A limit with a filter that does not fit the columns of the version counts for nothing.
    If that leaves no limit, the result is None.
    """
    schema = snapshot.manifest.schema
    if not limits:
        return View(snapshot, schema)
    known = _parts.setdefault(schema, {})
    key = tuple(limits)
    if key not in known:
        if len(known) >= _MOST_VIEWS:
            known.clear()
        known[key] = _part(schema, limits)
    part = known[key]
    return None if part is None else View(snapshot, part.schema, part.guard, part.limits)


# A request needs the part for its plan, for its ticket and for its stream.
_parts: WeakKeyDictionary[Schema, dict[tuple[Limit, ...], _Part | None]] = WeakKeyDictionary()


def _part(schema: Schema, limits: Sequence[Limit]) -> _Part | None:
    fitting = list(_fitting(schema, limits))
    if not fitting:
        return None
    names = {field.name for field in schema.fields}
    for limit, _ in fitting:
        if limit.columns is not None:
            names &= limit.columns
    guards = [guard for _, guard in fitting if guard is not None]
    has_all_rows = len(guards) < len(fitting)
    filters = None if has_all_rows else sorted(limit.filter or "" for limit, _ in fitting)
    told = json.dumps([sorted(names), filters])
    return _Part(
        # Metadata of a schema may tell about hidden columns and rows: that of pandas names and counts them.
        schema.narrowed(names),
        None if has_all_rows else either(guards),
        hashlib.sha256(told.encode()).hexdigest()[:16],
    )


def _fitting(schema: Schema, limits: Sequence[Limit]) -> Iterator[tuple[Limit, Expression | None]]:
    """Yield the limits whose filters fit the columns, each with the condition of its rows."""
    for limit in limits:
        with suppress(InvalidInputError):
            yield limit, bind_filter(schema, limit.filter, repeatable=True)
