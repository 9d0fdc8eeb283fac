"""Binding of filters and computed columns, as callers write them, to the columns of a table version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import pyarrow as pa

from lance_core.errors import ArgumentTypeError, InvalidInputError
from lance_core.expressions.tree import Column, Expression, conjuncts
from lance_core.scan.plan.options import Computed
from lance_core.scan.plan.projection import expression_schema
from lance_core.schema import Schema

if TYPE_CHECKING:
    import pyarrow.compute as pc


def bind_filter(
    schema: Schema,
    condition: str | pc.Expression | Expression | None,
    substrait: bytes | None = None,
    *,
    repeatable: bool = False,
    found: Sequence[pa.Field] = (),
    blob_handling: str | None = None,
) -> Expression | None:
    """Return the filter of a scan, given as SQL, as an Arrow expression or as Substrait bytes.

    A filter that is bound already is not parsed. With `repeatable`, SQL that asks for the current time is
    refused: the same filter must always mean the same rows. The filter may name the columns `found` that a
    search adds, too. If `blob_handling` is "all_binary", a blob is null where its value is null.

    Raises:
        InvalidInputError: the filter does not parse, names an unknown column, is no condition, or is given
            twice.
        ArgumentTypeError: `condition` is neither text nor an expression.
        UnsupportedFeatureError: see `with_nulls_of_values`.
    """
    bound = _bound(schema, condition, substrait, repeatable, found)
    return bound if bound is None else _as_handled(schema, bound, blob_handling)


def _bound(
    schema: Schema,
    condition: str | pc.Expression | Expression | None,
    substrait: bytes | None,
    repeatable: bool,
    found: Sequence[pa.Field],
) -> Expression | None:
    """Return a filter whose blobs are their descriptors; see `bind_filter`."""
    if substrait is not None:
        if condition is not None:
            raise InvalidInputError("filter and substrait_filter exclude each other")
        from lance_core.expressions.parsing.substrait import parse_substrait

        return parse_substrait(substrait, expression_schema(schema, found))
    if condition is None or isinstance(condition, Expression):
        return condition
    if isinstance(condition, str):
        return _parsed(schema, condition, found, repeatable)
    import pyarrow.compute as pc  # late, too

    if isinstance(condition, pc.Expression):
        from lance_core.expressions.parsing.arrow import parse_arrow

        return parse_arrow(condition, expression_schema(schema, found))
    raise ArgumentTypeError(
        f"filter must be SQL text or a pyarrow expression, got {type(condition).__name__}"
    )


def _as_handled(schema: Schema, expression: Expression, blob_handling: str | None) -> Expression:
    """Return an expression whose blobs are null where those of the scan are null."""
    if blob_handling != "all_binary":
        return expression
    from lance_core.scan.plan.blob_nulls import with_nulls_of_values  # late: few scans return values of blobs

    return with_nulls_of_values(schema, expression)


_MOST_KEPT_FILTERS, _MOST_KEPT_CHARACTERS = 64, 1 << 10
# A scan over Flight needs its filter for its plan and for each of its tickets, and callers repeat filters.
_filters: WeakKeyDictionary[Schema, dict[str, Expression]] = WeakKeyDictionary()


def _parsed(schema: Schema, text: str, found: Sequence[pa.Field], repeatable: bool) -> Expression:
    """Return the condition that a text means; see `bind_filter`.

    Short texts that mean the same at any time are parsed once. Parsing takes as long as filtering 300,000
    rows.
    """
    known = _filters.setdefault(schema, {})
    if not found and (kept := known.get(text)) is not None:
        return kept
    # Late: the parsers take longer to load than the rest of the package.
    from lance_core.expressions.parsing.sql import parse_filter

    columns = expression_schema(schema, found)
    if found or len(text) > _MOST_KEPT_CHARACTERS:
        return parse_filter(text, columns, repeatable=repeatable)
    try:
        condition = parse_filter(text, columns, repeatable=True)
    except InvalidInputError:
        return parse_filter(text, columns, repeatable=repeatable)
    if len(known) >= _MOST_KEPT_FILTERS:
        known.clear()
    known[text] = condition
    return condition


def check_filter(text: str) -> None:
    """Refuse a filter that is no SQL expression, whatever columns there are; InvalidInputError says why."""
    from lance_core.expressions.parsing.sql import check_syntax  # late, as in bind_filter

    check_syntax(text)


def guarded(guard: Expression, condition: Expression | None) -> tuple[Expression, int]:
    """Return the filter of a scan for a caller who may see only the rows that meet `guard`, and the number of
    its guards; see `ScanOptions`. `condition` is the filter of the caller.
    """
    from lance_core.expressions.builders import conjunction  # late, as in bind_filter

    parts = [guard] if condition is None else [guard, condition]
    return conjunction(parts), len(conjuncts(guard))


def either(conditions: Sequence[Expression]) -> Expression:
    """Return the condition that is true for the rows for which at least one of the conditions is true."""
    from lance_core.expressions.builders import disjunction  # late, as in bind_filter

    return disjunction(conditions)


def bind_columns(
    schema: Schema,
    columns: Mapping[str, str],
    *,
    repeatable: bool = False,
    found: Sequence[pa.Field] = (),
    blob_handling: str | None = None,
) -> Computed:
    """Return computed columns, given as SQL by name. The keyword arguments are those of `bind_filter`.

    Raises:
        InvalidInputError: an expression does not parse or names an unknown column; the message names it.
        ArgumentTypeError: a name or a value is no text.
    """
    from lance_core.expressions.parsing.sql import parse_expression  # late, as in bind_filter

    known = expression_schema(schema, found)
    computed = []
    for name, text in columns.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ArgumentTypeError(f"columns must map names to SQL text, they hold {name!r}: {text!r}")
        try:
            value = parse_expression(text, known, repeatable=repeatable)
        except InvalidInputError as error:
            raise InvalidInputError(f"column {name!r}: {error}") from None
        # The projection replaces a blob that is a column of its own by its values.
        is_renamed = isinstance(value, Column)
        computed.append((name, value if is_renamed else _as_handled(schema, value, blob_handling)))
    return tuple(computed)
