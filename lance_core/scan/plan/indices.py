"""The rows that indices find for a filter.

Each condition of the filter is asked of the indices on its column. The answers of the conditions are combined
by AND and OR; a condition that no index answers says nothing about its rows. For every top-level condition
the result is a mask of candidates (see `lance_core.index.row_mask`), so that a scan evaluates only conditions
whose answer is not exact, and only for candidates.

An index that would answer with a large share of the rows is not used: a scan is as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from operator import and_, or_

import numpy as np
import pyroaring

from lance_core.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_core.expressions import tree
from lance_core.index.cache import IndexCache
from lance_core.index.json.details import parse_details
from lance_core.index.json.values import JsonValue, question_about
from lance_core.index.row_mask import RowMask, by_fragment, joined
from lance_core.index.row_sets import ALL, Bitmaps, Keys, keys_of, num_bytes
from lance_core.index.scalar.answers import TooManyRows
from lance_core.index.scalar.kinds import SEARCHABLE, SearchableKind
from lance_core.index.scalar.questions import Between, Question
from lance_core.index.segments import OpenSegment, open_segment
from lance_core.scan.plan.index_questions import Asked, asked, num_question_bytes, question_text
from lance_core.schema import Field, Schema
from lance_core.table.indices import IndexSegment
from lance_core.table.snapshot import Snapshot

# An answer with more than this share of the rows of a segment is left to a scan.
_MOST_SHARE = 1 / 8
# Whatever the share, this many rows are few.
_FEW_ROWS = 1 << 14

AddressesOf = Callable[[Keys], Keys]
"""Function that returns the addresses of the live rows with some stable row ids."""


@dataclass(frozen=True)
class IndexUse:
    """Part of a filter that an index answered.

    Attributes:
        index: Name of the index.
        kind: Kind of the index, such as "BTree".
        query: What the index was asked, as the plans of the reference write it.
        column: Column of the index.
        rows: Number of rows that the index found.
        is_exact: Whether the condition is true for all of them.
        fragments: Number of fragments that the answer is about.
    """

    index: str
    kind: str
    column: str
    query: str
    rows: int
    is_exact: bool
    fragments: int


@dataclass(frozen=True)
class FilterMasks:
    """Candidates for the conditions of a filter.

    Attributes:
        masks: A mask for each top-level condition, None where no index answers it.
        answers: The answers of indices of which the masks are made.
    """

    masks: tuple[RowMask | None, ...]
    answers: tuple[_IndexAnswer, ...] = ()

    @property
    def uses(self) -> tuple[IndexUse, ...]:
        """The indices that answered."""
        return tuple(answer.use() for answer in self.answers)

    @property
    def nbytes(self) -> int:
        """Estimated bytes in memory."""
        known = (bitmap for mask in self.masks if mask is not None for bitmap in mask.rows.values())
        of_answers = sum(answer.nbytes for answer in self.answers)
        return 1024 + 2 * sum(100 + num_bytes(bitmap) for bitmap in known) + of_answers

    @cached_property
    def found(self) -> RowMask | None:
        """Candidates for the whole filter; None if no index answers a part of it."""
        known = [mask for mask in self.masks if mask is not None]
        return reduce(and_, known) if known else None

    def open_conditions(self, fragment: int) -> tuple[int, ...]:
        """Return the numbers of the conditions that have to be evaluated for candidates of a fragment."""
        return tuple(
            number for number, mask in enumerate(self.masks) if mask is None or fragment not in mask.exact
        )


def ask_indices(
    snapshot: Snapshot,
    condition: tree.Expression,
    cache: IndexCache,
    addresses_of: AddressesOf,
    *,
    counts: bool = False,
) -> FilterMasks | None:
    """Return the candidates that indices find for a filter; None if no index answers a part of it.

    The cache keeps them: a plan, its fragments and its streams ask the same.

    Args:
        snapshot: The version of the table.
        condition: The filter.
        cache: Cache of index files.
        addresses_of: Finds rows by stable row ids.
        counts: Whether rows are only counted, so that exact answers of any size are of use.

    Raises:
        CorruptFileError: The file of an index contradicts the format or the table.
        FileMissingError: The file of an index is missing.
        StorageError: The storage failed.
    """
    if not snapshot.manifest.searchable_segments:
        return None
    key = _MasksKey(snapshot.storage.uri, snapshot.manifest.identity, counts, condition)
    known = cache.find(key)
    if isinstance(known, FilterMasks):
        return known
    asking = _Asking(snapshot, cache, addresses_of, counts)
    masks = tuple(asking.masks(tree.conjuncts(condition), negated=False))
    if all(mask is None for mask in masks):
        return None
    found = FilterMasks(masks, tuple(asking.answers))
    return cache.keep(key, found, found.nbytes)


def finds_values(snapshot: Snapshot, field_id: int) -> bool:
    """Return whether an index finds the rows with some values of a column, and no other rows."""
    return any(
        segment.field_ids == (field_id,) and segment.kind == kind and _is_searchable(segment, kind)
        for segment in snapshot.searchable_segments
        for kind in ("btree", "bitmap")
    )


class _MasksKey:
    """Key of the masks of a filter in the cache. The hash of the filter is computed once."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, *parts: Hashable) -> None:
        self._parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _MasksKey) and self._parts == other._parts


