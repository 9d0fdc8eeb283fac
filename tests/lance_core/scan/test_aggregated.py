"""Aggregates of the rows of a scan, compared with DuckDB over the same rows."""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Iterator
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_core
from lance_core import InvalidInputError, LanceDataset, UnsupportedFeatureError
from lance_core.scan import aggregated
from lance_core.scan.run import groups
from support.runs.draws import draws
from support.runs.each_case import each_case

NUM_ROWS = 6000
NEGATIVE_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8 << 48))[0]
FLOATS = [0.0, -0.0, math.nan, NEGATIVE_NAN, math.inf, 1.5, -2.5, None]


def rows() -> pa.Table:
    """Rows with ties and nulls in every column but `id`."""
    rng = np.random.default_rng(7)
    numbers = rng.integers(0, 40, NUM_ROWS)
    few = [None if n == 0 else int(n) for n in numbers]
    floats = [FLOATS[n % len(FLOATS)] for n in numbers]
    finite = [None if n % 5 == 0 else float(n) / 8 for n in numbers]
    return pa.table(
        {
            "id": rng.permutation(NUM_ROWS),
            "small": pa.array(few, pa.int8()),
            "number": pa.array([None if n is None else n - 20 for n in few], pa.int32()),
            "large": pa.array([None if n is None else (n - 20) * 2**57 for n in few], pa.int64()),
            "unsigned": pa.array([None if n is None else 2**64 - n for n in few], pa.uint64()),
            "flag": pa.array([None if n % 3 == 0 else n % 3 == 1 for n in numbers]),
            "double": pa.array(floats, pa.float64(), from_pandas=False),
            "float": pa.array(floats, pa.float32(), from_pandas=False),
            "half": pa.array([None if f is None else np.float16(f) for f in floats], pa.float16()),
            "finite": pa.array(finite, pa.float64()),
            "text": pa.array([None if n is None else chr(ord("A") + n) * (n % 3) for n in few]),
            "bytes": pa.array([None if n is None else bytes([255 - n]) * (n % 3) for n in few]),
            "fixed": pa.array([None if n is None else bytes([n, 1]) for n in few], pa.binary(2)),
            "price": pa.array([None if n is None else Decimal(n - 20) / 4 for n in few], pa.decimal128(9, 2)),
            "wide": pa.array([None if n is None else Decimal(n) / 4 for n in few], pa.decimal128(38, 2)),
            "widest": pa.array([None if n is None else Decimal(n) / 4 for n in few], pa.decimal256(50, 2)),
            "moment": pa.array(few, pa.timestamp("us")),
            "day": pa.array(few, pa.date32()),
            "clock": pa.array(few, pa.time64("us")),
            "lasts": pa.array(few, pa.duration("us")),
            "kind": pa.array([None if n == 3 else f"kind {n % 7}" for n in numbers]).dictionary_encode(),
            "point": pa.array([None if n is None else {"x": n % 5 or None} for n in few]),
            "list": pa.array([None if n is None else [n] * (n % 3) for n in few]),
        }
    )


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> LanceDataset:
    """Four fragments with deleted rows."""
    path = tmp_path_factory.mktemp("aggregated") / "t"
    lance_core.write_dataset(rows(), path, max_rows_per_file=1700)
    lance_core.dataset(path).delete("id % 10 = 3")
    return lance_core.dataset(path)


