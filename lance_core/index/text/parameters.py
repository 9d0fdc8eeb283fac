"""Options of a full text index, as they are stored with it.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from lance_core.errors import InvalidInputError, UnsupportedFeatureError

LANGUAGES = (
    "Arabic",
    "Danish",
    "Dutch",
    "English",
    "Finnish",
    "French",
    "German",
    "Greek",
    "Hungarian",
    "Italian",
    "Norwegian",
    "Portuguese",
    "Romanian",
    "Russian",
    "Spanish",
    "Swedish",
    "Tamil",
    "Turkish",
)
"""Languages with a stemmer and stop words."""
TOKENIZERS = ("simple", "whitespace", "raw", "ngram")
_OTHER_TOKENIZERS = ("icu", "jieba", "lindera", "code")
_CODE_OPTIONS = ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators")
_BLOCK_SIZES = (128, 256)


@dataclass(frozen=True)
class TextParameters:
    """Rules by which an index divides texts into terms. Names and defaults are those of the reference.

    Attributes:
        lance_tokenizer: "text", or "json" for columns of JSON.
        base_tokenizer: "simple" splits texts at characters that are neither letters nor numbers, "whitespace"
            at blanks of ASCII, "raw" not at all, and "ngram" takes all sequences of some characters.
        language: Language of the stemmer and of the stop words.
        with_position: Whether the index has the positions of terms, which phrases need.
        max_token_length: Words of so many bytes or more are left out; None means no limit.
        lower_case: Whether terms are in lower case.
        stem: Whether words become their stems.
        remove_stop_words: Whether stop words are left out. They are compared with stems.
        custom_stop_words: Stop words instead of those of the language.
        ascii_folding: Whether letters lose their accents.
        min_ngram_length: Fewest characters of a term of "ngram".
        max_ngram_length: Most characters of such a term.
        prefix_only: Whether only the beginnings of texts are terms of "ngram".
        block_size: Documents of a block of a posting list.

    Raises:
        InvalidInputError: A value is out of range.
        UnsupportedFeatureError: A tokenizer of the reference that needs models of languages.
    """

    lance_tokenizer: str = "text"
    base_tokenizer: str = "simple"
    language: str = "English"
    with_position: bool = False
    max_token_length: int | None = 40
    lower_case: bool = True
    stem: bool = True
    remove_stop_words: bool = True
    custom_stop_words: tuple[str, ...] | None = None
    ascii_folding: bool = True
    min_ngram_length: int = 3
    max_ngram_length: int = 3
    prefix_only: bool = False
    block_size: int = 128

    def __post_init__(self) -> None:
        if self.lance_tokenizer not in ("text", "json"):
            raise InvalidInputError("lance_tokenizer", expected="text or json", found=self.lance_tokenizer)
        if self.base_tokenizer.partition("/")[0] in _OTHER_TOKENIZERS:
            raise UnsupportedFeatureError(f"tokenizer {self.base_tokenizer!r} of full text indices")
        if self.base_tokenizer not in TOKENIZERS:
            raise InvalidInputError(
                "base_tokenizer", expected=", ".join(TOKENIZERS), found=self.base_tokenizer
            )
        if self.language not in LANGUAGES:
            raise InvalidInputError("language", expected=", ".join(LANGUAGES), found=self.language)
        if self.block_size not in _BLOCK_SIZES:
            raise InvalidInputError("block_size", expected="128 or 256", found=self.block_size)
        if not 0 < self.min_ngram_length <= self.max_ngram_length < 1 << 31:
            raise InvalidInputError(
                "min_ngram_length must be at least 1 and at most max_ngram_length, which has 31 bits",
                found=f"{self.min_ngram_length} and {self.max_ngram_length}",
            )
        if self.max_token_length is not None and self.max_token_length < 0:
            raise InvalidInputError("max_token_length", expected="0 or more", found=self.max_token_length)

    def to_json(self) -> str:
        """Return the text that an index stores."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return json.dumps({**values, **dict.fromkeys(_CODE_OPTIONS, False)}, separators=(",", ":"))


def parse_parameters(text: str | bytes) -> TextParameters:
    """Return the options that an index stores. Options that are missing have their defaults.

    Raises:
        ValueError: The text is no JSON object, or a value has a wrong type.
        InvalidInputError: A value is out of range.
        UnsupportedFeatureError: The index uses a tokenizer that is not supported.
    """
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError("options of a full text index are no object")
    for name in _CODE_OPTIONS:
        if values.get(name):
            raise UnsupportedFeatureError(f"full text index with {name}")
    found = {each.name: values[each.name] for each in fields(TextParameters) if each.name in values}
    return _of(found)


def parameters_of(options: Mapping[str, Any]) -> TextParameters:
    """Return the options that a caller gives by their names in the reference.

    Raises:
        InvalidInputError: An option is unknown, or a value is out of range.
        UnsupportedFeatureError: An option of the reference that is not supported.
    """
    known = {each.name for each in fields(TextParameters)}
    for name, value in options.items():
        if name in _CODE_OPTIONS and value:
            raise UnsupportedFeatureError(f"option {name!r} of full text indices")
        if name not in known and name not in _CODE_OPTIONS:
            raise InvalidInputError("option of a full text index", expected=", ".join(known), found=name)
    given = {name: value for name, value in options.items() if name in known}
    if given.get("base_tokenizer") == "ngram":
        given = {"stem": False, "remove_stop_words": False, **given}
    try:
        return _of(given)
    except ValueError as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(str(error)) from None


def _of(values: Mapping[str, Any]) -> TextParameters:
    """Return options. Raise `ValueError` if a value has a wrong type."""
    checked = dict(values)
    for each in fields(TextParameters):
        value = checked.get(each.name, each.default)
        if value is None and each.default is None:
            continue
        if each.name == "custom_stop_words":
            words = [value] if isinstance(value, str) else value
            if not isinstance(words, Collection) or not all(isinstance(word, str) for word in words):
                raise ValueError(f"{each.name} must be texts")
            checked[each.name] = tuple(words)
        elif each.name == "max_token_length":
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise ValueError(f"{each.name} must be a number, got {value!r}")
        elif value is None:
            checked.pop(each.name, None)
        elif type(value) is not type(each.default):
            raise ValueError(f"{each.name} must be of type {type(each.default).__name__}, got {value!r}")
    return TextParameters(**checked)