@dataclass(frozen=True)
class _Segment:
    """Segment of an index in one version of a table.

    Attributes:
        entry: The segment as the manifest describes it.
        covered: Ids of the fragments of the version that the segment covers, at least one.
        num_rows: Number of physical rows of these fragments.
        has_addresses: Whether its row keys are row addresses; otherwise they are stable row ids.
    """

    entry: IndexSegment
    covered: pyroaring.BitMap
    num_rows: int
    has_addresses: bool

    @property
    def most_rows(self) -> int:
        """Most rows of an answer that is of use. A scan finds more rows as fast."""
        return max(_FEW_ROWS, int(_MOST_SHARE * self.num_rows))


@dataclass(frozen=True)
class _Index:
    """Segments of one index, and how they are searched."""

    name: str
    type_name: str
    kind: SearchableKind
    segments: tuple[_Segment, ...]
    json_path: str | None = None
    """Path of the values inside JSON documents; None if the index has the values of the column."""

    def has_values_of(self, question: Asked) -> bool:
        """Return whether the index has the values that a question is about."""
        if question.json is None or self.json_path is None:
            return question.json is None and self.json_path is None
        return question.json.is_at(self.json_path)


@dataclass(frozen=True)
class _IndexAnswer:
    """Facts of the answer of an index, without its mask. That may be larger than the mask of the whole
    filter, which the cache keeps.
    """

    index: str
    kind: str
    question: Asked
    num_rows: int
    is_exact: bool
    num_fragments: int

    @classmethod
    def of(cls, index: _Index, question: Asked, mask: RowMask) -> _IndexAnswer:
        is_exact = mask.exact == mask.covered
        return cls(index.name, index.type_name, question, mask.num_rows, is_exact, len(mask.covered))

    def use(self) -> IndexUse:
        """Return the answer as plain data."""
        return IndexUse(
            self.index,
            self.kind,
            ".".join(self.question.path),
            question_text(self.question),
            self.num_rows,
            self.is_exact,
            self.num_fragments,
        )

    @property
    def nbytes(self) -> int:
        """Estimated bytes in memory."""
        return 500 + num_question_bytes(self.question)