@pytest.fixture
def merging() -> Iterator[pytest.MonkeyPatch]:
    """Merge after every partial, so that few rows test what many rows do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "_LEAST_MERGED", 0)
        patch.setattr(groups, "_PARTIAL_ROWS", 1)
        yield patch


def in_duckdb(
    table: pa.Table, aggregates: dict[str, str], group_by: list[str], condition: str | None
) -> pa.Table:
    keys = [f'{text} AS "{text}"' for text in group_by]
    chosen = ", ".join([*keys, *(f'{text} AS "{name}"' for name, text in aggregates.items())])
    where = f" WHERE {condition}" if condition else ""
    by = f" GROUP BY {', '.join(group_by)}" if group_by else ""
    with duckdb.connect() as connection:
        connection.register("rows", table)
        return connection.sql(f"SELECT {chosen} FROM rows{where}{by}").to_arrow_table()


_ALL_DIGITS = Context(prec=400)
"""More digits than a double has before and behind its point, so that rounding never fails."""


def same(value: Any) -> Any:
    """Return a value in a form that is equal for equal values of different types, NaN and zero included."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, np.floating):
        return same(float(value))
    if isinstance(value, bool | int | float | Decimal):
        if math.isinf(value):
            return str(value)
        return Decimal(value).quantize(Decimal("1e-9"), context=_ALL_DIGITS) + 0
    return value


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    found = [tuple(map(same, row.values())) for row in table.to_pylist()]
    return sorted(found, key=repr)


def assert_as_duckdb(
    dataset: LanceDataset,
    aggregates: dict[str, str],
    group_by: tuple[str, ...] = (),
    condition: str | None = None,
) -> None:
    found = dataset.aggregate(aggregates, list(group_by), condition)
    # DuckDB has neither half floats nor decimals of 76 digits, and reads dictionaries as enumerations.
    table = dataset.to_table().drop_columns(["widest"])
    table = table.set_column(table.column_names.index("half"), "half", table["half"].cast(pa.float32()))
    table = table.set_column(table.column_names.index("kind"), "kind", table["kind"].cast(pa.string()))
    assert rows_of(found) == rows_of(in_duckdb(table, aggregates, list(group_by), condition))
    assert found.schema.names == [*group_by, *aggregates]


NUMBERS = ["small", "number", "price", "wide", "finite", "double", "float", "id"]
ORDERED = [*NUMBERS, "large", "unsigned", "half", "text", "bytes", "moment", "day", "clock", "kind", "flag"]
KEYS = [
    "small",
    "flag",
    "double",
    "float",
    "half",
    "text",
    "bytes",
    "price",
    "day",
    "kind",
    "moment",
    "id % 7",
]
CONDITIONS = [None, "number > 5", "id < 0", "double > 1", "flag AND text IS NOT NULL"]


@st.composite
def queries(draw: st.DrawFn) -> tuple[dict[str, str], tuple[str, ...], str | None]:
    calls = st.one_of(
        st.just("count(*)"),
        st.builds("sum({})".format, st.sampled_from(NUMBERS)),
        st.builds("avg({})".format, st.sampled_from([n for n in NUMBERS if n not in ("price", "wide")])),
        st.builds(
            "{}({})".format,
            st.sampled_from(["min", "max", "count", "count"]),
            st.sampled_from([*ORDERED, "id * 2"]),
        ),
        st.builds("count(DISTINCT {})".format, st.sampled_from(ORDERED)),
    )
    chosen = draw(st.lists(calls, min_size=1, max_size=4))
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True))
    named = {f"a{number}": text for number, text in enumerate(chosen)}
    return named, tuple(keys), draw(st.sampled_from(CONDITIONS))


@settings(max_examples=draws(60), deadline=None)
@given(query=queries())
def test_aggregates_are_those_of_duckdb(
    dataset: LanceDataset, query: tuple[dict[str, str], tuple[str, ...], str | None]
) -> None:
    """Nulls, NaN, both zeros, deleted rows, filters that exclude all rows, and several keys."""
    assert_as_duckdb(dataset, *query)


