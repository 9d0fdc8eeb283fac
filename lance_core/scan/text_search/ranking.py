"""A whole full text query: the rows that it finds, and their scores."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyroaring

from lance_core.errors import InvalidInputError
from lance_core.expressions.tree import Expression
from lance_core.index.row_sets import Keys
from lance_core.index.segments import OpenSegment, open_segment
from lance_core.index.text.analyzer import Token
from lance_core.index.text.json_analyzer import analyzer_of
from lance_core.index.text.parameters import TextParameters
from lance_core.index.text.query import Boolean, Boost, Match, MultiMatch, Phrase, TextQuery
from lance_core.index.text.scores import Collection
from lance_core.index.text.search import (
    NOTHING,
    Found,
    best_of,
    collection_of,
    find_matches,
    find_phrases,
    words_of,
)
from lance_core.index.text.segment import open_text_segment
from lance_core.number_sets import are_among, distinct
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import ROW_ADDRESS, project
from lance_core.scan.plan.scan_plan import ScanPlan
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.execute import scan_batches
from lance_core.scan.run.strategy import Strategy
from lance_core.scan.take.keys import fragments_of
from lance_core.scan.take.taker_cache import taker_of
from lance_core.scan.text_search.columns import TextColumn, text_column
from lance_core.scan.text_search.unindexed import find_unindexed
from lance_core.scan.text_search.views import SearchableRows
from lance_core.schema.arrow_values import numbers_of
from lance_core.table.snapshot import Snapshot

# Bytes of texts that are taken at once.
_TAKEN_BYTES = 8 << 20
_WITHOUT_INDEX = TextParameters(
    max_token_length=None, lower_case=False, stem=False, remove_stop_words=False, ascii_folding=False
)
"""Rules by which texts without an index are divided into terms, as in the reference."""


class Ranking:
    """Search of the rows of a plan.

    Args:
        snapshot: The version of the table.
        plan: The fragments that are searched. All its rows are, whatever its limit and offset.
        condition: Condition of the rows that are searched; its first `plan.options.guards` parts are guards.
        budget, files, strategy: As for `scan_batches`.
        among: Addresses of the live rows that are searched, instead of a condition; None means all.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        plan: ScanPlan,
        condition: Expression | None,
        budget: MemoryBudget,
        files: DataFiles,
        strategy: Strategy,
        among: Keys | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._condition = condition
        self._budget = budget
        self._files = files
        self._strategy = strategy
        self._among = None if among is None else distinct(among)
        self._fragments = pyroaring.BitMap(scan.fragment_id for scan in plan.fragment_scans)

    def found(self, query: TextQuery, limit: int | None) -> Found:
        """Return the best rows that meet a query, best first, at most `limit`. All parts have a column.

        Raises:
            InvalidInputError: A column does not exist, or has no texts.
            UnsupportedFeatureError: The index has no positions, which a phrase needs, or a tokenizer that is
                not supported.
            LanceError: Something cannot be read.
        """
        if limit == 0:
            return NOTHING
        if isinstance(query, Match | Phrase):
            return self._found_in_column(query, limit)
        if isinstance(query, MultiMatch):
            found = _greatest([self.found(match, None) for match in query.matches])
        elif isinstance(query, Boost):
            found = _lowered(
                self.found(query.positive, None), self.found(query.negative, None), query.negative_boost
            )
        else:
            found = self._found_by_all(query)
        return best_of([found], limit)

    def _found_by_all(self, query: Boolean) -> Found:
        if query.must:
            found = _sum_of_all([self.found(part, None) for part in query.must])
            for part in query.should:
                found = _with_extra(found, self.found(part, None))
        else:
            found = _sum_of_any([self.found(part, None) for part in query.should])
        for part in query.must_not:
            kept = ~np.isin(found.addresses, self.found(part, None).addresses)
            found = Found(found.addresses[kept], found.scores[kept])
        return found

    def _found_in_column(self, query: Match | Phrase, limit: int | None) -> Found:
        if query.column is None:
            raise InvalidInputError("the column must be specified in the query")
        column = text_column(self._snapshot, query.column)
        segments = [open_segment(self._snapshot, entry, self._files.indices) for entry in column.segments]
        parameters = open_text_segment(segments[0]).parameters if segments else _rules_of(column)
        if self._plan.options.guards:
            # Statistics of an index would tell about rows that the guards hide.
            segments = []
        if isinstance(query, Phrase):
            for segment in segments:
                for partition in open_text_segment(segment).partitions:
                    partition.require_positions()
        covered = pyroaring.BitMap()
        for segment in segments:
            covered |= (
                pyroaring.BitMap(segment.entry.description.fragment_ids)
                - open_text_segment(segment).deleted_fragments
            )
        tokens = _tokens(query.terms, parameters, segments)
        if not tokens:
            return NOTHING
        views = [self._rows.of_segment(segment) for segment in segments]
        words = [words_of(tokens, query, view) for view in views]
        terms = {term for some in words for word in some for term in word.terms}
        collection = collection_of(views, terms | {token.term for token in tokens})
        parts: list[Found] = []
        if covered & self._fragments:
            for view, some in zip(views, words, strict=True):
                if isinstance(query, Match):
                    parts += find_matches(view, some, query, collection, limit)
                else:
                    parts += find_phrases(view, some, query, collection, limit)
        others = self._fragments - covered
        if others and (self._plan.options.guards or not self._plan.options.fast_search):
            indexed = collection if segments else Collection()
            with closing(self._texts(column, others)) as batches:
                parts.append(find_unindexed(batches, analyzer_of(parameters), tokens, query, indexed, limit))
        return best_of(parts, limit)

    def _texts(
        self, column: TextColumn, fragments: pyroaring.BitMap
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the texts and the addresses of the rows in some fragments that are searched."""
        if self._among is None:
            yield from self._scanned((column.path,), fragments)
            return
        rows = self._among[are_among(np.array(fragments, np.uint64), fragments_of(self._among))]
        options = ScanOptions(columns=(column.path,), with_row_address=True)
        taker = taker_of(self._snapshot, project(self._snapshot.manifest.schema, options), self._files)
        for batch in taker.batches(rows, _TAKEN_BYTES):
            with self._budget.require(batch.get_total_buffer_size()):
                yield batch

    @cached_property
    def _rows(self) -> SearchableRows:
        matching = self._among
        if self._condition is not None:
            matching = self._matching_rows()
        return SearchableRows(self._snapshot, self._files, self._fragments, matching)

    def _matching_rows(self) -> Keys:
        """Return the addresses of the rows that meet the condition, ascending."""
        with closing(self._scanned((), self._fragments)) as batches:
            parts = [numbers_of(batch.column(ROW_ADDRESS)) for batch in batches]
        return np.sort(np.concatenate([np.empty(0, np.uint64), *parts]))

    def _scanned(
        self, columns: tuple[str, ...], fragments: pyroaring.BitMap
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield columns and addresses of the rows in some fragments that meet the condition."""
        given = self._plan.options
        options = ScanOptions(
            columns=columns,
            filter=self._condition,
            guards=given.guards if self._condition is not None else 0,
            with_row_address=True,
            verify_checksums=given.verify_checksums,
        )
        scans = [scan for scan in self._plan.fragment_scans if scan.fragment_id in fragments]
        plan = replace(
            self._plan.with_fragment_scans(scans),
            options=options,
            schema=project(self._snapshot.manifest.schema, options).schema,
        )
        return scan_batches(self._snapshot, plan, self._budget, self._files, self._strategy)


def _rules_of(column: TextColumn) -> TextParameters:
    """Return the rules for a column without an index."""
    return replace(_WITHOUT_INDEX, lance_tokenizer="json") if column.field.is_json else _WITHOUT_INDEX


def _tokens(text: str, parameters: TextParameters, segments: Sequence[OpenSegment]) -> Sequence[Token]:
    """Return the terms of a query; the cache keeps those of an index."""

    def divide() -> Sequence[Token]:
        return analyzer_of(parameters).query_tokens(text)

    if not segments:
        return divide()
    return segments[0].kept(("query", text), divide, lambda tokens: 200 * len(tokens) + 4 * len(text))


def _in_order(found: Found) -> Found:
    """Return the same rows in the order of their addresses."""
    order = np.argsort(found.addresses, kind="stable")
    return Found(found.addresses[order], found.scores[order])


def _grouped(parts: Sequence[Found]) -> tuple[Keys, np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct addresses of several parts; and all scores by address, with the start of each
    address and the number of parts that have it.
    """
    joined = _in_order(Found(*map(np.concatenate, zip(NOTHING, *parts, strict=True))))
    addresses, starts, counts = np.unique(joined.addresses, return_index=True, return_counts=True)
    return addresses, joined.scores, starts, counts


def _greatest(parts: Sequence[Found]) -> Found:
    addresses, scores, starts, _ = _grouped(parts)
    return Found(addresses, np.maximum.reduceat(scores, starts)) if len(addresses) else NOTHING


def _sum_of_any(parts: Sequence[Found]) -> Found:
    addresses, scores, starts, _ = _grouped(parts)
    return Found(addresses, np.add.reduceat(scores, starts)) if len(addresses) else NOTHING


def _sum_of_all(parts: Sequence[Found]) -> Found:
    addresses, scores, starts, counts = _grouped(parts)
    if not len(addresses):
        return NOTHING
    everywhere = counts == len(parts)
    return Found(addresses[everywhere], np.add.reduceat(scores, starts)[everywhere])


def _extra_scores(found: Found, other: Found) -> np.ndarray:
    """Return for each row of `found` its score in `other`, 0 if it is not there."""
    extra = np.zeros(len(found.addresses), np.float32)
    if len(other.addresses):
        ordered = _in_order(other)
        places = np.minimum(np.searchsorted(ordered.addresses, found.addresses), len(ordered.addresses) - 1)
        is_there = ordered.addresses[places] == found.addresses
        extra[is_there] = ordered.scores[places[is_there]]
    return extra


def _with_extra(found: Found, other: Found) -> Found:
    return Found(found.addresses, found.scores + _extra_scores(found, other))


def _lowered(positive: Found, negative: Found, negative_boost: float) -> Found:
    lost = np.float32(negative_boost) * _extra_scores(positive, negative)
    return Found(positive.addresses, positive.scores - lost)
