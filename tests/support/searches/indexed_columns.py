"""Columns of every type that scalar indices have, and filters that the indices answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

Chance = np.random.Generator
Values = Callable[[Chance, int], Sequence[Any]]
WORDS = [
    "alpha",
    "beta",
    "gamma delta",
    "Émile Zola",
    "",
    "alphabet",
    "b",
    "ALPHA",
    "日本語 text",
    "zeta-1",
    "a b c",
]
ORDERED = ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER")


@dataclass(frozen=True)
class IndexedColumn:
    """Type of a column, its values, and filters on the column `{c}`."""

    type: pa.DataType
    values: Values
    filters: Sequence[str]
    kinds: Sequence[str] = ORDERED
    others: Sequence[str] = field(default=())
    """Filters that the reference refuses, or for which it gives other rows."""

    def array(self, chance: Chance, num_rows: int) -> pa.Array:
        """Return random values, some of them null."""
        is_null = chance.random(num_rows) < chance.choice([0, 0.1, 0.5])
        drawn = self.values(chance, num_rows)
        return pa.array(
            [None if null else value for null, value in zip(is_null, drawn, strict=True)], self.type
        )


def _integers(least: int, most: int) -> Values:
    return lambda chance, count: chance.integers(least, most, count, endpoint=True).tolist()


def _of(values: Sequence[Any]) -> Values:
    return lambda chance, count: [values[place] for place in chance.integers(0, len(values), count)]


def _compared(*literals: str) -> list[str]:
    """Return filters that compare a column with some literals, in ascending order."""
    low, middle, high = literals
    return [
        f"{{c}} = {middle}",
        f"{{c}} != {middle}",
        f"{{c}} < {middle}",
        f"{{c}} >= {high}",
        f"{{c}} <= {low} OR {{c}} > {high}",
        f"{{c}} IN ({low}, {high})",
        f"{{c}} NOT IN ({low}, {high})",
        f"{{c}} BETWEEN {low} AND {middle}",
        f"NOT ({{c}} > {low} AND {{c}} < {high})",
        "{c} IS NULL",
        "{c} IS NOT NULL",
        f"{{c}} = {low} OR {{c}} IS NULL",
    ]


_TEXT_FILTERS = [
    *_compared("'alpha'", "'b'", "'zeta-1'"),
    "{c} LIKE 'alpha%'",
    "starts_with({c}, 'alp')",
    "NOT ({c} LIKE 'alp%')",
    "{c} LIKE 'a%t'",
    "{c} LIKE 'alpha'",
    "{c} = ''",
]
_PLACES = [0.0, -0.0, 1.5, -2.5, 1e30, float("inf"), float("-inf"), float("nan"), 7.0]
_DAY = date(2024, 2, 1)
_TIME = datetime(2024, 2, 1, 12)

COLUMNS = {
    "int64": IndexedColumn(pa.int64(), _integers(-20, 20), _compared("-7", "3", "15")),
    "int8": IndexedColumn(pa.int8(), _integers(-128, 127), _compared("-100", "0", "100")),
    "uint64": IndexedColumn(pa.uint64(), _of([0, 1, 5, 9, 1 << 40]), _compared("1", "5", "9")),
    "bool": IndexedColumn(
        pa.bool_(),
        _of([True, False]),
        ["{c}", "NOT {c}", "{c} = true", "{c} IS NULL", "{c} != true"],
        kinds=("BTREE", "BITMAP", "ZONEMAP"),
    ),
    "float64": IndexedColumn(
        pa.float64(),
        _of(_PLACES),
        _compared("-2.5", "0.0", "7.0"),
        others=[
            "{c} > 1000.0",
            "{c} = 'NaN'::double",
            "isnan({c})",
            "{c} <= 'NaN'::double",
            "{c} > 'NaN'::double",
            "{c} NOT BETWEEN 'NaN'::double AND 7.0",
        ],
    ),
    "float32": IndexedColumn(pa.float32(), _of(_PLACES), _compared("-2.5", "0.0", "7.0")),
    "float16": IndexedColumn(
        pa.float16(),
        lambda chance, count: [
            np.float16(value) for value in _of([0.0, -0.0, 1.5, -2.5, 7.0])(chance, count)
        ],
        _compared("-2.5", "0.0", "7.0"),
        kinds=("BTREE", "BITMAP", "ZONEMAP"),
    ),
    "string": IndexedColumn(pa.string(), _of(WORDS), _TEXT_FILTERS),
    "large_string": IndexedColumn(pa.large_string(), _of(WORDS), _TEXT_FILTERS),
    "binary": IndexedColumn(
        pa.binary(), _of([b"", b"a", b"ab", b"\xff", b"\x00"]), _compared("X'61'", "X'6162'", "X'FF'")
    ),
    "fixed_binary": IndexedColumn(
        pa.binary(3),
        _of([b"abc", b"abd", b"\x00\x00\x00", b"\xff\xff\xff"]),
        ["{c} = X'616263'", "{c} IS NULL"],
        kinds=("BTREE", "BITMAP", "ZONEMAP"),
    ),
    "decimal": IndexedColumn(
        pa.decimal128(12, 2),
        _of([Decimal("-1.50"), Decimal("0.00"), Decimal("2.25"), Decimal("12345678.90")]),
        ["{c} IS NULL"],
        kinds=("BTREE", "BITMAP", "ZONEMAP"),
        others=_compared("-1.50", "0.00", "2.25"),
    ),
    "date32": IndexedColumn(
        pa.date32(),
        lambda chance, count: [_DAY + timedelta(int(days)) for days in chance.integers(-9, 9, count)],
        _compared("date '2024-01-28'", "date '2024-02-01'", "date '2024-02-05'"),
    ),
    "timestamp": IndexedColumn(
        pa.timestamp("us"),
        lambda chance, count: [
            _TIME + timedelta(hours=int(hours)) for hours in chance.integers(-9, 9, count)
        ],
        _compared(*(f"timestamp '2024-02-01 {hour}:00:00'" for hour in ("08", "12", "15"))),
    ),
    "labels": IndexedColumn(
        pa.list_(pa.string()),
        lambda chance, count: [
            [[*WORDS, None][place] for place in chance.integers(0, len(WORDS) + 1, chance.integers(0, 4))]
            for _ in range(count)
        ],
        [
            "array_has({c}, 'alpha')",
            "array_contains({c}, 'nothing')",
            "array_has_any({c}, ['alpha', 'b'])",
            "array_has_all({c}, ['alpha', 'b'])",
            "NOT array_has({c}, 'alpha')",
            "NOT array_has_any({c}, ['alpha', 'b'])",
            "array_has({c}, 'alpha') AND NOT array_has({c}, 'b')",
            "{c} IS NULL",
        ],
        kinds=("LABEL_LIST",),
        others=[
            "array_has_all({c}, [])",
            "array_has_any({c}, ['alpha', NULL])",
            "array_has_all({c}, ['alpha', NULL])",
        ],
    ),
    "number_labels": IndexedColumn(
        pa.large_list(pa.int32()),
        lambda chance, count: [chance.integers(0, 9, chance.integers(0, 4)).tolist() for _ in range(count)],
        ["array_has({c}, 3)", "array_has_any({c}, [1, 8])", "NOT array_has_all({c}, [2, 4])"],
        kinds=("LABEL_LIST",),
    ),
    "text": IndexedColumn(
        pa.string(),
        lambda chance, count: [
            " ".join(WORDS[place] for place in chance.integers(0, len(WORDS), chance.integers(0, 4)))
            for _ in range(count)
        ],
        [
            "contains({c}, 'alpha')",
            "contains({c}, 'Alpha')",
            "contains({c}, 'mile Z')",
            "contains({c}, '日本語 tex')",
            "contains({c}, 'a b')",
            "contains({c}, 'nothing here')",
            "NOT contains({c}, 'alpha')",
            "{c} LIKE '%gamma%'",
            "{c} LIKE 'alpha%'",
            "{c} LIKE '%delta'",
            "{c} LIKE '%gam_a%beta%'",
            "{c} LIKE '%a\\%b%'",
            "contains({c}, 'alpha') AND contains({c}, 'beta')",
            "contains({c}, 'alpha') OR contains({c}, 'zeta')",
        ],
        kinds=("NGRAM",),
    ),
}
"""Columns by name."""

KINDS = [(name, kind) for name, column in COLUMNS.items() for kind in column.kinds]
"""Every column with every kind of index that it may have."""


def table(column: IndexedColumn, chance: Chance, first: int, num_rows: int) -> pa.Table:
    """Return rows with the ids from `first` on, the column `c`, its copy `s.c` in a struct, and `other`."""
    values = column.array(chance, num_rows)
    ids = pa.array(range(first, first + num_rows), pa.int64())
    return pa.table(
        {
            "id": ids,
            "c": values,
            "s": pa.StructArray.from_arrays([values, ids], names=["c", "n"]),
            "other": pa.array(chance.integers(0, 5, num_rows)),
        }
    )
