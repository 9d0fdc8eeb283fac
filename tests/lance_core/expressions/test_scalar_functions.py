"""Functions of texts, numbers, times and lists: random values beside the reference, and what is refused."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core import kernels
from lance_core.errors import InvalidInputError
from lance_core.expressions.evaluate import evaluate
from lance_core.expressions.parsing.sql import parse_expression
from lance_core.expressions.patterns import parts_of_texts
from support.runs.each_case import each_case

SEED = 23
LENGTHS = [0, 1, 3, 55, 56, 64, 111, 112, 128, 300]
CHARACTERS = ["a", "b", "c", ".", "ä", "€", "😀", "A", "0", "\n"]


def random_table(source: random.Random, num_rows: int) -> pa.Table:
    """Return columns of every type that the functions take, with nulls, extremes and few values."""

    def column(make: Callable[[], Any], data_type: pa.DataType) -> pa.Array:
        return pa.array([None if source.random() < 0.1 else make() for _ in range(num_rows)], data_type)

    def text() -> str:
        return "".join(source.choices(CHARACTERS, k=source.choice([0, 1, 2, 3, 5, 60, 200])))

    def moment() -> int:
        return source.choice(
            [0, -1, 1, source.randrange(-(2**50), 2**51), source.randrange(-(10**12), 10**12)]
        )

    def vector() -> list[float]:
        return [source.choice([0, 1, -2, source.uniform(-9, 9)]) for _ in range(4)]

    return pa.table(
        {
            "id": range(num_rows),
            "s": column(text, pa.string()),
            "s2": column(text, pa.string()),
            "large": column(text, pa.large_string()),
            "b": column(
                lambda: source.randbytes(source.choice([0, 1, 3, 55, 56, 64, 111, 112, 128, 300])),
                pa.binary(),
            ),
            "i": column(lambda: source.choice([0, 1, -1, source.randrange(-300, 300)]), pa.int32()),
            "n": column(lambda: source.randrange(-(2**40), 2**40), pa.int64()),
            "u": column(lambda: source.randrange(128), pa.uint8()),
            "k": column(lambda: source.randrange(1, 29), pa.int8()),
            "f": column(lambda: source.uniform(-5, 5), pa.float64()),
            "d": column(lambda: source.randrange(-100_000, 100_000), pa.int32()).cast(pa.date32()),
            "t": column(moment, pa.int64()).cast(pa.timestamp("us")),
            "ts": column(lambda: moment() // 10**6, pa.int64()).cast(pa.timestamp("s")),
            "tn": column(moment, pa.int64()).cast(pa.timestamp("ns")),
            "z": column(moment, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "tm": column(lambda: source.randrange(86_400 * 10**6), pa.int64()).cast(pa.time64("us")),
            "v": column(vector, pa.list_(pa.float32(), 4)),
            "l": column(vector, pa.list_(pa.float64())),
            "w": column(vector, pa.list_(pa.float64())),
        }
    )


SAME = [
    "md5(s)",
    "md5(b)",
    "md5(large)",
    "sha224(s)",
    "sha256(b)",
    "sha384(b)",
    "sha512(s)",
    "sha512(b)",
    "digest(b, 'md5')",
    "digest(s, 'sha256')",
    "encode(b, 'hex')",
    "encode(s, 'base64')",
    "encode(b, 'base64')",
    "encode(b, 'base64pad')",
    "decode(encode(b, 'base64'), 'base64')",
    "decode(encode(b, 'base64pad'), 'base64pad')",
    "decode(upper(encode(b, 'hex')), 'hex')",
    "to_hex(i)",
    "to_hex(n)",
    "to_hex(u)",
    "ascii(s)",
    "chr(u)",
    "levenshtein(s, s2)",
    "levenshtein(s, 'abc')",
    "levenshtein('😀a', s)",
    "levenshtein(large, s)",
    "contains_tokens(s, 'abc')",
    "contains_tokens(large, 'a-b')",
    "contains_tokens(s, '😀')",
    "substr_index(s, 'a', 1)",
    "substr_index(s, 'a', -2)",
    "substring_index(s, 'bc', 2)",
    "substr_index(s, '', 1)",
    "substr_index(s, 'a', 0)",
    "concat_ws('-', s, s2)",
    "concat_ws(s, i, s2)",
    "concat_ws('', s, 'x', n)",
    "gcd(i, n)",
    "gcd(i, 0)",
    "lcm(i, u)",
    "lcm(i, 0)",
    "factorial(k % 20)",
    "gcd(i, 12)",
    "make_date(2000 + i, k % 12 + 1, k)",
    "make_date(2024, 2, k)",
    "make_date('2023', k % 12 + 1, 1)",
    "date_bin(interval '15 minutes', t)",
    "date_bin(interval '7 microseconds', t)",
    "date_bin(interval '3 days', ts)",
    "date_bin(interval '1 hour', tn)",
    "date_bin(interval '1 hour', tm)",
    "date_bin(interval '90 seconds', ts)",
    "date_bin(interval '15 minutes', t, timestamp '2000-01-01 00:01:00')",
    "date_bin(interval '1 week', tn)",
    "date_bin(interval '2 hours 30 minutes', t, timestamp '1999-01-01 00:00:30')",
    "to_char(t, '%Y-%m-%d %H:%M:%S%.f')",
    "to_char(tn, '%f|%3f|%6f|%9f|%.3f|%.6f|%.9f')",
    "to_char(d, '%d.%m.%y')",
    "to_char(t, '%y|%C|%G|%V|%U|%W|%u|%w|%j|%e|%I|%p|%b|%B|%a|%A|%h|%D|%F|%T|%R|%r|%v|%x|%X|%s|%n|%t|%%|%c')",
    "to_char(z, '%z|%:z|%Z|%H')",
    "to_char(tm, '%H:%M:%S%.f|%T')",
    "date_format(ts, 'at %H: %%T')",
    "to_char(t, null)",
    "to_local_time(z)",
    "to_local_time(t)",
    "array_distance(v, v)",
    "levenshtein(s, null)",
]
"""Expressions with the same values in both libraries."""

NEAR = [
    "cot(f)",
    "array_distance(l, w)",
    "array_distance(v, [1, 2.5, 0, -1])",
    "list_distance(l, [0.0, 0.0, 0.0, 0.0])",
    "cosine_distance(l, w)",
    "cosine_distance(v, [1.0, 2.0, 3.0, 4.0])",
    "cosine_distance(l, [0.0, 0.0, 0.0, 0.0])",
    "cosine_distance(v, v)",
    "array_distance(l, v)",
]
"""Expressions whose values may differ in the last digits, because sums are in another order."""


def shown(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values in the types that we use instead of views."""
    return values.cast(pa.string()) if pa.types.is_string_view(values.type) else values