class _Asking:
    """Questions of one filter to the indices of one snapshot."""

    def __init__(
        self, snapshot: Snapshot, cache: IndexCache, addresses_of: AddressesOf, counts: bool
    ) -> None:
        self._snapshot = snapshot
        self._cache = cache
        self._addresses_of = addresses_of
        self._counts = counts
        self._table = cache.get(
            ("indices", snapshot.storage.uri, snapshot.manifest.identity),
            partial(_TableIndices.of, snapshot),
            lambda table: table.nbytes,
        )
        self.answers: list[_IndexAnswer] = []

    def masks(self, parts: Sequence[tree.Expression], *, negated: bool) -> list[RowMask | None]:
        """Return the candidates for each of some conditions that must all be true, or all be false; None for
        a condition that no index answers.

        A lower and an upper bound of one column are one question: each alone may have too many rows.
        """
        questions = [asked(part, negated=negated) for part in parts]
        masks: dict[int, RowMask | None] = {}
        if len(parts) > 1:
            for lower, upper, question in _ranges(questions):
                masks[lower] = masks[upper] = self._answer(question)
        return [
            masks[number] if number in masks else self._mask(part, question, negated)
            for number, (part, question) in enumerate(zip(parts, questions, strict=True))
        ]

    def _mask(self, node: tree.Expression, question: Asked | None, negated: bool) -> RowMask | None:
        """Return the candidates for a condition, or for its negation; None if no index helps.

        `question` is what the condition asks if it has no AND, OR and NOT.
        """
        if question is not None:
            return self._answer(question)
        if isinstance(node, tree.Not):
            inner = node.operand
            return self._mask(inner, asked(inner, negated=not negated), not negated)
        if not isinstance(node, tree.And | tree.Or):
            return None
        is_and = isinstance(node, tree.And) != negated
        if is_and:
            parts = self.masks(node.operands, negated=negated)
        else:
            parts = [self._mask(part, asked(part, negated=negated), negated) for part in node.operands]
        known = [part for part in parts if part is not None]
        if is_and:
            if not known:
                return None
            found = reduce(and_, known)
            return found if len(known) == len(parts) else found.inexact()
        return reduce(or_, known) if len(known) == len(parts) else None

    def _answer(self, question: Asked) -> RowMask | None:
        for index in self._table.by_path.get(question.path, ()):
            if not index.has_values_of(question):
                continue
            mask = self._ask(index, question)
            if mask is not None and mask.covered:
                self.answers.append(_IndexAnswer.of(index, question, mask))
                return mask
        return None

    def _ask(self, index: _Index, question: Asked) -> RowMask | None:
        """Return the answers of all segments of an index; None if none of them answers."""
        masks = []
        for segment in index.segments:
            is_counted = self._counts and not index.kind.reads_rows
            most_rows = segment.num_rows if is_counted else segment.most_rows
            try:
                mask = self._ask_segment(index, segment, question, most_rows)
            except (TooManyRows, UnsupportedFeatureError, InvalidInputError):
                continue
            if mask is not None:
                masks.append(mask)
        return joined(masks) if masks else None

    def _ask_segment(
        self,
        index: _Index,
        segment: _Segment,
        question: Asked,
        most_rows: int,
    ) -> RowMask | None:
        opened = open_segment(self._snapshot, segment.entry, self._cache)
        covered = segment.covered
        asked_for: Question | None = question.question
        if question.json is not None and index.kind.value_type is not None:
            asked_for = question_about(question.json, question.question, index.kind.value_type(opened))
        answer = None if asked_for is None else index.kind.search(opened, asked_for, most_rows)
        if answer is None:
            return None
        if answer.fragments is not None:
            covered = covered & answer.fragments
        is_exact = answer.is_exact and question.is_whole
        found = self._located(segment, opened, answer.found, covered)
        if question.negated:
            if not is_exact or answer.nulls is None:
                return None
            nulls = self._located(segment, opened, answer.nulls(), covered)
            found = self._others(covered, found, nulls)
            if not self._counts and sum(map(len, found.values())) > most_rows:
                raise TooManyRows
        return RowMask(found, covered, covered if is_exact else pyroaring.BitMap())

    def _located(
        self, segment: _Segment, opened: OpenSegment, found: Bitmaps, covered: pyroaring.BitMap
    ) -> Bitmaps:
        """Return the row offsets by fragment of row keys, without rows that the segment does not cover."""
        if not segment.has_addresses:
            keys = [keys_of(upper, bitmap) for upper, bitmap in found.items()]
            found = by_fragment(self._addresses_of(np.concatenate(keys))) if keys else {}
        elif opened.has_moved_rows and found:
            if any(bitmap is ALL for bitmap in found.values()):
                raise UnsupportedFeatureError("a set of all rows of a fragment that was rewritten")
            keys = [keys_of(upper, bitmap) for upper, bitmap in found.items()]
            found = by_fragment(opened.present(np.concatenate(keys)))
        rows = {fragment: bitmap for fragment, bitmap in found.items() if fragment in covered and bitmap}
        for fragment, bitmap in rows.items():
            most = self._table.physical_rows[fragment]
            if bitmap is ALL:
                rows[fragment] = pyroaring.BitMap(range(most))
            elif bitmap.max() >= most:
                raise CorruptFileError(
                    f"row of an index beyond fragment {fragment}",
                    file=opened.directory,
                    expected=f"below {most}",
                    found=bitmap.max(),
                )
        return rows

    def _others(self, covered: pyroaring.BitMap, found: Bitmaps, nulls: Bitmaps) -> Bitmaps:
        """Return the rows of covered fragments that are in neither set."""
        others: Bitmaps = {}
        for fragment in covered:
            rows = pyroaring.BitMap(range(self._table.physical_rows[fragment]))
            for some in (found, nulls):
                if fragment in some:
                    rows -= some[fragment]
            if rows:
                others[fragment] = rows
        return others


