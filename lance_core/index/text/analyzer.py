"""Texts as the terms that a full text index has.

A kernel splits texts into words and numbers the distinct ones. Every distinct word becomes a term once: it is
cut to its stem, compared with the stop words, and loses its accents. So the work per word of a text is a look
into a table, whatever the options are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lance_core.errors import UnsupportedFeatureError
from lance_core.expressions.letters import word_characters
from lance_core.index.text.arrays import int64s, uint32s
from lance_core.index.text.folding import folded
from lance_core.index.text.parameters import TextParameters
from lance_core.index.text.stop_words import stop_words
from lance_core.kernels import Block, WordReader
from lance_core.schema.arrow_values import numbers_of, scalar_of

_SPLITTING = {"simple": "letters", "whitespace": "blanks", "raw": "whole", "ngram": "ngrams"}
LEFT_OUT = -1
"""Number of words that are no terms."""


class Token(NamedTuple):
    """A term of a query."""

    term: str
    position: int
    """Number of the word in the text of the query; words that were left out are counted."""
    num_fixed: int = 0
    """Characters at the beginning of the term that are no part of the word, and never inexact."""


class Words(NamedTuple):
    """Words of some documents."""

    numbers: Block | memoryview
    """Number of each word, uint32: an index into `Analyzer.terms`."""
    positions: Block | memoryview
    """Position of each word in its document, uint32."""
    ends: Block | memoryview
    """End of each document in the words, int64."""


class Analyzer:
    """Divider of texts into terms. Not thread-safe.

    Attributes:
        terms: Number of the term of each word, or -1 for words that are left out.
        vocabulary: Terms by number.
    """

    def __init__(self, parameters: TextParameters) -> None:
        """Prepare to divide texts.

        Raises:
            UnsupportedFeatureError: There is no stemmer for the language.
        """
        self._parameters = parameters
        self._reader = WordReader(
            _SPLITTING[parameters.base_tokenizer],
            word_characters() if parameters.base_tokenizer == "simple" else None,
            parameters.min_ngram_length,
            parameters.max_ngram_length,
            parameters.prefix_only,
            parameters.max_token_length,
            parameters.lower_case,
        )
        self._stem = stemmer(parameters.language) if parameters.stem else None
        self._stop_words: frozenset[str] = frozenset()
        if parameters.remove_stop_words:
            custom = parameters.custom_stop_words
            self._stop_words = stop_words(parameters.language) if custom is None else frozenset(custom)
        self._known_terms: dict[str, int] = {}
        self.vocabulary: list[str] = []
        self.terms = np.empty(0, np.int32)

    @property
    def num_bytes(self) -> int:
        """Estimated memory of the words and terms."""
        return self._reader.num_bytes + 4 * len(self.terms) + 120 * len(self.vocabulary)

    def read(self, texts: pa.Array) -> Words:
        """Divide documents: texts, or lists of texts that are one document each. Nulls have no words."""
        lengths = None  # texts of each document
        if pa.types.is_list(texts.type) or pa.types.is_large_list(texts.type):
            lengths = numbers_of(texts.value_lengths().cast(pa.int64()).fill_null(scalar_of(0)))
            texts = texts.flatten()
        if texts.null_count:
            is_text = numbers_of(texts.is_valid()).astype(np.int64)
            if lengths is None:
                lengths = is_text
            else:
                before = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_text)])
                lengths = np.diff(before[np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])])
            texts = texts.drop_null()
        document_ends = None if lengths is None else np.cumsum(lengths).data
        data, offsets, bits = _buffers(texts)
        words = Words(*self._reader.read(data, offsets, bits, len(texts), document_ends))
        self._learn()
        return words

    def number(self, term: str) -> int | None:
        """Return the number of a term; None if no text had it so far."""
        return self._known_terms.get(term)

    def query_tokens(self, text: str) -> list[Token]:
        """Return the terms of a query, in order."""
        words = self.read(pa.repeat(scalar_of(text, pa.large_string()), 1))
        numbers = self.terms[uint32s(words.numbers)].tolist()
        positions = uint32s(words.positions).tolist()
        return [
            Token(self.vocabulary[number], position)
            for number, position in zip(numbers, positions, strict=True)
            if number != LEFT_OUT
        ]

    def _learn(self) -> None:
        """Find the terms of words that occurred for the first time."""
        known = len(self.terms)
        if known == self._reader.num_words:
            return
        offsets, data = self._reader.words(known)
        ends = int64s(offsets)
        values = bytes(data)
        numbers = np.empty(len(ends) - 1, np.int32)
        for place, (start, end) in enumerate(zip(ends.tolist(), ends[1:].tolist(), strict=False)):
            numbers[place] = self._number_of(values[start:end].decode(errors="replace"))
        self.terms = np.concatenate([self.terms, numbers])

    def _number_of(self, word: str) -> int:
        """Return the number of the term of a word."""
        parameters = self._parameters
        if parameters.lower_case and not word.isascii():
            # Letter by letter: no rule for the end of a word applies.
            word = "".join(map(str.lower, word))
        if self._stem is not None:
            word = self._stem(word)
        if word in self._stop_words:
            return LEFT_OUT
        if parameters.ascii_folding:
            word = folded(word)
        number = self._known_terms.setdefault(word, len(self.vocabulary))
        if number == len(self.vocabulary):
            self.vocabulary.append(word)
        return number


def _buffers(texts: pa.Array) -> tuple[pa.Buffer | None, memoryview, int]:
    """Return the bytes of texts without nulls, their offsets, and the bits of an offset."""
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        texts = texts.cast(pa.large_string())
    bits = 64 if pa.types.is_large_string(texts.type) else 32
    _, offsets, data = texts.buffers()
    width = bits // 8
    start = texts.offset * width
    if offsets is None or not len(texts):
        return None, memoryview(bytes(width)), bits
    return data, memoryview(offsets)[start : start + (len(texts) + 1) * width], bits


@cache
def stemmer(language: str) -> Callable[[str], str]:
    """Return the function that cuts words of a language to their stems.

    Raises:
        UnsupportedFeatureError: There is no stemmer of this language.
    """
    import Stemmer  # late: most processes search no texts

    try:
        found: Callable[[str], str] = Stemmer.Stemmer(language.lower()).stemWord
    except KeyError:
        raise UnsupportedFeatureError(f"stemmer for {language}") from None
    return found
