"""Rows that no index covers: their texts are read, and compared with the words of a query.

Statistics of these rows join those of the index, as in the reference. The scores of indexed rows come from
the statistics of the index alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.index.row_sets import Keys
from lance_core.index.text.analyzer import Token
from lance_core.index.text.arrays import int64s, uint32s
from lance_core.index.text.json_analyzer import AnyAnalyzer
from lance_core.index.text.query import Match, Phrase
from lance_core.index.text.scores import Collection, scores
from lance_core.index.text.search import NOTHING, Found, best_of
from lance_core.kernels import match_phrase
from lance_core.schema.arrow_values import numbers_of


@dataclass(frozen=True)
class _Documents:
    """Documents that meet the query.

    Attributes:
        addresses: Their row addresses.
        lengths: Number of terms of each.
        frequencies: Number of occurrences: one row per document, one column per distinct term of the query.
    """

    addresses: Keys
    lengths: npt.NDArray[np.uint32]
    frequencies: npt.NDArray[np.uint32]


def find_unindexed(
    batches: Iterable[pa.RecordBatch],
    analyzer: AnyAnalyzer,
    tokens: Sequence[Token],
    query: Match | Phrase,
    indexed: Collection,
    limit: int | None,
) -> Found:
    """Return the best rows among some that meet a query, best first. Only exact words are found.

    Args:
        batches: The rows: texts, and row addresses.
        analyzer: Divides the texts into terms.
        tokens: Words of the query.
        query: The query.
        indexed: Statistics of the indexed documents.
        limit: Most rows; None means all.

    Raises:
        LanceError: Something cannot be read.
    """
    tokens = list(dict.fromkeys(tokens))
    terms = list(dict.fromkeys(token.term for token in tokens))
    if not terms:
        return NOTHING
    collection = indexed
    parts = []
    for batch in batches:
        counts, documents = _counted(batch, analyzer, tokens, terms, query)
        collection += counts
        parts.append(documents)
    places = {term: place for place, term in enumerate(terms)}
    boost = query.boost if isinstance(query, Match) else 1.0
    found = []
    for part in parts:
        norms = collection.norms(part.lengths)
        total = np.zeros(len(norms), np.float32)
        for token in tokens:
            weight = collection.weight(token.term) * boost
            total += scores(weight, part.frequencies[:, places[token.term]], norms)
        found.append(Found(part.addresses, total))
    return best_of(found, limit)


def _counted(
    batch: pa.RecordBatch,
    analyzer: AnyAnalyzer,
    tokens: Sequence[Token],
    terms: Sequence[str],
    query: Match | Phrase,
) -> tuple[Collection, _Documents]:
    """Return the statistics of some rows, and those that meet the query."""
    words = analyzer.read(batch.column(0))
    addresses: Keys = numbers_of(batch.column(1))
    numbers = analyzer.terms[uint32s(words.numbers)]
    lengths_of_all = np.diff(int64s(words.ends), prepend=0)
    owners = np.repeat(np.arange(len(addresses)), lengths_of_all)
    lengths = np.bincount(owners[numbers >= 0], minlength=len(addresses)).astype(np.uint32)
    columns = np.full(len(analyzer.vocabulary) + 1, -1, np.int64)  # the last one is for words left out
    for place, term in enumerate(terms):
        if (number := analyzer.number(term)) is not None:
            columns[number] = place
    column = columns[numbers]
    hits = np.flatnonzero(column >= 0)
    owners, column = owners[hits], column[hits]
    counts = np.bincount(owners * len(terms) + column, minlength=len(addresses) * len(terms))
    frequencies = counts.reshape(len(addresses), len(terms)).astype(np.uint32)
    collection = Collection(
        int(np.count_nonzero(lengths)),
        int(lengths.sum(dtype=np.int64)),
        dict(zip(terms, np.count_nonzero(frequencies, axis=0).tolist(), strict=True)),
    )
    if isinstance(query, Phrase):
        positions = uint32s(words.positions)[hits]
        kept = _with_phrase(tokens, terms, owners, column, positions, query.slop).astype(np.intp)
    else:
        found = frequencies.any(axis=1)
        for word in _words(tokens, terms) if query.needs_all else ():
            found &= frequencies[:, word].any(axis=1)
        kept = np.flatnonzero(found)
    return collection, _Documents(addresses[kept], lengths[kept], frequencies[kept])


def _words(tokens: Sequence[Token], terms: Sequence[str]) -> list[list[int]]:
    """Return the columns of the terms of each word of a query."""
    words: dict[int, list[int]] = {}
    for token in tokens:
        words.setdefault(token.position, []).append(terms.index(token.term))
    return list(words.values())


def _with_phrase(
    tokens: Sequence[Token],
    terms: Sequence[str],
    owners: npt.NDArray[np.intp],
    column: npt.NDArray[np.int64],
    positions: npt.NDArray[np.uint32],
    slop: int,
) -> npt.NDArray[np.uint32]:
    """Return the numbers of the documents that have a phrase.

    `owners`, `column` and `positions` have the document, the term and the position of each occurrence.
    """
    lists = []
    for place in range(len(terms)):
        chosen = column == place
        documents, frequencies = np.unique(owners[chosen].astype(np.uint32), return_counts=True)
        lists.append((documents.data, frequencies.astype(np.uint32).data, positions[chosen].data))
    places = {term: place for place, term in enumerate(terms)}
    parts = [(*lists[places[token.term]], token.position) for token in tokens]
    return uint32s(match_phrase(parts, slop))