def _ranges(questions: Sequence[Asked | None]) -> Iterator[tuple[int, int, Asked]]:
    """Yield the places of a lower and an upper bound of one value, and the question for both."""
    lows: dict[tuple[tree.Path, JsonValue | None], tuple[int, Between]] = {}
    highs: dict[tuple[tree.Path, JsonValue | None], tuple[int, Between]] = {}
    for number, question in enumerate(questions):
        if question is None or not isinstance(bounds := question.question, Between):
            continue
        (lows if bounds.high is None else highs).setdefault((question.path, question.json), (number, bounds))
    for value in lows.keys() & highs.keys():
        (lower, low), (upper, high) = lows[value], highs[value]
        bounds = Between(low.low, high.high, low.with_low, high.with_high)
        yield lower, upper, Asked(value[0], bounds, negated=False, json=value[1])


@dataclass(frozen=True)
class _TableIndices:
    """Indices of one table version that searches can use, and the fragments of the version.

    Attributes:
        by_path: Indices on each column, those with exact answers first.
        physical_rows: Number of physical rows of each fragment.
    """

    by_path: Mapping[tree.Path, Sequence[_Index]]
    physical_rows: Mapping[int, int] = field(repr=False)

    @classmethod
    def of(cls, snapshot: Snapshot) -> _TableIndices:
        """Find the indices in the manifest of a snapshot."""
        manifest = snapshot.manifest
        paths = _paths(manifest.schema)
        rows = {fragment.id: fragment.physical_rows for fragment in manifest.fragments}
        groups: dict[tuple[str, tuple[int, ...]], list[IndexSegment]] = {}
        for segment in snapshot.searchable_segments:
            groups.setdefault((segment.name, segment.field_ids), []).append(segment)
        by_path: dict[tree.Path, list[_Index]] = {}
        for kind in SEARCHABLE:
            for (name, field_ids), segments in groups.items():
                mine: dict[str | None, list[IndexSegment]] = {}
                for segment in segments:
                    if _is_searchable(segment, kind):
                        mine.setdefault(_json_path(segment), []).append(segment)
                for json_path, some in mine.items():
                    if len(field_ids) == 1 and field_ids[0] in paths:
                        searched = tuple(_searched(some, SEARCHABLE[kind], rows, manifest.has_stable_row_ids))
                        index = _Index(name, some[0].index_type, SEARCHABLE[kind], searched, json_path)
                        by_path.setdefault(paths[field_ids[0]], []).append(index)
        return cls(by_path, rows)

    @property
    def nbytes(self) -> int:
        """Estimated bytes in memory."""
        segments = [each for some in self.by_path.values() for index in some for each in index.segments]
        of_segments = sum(1000 + 2 * num_bytes(each.covered) for each in segments)
        return 200 * len(self.physical_rows) + of_segments


def _searched(
    entries: Sequence[IndexSegment], kind: SearchableKind, rows: Mapping[int, int], stable_row_ids: bool
) -> Iterator[_Segment]:
    """Yield those segments of an index that cover fragments of a table with these numbers of rows."""
    fragments = pyroaring.BitMap(rows)
    for entry in entries:
        covered = fragments & entry.description.fragment_ids
        if covered:
            has_addresses = kind.keys_are_addresses(entry.description.index_version, stable_row_ids)
            yield _Segment(entry, covered, sum(rows[fragment] for fragment in covered), has_addresses)


def _is_searchable(segment: IndexSegment, kind: str) -> bool:
    found = segment.kind
    if found == "json":
        details = parse_details(segment.details)
        found = "" if details is None or SEARCHABLE[kind].value_type is None else details.kind
    return found == kind and segment.description.index_version <= SEARCHABLE[kind].newest_version


def _json_path(segment: IndexSegment) -> str | None:
    details = parse_details(segment.details) if segment.kind == "json" else None
    return None if details is None else details.path


def _paths(schema: Schema) -> dict[int, tree.Path]:
    """Return the path of each column that has an index of its own values: no element of a list."""
    paths: dict[int, tree.Path] = {}
    waiting: list[tuple[tree.Path, Sequence[Field]]] = [((), schema.fields)]
    while waiting:
        above, fields = waiting.pop()
        for each in fields:
            paths[each.id] = (*above, each.name)
            if each.logical_type == "struct":
                waiting.append((paths[each.id], each.children))
    return paths