def test_values_are_those_of_the_reference(tmp_path: Path) -> None:
    """Random values, nulls, empty texts, bytes of every length around the blocks of digests, old times."""
    table = random_table(random.Random(SEED), 300)
    theirs = lance.write_dataset(table, str(tmp_path / "d"))
    ours = lance_core.dataset(tmp_path / "d")
    for text in SAME + NEAR:
        expected = shown(theirs.to_table(columns={"x": text})["x"])
        found = ours.to_table(columns={"x": text})["x"]
        if text in SAME:
            assert found.equals(expected), text
        else:
            assert found.type == expected.type == pa.float64(), text
            assert found.is_null().equals(expected.is_null()), text
            difference = pc.max(pc.abs(pc.subtract(found, expected))).as_py()
            assert difference is None or difference < 1e-9, text


def rows(text: str, table: pa.Table) -> list[Any]:
    (batch,) = table.combine_chunks().to_batches()
    return evaluate(parse_expression(text, table.schema), batch).to_pylist()


def test_digests_are_those_of_the_standard_library() -> None:
    """Every length up to three blocks of the longest digest, with an offset into the column."""
    source = random.Random(SEED)
    values = [source.randbytes(length) for length in range(390)]
    table = pa.table({"b": pa.array([b"x", *values]).slice(1)})
    for name in ("md5", "sha224", "sha256", "sha384", "sha512"):
        found = rows(f"digest(b, '{name}')", table)
        assert found == [hashlib.new(name, value).digest() for value in values]


