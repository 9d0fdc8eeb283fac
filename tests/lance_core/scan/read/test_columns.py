"""Facts about the columns of a schema that streams need before their first row."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.scan.read.columns import _has_dictionaries, has_dictionaries

WORDS = pa.dictionary(pa.int8(), pa.string())


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([], False),
        ([pa.int64(), pa.list_(pa.struct({"a": pa.string()}))], False),
        ([pa.int64(), WORDS], True),
        ([pa.list_(pa.struct({"a": pa.int8(), "b": WORDS}))], True),
    ],
    ids=str,
)
def test_dictionaries_are_found_at_any_depth(types: list[pa.DataType], expected: bool) -> None:
    schema = pa.schema([(str(number), each) for number, each in enumerate(types)])
    assert [has_dictionaries(schema) for _ in range(2)] == [expected, expected]


def test_the_answer_for_a_schema_is_forgotten_with_the_schema() -> None:
    """Later schemas may be at the same address."""
    before = len(_has_dictionaries)
    for number in range(50):
        schema = pa.schema([("a", WORDS if number % 2 else pa.int64())])
        assert has_dictionaries(schema) == bool(number % 2)
        assert len(_has_dictionaries) <= before + 2
    del schema
    assert len(_has_dictionaries) <= before
