"""Texts become the terms that the reference makes of them."""

from __future__ import annotations

import random
import unicodedata

import lance
import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.index.text.analyzer import Analyzer, Token
from lance_core.index.text.parameters import LANGUAGES, TextParameters, parameters_of, parse_parameters
from lance_core.index.text.stop_words import stop_words
from support.runs.each_case import each_case

PIECES = [
    "Running runs RAN", "it's 3.14", "foo_bar-baz", "naïve CAFÉ", "Straße", "ﬁnance ǅ", "İstanbul",
    "日本語 テキスト", "Привет мирами", "नमस्ते दुनिया", "Ⓐⓑ ½ ²", "é\u0301", "Œuvre", "\tthe\nand\r", "x" * 38,
    "y" * 39, "z" * 40, "é" * 19, "é" * 20, "the being of having any", "Kelvin \u212a", "🎉 party", "",
]  # fmt: skip


def random_text(chance: random.Random) -> str:
    parts = chance.choices(PIECES, k=chance.randint(0, 6))
    codes = [chance.choice([chance.randrange(32, 0x250), chance.randrange(0x3000)]) for _ in range(4)]
    # Libraries differ in which version of Unicode they know.
    letters = [chr(code) for code in codes if unicodedata.category(chr(code)) != "Cn"]
    return " ".join([*parts, "".join(letters)])


def from_first(tokens: list[Token]) -> list[tuple[str, int]]:
    """Return terms with positions counted from the first term, as the reference gives them for queries."""
    return [(token.term, token.position - tokens[0].position) for token in tokens]


def random_options(chance: random.Random) -> dict[str, object]:
    options: dict[str, object] = {
        "base_tokenizer": chance.choice(["simple", "simple", "whitespace", "raw", "ngram"]),
        "language": chance.choice(LANGUAGES),
        "lower_case": chance.random() < 0.7,
        "stem": chance.random() < 0.5,
        "remove_stop_words": chance.random() < 0.5,
        "ascii_folding": chance.random() < 0.6,
        "max_token_length": chance.choice([None, 5, 40]),
    }
    if options["base_tokenizer"] == "ngram":
        least = chance.randint(1, 3)
        options |= {
            "min_ngram_length": least,
            "max_ngram_length": least + chance.randint(0, 2),
            "prefix_only": chance.random() < 0.5,
        }
    if chance.random() < 0.2:
        options["custom_stop_words"] = ["run", "foo", "cafe"]
    return options


@each_case("seed", range(24))
def test_terms_are_those_of_the_reference(seed: int) -> None:
    chance = random.Random(seed)
    options = random_options(chance)
    analyzer = Analyzer(parameters_of(options))
    for _ in range(20):
        text = random_text(chance)
        expected = [(token.text, token.position) for token in lance.tokenize(text, **options)]
        assert from_first(analyzer.query_tokens(text)) == expected, (text, options)


@each_case("language", LANGUAGES)
def test_stop_words_are_those_of_the_reference(language: str) -> None:
    known = stop_words(language) | {"no", "not", "nicht", "sans", "kein", "non", "ikke"}
    with_commas = str.maketrans("şţ", "șț")  # Romanian is written with cedillas or with commas below
    words = sorted(known | {word.translate(with_commas) for word in known})
    analyzer = Analyzer(TextParameters(base_tokenizer="whitespace", language=language, stem=False))
    options = {"base_tokenizer": "whitespace", "language": language, "stem": False}
    text = " ".join(words)
    expected = [(token.text, token.position) for token in lance.tokenize(text, **options)]
    assert from_first(analyzer.query_tokens(text)) == expected


def test_options_survive_their_json() -> None:
    options = TextParameters(base_tokenizer="ngram", custom_stop_words=("a",), max_token_length=None)
    assert parse_parameters(options.to_json()) == options
    assert parse_parameters("{}") == TextParameters()


@each_case(
    ("options", "error", "message"),
    [
        ({"base_tokenizer": "icu"}, UnsupportedFeatureError, "'icu'"),
        ({"base_tokenizer": "jieba/default"}, UnsupportedFeatureError, "'jieba/default'"),
        ({"base_tokenizer": "lindera/ipadic"}, UnsupportedFeatureError, "'lindera/ipadic'"),
        ({"base_tokenizer": "words"}, InvalidInputError, "base_tokenizer"),
        ({"language": "Klingon"}, InvalidInputError, "language"),
        ({"stem": 1}, InvalidInputError, "stem"),
        ({"min_ngram_length": 4}, InvalidInputError, "min_ngram_length"),
        ({"split_identifiers": True}, UnsupportedFeatureError, "split_identifiers"),
        ({"nonsense": 1}, InvalidInputError, "nonsense"),
        ({"max_token_length": "long"}, InvalidInputError, "max_token_length"),
    ],
)
def test_wrong_options_are_refused_by_name(
    options: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        parameters_of(options)


def test_documents_of_lists_and_nulls() -> None:
    analyzer = Analyzer(TextParameters(stem=False, remove_stop_words=False))
    lists = pa.array([["foo bar", None, "baz"], None, [], [None], ["foo"]], pa.list_(pa.string())).slice(0, 5)
    words = analyzer.read(lists)
    assert memoryview(words.ends).cast("q").tolist() == [3, 3, 3, 3, 4]
    assert memoryview(words.positions).cast("I").tolist() == [0, 1, 2, 0]
    texts = pa.array(["x", "foo foo", None, "", "bar"]).slice(1)
    words = analyzer.read(texts)
    assert memoryview(words.ends).cast("q").tolist() == [2, 2, 2, 3]
    raw = Analyzer(TextParameters(base_tokenizer="raw", stem=False, remove_stop_words=False))
    assert memoryview(raw.read(pa.array(["", None, "a b"])).ends).cast("q").tolist() == [1, 1, 2]