@each_case("kind", [pa.string(), pa.large_string()])
def test_parts_are_those_of_a_slow_twin(kind: pa.DataType) -> None:
    """Separators are found from the start, also if they overlap, in texts around the steps of a kernel."""
    source = random.Random(SEED)
    texts: list[Any] = [
        "".join(source.choices("aabä€", k=source.choice([0, 1, 2, 5, 17, 40]))) for _ in range(200)
    ]
    texts[::9] = [None] * len(texts[::9])
    values = pa.array(["ä", *texts, "a"], kind)[1:-1]
    for separator in ("a", "aa", "aba", "ä", "€ä", "x", "a" * 16):
        for index in (1, 2, 3, 20, -1, -2, -3, -20, 2**63 - 1, 1 - 2**63):

            def part(text: str | None, separator: str = separator, index: int = index) -> str | None:
                parts = [] if text is None else text.split(separator)
                place = index - 1 if index > 0 else len(parts) + index
                return None if text is None else parts[place] if 0 <= place < len(parts) else ""

            found = rows(f"split_part(s, '{separator}', {index})", pa.table({"s": values}))
            assert found == list(map(part, texts)), (separator, index)
    (encoded,) = pa.table({"s": pa.array(texts, pa.string()).dictionary_encode()}).to_batches()
    made = evaluate(parse_expression("split_part(s, 'a', 1)", encoded.schema), encoded)
    assert made.to_pylist() == [text and text.split("a")[0] for text in texts]


@each_case("kind", [pa.string(), pa.large_string()])
def test_joined_and_replaced_texts_are_those_of_a_slow_twin(kind: pa.DataType) -> None:
    """Parts that overlap, at the edges of texts, and longer, shorter or as long as their replacements."""
    source = random.Random(SEED)

    def column() -> list[Any]:
        lengths = [0, 1, 2, 5, 8, 15, 17, 40]
        texts = ["".join(source.choices("aab€ä", k=source.choice(lengths))) for _ in range(200)]
        return [None if source.random() < 0.1 else text for text in texts]

    ones, others = column(), column()
    batch = pa.table({"s": pa.array(["ä", *ones, "a"], kind)[1:-1], "o": pa.array(["b", *others], kind)[1:]})

    def check(expression: str, expected: list[Any]) -> None:
        assert rows(expression, batch) == expected, expression

    check("length(s)", [text if text is None else len(text) for text in ones])
    for part in ("a", "aa", "aba", "ab", "ä", "€ä", "ba", "x", "a" * 16):
        for by in ("", "b", "bb", "ä", "aab", "€" * 9):
            replaced = [text if text is None else text.replace(part, by) for text in ones]
            check(f"replace(s, '{part}', '{by}')", replaced)
    pairs = list(zip(ones, others, strict=True))
    check("s || o", [None if None in pair else "".join(pair) for pair in pairs])
    check("s || '€' || s", [text if text is None else f"{text}€{text}" for text in ones])
    check("'' || s", ones)
    check("s || CAST(NULL AS STRING)", [None] * len(ones))
    check("concat(s, 'ä', o, NULL)", [f"{one or ''}ä{other or ''}" for one, other in pairs])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_parts_of_any_length_are_those_of_a_slow_twin(kind: pa.DataType) -> None:
    """Parts that repeat overlap one another and the ends of texts; long ones are found in another way."""
    source = random.Random(SEED)
    for length in (1, 2, 3, 16, 17, 255, 256, 257, 258, 300):
        for letters in ("a", "ab", "aab"):
            texts = ["".join(source.choices(letters, k=source.randrange(3 * length))) for _ in range(40)]
            batch = pa.table({"s": pa.array(["ab", *texts], kind)[1:]})
            for part in ("".join(source.choices(letters, k=length)), (letters * length)[:length]):
                assert rows(f"s LIKE '%{part}%'", batch) == [part in text for text in texts]
                for by in ("", "b" * length, "b" * (length + 1)):
                    found = rows(f"replace(s, '{part}', '{by}')", batch)
                    assert found == [text.replace(part, by) for text in texts]


