"""Texts that every match of a regular expression contains."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.expressions.patterns import required_texts
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