@pytest.mark.usefixtures("merging")
@pytest.mark.parametrize("keys", [(), ("kind",), ("double", "flag"), ("id % 7",)])
def test_partials_merge_to_the_same(
    dataset: LanceDataset, merging: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    """Every function in partials of few rows, of which each is merged at once."""
    merging.setattr("lance_core.scan.plan.aggregation._BATCH_BYTES", 4096)
    assert_as_duckdb(
        dataset,
        {
            "rows": "count(*)",
            "numbers": "count(number)",
            "kinds": "count(DISTINCT kind)",
            "floats": "count(DISTINCT double)",
            "sum": "sum(number)",
            "price": "sum(price)",
            "mean": "avg(number)",
            "least": "min(double)",
            "most": "max(double)",
            "half": "max(half)",
            "last": "max(text)",
        },
        keys,
    )


def test_types_and_values(dataset: LanceDataset) -> None:
    """The types are those of DataFusion, which the reference runs SQL with, but sums never wrap around."""
    found = dataset.aggregate(
        {
            "signed": "sum(small)",
            "float": "sum(float)",
            "price": "sum(price)",
            "wide": "sum(wide)",
            "widest": "sum(widest)",
            "mean": "mean(small)",
            "mean_price": "avg(price)",
            "half": "min(half)",
            "lasts": "max(lasts)",
            "fixed": "min(fixed)",
            "lists": "count(list)",
            "points": "count(point)",
            "rows": "count(1)",
        }
    )
    assert found.schema.types == [
        pa.int64(),
        pa.float64(),
        pa.decimal128(19, 2),
        pa.decimal128(38, 2),
        pa.decimal256(60, 2),
        pa.float64(),
        pa.decimal128(13, 6),
        pa.float16(),
        pa.duration("us"),
        pa.binary(2),
        pa.int64(),
        pa.int64(),
        pa.int64(),
    ]
    table = dataset.to_table()
    prices = [price for price in table["price"].to_pylist() if price is not None]
    (row,) = found.to_pylist()
    assert row["mean_price"] == (sum(prices) / len(prices)).quantize(Decimal("0.000001"), "ROUND_DOWN")
    assert row["lasts"] == datetime.timedelta(microseconds=39)
    assert row["lists"] == table["list"].length() - table["list"].null_count
    assert row["fixed"] == b"\x01\x01"
    assert [field.nullable for field in found.schema][-2:] == [False, False]
    assert found.schema.field("signed").nullable


def test_groups_come_in_the_order_of_their_first_rows(dataset: LanceDataset) -> None:
    found = dataset.aggregate({"kinds": "count(DISTINCT kind)"}, ["number"])
    assert found["number"].to_pylist() == list(dict.fromkeys(dataset.to_table()["number"].to_pylist()))


def test_keys_without_aggregates_are_the_distinct_rows(dataset: LanceDataset) -> None:
    found = dataset.aggregate({}, {"parity": "id % 2", "flag": "flag"})
    assert found.column_names == ["parity", "flag"]
    assert found.num_rows == 6


def test_rows_of_a_scan_are_aggregated(dataset: LanceDataset) -> None:
    """Limit, offset and fragments of the scan count."""
    scan = dataset.scanner(["id"], limit=20, offset=5, fragments=dataset.get_fragments()[1:])
    ids = scan.to_table()["id"].to_pylist()
    assert scan.aggregate({"n": "count(*)", "s": "sum(id)"}).to_pylist() == [{"n": 20, "s": sum(ids)}]
    assert scan.aggregate({"n": "count(*)"}).to_pylist() == [{"n": 20}]


def test_the_number_of_all_rows_reads_no_page(tmp_path: Path) -> None:
    """The count comes from the manifest, so no data file is needed."""
    lance_core.write_dataset(pa.table({"x": range(10)}), tmp_path / "t")
    for file in (tmp_path / "t" / "data").iterdir():
        file.unlink()
    assert lance_core.dataset(tmp_path / "t").aggregate({"n": "count(*)"}).to_pylist() == [{"n": 10}]


def test_sums_of_integers_do_not_wrap_around(tmp_path: Path) -> None:
    """The result is exact if it fits, whatever its parts are, and an error otherwise."""
    most, least = 2**63 - 1, -(2**63)
    values = pa.table({"x": [most, most, least, least, 5], "key": [1, 1, 1, 1, 2]})
    dataset = lance_core.write_dataset(values, tmp_path / "t", max_rows_per_file=1)
    assert dataset.aggregate({"s": "sum(x)"}).to_pylist() == [{"s": 3}]
    assert dataset.aggregate({"m": "avg(x)"}, ["key"])["m"].to_pylist() == [-0.5, 5.0]
    with pytest.raises(InvalidInputError, match=r"aggregate 's': a sum is out of the range of int64"):
        dataset.aggregate({"s": "sum(x)"}, filter="x > 0")


def test_sums_of_decimals_do_not_wrap_around(tmp_path: Path) -> None:
    """38 digits are the most of the result; the sum is computed with more."""
    most = Decimal(10**38 - 1)
    least = Decimal(1 - 10**38)
    values = pa.table({"x": pa.array([most, most, least], pa.decimal128(38, 0))})
    dataset = lance_core.write_dataset(values, tmp_path / "t")
    assert dataset.aggregate({"s": "sum(x)"}).to_pylist() == [{"s": most}]
    with pytest.raises(InvalidInputError, match="out of the range of decimal128"):
        dataset.aggregate({"s": "sum(x)"}, filter="x > 0")
    too_wide = pa.table({"x": pa.array([Decimal(1)], pa.decimal256(58, 0))})
    with pytest.raises(UnsupportedFeatureError, match="more than 57 digits"):
        lance_core.write_dataset(too_wide, tmp_path / "w").aggregate({"s": "sum(x)"})


@each_case(
    ("text", "message"),
    [
        ("price", "not an aggregate function"),
        ("median(price)", "not an aggregate function"),
        ("sum(price) + 1", "not an aggregate function"),
        ("sum(price, id)", "sum has one argument"),
        ("count()", "count has one argument"),
        ("count(DISTINCT id, price)", "count has one argument"),
        ("sum(DISTINCT id)", "is not supported"),
        ("sum(*)", "not supported|not allowed"),
        ("sum(sum(id))", "sum"),
        ("sum(text)", "sum has no value for this type"),
        ("avg(flag)", "mean has no value for this type"),
        ("min(point)", "min has no value for this type"),
        ("count(DISTINCT list)", "no value for this type"),
        ("sum(nothing)", "nothing"),
        ("sum(id", "the expression"),
    ],
)
def test_what_is_no_aggregate_is_refused(dataset: LanceDataset, text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        dataset.aggregate({"a": text})


def test_names_and_keys_are_checked(dataset: LanceDataset) -> None:
    with pytest.raises(InvalidInputError, match="two columns of this name"):
        dataset.aggregate({"flag": "count(*)"}, ["flag"])
    with pytest.raises(InvalidInputError, match="twice"):
        dataset.aggregate({}, ["flag", "flag"])
    with pytest.raises(InvalidInputError, match="needs an aggregate or a column"):
        dataset.aggregate({})
    with pytest.raises(InvalidInputError, match=r"cannot be grouped.*column point"):
        dataset.aggregate({}, ["point"])
    with pytest.raises(TypeError, match="group_by must be a list"):
        dataset.aggregate({"n": "count(*)"}, "flag")
    with pytest.raises(TypeError, match="must map names to SQL text"):
        dataset.aggregate({"n": 1})  # type: ignore[dict-item]


def test_groups_are_limited_and_can_be_ended(dataset: LanceDataset) -> None:
    """T30: a caller who has left ends the aggregation, and T33: groups have a limit of bytes."""
    from lance_core.scan.plan.aggregation import bind_aggregation, plan_aggregation
    from lance_core.scan.plan.options import ScanOptions
    from lance_core.scan.session import session_of

    snapshot = dataset.snapshot
    session = session_of(snapshot)
    aggregation = bind_aggregation(snapshot.manifest.schema, {"n": "count(*)"}, ["id"])
    plan = plan_aggregation(snapshot, aggregation, ScanOptions())
    given = (snapshot, plan, aggregation, session.budget, session.files)
    with pytest.raises(InvalidInputError, match="too many groups"):
        aggregated.aggregate_rows(*given, max_bytes=1000)

    def leave() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        aggregated.aggregate_rows(*given, check=leave)
    assert session.budget.used_bytes == 0
