"""Computed columns: values, and the types and nullability that the reference reports."""

from __future__ import annotations

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.errors import InvalidInputError
from support.oracles.comparison import assert_tables_equal
from support.runs.each_case import each_case

SCHEMA = pa.schema(
    [
        pa.field("a", pa.int64(), nullable=False),
        pa.field("b", pa.int64()),
        pa.field("s", pa.string(), nullable=False),
        pa.field("t", pa.string()),
        pa.field(
            "p",
            pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.int32())]),
            nullable=False,
        ),
        pa.field("l", pa.list_(pa.int32()), nullable=False),
        pa.field("time", pa.timestamp("us"), nullable=False, metadata={"unit": "kept"}),
        pa.field("f", pa.float64(), nullable=False),
    ],
    metadata={"of": "the table"},
)
ROWS = {
    "a": [1, 2],
    "b": [3, None],
    "s": ["q", "w"],
    "t": ["a", None],
    "p": [{"x": 1, "y": 2}, {"x": 3, "y": None}],
    "l": [[1], [2]],
    "time": [1, 2],
    "f": [1.5, 2.5],
}
EXPRESSIONS = """
    a+1 ; a+b ; -a ; a/2 ; a%2 ; a=1 ; a=b ; not (a=1) ; a in (1,2) ; a in (1,null) ; a between 1 and 2 ;
    cast(a as double) ; cast(b as double) ; upper(s) ; lower(t) ; length(s) ; abs(a) ; concat(s,'x') ;
    s || 'x' ; s like 'q%' ; t like 'q%' ; starts_with(s,'q') ; p.x ; p.y ; p ; array_length(l) ;
    array_has(l,1) ; coalesce(b,1) ; a is distinct from b ; a is not distinct from b ;
    date_part('year',time) ; sqrt(f) ; time ; a>1 and b>1 ; a>1 or a<0 ; (a>1) is true ; _rowid ; f*2 ;
    nullif(a,1) ; b is null and a>1
"""


@pytest.fixture(scope="module", params=["2.0", "2.1"])
def reference(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("computed") / "d"
    return lance.write_dataset(pa.table(ROWS, schema=SCHEMA), path, data_storage_version=request.param)


@each_case("expression", [text for text in map(str.strip, EXPRESSIONS.split(";")) if text])
def test_values_and_fields_are_those_of_the_reference(reference, expression):
    ours = lance_core.dataset(reference.uri)
    columns = {"value": expression, "a": "a"}
    expected = reference.to_table(columns=columns)
    assert_tables_equal(expected, ours.to_table(columns))
    assert ours.scanner(columns).projected_schema.equals(expected.schema, check_metadata=True)


@pytest.mark.parametrize("name", ["_rowid", "_rowaddr"])
def test_row_columns_are_returned_once(reference, name):
    """Named among computed columns they stand where they are appended; nothing else has their names."""
    ours = lance_core.dataset(reference.uri)
    arguments = {"with_row_id": True, "with_row_address": True}
    columns = {name: name, "twice": "a * 2"}
    assert_tables_equal(reference.to_table(columns=columns, **arguments), ours.to_table(columns, **arguments))
    with pytest.raises(InvalidInputError, match=f"twice.*{name}"):
        ours.scanner({name: "a + 1"}, **arguments)


def test_constants_need_no_column(reference):
    ours = lance_core.dataset(reference.uri)
    found = ours.to_table({"one": "1", "none": "a is null"})
    assert found.to_pydict() == {"one": [1, 1], "none": [False, False]}
    assert [field.nullable for field in found.schema] == [False, False]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        (pc.field("a") > 1, [2]),
        (pc.field("p", "y").is_null(), [2]),
        ((pc.field("b") == 3) & pc.field("s").isin(["q"]), [1]),
        (pc.field("f") * 2 >= 5, [2]),
        (pc.match_substring(pc.field("s"), "q"), [1]),
    ],
    ids=str,
)
def test_filters_may_be_arrow_expressions(reference, condition, rows):
    ours = lance_core.dataset(reference.uri)
    assert ours.to_table(["a"], filter=condition)["a"].to_pylist() == rows
    assert ours.count_rows(condition) == len(rows)
    assert ours.get_fragments()[0].count_rows(condition) == len(rows)
