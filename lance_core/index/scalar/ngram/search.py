"""Search in an n-gram index: one row per sequence of three letters or digits, with the set of its rows.

The index has the texts in lower case, without accents. How a library removes accents is not part of the
format. So a search uses only the ASCII parts of the texts that it looks for. It gives candidates: the index
knows neither case nor position.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyroaring

from lance_core.errors import CorruptFileError
from lance_core.index.row_mask import by_fragment
from lance_core.index.scalar.answers import Answer, TooManyRows
from lance_core.index.scalar.questions import HasTexts, HasWords, Question, StartsWith
from lance_core.index.segments import OpenSegment
from lance_core.schema.arrow_values import numbers_of, scalar_of

FILE = "ngram_postings.lance"
_LETTERS = 3
_BASE = 37
_ENOUGH_ROWS = 512
"""If a few sets have no more than this many rows in common, checking the rows is cheaper than another set."""


def search(segment: OpenSegment, question: Question, most_rows: int) -> Answer | None:
    """Return the rows that answer a question; None if an n-gram index does not answer it.

    Errors are those of the search in a B-tree.
    """
    if isinstance(question, StartsWith):
        texts: tuple[str, ...] = (question.prefix.decode(errors="replace"),)
    elif isinstance(question, HasTexts):
        texts = question.texts
    elif isinstance(question, HasWords):
        texts = question.words
    else:
        return None
    tokens = np.unique(np.concatenate([tokens_of(text) for text in texts] or [np.empty(0, np.uint32)]))
    if not len(tokens):
        return None
    found = _rows_with_all(segment, tokens)
    if len(found) > most_rows:
        raise TooManyRows
    return Answer(by_fragment(np.asarray(found.to_array(), np.uint64)), False, None)


def tokens_of(text: str) -> npt.NDArray[np.uint32]:
    """Return the tokens of all sequences of three ASCII letters or digits in a text."""
    characters = np.array([ord(character) for character in text.lower()], np.int64)
    if len(characters) < _LETTERS:
        return np.empty(0, np.uint32)
    values = np.zeros(len(characters), np.int64)
    is_digit = (characters >= ord("0")) & (characters <= ord("9"))
    is_letter = (characters >= ord("a")) & (characters <= ord("z"))
    values[is_digit] = characters[is_digit] - ord("0") + 1
    values[is_letter] = characters[is_letter] - ord("a") + 11
    windows = np.lib.stride_tricks.sliding_window_view(values, _LETTERS)
    windows = windows[(windows > 0).all(axis=1)]
    tokens: npt.NDArray[np.uint32] = (windows @ np.array([_BASE**2, _BASE, 1])).astype(np.uint32)
    return tokens


@dataclass(frozen=True)
class _Tokens:
    tokens: npt.NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        return self.tokens.nbytes


def _rows_with_all(segment: OpenSegment, tokens: npt.NDArray[np.uint32]) -> pyroaring.BitMap64:
    """Return the row keys that are in the sets of all tokens, or in the smallest of these sets."""
    known = _known_tokens(segment).tokens
    places = np.searchsorted(known, tokens)
    if (places == len(known)).any() or (known[places] != tokens).any():
        return pyroaring.BitMap64()
    sets = [segment.find(("postings", place)) for place in places.tolist()]
    missing = places[[each is None for each in sets]]
    if len(missing):
        file = segment.open_file(FILE)
        column = file.take(missing.astype(np.int64), ["posting_list"]).column(0)
        for place, data in zip(missing.tolist(), column.to_pylist(), strict=True):
            keys = _read_postings(data, file.name)
            segment.keep(("postings", place), keys, len(data or b""))
            sets[int(np.searchsorted(places, place))] = keys
    ordered = sorted((each for each in sets if isinstance(each, pyroaring.BitMap64)), key=len)
    enough = 0 if segment.storage.is_remote else _ENOUGH_ROWS  # a row to check takes a request there
    common = ordered[0]
    for each in ordered[1:]:
        if len(common) <= enough:
            break
        common = common & each
    return common


def warm(segment: OpenSegment) -> Iterator[None]:
    """Read the segment into the cache, step by step; errors are those of the search in a B-tree."""
    _known_tokens(segment)
    yield


def _known_tokens(segment: OpenSegment) -> _Tokens:
    return segment.kept("tokens", lambda: _read_tokens(segment), lambda found: found.nbytes)


def _read_tokens(segment: OpenSegment) -> _Tokens:
    file = segment.open_file(FILE)
    file.require("tokens", "posting_list")
    column = file.read(0, file.num_rows, ["tokens"]).column(0)
    tokens = numbers_of(column.cast(pa.int64()).fill_null(scalar_of(-1)))
    if (tokens[1:] <= tokens[:-1]).any() or (tokens < 0).any():
        raise CorruptFileError("tokens of an index are not in order", file=file.name)
    return _Tokens(tokens.astype(np.uint32))


def _read_postings(data: bytes | None, name: str) -> pyroaring.BitMap64:
    try:
        return pyroaring.BitMap64.deserialize(data or b"")
    except (ValueError, IndexError) as error:
        raise CorruptFileError("a set of rows does not decode", file=name, found=error) from None