def test_texts_of_too_many_bytes_are_refused() -> None:
    """T22: offsets count no more bytes than they can. Evaluation then divides the rows."""
    texts = parts_of_texts(pa.array(["a" * (1 << 20)] * 3))
    with pytest.raises(kernels.OffsetOverflow, match="too many bytes"):
        kernels.join_texts([texts[:2]] * 700, 3, 32)
    with pytest.raises(kernels.OffsetOverflow, match="too many bytes"):
        kernels.join_texts([(None, b"ab")], 1 << 60, 64)
    with pytest.raises(kernels.OffsetOverflow, match="more bytes"):
        kernels.replace_text(*texts, b"a", b"b" * 700)


def test_edit_distances_are_those_of_a_slow_twin() -> None:
    """T23: characters, not bytes, are inserted, deleted and replaced."""

    def distance(a: str, b: str) -> int:
        if not a or not b:
            return len(a) + len(b)
        known = {(i, 0): i for i in range(len(a) + 1)} | {(0, j): j for j in range(len(b) + 1)}
        for i, x in enumerate(a, 1):
            for j, y in enumerate(b, 1):
                known[i, j] = min(known[i - 1, j] + 1, known[i, j - 1] + 1, known[i - 1, j - 1] + (x != y))
        return known[len(a), len(b)]

    source = random.Random(SEED)
    pairs = [
        tuple("".join(source.choices(CHARACTERS, k=source.randrange(8))) for _ in "ab") for _ in range(300)
    ]
    table = pa.table({"a": [pair[0] for pair in pairs], "b": [pair[1] for pair in pairs]})
    assert rows("levenshtein(a, b)", table) == [distance(*pair) for pair in pairs]


def test_months_are_bins_too() -> None:
    """The reference fails on intervals of months."""
    moments = pa.array(["2024-02-29 13:14:15", "1969-12-31 23:59:59", None, "2000-07-01 00:00:00"])
    table = pa.table({"t": moments.cast(pa.timestamp("us"))})
    months = [
        None if value is None else value.isoformat()[:10] for value in rows("date_bin('3 months', t)", table)
    ]
    assert months == ["2024-01-01", "1969-10-01", None, "2000-07-01"]
    zoned = pa.table({"t": table["t"].combine_chunks().cast(pa.timestamp("us", "Europe/Berlin"))})
    assert [str(value) for value in rows("date_bin('1 month', t)", zoned)][1] == "1970-01-01 00:00:00+01:00"


@each_case(
    ("text", "message"),
    [
        ("md5(i)", "md5 takes text or bytes, not column 'i'"),
        ("digest(s, 'blake3')", "digest takes one of md5, sha224, sha256, sha384, sha512, not 'blake3'"),
        ("encode(s, 'HEX')", "encode takes one of base64, base64pad, hex, not 'HEX'"),
        ("decode(s, s)", "a constant text here"),
        ("decode('abc', 'hex')", "value 0 has no even number of hexadecimal digits"),
        ("decode('zz', 'hex')", "value 0 has no even number of hexadecimal digits"),
        ("decode('YW=I', 'base64')", "value 0 is no base64"),
        ("decode('YWJj=', 'base64')", "value 0 is no base64"),
        ("decode('YWI', 'base64pad')", "value 0 is no base64"),
        ("decode('YWJ', 'base64')", "value 0 is no base64"),
        ("decode('Y', 'base64')", "value 0 is no base64"),
        ("chr(55296)", "there is no character 55296"),
        ("chr(-1)", "there is no character -1"),
        ("factorial(21)", "only 0 to 20"),
        ("lcm(9223372036854775807, 2)", "does not fit"),
        ("make_date(2023, 2, 29)", "there is no date 2023-2-29"),
        ("make_date(2023, 13, 1)", "there is no date 2023-13-1"),
        ("make_date(300000, 1, 1)", "there is no date 300000-1-1"),
        ("make_date(1.5, 1, 1)", "make_date takes integers"),
        ("date_bin(interval '0 seconds', t)", "takes a positive interval"),
        ("date_bin(interval '-1 hour', t)", "takes a positive interval"),
        ("date_bin(interval '1 month 1 day', t)", "takes a positive interval"),
        ("date_bin(interval '1 month', t, timestamp '2000-01-01 00:00:00')", "takes months only"),
        ("date_bin(interval '1 hour', t, t)", "a constant time to count from"),
        ("date_bin('one hour', t)", "is not an interval"),
        ("date_bin(interval '1 hour', i)", "date_bin takes a time"),
        ("to_char(t, '%Q')", "to_char does not know '%Q' of a timestamp[us]"),
        ("to_char(t, '%z')", "to_char does not know '%z'"),
        ("to_char(t, '%')", "to_char does not know '%'"),
        ("to_char(tm, '%Y')", "to_char does not know '%Y' of a time64[us]"),
        ("to_char(i, '%Y')", "to_char takes a date or time"),
        ("array_distance(l, [1.0])", "lists of 4 and 1 numbers have no distance"),
        ("cosine_distance(l, s)", "takes lists of numbers"),
    ],
)
def test_what_has_no_value_is_refused(text: str, message: str) -> None:
    """T20: the message names the value, the word or the argument."""
    table = random_table(random.Random(SEED), 300)
    with pytest.raises(InvalidInputError) as caught:
        rows(text, table)
    assert message in str(caught.value)


