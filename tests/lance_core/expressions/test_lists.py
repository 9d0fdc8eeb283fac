"""Functions of lists, beside slow twins: lists that are null above items, empty lists, slices."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_core.expressions.evaluate import evaluate
from lance_core.expressions.parsing.sql import parse_expression
from support.runs.each_case import each_case

Items = list[Any] | None
ITEMS = {
    "int32": (pa.int32(), [0, 1, 2, 3, None], "2", 2),
    "double": (pa.float64(), [0.0, -0.0, math.nan, 2.5, None], "0.0", 0.0),
    "bool": (pa.bool_(), [True, False, None], "false", False),
    "text": (pa.string(), ["", "a", "ab", "ä", None], "'ab'", "ab"),
}
INDICES = (0, 1, 2, 4, -1, -2, -5, 2**62, -(2**62))


def lists_of(kind: pa.DataType, values: list[Any], make: Callable[[pa.DataType], pa.DataType]) -> pa.Array:
    """Lists of up to four items; every fifth is null, though its offsets have items between them."""
    source = random.Random(7)
    lengths = [source.choice([0, 1, 1, 2, 4]) for _ in range(150)]
    offsets = np.cumsum([0, *lengths])
    items = pa.array(source.choices(values, k=int(offsets[-1])), kind)
    large = pa.types.is_large_list(make(kind))
    valid = pa.array([row % 5 != 3 for row in range(150)]).buffers()[1]
    ends = pa.py_buffer(offsets.astype(np.int64 if large else np.int32))
    return pa.Array.from_buffers(make(kind), 150, [valid, ends], children=[items])


def same(one: Any, other: Any) -> bool:
    return one == other or (one != one and other != other)


def element(items: Items, index: int) -> Any:
    place = index - 1 if index > 0 else index + len(items or [])
    return items[place] if items and index and 0 <= place < len(items) else None


def position(items: Items, value: Any) -> int | None:
    found = [place for place, item in enumerate(items or [], 1) if item is not None and same(item, value)]
    return found[0] if found else None


@pytest.mark.parametrize("make", [pa.list_, pa.large_list])
@each_case("name", list(ITEMS))
@each_case("span", [(0, 150), (3, 147), (13, 64), (70, 0)])
def test_items_are_those_of_slow_twins(
    name: str, span: tuple[int, int], make: Callable[[pa.DataType], pa.DataType]
) -> None:
    kind, values, text, value = ITEMS[name]
    lists = lists_of(kind, values, make).slice(*span)
    wanted = pa.array(random.Random(9).choices(values, k=span[1]), kind)
    indices = pa.array(random.Random(8).choices([*INDICES, None], k=span[1]), pa.int64())
    batch = pa.record_batch({"l": lists, "v": wanted, "i": indices})
    rows = lists.to_pylist()

    def check(expression: str, expected: list[Any]) -> None:
        found = evaluate(parse_expression(expression, batch.schema), batch).to_pylist()
        assert len(found) == len(expected), expression
        assert all(map(same, found, expected)), expression

    for index in INDICES:
        check(f"array_element(l, {index})", [element(row, index) for row in rows])
    places = [index or 0 for index in indices.to_pylist()]
    check("array_element(l, i)", [element(*pair) for pair in zip(rows, places, strict=True)])
    has = [None if row is None else position(row, value) is not None for row in rows]
    check(f"array_has(l, {text})", has)
    pairs = list(zip(rows, wanted.to_pylist(), strict=True))
    expected = [None if None in pair else position(*pair) is not None for pair in pairs]
    check("array_has(l, v)", expected)
    check(f"array_position(l, {text})", [position(row, value) for row in rows])
    check(f"array_has_any(l, [{text}])", has)
    all_of = [None if row is None else position(row, value) is not None and None in row for row in rows]
    check(f"array_has_all(l, [{text}, NULL])", all_of)


def test_half_floats_have_a_greatest_and_a_least_item() -> None:
    """Arrow sorts no half floats, which ended in one of its errors."""
    items = [[1.5, math.nan, -2.0], [None, -0.5], [], None, [math.inf]]
    batch = pa.record_batch({"l": pa.array(items, pa.list_(pa.float16()))})
    for name, expected in (
        ("array_max", [math.nan, -0.5, None, None, math.inf]),
        ("array_min", [-2.0, -0.5, None, None, math.inf]),
    ):
        found = evaluate(parse_expression(f"{name}(l)", batch.schema), batch)
        assert found.type == pa.float16()
        assert all(map(same, found.to_pylist(), expected)), name


@pytest.mark.parametrize("make", [pa.list_, pa.large_list])
def test_rows_are_those_of_the_reference(make: Callable[[pa.DataType], pa.DataType], tmp_path: Path) -> None:
    """Lists without -0.0, which is not 0.0 for the reference in functions of lists (docs/filters.md)."""
    columns = {
        name: lists_of(kind, [value for value in values if str(value) != "-0.0"], make)
        for name, (kind, values, _, _) in ITEMS.items()
    }
    table = pa.table({"id": range(150), **columns})
    reference = lance.write_dataset(table, str(tmp_path / "t.lance"))
    (batch,) = table.combine_chunks().to_batches()
    for name, (_, _, text, _) in ITEMS.items():
        for filter_text in (
            f"array_has(`{name}`, {text})",
            f"`{name}`[1] = {text}",
            f"`{name}`[2] <> {text}",
            f"array_element(`{name}`, -1) = {text}",
            f"array_has_any(`{name}`, [{text}])",
        ):
            expected = reference.to_table(columns=["id"], filter=filter_text)["id"].to_pylist()
            found = evaluate(parse_expression(filter_text, batch.schema), batch).fill_null(False)
            assert table.filter(found)["id"].to_pylist() == expected, filter_text
