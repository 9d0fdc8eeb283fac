"""Patterns of LIKE, and texts that every match of a regular expression contains."""

from __future__ import annotations

import random
import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_core.expressions.patterns import contains, like, required_texts
from lance_core.kernels import match_like
from support.runs.each_case import each_case


@each_case(
    ("pattern", "texts"),
    [
        ("alpha1[0-9]$", ["alpha1"]),
        ("^ab+c", ["ab", "c"]),
        (r"a\.b\d+foo", ["a.b", "foo"]),
        ("colou?r", ["colo", "r"]),
        ("x{0,2}yes{3}", ["ye"]),
        (r"[[:alpha:]\]x]+end", ["end"]),
        ("a|b", []),
        ("(?i)abc", []),
        (r"\x41bc", []),
        (r"\pLabc", []),
        ("abc{x}", ["abc{x}"]),
    ],
)
def test_texts_of_patterns(pattern: str, texts: list[str]) -> None:
    assert required_texts(pattern) == texts


def test_every_match_has_the_texts() -> None:
    """An index that looks for these texts loses no row, whatever the pattern is."""
    chance = random.Random(5)
    parts = ["a", "b", "ab", "c", r"\.", r"\d", ".", "*", "+", "?", "{1}", "{0,1}", "{", "}", "[ab]", "[^c]"]
    parts += ["^", "$", r"\b", "(a)", "|", r"[\]a]", "-", " "]
    texts = pa.array(["".join(chance.choice("aabbcc.- 1{}") for _ in range(8)) for _ in range(400)])
    num_matches = 0
    for _ in range(600):
        pattern = "".join(chance.choice(parts) for _ in range(chance.randint(1, 5)))
        try:
            matching = texts.filter(pc.match_substring_regex(texts, pattern)).to_pylist()
        except pa.ArrowInvalid:
            continue
        wanted = required_texts(pattern)
        num_matches += len(matching) if wanted else 0
        for text in matching:
            assert all(part in text for part in wanted), (pattern, wanted, text)
    assert num_matches > 1000


def like_twin(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern, by the regular expressions of Python."""
    parts = {"%": ".*", "_": "."}
    regex = "".join(parts.get(character, re.escape(character)) for character in pattern)
    return re.fullmatch(regex, text, re.DOTALL) is not None


@pytest.mark.parametrize("data_type", [pa.string(), pa.large_string()], ids=str)
def test_patterns_match_what_regular_expressions_match(data_type: pa.DataType) -> None:
    """Random patterns over texts with characters of one to four bytes, nulls, and slices."""
    chance = random.Random(7)
    letters = ["a", "b", "ab", "ü", "€", "😀", "\n", "abcabcabcabcabcabc"]
    num_matches = 0
    for _ in range(1500):
        texts = ["".join(chance.choices(letters, k=chance.randrange(7))) for _ in range(20)]
        given = [None if chance.random() < 0.1 else text for text in texts]
        pattern = "".join(chance.choices([*letters, "%", "%", "_", "_"], k=chance.randrange(6)))
        first = chance.randrange(5)
        found = like(pa.array(given, data_type).slice(first, 12), pattern, None, False).to_pylist()
        expected = [None if text is None else like_twin(pattern, text) for text in given[first : first + 12]]
        assert found == expected, (pattern, given)
        num_matches += sum(filter(None, found))
    assert num_matches > 1000


def test_parts_of_texts() -> None:
    """Parts of all lengths at all places, also over the ends of texts."""
    chance = random.Random(8)
    for size in range(0, 70, 3):
        texts = ["".join(chance.choices("ab", k=chance.choice((size, size // 2)))) for _ in range(50)]
        part = chance.choice(texts)[chance.randrange(size + 1) :][: chance.randrange(1, 40)]
        found = contains(pa.array(texts), part).to_pylist()
        assert found == [part in text for text in texts]


def test_texts_of_every_kind() -> None:
    """Texts in dictionaries, in views, as one value for all rows, and none at all."""
    texts = pa.array(["kappa 1", None, "", "1 kappa"])
    for kind in (pa.string_view(), pa.large_string()):
        assert like(texts.cast(kind), "kappa%", None, False).to_pylist() == [True, None, False, False]
    assert like(pa.scalar("kappa"), "k%_a", None, False) == pa.scalar(True)
    assert like(pa.scalar(None, pa.string()), "k%_a", None, False) == pa.scalar(None, pa.bool_())
    assert like(pa.array([], pa.string()), "%a%", None, False).to_pylist() == []
    assert like(pa.nulls(3, pa.string()), "%", None, False).to_pylist() == [None] * 3


def test_a_pattern_with_many_wildcards_takes_linear_time() -> None:
    """T33: 3,000 texts and 700 wildcards, which would take minutes if gaps were tried in turn."""
    texts = pa.array(["abc" * 700] * 3000)
    assert like(texts, "%a" * 700 + "%", None, False).to_pylist() == [True] * 3000
    assert like(texts, "%a" * 701 + "%", None, False).to_pylist() == [False] * 3000
    assert like(texts, "%_a" * 699 + "%_c", None, False).to_pylist() == [True] * 3000


@each_case(
    ("segments", "at_start", "words"),
    [([], True, "without segments"), ([[]], False, "no pieces")],
)
def test_wrong_segments_are_refused(
    segments: list[list[tuple[int, bytes]]], at_start: bool, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        match_like(bytes(8), b"", 1, 32, segments, at_start, False)
