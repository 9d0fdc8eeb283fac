"""Rows of a full text index that may have some words: candidates for `contains_tokens` in filters."""

from __future__ import annotations

import numpy as np
import pyroaring

from lance_core.index.row_sets import Keys
from lance_core.index.scalar.answers import Answer, TooManyRows, from_keys
from lance_core.index.scalar.questions import HasWords, Question
from lance_core.index.segments import OpenSegment
from lance_core.index.text.analyzer import Analyzer
from lance_core.index.text.arrays import uint32s
from lance_core.index.text.partition import Partition, reading
from lance_core.index.text.segment import open_text_segment

_STEMMED = "English"
"""Language whose stems are the same in all libraries: found by comparing 150,000 words."""


def search(segment: OpenSegment, question: Question, most_rows: int) -> Answer | None:
    """Return the rows that may answer a question; None if a full text index does not answer it.

    Only an index that divides texts where words end has all words as terms. Words that it leaves out, such as
    stop words, say nothing about the rows. Neither do words of other letters than those of ASCII: libraries
    differ in how they remove accents.

    Errors are those of the search in a B-tree.
    """
    if not isinstance(question, HasWords):
        return None
    text = open_text_segment(segment)
    rules = text.parameters
    if rules.lance_tokenizer != "text" or rules.base_tokenizer != "simple":
        return None
    if rules.stem and rules.language != _STEMMED:
        return None
    words = " ".join(word for word in question.words if word.isascii())
    terms = {token.term for token in Analyzer(rules).query_tokens(words)}
    if not terms:
        return None
    found = [_rows_with_all(segment, partition, terms, most_rows) for partition in text.partitions]
    covered = pyroaring.BitMap(segment.entry.description.fragment_ids) - text.deleted_fragments
    return Answer(from_keys(found), False, None, covered if text.deleted_fragments else None)


def _rows_with_all(segment: OpenSegment, partition: Partition, terms: set[str], most_rows: int) -> Keys:
    """Return the row keys of the documents with all terms."""
    lists = []
    for term in terms:
        number = partition.find(term)
        if number is None:
            return np.empty(0, np.uint64)
        lists.append(partition.postings(number))
    lists.sort(key=len)
    if len(lists[0]) > most_rows:
        raise TooManyRows
    documents = None
    for postings in lists:
        with reading(segment.directory):
            some = uint32s(postings.decode()[0])
        documents = some if documents is None else np.intersect1d(documents, some, assume_unique=True)
    assert documents is not None
    return partition.documents.row_keys[documents]
