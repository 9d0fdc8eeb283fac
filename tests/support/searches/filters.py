"""Random tables, and conditions on them that the reference, DuckDB and we mean alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

if TYPE_CHECKING:
    import duckdb

WORDS = ["", "a", "ab", "abc", "b", "bå", "z" * 100, "z" * 99 + "y"]
FLOATS = [0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), float("-inf"), 1e300]


def random_table(seed: int, num_rows: int) -> pa.Table:
    """Rows of every kind a filter may name: sorted and random ones, with nulls, extremes and few values."""
    source = np.random.default_rng(seed)

    def masked(values, data_type=None, share=0.2):
        return pa.array(values, data_type, mask=source.random(num_rows) < share)

    numbers = np.arange(num_rows)
    floats = np.array(FLOATS)[source.integers(0, len(FLOATS), num_rows)]
    words = np.array(WORDS)[source.integers(0, len(WORDS), num_rows)]
    return pa.table(
        {
            "id": numbers,
            "few": masked(source.integers(-3, 4, num_rows).astype(np.int32)),
            "wide": source.integers(-(2**63), 2**63, num_rows),
            "float": masked(floats),
            "half_null": pa.array(
                np.where(numbers < num_rows // 2, numbers, 0), mask=numbers > num_rows // 3
            ),
            "word": masked(words.astype(object), pa.string()),  # typed, though all may be null
            "flag": masked(source.random(num_rows) < 0.5),
            "time": pa.array(numbers * 1000 + 1_700_000_000_000_000, pa.timestamp("us")),
            "point": pa.StructArray.from_arrays(
                [pa.array(source.integers(0, 50, num_rows)), pa.array(words.astype(object))], ["x", "name"]
            ),
            "tags": pa.array([["t"] * (k % 3) for k in range(num_rows)]),
        }
    )


LITERALS = {
    "id": st.integers(-2, 700).map(str),
    "few": st.integers(-4, 4).map(str),
    "wide": st.sampled_from(["0", "-9223372036854775807", "9223372036854775807"]),
    "float": st.sampled_from(["0.0", "-0.0", "1.5", "-1.5", "1e300", "0"]),
    "half_null": st.integers(0, 400).map(str),
    "word": st.sampled_from([f"'{word}'" for word in [*WORDS, "aa", "c"]]),
    "time": st.integers(0, 700).map(lambda k: f"timestamp '2023-11-14 22:13:20.{min(k, 699):03}'"),
    "point.x": st.integers(-1, 51).map(str),
    "point.name": st.sampled_from([f"'{word}'" for word in WORDS]),
}


@st.composite
def leaves(draw: st.DrawFn) -> str:
    """One condition on one column."""
    name = draw(st.sampled_from([*LITERALS, "flag"]))
    kind = draw(st.sampled_from(["compare", "compare", "between", "in", "null", "prefix"]))
    negated = draw(st.sampled_from(["", "not "]))
    if name == "flag":
        return f"flag is {negated}null" if kind == "null" else f"{negated}flag"
    if kind == "null":
        return f"{name} is {negated}null"
    literals = LITERALS[name]
    if kind == "between":
        return f"{name} {negated}between {draw(literals)} and {draw(literals)}"
    if kind == "in":
        return f"{name} {negated}in ({', '.join(draw(st.lists(literals, min_size=1, max_size=4)))})"
    if kind == "prefix" and name.endswith(("word", "name")):
        return f"{name} {negated}like '{draw(st.sampled_from(['a', 'ab', 'z', 'zz', 'q']))}%'"
    return f"{name} {draw(st.sampled_from(['=', '!=', '<', '<=', '>', '>=']))} {draw(literals)}"


conditions = st.recursive(
    leaves(),
    lambda below: st.one_of(
        st.tuples(below, st.sampled_from(["and", "and", "or"]), below).map(
            lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"
        ),
        below.map(lambda part: f"not ({part})"),
    ),
    max_leaves=5,
)


def passing_in_duckdb(connection: duckdb.DuckDBPyConnection, condition: str) -> list[int]:
    """Return the `id` of the rows of the registered table `rows` that pass; ids count the rows."""
    found = connection.execute(f"select id from rows where {condition} order by id").fetchall()
    return [number for (number,) in found]
