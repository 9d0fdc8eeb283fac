"""Index entries of a table while it changes. This package must not make the indices of other writers wrong.

A reader uses an index for the fragments in the index's bitmap, and scans the other fragments. If the bitmap
lacks a fragment, reads cost more time. If the bitmap names a fragment that the index does not know, reads
lose rows. Therefore fragments whose indexed values change leave the bitmap, and only fragments with indexed
rows enter it.

After compactions that left index files as they were, bitmaps may name old fragments (see
`lance_core.table.fragment_reuse`). Before a bitmap changes for another reason, all bitmaps are translated to
the present fragments, as the reference does it.

Source: docs/format.md, "Operations".
"""

from collections.abc import Callable, Collection, Iterable, Set
from dataclasses import dataclass
from itertools import groupby

import pyroaring
from google.protobuf.message import DecodeError

from lance_core.errors import CommitConflictError, CorruptFileError, InvalidInputError
from lance_core.proto import index_pb2, table_pb2
from lance_core.table.fragment_reuse import FRAGMENT_REUSE, ZONES, FragmentReuse
from lance_core.table.indices import MEM_WAL, kind_of_files
from lance_core.table.manifest import Manifest

_BTREE_OF_ADDRESSES = 1
"""Index version from which a B-tree names rows by address, even if the table has stable row ids."""
_IDS_OR_ADDRESSES = ("bitmap", "labellist", "ngram", "inverted", "vector", "rtree")
"""Kinds of indices that name rows by stable id if the table has stable row ids, otherwise by address."""
_KEEP_PLACES = ("inverted", "rtree")
"""Kinds of indices that keep the entries of removed rows. Vector indices with a graph keep them, too."""

Moves = Iterable[tuple[Set[int], Set[int]]]
"""Pairs of the ids of old fragments and the ids of the new fragments with their rows."""


@dataclass(frozen=True)
class DeferredMoves:
    """Entry `__lance_frag_reuse` of a compaction that leaves index files as they are.

    Attributes:
        entry: The new entry, with the moves of this compaction and of earlier ones.
        replaces: Uuid of the entry with the earlier moves; None if there was no entry.
    """

    entry: table_pb2.IndexMetadata
    replaces: bytes | None


