"""Long lists after IN mean the same as short ones, though the parser does not see them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError
from lance_core.expressions.parsing import long_lists
from lance_core.expressions.parsing.sql import parse_filter
from lance_core.expressions.tree import Column, IsIn

SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("big", pa.int64()),
        ("s", pa.string()),
        ("large", pa.large_string()),
        ("d", pa.dictionary(pa.int8(), pa.string())),
        ("x", pa.float64()),
    ]
)
NUMBERS = ", ".join(str(number) for number in range(-20, 80))
TEXTS = ",".join(f"'text {number}, (in)'" for number in range(80))

FOLDED = [
    f"n IN ({NUMBERS})",
    f"n in({NUMBERS}) AND big NOT IN ( {NUMBERS} )",
    f"s IN ({TEXTS}) OR n = 3",
    f"large IN ({TEXTS})",
    f"d NOT IN ({TEXTS})",
    f"s = 'it is in (1, 2)' AND n IN ({NUMBERS})",
]
WHOLE = [
    f"x IN ({NUMBERS})",
    f"n + 1 IN ({NUMBERS})",
    f"n IN ({NUMBERS}, NULL)",
    f"s IN ({TEXTS}, 'it''s')",
    f"s IN ({TEXTS}, '')",
    f"`n` IN ({NUMBERS})",
    f"s = ' IN ({NUMBERS}) '",
    f"n IN ({NUMBERS}) -- IN ({NUMBERS})",
]


@pytest.mark.parametrize("text", [*FOLDED, *WHOLE])
def test_a_long_list_means_the_same_as_its_values(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = parse_filter(text, SCHEMA)
    monkeypatch.setattr("lance_core.expressions.parsing.sql.without_lists", lambda text, most: (text, []))
    assert found == parse_filter(text, SCHEMA)


@pytest.mark.parametrize("text", FOLDED)
def test_long_lists_are_left_out(text: str) -> None:
    short, lists = long_lists.without_lists(text, 1000)
    assert len(short) < 150
    assert lists
    assert all(len(each) >= 80 for each in lists)
    assert long_lists.without_lists(text, 70) == (text, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"n IN ({NUMBERS}, 99999999999)", "99999999999"),
        (f"s IN ({NUMBERS})", "does not fit"),
        (f"missing IN ({NUMBERS})", "missing"),
        (f"n IN ({NUMBERS}) AND", "at its end"),
        (f"n IN ({NUMBERS}) AND n ==== 3", "makes no sense"),
    ],
)
def test_errors_are_about_the_whole_text(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match=message) as error:
        parse_filter(text, SCHEMA)
    monkeypatch.setattr("lance_core.expressions.parsing.sql.without_lists", lambda text, most: (text, []))
    with pytest.raises(InvalidInputError) as whole:
        parse_filter(text, SCHEMA)
    assert str(error.value) == str(whole.value)


@pytest.mark.long  # the default run has it among other limits, in `test_limits.py`
def test_too_many_values_are_refused() -> None:
    text = f"n IN ({', '.join(map(str, range(100_001)))})"
    with pytest.raises(InvalidInputError, match="100000"):
        parse_filter(text, SCHEMA)


def test_lists_have_different_hashes() -> None:
    """Caches find a list among many of one length without comparing it with each of them."""
    filters = [parse_filter(f"n IN ({n}, 1, 2, {n + 1}, 4)", SCHEMA) for n in range(1000)]
    assert len(set(map(hash, filters))) == 1000


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_equal_lists_have_equal_hashes(kind: pa.DataType) -> None:
    one, other = (
        IsIn(Column(("x",), kind), pa.array(values, pa.float64()).cast(kind), False)
        for values in ([0.0, 1.0], [-0.0, 1.0])
    )
    assert one == other
    assert hash(one) == hash(other)
    empty = IsIn(Column(("x",), kind), pa.array([], kind), False)
    assert hash(empty) != hash(one)
