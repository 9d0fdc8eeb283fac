"""Scalar indices that we build, as the reference uses them: its plan has the index, its rows are right."""

from __future__ import annotations

import datetime
import decimal
import math
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core

NAN = float("nan")
_DAY = datetime.date(2020, 1, 1)
_TIME = datetime.datetime(2020, 1, 1)


def _numbers(kind: pa.DataType, least: int, most: int) -> list[Any]:
    return [least, -3 if least < 0 else 3, 0, 1, 2, 2, 5, 7, most]


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), _numbers(pa.int8(), -128, 127)),
    "i16": (pa.int16(), _numbers(pa.int16(), -32768, 32767)),
    "i32": (pa.int32(), _numbers(pa.int32(), -(2**31), 2**31 - 1)),
    "i64": (pa.int64(), _numbers(pa.int64(), -(2**62), 2**62)),
    "u8": (pa.uint8(), _numbers(pa.uint8(), 0, 255)),
    "u64": (pa.uint64(), _numbers(pa.uint64(), 0, 2**63)),
    "f32": (pa.float32(), [NAN, -math.inf, math.inf, -0.0, 0.0, 1.5, 2.0, -2.5, 2.0]),
    "f64": (pa.float64(), [NAN, -math.inf, math.inf, -0.0, 0.0, 1.5, 2.0, -2.5, 2.0]),
    "bool": (pa.bool_(), [True, False, True]),
    "text": (pa.string(), ["", "Z", "a", "b", "zz", "é", "\uffff", "\U0001f600", "a b", "b" * 900, "b" * 8]),
    "large_text": (pa.large_string(), ["", "longer than eight", "longer than nine", "b", "longer than"]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", b"a", b"b\xff", b"b"]),
    "fixed": (pa.binary(3), [b"abc", b"abd", b"\0\0\0", b"\xff\xff\xff"]),
    "decimal": (pa.decimal128(20, 2), [decimal.Decimal(n) / 4 for n in (-100, -1, 0, 2, 5, 10**9)]),
    "date": (pa.date32(), [_DAY + datetime.timedelta(days=n) for n in (-9000, -1, 0, 1, 2, 3)]),
    "stamp": (pa.timestamp("us"), [_TIME + datetime.timedelta(hours=n) for n in (-99999, -1, 0, 1, 2, 3)]),
    "span": (pa.duration("ms"), [datetime.timedelta(hours=n) for n in (-5, 0, 1, 2, 3)]),
}
FILTERS: dict[str, list[str]] = {
    "i8": ["{c} = 2", "{c} < 2", "{c} IN (1, 7, 127)", "{c} >= 5", "{c} != 2", "{c} BETWEEN -3 AND 2"],
    "u8": ["{c} = 2", "{c} <= 2", "{c} IN (0, 255)", "{c} != 3"],
    "f64": ["{c} = 0.0", "{c} < 0.0", "{c} >= 0.0", "{c} > 1000", "{c} != 2.0", "{c} IN (2.0, 1.5)"],
    "bool": ["{c} = true", "{c} = false"],
    "text": ["{c} = 'b'", "{c} > 'b'", "{c} IN ('', 'é', 'zz')", "{c} != 'a'", "{c} <= 'Z'"],
    "large_text": ["{c} = 'longer than nine'", "{c} < 'longer than nine'", "{c} IN ('b', '')"],
    "decimal": ["{c} = cast(0.5 as decimal(20, 2))", "{c} < cast(0 as decimal(20, 2))"],
    "date": ["{c} = date '2020-01-02'", "{c} < date '2020-01-01'", "{c} != date '2020-01-03'"],
    "stamp": ["{c} = timestamp '2020-01-01 01:00:00'", "{c} > timestamp '2019-12-31 23:00:00'"],
    "fixed": [],
    "binary": [],
    "span": [],
}
FILTERS |= dict.fromkeys(("i16", "i32", "i64"), FILTERS["i8"])
FILTERS |= {"u64": FILTERS["u8"], "f32": FILTERS["f64"]}
NOT_HASHED = {"bool", "fixed", "decimal", "span"}
KINDS = [("BTREE", "BITMAP"), ("ZONEMAP", "BLOOMFILTER")]
"""Kinds of indices, by whether the plan of the reference names them."""
DEFAULT = [("2.0", True, KINDS[0]), ("2.2", False, KINDS[1])]
MODES = [
    pytest.param(
        *(version, stable, kinds),
        marks=[] if (version, stable, kinds) in DEFAULT else pytest.mark.long,
        id=f"{version}-{stable}-{kinds[0]}",
    )
    for version in ("0.1", "2.0", "2.1", "2.2")
    for stable in (False, True)
    for kinds in KINDS
    if version != "0.1" or not stable
]


def _table(num_rows: int, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    columns: dict[str, pa.Array] = {"k": pa.array(range(seed * 10_000, seed * 10_000 + num_rows))}
    for name, (kind, values) in VALUES.items():
        chosen = [
            None if at == len(values) else values[at] for at in chance.integers(0, len(values) + 1, num_rows)
        ]
        columns[name] = pa.array(chosen, kind)
    return pa.table(columns)


def _make(path: Path, version: str, stable: bool) -> lance.LanceDataset:
    """Return a table with four fragments, deleted and updated rows."""
    table = _table(600, 1)
    left_out = [] if version != "0.1" else ["decimal", "span", "fixed"]
    dataset = lance.write_dataset(
        table.drop_columns(left_out),
        str(path),
        max_rows_per_file=200,
        data_storage_version=version,
        enable_stable_row_ids=stable,
    )
    dataset.delete("k % 7 = 3")
    dataset.update({"i32": "5"}, where="k % 11 = 4")
    return dataset


def _keys(dataset: Any, condition: str, **options: object) -> list[int]:
    return sorted(dataset.to_table(["k"], filter=condition, **options)["k"].to_pylist())


def _check(path: Path, column: str, kind: str, conditions: list[str], *, planned: bool = True) -> None:
    dataset = lance.dataset(str(path))
    for condition in conditions:
        text = condition.format(c=column)
        plan = dataset.scanner(columns=["k"], filter=text).explain_plan()
        # The reference reads 0.1 files by another step of its plan.
        assert not planned or "ScalarIndexQuery" in plan or "MaterializeIndex" in plan, (
            column,
            kind,
            text,
            plan,
        )
        assert _keys(dataset, text) == _keys(dataset, text, use_scalar_index=False), (column, kind, text)


@pytest.mark.parametrize(("version", "stable", "kinds"), MODES)
def test_the_reference_uses_indices_of_all_types(
    version: str, stable: bool, kinds: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "t"
    names = [name for name in _make(path, version, stable).schema.names if name != "k"]
    for kind in kinds:
        ours = lance_core.dataset(path)
        for name in names:
            if kind == "BLOOMFILTER" and name in NOT_HASHED:
                continue
            ours.create_scalar_index(name, kind)
            if kind in KINDS[0]:
                _check(path, name, kind, [*FILTERS[name], "{c} IS NULL", "{c} IS NOT NULL"])
            else:
                _check(path, name, kind, [*FILTERS[name], "{c} IS NOT NULL"], planned=False)
                _check(
                    path, name, kind, ["{c} IS NULL", *[each for each in FILTERS[name][:1] if " = " in each]]
                )