class IndexSectionEditor:
    """Index section of the next version. It is decoded when an entry must change."""

    def __init__(
        self, section: bytes | None, reuse: Callable[[], FragmentReuse | None] = lambda: None
    ) -> None:
        """Begin with a section.

        Args:
            section: Serialized section; None without indices.
            reuse: Returns `Manifest.fragment_reuse` of the version that has the section. It is called when
                the coverage must change.
        """
        self._section = section
        self._reuse = reuse
        self._message: table_pb2.IndexSection | None = None
        self._is_changed = False

    @property
    def section(self) -> bytes | None:
        """Serialized section; None without indices. If nothing changed, these are the original bytes."""
        if self._message is None or not self._is_changed:
            return self._section
        return self._message.SerializeToString() if self._message.indices else None

    @property
    def segments(self) -> Collection[table_pb2.IndexMetadata]:
        """Entries of the section, for reading only."""
        if not self._section and self._message is None:
            return ()
        return self._decoded().indices

    def editable(self) -> Collection[table_pb2.IndexMetadata]:
        """Return the entries, which the caller may change in place."""
        self._is_changed = self._is_changed or bool(self.segments)
        return self.segments

    @property
    def has_covering_columns(self) -> bool:
        """Whether any index stores values of columns beside the indexed columns."""
        return any(segment.covering_fields for segment in self.segments)

    def replace(self, section: bytes | None) -> None:
        """Replace the whole section; None means no indices."""
        self._section, self._message, self._is_changed = section, None, False
        self._reuse = lambda: None

    def add(self, segments: Iterable[table_pb2.IndexMetadata]) -> None:
        """Add entries. An added entry replaces the entry with the same uuid."""
        added = list(segments)
        self.remove({segment.uuid.uuid for segment in added})
        self._decoded().indices.extend(added)
        self._is_changed = True

    def remove(self, uuids: Set[bytes]) -> None:
        """Remove entries by uuid."""
        if uuids:
            self._keep([segment for segment in self.segments if segment.uuid.uuid not in uuids])

    def forget(self, fragment_ids: Iterable[int], field_ids: Iterable[int]) -> None:
        """Remove fragments from the coverage of the indices on some fields, after values of these fields
        changed.

        Args:
            fragment_ids: fragments with changed values.
            field_ids: fields whose values changed.

        Raises:
            LanceError: the fragment reuse index of the table cannot be read.
        """
        changed, fields = pyroaring.BitMap(fragment_ids), set(field_ids)
        affected = [segment for segment in self.segments if fields.intersection(_fields(segment))]
        if not changed or not affected:
            return
        self.follow_reuse()
        for segment in affected:
            self._set_coverage(segment, coverage(segment) - changed)

    def move(self, moves: Moves, *, rewritten: Set[bytes], stable_row_ids: bool) -> None:
        """Translate the coverage of all indices after rows moved to other fragments.

        An index covers the new fragments of a group if its files were rewritten for the move, or if it names
        rows by stable id. Other indices find rows by old addresses, and cover no new fragment. If files still
        contain old addresses, the old fragments stay in the bitmap: readers ignore rows of fragments that are
        in the bitmap of an index but not in the table.

        Args:
            moves: old fragments and the new fragments with their rows.
            rewritten: old uuids of the segments whose files were rewritten.
            stable_row_ids: whether the table has stable row ids.

        Raises:
            InvalidInputError: an index covers only some old fragments of a group.
            LanceError: the fragment reuse index of the table cannot be read.
        """
        self.follow_reuse()
        groups = [(pyroaring.BitMap(old), pyroaring.BitMap(new)) for old, new in moves]
        for segment in self.segments:
            if _is_of_system(segment):
                continue
            before = coverage(segment)
            after = before.copy()
            by_id = names_rows_by_id(segment, stable_row_ids)
            is_rewritten = segment.uuid.uuid in rewritten
            keeps_entries = not stable_row_ids and (not is_rewritten or _keeps_places(segment))
            for old, new in groups:
                known = before & old
                after -= pyroaring.BitMap() if keeps_entries else known
                if not known or not (by_id or is_rewritten):
                    continue
                if known != old:
                    raise InvalidInputError(
                        f"fragments that index {segment.name} covers were joined with others",
                        expected=sorted(old),
                        found=sorted(known),
                    )
                after |= new
            if after != before:
                self._set_coverage(segment, after)

    def defer(self, moves: Moves, deferred: DeferredMoves) -> None:
        """Keep index files and coverage as they are after rows moved to other fragments, and add the entry
        with which readers translate both.

        Nobody can translate zones of rows, so indices of zones lose the old fragments.

        Args:
            moves: old fragments and the new fragments with their rows.
            deferred: the entry.

        Raises:
            CommitConflictError: the entry was made for another version of the section; retryable.
        """
        self.replace_reuse(deferred.entry, deferred.replaces)
        old = pyroaring.BitMap().union(*(pyroaring.BitMap(ids) for ids, _ in moves))
        for segment in self.segments:
            if kind_of(segment) in ZONES and coverage(segment) & old:
                self._set_coverage(segment, coverage(segment) - old)

    def replace_reuse(self, entry: table_pb2.IndexMetadata | None, replaces: bytes | None) -> None:
        """Replace the entry `__lance_frag_reuse`.

        Args:
            entry: the new entry; None to have none.
            replaces: uuid of the replaced entry; None if there should be none.

        Raises:
            CommitConflictError: the section has another entry than the replaced one; retryable.
        """
        present = [segment.uuid.uuid for segment in self.segments if segment.name == FRAGMENT_REUSE]
        if present != ([] if replaces is None else [replaces]):
            raise CommitConflictError("the fragment reuse index was changed meanwhile", retryable=True)
        self.remove(set(present))
        if entry is not None:
            self.add([entry])

    def follow_reuse(self) -> None:
        """Translate the coverage of all indices to the present fragments.

        Raises:
            LanceError: the fragment reuse index of the table cannot be read.
        """
        reuse = self._reuse() if self._section or self._message else None
        for segment in self.segments if reuse else ():
            followed = _followed(segment, reuse)
            if followed is not None:
                self._set_coverage(segment, followed)

    def follow(self, old_ids: Collection[int], new_ids: Collection[int], changed_ids: Iterable[int]) -> None:
        """Let indices cover the new fragments of moved rows, if these fragments have no other rows.

        An index covers the new fragments if it names rows by stable id, covers all old fragments, and has no
        changed field.

        Args:
            old_ids: fragments from which the rows moved.
            new_ids: fragments that contain only moved rows.
            changed_ids: fields whose values changed.
        """
        old, changed = pyroaring.BitMap(old_ids), set(changed_ids)
        for segment in self.segments if old and new_ids else ():
            covered = coverage(segment)
            if (
                old <= covered
                and not changed.intersection(_fields(segment))
                and names_rows_by_id(segment, stable_row_ids=True)
            ):
                self._set_coverage(segment, covered | pyroaring.BitMap(new_ids))

    def retain(self, field_ids: Set[int], fragment_ids: Iterable[int]) -> None:
        """Drop indices on removed fields, and segments that cover no fragment, as the reference does.

        If no segment of an index covers a fragment, the oldest segment stays.

        Args:
            field_ids: all fields of the schema.
            fragment_ids: all fragments of the table.
        """
        if not self.segments:
            return
        kept = [
            segment for segment in self.segments if _is_of_system(segment) or _fields(segment) <= field_ids
        ]
        if not any(segment.name == FRAGMENT_REUSE for segment in kept):  # bitmaps name present fragments
            useful = _useful(kept, pyroaring.BitMap(fragment_ids))
            kept = [segment for segment in kept if _is_of_system(segment) or segment.uuid.uuid in useful]
        self._keep(kept)

    def _decoded(self) -> table_pb2.IndexSection:
        if self._message is None:
            try:
                self._message = table_pb2.IndexSection.FromString(self._section or b"")
            except DecodeError:
                raise CorruptFileError("index section does not decode") from None
        return self._message

    def _keep(self, kept: list[table_pb2.IndexMetadata]) -> None:
        if len(kept) != len(self.segments):
            self._message, self._is_changed = table_pb2.IndexSection(indices=kept), True

    def _set_coverage(self, segment: table_pb2.IndexMetadata, covered: pyroaring.BitMap) -> None:
        segment.fragment_bitmap = bytes(covered.serialize())
        self._is_changed = True


