"""Searches in the segments of one full text index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lance_core.index.row_sets import Keys
from lance_core.index.text.analyzer import Token
from lance_core.index.text.arrays import float32s, uint32s
from lance_core.index.text.partition import Partition
from lance_core.index.text.query import Match, Phrase
from lance_core.index.text.scores import Collection
from lance_core.kernels import best_documents, match_phrase
from lance_core.process.counters import note

Scores = npt.NDArray[np.float32]


class Found(NamedTuple):
    """Rows that a query found, each once."""

    addresses: Keys
    scores: Scores


class View(NamedTuple):
    """A partition with the rows of it that a search may find.

    Attributes:
        partition: The partition.
        addresses: Row address of each document.
        allowed: For each document 1 if the search may find it, otherwise 0; None allows all documents.
    """

    partition: Partition
    addresses: Keys
    allowed: npt.NDArray[np.uint8] | None


SegmentView = Sequence[View]
"""The partitions of one segment."""


class Word(NamedTuple):
    """A word of a query: terms that stand for it. N-grams of a query are one word, because they all have
    position 0.
    """

    position: int
    terms: tuple[str, ...]


NOTHING = Found(np.empty(0, np.uint64), np.empty(0, np.float32))


def words_of(tokens: Sequence[Token], query: Match | Phrase, segment: SegmentView) -> list[Word]:
    """Return the words of a query with the terms of a segment that stand for them."""
    words: dict[int, dict[str, None]] = {token.position: {} for token in tokens}
    if isinstance(query, Phrase) or not query.fuzziness:
        for token in tokens:
            words[token.position][token.term] = None
    else:
        left = query.max_expansions
        for token in tokens:
            found: set[str] = set()
            prefix_bytes = len(token.term[: token.num_fixed + query.prefix_length].encode())
            for view in segment:
                found.update(view.partition.similar(token.term, query.fuzziness, prefix_bytes, left))
            known = words[token.position]
            for term in sorted(found, key=str.encode):
                if term not in known and left:
                    known[term] = None
                    left -= 1
    return [Word(position, tuple(terms)) for position, terms in words.items()]


def collection_of(segments: Iterable[SegmentView], terms: Iterable[str]) -> Collection:
    """Return the statistics of the documents of segments. Deleted documents count."""
    num_documents = num_tokens = 0
    counts = dict.fromkeys(terms, 0)
    for segment in segments:
        for partition, _, _ in segment:
            documents = partition.documents
            num_documents += len(documents.lengths)
            num_tokens += documents.num_tokens
            for term in counts:
                number = partition.find(term)
                if number is not None:
                    counts[term] += partition.num_documents_with(number)
    return Collection(num_documents, num_tokens, counts)


def find_matches(
    segment: SegmentView, words: Sequence[Word], query: Match, collection: Collection, limit: int | None
) -> list[Found]:
    """Return the best rows of each partition of a segment that match a query, best first.

    Raises:
        LanceError: Something cannot be read.
    """
    if query.needs_all and not all(word.terms for word in words):
        return []
    required = len(words) if query.needs_all else 0
    return [_best(view, words, collection, view.allowed, required, limit, query.boost) for view in segment]


def find_phrases(
    segment: SegmentView, words: Sequence[Word], query: Phrase, collection: Collection, limit: int | None
) -> list[Found]:
    """Return the best rows of each partition of a segment with positions that have a phrase, best first.

    Raises:
        LanceError: Something cannot be read.
    """
    found = []
    for view in segment:
        numbers = [view.partition.find(word.terms[0]) for word in words]
        if not words or None in numbers:
            continue
        parts = [
            (*view.partition.positions(number), word.position)
            for number, word in zip(numbers, words, strict=True)
            if number is not None
        ]
        matching = uint32s(match_phrase(parts, query.slop))
        allowed = np.zeros(len(view.addresses), np.uint8)
        allowed[matching] = 1 if view.allowed is None else view.allowed[matching]
        found.append(_best(view, words, collection, allowed, 0, limit, 1.0))
    return found


def _best(
    view: View,
    words: Sequence[Word],
    collection: Collection,
    allowed: npt.NDArray[np.uint8] | None,
    required: int,
    limit: int | None,
    boost: float,
) -> Found:
    partition = view.partition
    terms = []
    for place, word in enumerate(words):
        for term in word.terms:
            number = partition.find(term)
            if number is not None:
                terms.append((partition.postings(number), collection.weight(term) * boost, place))
    if not terms or len({place for _, _, place in terms}) < required:
        return NOTHING
    note("partitions_searched")
    note("index_comparisons", sum(len(postings) for postings, _, _ in terms))
    norms = partition.norms(collection)
    with partition.reading_postings():  # whose blocks the kernel decodes when it needs them
        documents, scores = best_documents(
            terms,
            norms.data,
            float(collection.average_length),
            None if allowed is None else allowed.data,
            required,
            limit,
        )
    return Found(view.addresses[uint32s(documents)], float32s(scores))


def best_of(parts: Sequence[Found], limit: int | None) -> Found:
    """Return the best rows of several parts without common rows, best first; rows of one score in the order
    of their addresses.
    """
    parts = [part for part in parts if len(part.addresses)]
    if not parts:
        return NOTHING
    joined = Found(*map(np.concatenate, zip(*parts, strict=True)))
    order = np.lexsort((joined.addresses, -joined.scores))[:limit]
    return Found(joined.addresses[order], joined.scores[order])