@pytest.mark.parametrize("number", [2**31, 2**63 - 1])
def test_positions_behind_every_text_are_of_empty_texts(number: int) -> None:
    """T20: numbers that no offset of Arrow can hold are no internal error."""
    table = pa.table({"s": ["a,b", "", None]})
    for text in (
        f"split_part(s, ',', {number})",
        f"split_part(s, ',', -{number})",
        f"substr(s, {number}, 3)",
        f"substr(s, {number}, {number})",
    ):
        assert rows(text, table) == ["", "", None], text


def test_long_texts_have_no_edit_distance() -> None:
    """T20: the time is the product of the lengths."""
    table = pa.table({"s": ["a" * 40_000]})
    with pytest.raises(InvalidInputError, match="texts of 40000 and 40000 characters are too long"):
        rows("levenshtein(s, s)", table)


@pytest.mark.parametrize(
    "expression",
    [
        "coalesce(n, 6 / z)",
        "coalesce(n, cast(s as int))",
        "coalesce(n, s)",
        "coalesce(n, 6 / z, cast(s as int))",
        "coalesce(nvl(n, 6 / z), cast(s as int))",
        "nvl(z, 6 / z)",
        "ifnull(n, 6 / z)",
        "nvl2(n, 1, 6 / z)",
        "nvl2(n, n, cast(s as int))",
    ],
)
def test_choices_have_values_where_others_have_none(expression: str, tmp_path: Path) -> None:
    """An argument counts only in rows whose earlier arguments are null, as in the reference."""
    table = pa.table({"n": pa.array([1, None, 3]), "s": ["x", "6", None], "z": [0, 1, 2]})
    lance.write_dataset(table, tmp_path / "t.lance")
    expected = lance.dataset(tmp_path / "t.lance").to_table(columns={"chosen": expression})
    assert lance_core.dataset(tmp_path / "t.lance").to_table(columns={"chosen": expression}) == expected


@pytest.mark.parametrize("expression", ["coalesce(6 / z, n)", "nvl2(6 / z, 1, 2)", "nullif(n, 6 / z)"])
def test_choices_need_some_values(expression: str) -> None:
    table = pa.table({"n": [1, 2], "z": [0, 1]})
    with pytest.raises(InvalidInputError, match="divide by zero"):
        rows(expression, table)


def test_choices_among_encoded_texts() -> None:
    texts = pa.array(["1", None, "x"]).dictionary_encode()
    table = pa.table({"s": texts, "t": pa.array([None, "2", "3"]).dictionary_encode(), "z": [1, 1, 0]})
    assert rows("coalesce(cast(10 / z as string), s, t)", table.slice(0, 2)) == ["10", "10"]
    assert rows("coalesce(s, t, cast(10 / z as string))", table) == ["1", "2", "x"]