def index_entries(manifest: Manifest) -> list[table_pb2.IndexMetadata]:
    """Return the entries of the index section of a version, for reading only. Their bitmaps name present
    fragments.

    Raises:
        LanceError: the section or the fragment reuse index cannot be read.
    """
    editor = IndexSectionEditor(manifest.index_section, lambda: manifest.fragment_reuse)
    editor.follow_reuse()
    return list(editor.segments)


def _followed(segment: table_pb2.IndexMetadata, reuse: FragmentReuse | None) -> pyroaring.BitMap | None:
    """Return the present fragments that an index covers; None if they are those of its bitmap."""
    if reuse is None or _is_of_system(segment) or not segment.fragment_bitmap:
        return None
    covered = coverage(segment)
    followed = reuse.followed(covered, kind_of(segment), segment.dataset_version)
    return None if followed == covered else followed


def kind_of(segment: table_pb2.IndexMetadata) -> str:
    """Return the kind of a segment in lower case, such as "btree"; "" if the manifest does not say.

    A JSON index has the files of another kind of index, and that kind is returned.
    """
    return kind_of_files(segment.index_details.type_url, segment.index_details.value)


def names_rows_by_id(segment: table_pb2.IndexMetadata, stable_row_ids: bool) -> bool:
    """Return whether the files of a segment name rows by stable id, so that they stay valid
    when rows move.
    """
    kind = kind_of(segment)
    if kind == "btree":
        return stable_row_ids and segment.index_version < _BTREE_OF_ADDRESSES
    return stable_row_ids and kind in _IDS_OR_ADDRESSES


def _keeps_places(segment: table_pb2.IndexMetadata) -> bool:
    """Return whether rewritten files of a segment may still have entries of removed rows."""
    kind = kind_of(segment)
    if kind != "vector":
        return kind in _KEEP_PLACES
    try:
        details = index_pb2.VectorIndexDetails.FromString(segment.index_details.value)
    except DecodeError:
        return True
    return details.HasField("hnsw_index_config") or details.WhichOneof("compression") is None


def _fields(segment: table_pb2.IndexMetadata) -> set[int]:
    """Return the fields whose values an index stores."""
    return {*segment.fields, *segment.covering_fields}


def _is_of_system(segment: table_pb2.IndexMetadata) -> bool:
    return segment.name in (FRAGMENT_REUSE, MEM_WAL)


def coverage(segment: table_pb2.IndexMetadata) -> pyroaring.BitMap:
    """Return the fragments that an index covers. An entry without a bitmap covers none, as no
    reader uses it.
    """
    if not segment.fragment_bitmap:
        return pyroaring.BitMap()
    try:
        return pyroaring.BitMap.deserialize(segment.fragment_bitmap)
    except (ValueError, IndexError) as error:
        raise CorruptFileError("fragments of an index do not decode", found=error) from None


def _useful(segments: Iterable[table_pb2.IndexMetadata], existing: pyroaring.BitMap) -> set[bytes]:
    """Return the uuids of the segments to keep: those that cover a fragment, or the oldest one
    of an index.
    """
    useful: set[bytes] = set()
    for _, group in groupby(sorted(segments, key=lambda each: each.name), key=lambda each: each.name):
        members = list(group)
        covering = {member.uuid.uuid for member in members if coverage(member) & existing}
        oldest = min(members, key=lambda member: member.dataset_version)
        useful |= covering or {oldest.uuid.uuid}
    return useful
