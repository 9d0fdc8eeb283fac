"""The mini-block layout: small values in chunks of some KiB.

    buffer 0       one word per chunk: bytes of the chunk / 8 - 1, and log2 of its values in the low 4 bits
    buffer 1       the chunks: a header with sizes, levels, value buffers, each padded to 8 bytes
    buffer 2       dictionary items, if the page has a dictionary
    last buffer    repetition index, if the page has lists: per chunk the rows that end in it, and the
                   entries after the last such row

The words are u16 in 2.1 and u32 in 2.2. The last chunk has the rest of the page's values. Source:
docs/format.md, "Mini-block pages".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_core import kernels
from lance_core.encodings.file_pages import FilePages, check_size, joined_buffer
from lance_core.encodings.picking import Int64s, Picking
from lance_core.encodings.v2_1.encoding import MAX_VALUES, Encoding
from lance_core.encodings.v2_1.fsst import Fsst, FsstOfPages
from lance_core.encodings.v2_1.layouts.dictionary import decode_dictionaries, decode_dictionary, look_up
from lance_core.encodings.v2_1.layouts.direct import ChunkPlaces, DirectCoding, direct_coding, direct_pages
from lance_core.encodings.v2_1.layouts.joined_page import JoinedPage, nothing_to_fetch
from lance_core.encodings.v2_1.layouts.levels import Structure, parse_levels
from lance_core.encodings.v2_1.layouts.page import (
    PAGE_BYTES,
    ByteRange,
    Fetch,
    LeafSlice,
    LeafType,
    Page,
    PageDescription,
    PageRead,
)
from lance_core.encodings.v2_1.level_coding import LevelCoding
from lance_core.encodings.v2_1.registry import parse_encoding
from lance_core.encodings.values import Values, as_buffer, least_bytes, offset_bits
from lance_core.kernels import CorruptData, Counts, MiniBlocks, SymbolTable
from lance_core.proto import encodings_v2_1_pb2 as proto

_Int64s = npt.NDArray[np.int64]
_MAX_CHUNK_LEVELS = 65535


@dataclass(frozen=True, slots=True)
class _ChunkIndex:
    """Positions and contents of chunks. All arrays have one entry more than there are chunks."""

    position: _Int64s
    """Byte position in buffer 1."""
    first_value: _Int64s
    first_row: _Int64s
    """Number of the first row that begins in the chunk."""
    ended_rows: _Int64s
    """Number of rows that end before the chunk."""
    dictionary: Values | None

    @property
    def num_bytes(self) -> int:
        """Bytes of the arrays, and of the copies that `kernels.MiniBlocks` makes of them."""
        arrays = {id(array): array.nbytes for array in (self.position, self.first_value)}
        arrays |= {id(array): array.nbytes for array in (self.first_row, self.ended_rows)}
        dictionary = 0 if self.dictionary is None else self.dictionary.num_bytes
        return 2 * sum(arrays.values()) + self.position.nbytes + dictionary

    @property
    def ends_with_row(self) -> bool:
        return bool(self.first_row[-1] == self.ended_rows[-1])


@dataclass(frozen=True, slots=True)
class _Parts:
    """Pages that one page is made up of."""

    chunk_ends: _Int64s
    """Number of chunks up to the end of each page."""
    row_ends: _Int64s
    """Number of rows up to the end of each page."""

    def check_rows(self, rep: pa.Buffer, num_levels: Counts, max_rep: int) -> None:
        """Check that each page begins with a row, and has its number of rows.

        Raises:
            CorruptData: the u16 repetition levels `rep` say otherwise. Rows would go to another page.
        """
        level_ends = np.cumsum(np.frombuffer(memoryview(num_levels.values), np.int64))[self.chunk_ends - 1]
        row_begins = np.flatnonzero(np.frombuffer(rep, "<u2") == max_rep)
        if len(row_begins) != self.row_ends[-1] or (row_begins[self.row_ends[:-1]] != level_ends[:-1]).any():
            raise CorruptData("repetition levels of other rows than a page has")


@dataclass(frozen=True, slots=True)
class MiniBlockCoding:
    """The description of a page, parsed. Pages with equal descriptions share one object."""

    large: bool
    num_items: int
    structure: Structure
    index_depth: int
    """Depth of lists that the repetition index counts; 0 without a repetition index."""
    rep: LevelCoding | None
    def_: LevelCoding | None
    values: Encoding
    dictionary: Encoding | None
    num_dictionary_items: int
    direct: DirectCoding | None
    """Description for the kernel that reads and decodes by itself; None if it cannot decode such pages."""
    num_page_buffers: int
    """Least number of buffers that such a page has."""
    has_offsets: bool
    """Whether the values have variable length."""
    least_bytes: int
    """Least size of the decoded values, in bytes."""

    @classmethod
    def parse(cls, layout: proto.MiniBlockLayout, leaf: LeafType) -> MiniBlockCoding:
        """Parse a description.

        Raises:
            CorruptData: the description contradicts itself or the column.
            UnsupportedFeatureError: an encoding that is not supported; the message names it.
        """
        structure = Structure(layout.layers, leaf.nesting)
        values = parse_encoding(layout.value_compression)
        dictionary = parse_encoding(layout.dictionary) if layout.HasField("dictionary") else None
        rep = parse_levels(layout.rep_compression) if layout.HasField("rep_compression") else None
        if layout.num_buffers != values.num_buffers:
            raise CorruptData(
                f"{layout.num_buffers} buffers per chunk instead of {values.num_buffers} for {values.name!r}"
            )
        if layout.num_items > MAX_VALUES:
            raise CorruptData(f"{layout.num_items} values in a page")
        if structure.has_lists and (rep is None or layout.repetition_index_depth < 1):
            raise CorruptData(f"a list page with a repetition index of depth {layout.repetition_index_depth}")
        if not structure.has_lists and rep is not None:
            raise CorruptData("repetition levels in a page without lists")
        def_ = parse_levels(layout.def_compression) if layout.HasField("def_compression") else None
        num_dictionary_items = None if dictionary is None else layout.num_dictionary_items
        large = layout.has_large_chunk
        return cls(
            large=large,
            num_items=layout.num_items,
            structure=structure,
            index_depth=layout.repetition_index_depth,
            rep=rep,
            def_=def_,
            values=values,
            dictionary=dictionary,
            num_dictionary_items=layout.num_dictionary_items,
            direct=direct_coding(structure, large, rep, def_, values, num_dictionary_items, leaf.arrow_type),
            num_page_buffers=2 + (dictionary is not None) + structure.has_lists,
            has_offsets=offset_bits(leaf.arrow_type) > 0,
            least_bytes=int(layout.num_items * least_bytes(leaf.arrow_type)),
        )


class MiniBlockPage(Page):
    """A page in the mini-block layout."""

    def __init__(self, coding: MiniBlockCoding, leaf: LeafType, metadata: PageDescription) -> None:
        self._leaf = leaf
        self._coding = coding
        self._buffers = metadata.buffers
        structure = coding.structure
        if metadata.num_rows % structure.num_slots_per_row:
            raise CorruptData(f"{metadata.num_rows} slots in fixed-size lists of structs")
        self.num_rows = metadata.num_rows // structure.num_slots_per_row
        if not structure.has_lists and coding.num_items != metadata.num_rows:
            raise CorruptData(f"{coding.num_items} values in a page of {metadata.num_rows} rows")
        if len(self._buffers) < coding.num_page_buffers:
            raise CorruptData(f"{len(self._buffers)} page buffers instead of {coding.num_page_buffers}")
        self._index: _ChunkIndex | None = None
        self._parts: _Parts | None = None  # of a page that pages with lists make up
        self._direct: tuple[MiniBlocks | None] | None = None  # set by the first call of `direct`

    @classmethod
    def decode_files(cls, layout: bytes, leaf: LeafType, pages: FilePages, most_bytes: int) -> LeafSlice:
        """Decode pages of several files as one page. `layout` is their layout without the counts.

        Raises:
            CorruptData: a page contradicts the format.
            UnsupportedFeatureError: the pages have to be decoded one by one.
            TooManyBytes: the estimated size is above `most_bytes`.
        """
        tables = pages.symbol_tables()
        shared = _shared_coding(layout, tables[0], leaf)
        if (pages.num_buffers < shared.num_page_buffers).any():
            raise CorruptData(f"fewer than {shared.num_page_buffers} page buffers")
        if not shared.structure.has_lists and (pages.num_items != pages.num_rows).any():
            raise CorruptData("pages with other numbers of values than of rows")
        chunks, *places = kernels.join_chunks(
            pages.data,
            np.ascontiguousarray(pages.buffers(0)),
            np.ascontiguousarray(pages.buffers(1)),
            np.ascontiguousarray(pages.num_items),
            shared.large,
        )
        position, first_value, num_chunks = (np.frombuffer(memoryview(block), np.int64) for block in places)
        values = shared.values
        if isinstance(values, Fsst) and len(parsed := {each: SymbolTable(each) for each in set(tables)}) > 1:
            of_pages = tuple(parsed[each] for each in tables)
            values = FsstOfPages(values.table, values.offset_bits, of_pages, num_chunks)
        coding = replace(
            shared,
            values=values,
            num_items=int(first_value[-1]),
            num_dictionary_items=int(pages.num_dictionary_items.sum()),
            least_bytes=int(first_value[-1] * least_bytes(leaf.arrow_type)),
        )
        item_bytes = 0 if coding.dictionary is None else int(pages.buffers(2)[:, 1].sum())
        buffers = ((0, 0), (0, len(chunks)), (0, item_bytes), (0, 0))
        page = cls(coding, leaf, JoinedPage(buffers, int(pages.num_rows.sum())))
        check_size(page.decoded_bytes, most_bytes)
        dictionary = None
        if coding.dictionary is not None:
            check_size(int(coding.num_dictionary_items * least_bytes(leaf.arrow_type)), most_bytes)
            dictionary = decode_dictionaries(coding.dictionary, pages, leaf.arrow_type)
        first_row = ended_rows = first_value
        if coding.structure.has_lists:
            first_row, ended_rows = page._locate_rows(joined_buffer(pages, -1), len(position) - 1)
            ends = np.cumsum(num_chunks)
            num_rows = np.cumsum(pages.num_rows) // coding.structure.num_slots_per_row
            if (ended_rows[ends] != num_rows).any() or (first_row[ends] != num_rows).any():
                raise CorruptData("a page that ends inside a row")
            page._parts = _Parts(ends, num_rows)
        page._index = _ChunkIndex(position, first_value, first_row, ended_rows, dictionary)
        return page.plan(nothing_to_fetch, 0, page.num_rows).decode([as_buffer(chunks)])

    @property
    def decoded_bytes(self) -> int:
        coding = self._coding
        least = coding.least_bytes
        levels = coding.num_items // 8 + 4 * self.num_rows * coding.structure.max_rep
        if not coding.has_offsets:
            return least + levels
        encoded = self._buffers[1][1]
        if coding.dictionary is not None:
            items = max(coding.num_dictionary_items, 1)
            encoded = coding.num_items * (4 + 2 * self._buffers[2][1] // items)
        else:
            encoded *= coding.values.expansion
        return max(encoded, least) + levels

    @property
    def is_indexed(self) -> bool:
        return self._index is not None

    @property
    def index_ranges(self) -> Sequence[ByteRange]:
        if self.is_indexed:
            return ()
        ranges = [self._buffers[0]]
        if self._coding.dictionary is not None:
            ranges.append(self._buffers[2])
        if self._coding.structure.has_lists:
            ranges.append(self._buffers[-1])
        return ranges

    def learn(self, buffers: Sequence[pa.Buffer]) -> None:
        self._index = self._index or self._parse_index(buffers)

    def plan(self, fetch: Fetch, start: int, end: int) -> PageRead:
        whole = start == 0 and end == self.num_rows
        index_ranges = self.index_ranges
        if whole and index_ranges:
            return PageRead([*index_ranges, self._buffers[1]], self._decode_unknown)
        index = self._chunk_index(fetch)
        if whole:
            first, last = 0, len(index.position) - 1
        elif self._coding.structure.has_lists:
            first = int(index.first_row[1:].searchsorted(start, side="right"))
            last = int(index.ended_rows[1:].searchsorted(end - 1, side="right")) + 1
        else:
            slots = self._coding.structure.num_slots_per_row
            first = int(index.first_value.searchsorted(start * slots, side="right")) - 1
            last = int(index.first_value.searchsorted(end * slots, side="left"))
        begin, stop = int(index.position[first]), int(index.position[last])

        def decode(buffers: list[pa.Buffer]) -> LeafSlice:
            return self._decode(index, buffers[0], first, last, start, end, whole)

        return PageRead([(self._buffers[1][0] + begin, stop - begin)], decode)

    def _decode_unknown(self, buffers: list[pa.Buffer]) -> LeafSlice:
        """Decode the whole page from the bytes of its index and of its chunks."""
        *index_buffers, data = buffers
        self.learn(index_buffers)
        assert self._index is not None
        last = len(self._index.position) - 1
        return self._decode(self._index, data, 0, last, 0, self.num_rows, True)

    def _decode(
        self, index: _ChunkIndex, data: pa.Buffer, first: int, last: int, start: int, end: int, whole: bool
    ) -> LeafSlice:
        """Decode the rows `[start, end)` from the bytes of chunks `[first, last)`."""
        coding = self._coding
        structure = coding.structure
        positions = index.position[first : last + 1] - index.position[first]
        counts = Counts((index.first_value[first + 1 : last + 1] - index.first_value[first:last]).data)
        num_levels, rep, def_, buffers = kernels.parse_chunks(
            data,
            positions.data,
            counts,
            coding.rep is not None,
            coding.def_ is not None,
            coding.values.num_buffers,
            coding.large,
        )
        if not structure.has_lists:
            slots = structure.num_slots_per_row
            offset = start * slots - int(index.first_value[first])
            num_values = (end - start) * slots
            if coding.def_ is not None:
                layers = structure.from_validity(coding.def_, def_, num_levels, offset, num_values)
            else:
                layers = structure.without_levels(num_values)
        else:
            assert coding.rep is not None
            rep_levels = coding.rep.decode(rep, num_levels)
            def_levels = None if coding.def_ is None else coding.def_.decode(def_, num_levels)
            if self._parts is not None:
                self._parts.check_rows(rep_levels, num_levels, structure.max_rep)
            offset, num_values = 0, counts.total
            if not whole:
                skip = start - int(index.first_row[first])
                entry, entry_end, offset, value_end, found = kernels.find_rows(
                    rep_levels, def_levels, structure.max_rep, structure.max_visible, skip, end - start
                )
                if found != counts.total:
                    raise CorruptData(f"levels describe {found} values where there are {counts.total}")
                rep_levels = rep_levels.slice(2 * entry, 2 * (entry_end - entry))
                if def_levels is not None:
                    def_levels = def_levels.slice(2 * entry, 2 * (entry_end - entry))
                num_values = value_end - offset
            layers = structure.unravel(rep_levels, def_levels, num_values)
        values = self._resolved(index, coding.values.decode_chunks(buffers, counts), counts.total)
        if offset or num_values != counts.total:
            values = values.slice(offset, num_values)
        array = values.to_arrow(num_values, self._leaf.arrow_type, layers[0].validity)
        return LeafSlice(array, layers[1:])

    def pick(self, fetch: Fetch, rows: Int64s) -> Picking[LeafSlice]:
        index_ranges = self.index_ranges
        if index_ranges:
            places = np.array(index_ranges, np.int64)
            self.learn((yield [(place[:1].data, place[1:].data) for place in places]))
        return (yield from self._pick(self._chunk_index(fetch), self._buffers[1][0], rows))

    def _pick(self, index: _ChunkIndex, base: int, rows: Int64s) -> Picking[LeafSlice]:
        """Decode single rows. The positions in `index` count from byte `base` of the file."""
        coding = self._coding
        structure = coding.structure
        if structure.has_lists:
            offsets, lengths, starts, counts, begun, chosen = kernels.choose_row_chunks(
                index.position.data,
                index.first_value.data,
                index.first_row.data,
                index.ended_rows.data,
                rows.data,
                base,
            )
        else:
            slots = structure.num_slots_per_row
            wanted = rows if slots == 1 else (rows[:, np.newaxis] * slots + np.arange(slots)).ravel()
            offsets, lengths, starts, counts, chosen = kernels.choose_chunks(
                index.position.data, index.first_value.data, wanted.data, base
            )
        (data,) = yield [(offsets, lengths)]
        num_levels, rep, def_, buffers = kernels.parse_chunks(
            data,
            starts,
            counts,
            coding.rep is not None,
            coding.def_ is not None,
            coding.values.num_buffers,
            coding.large,
        )
        if coding.rep is not None:
            rep_levels = coding.rep.decode(rep, num_levels)
            def_levels = None if coding.def_ is None else coding.def_.decode(def_, num_levels)
            rep_block, def_block, picks_block, num_values = kernels.pick_rows(
                rep_levels,
                def_levels,
                num_levels,
                counts,
                begun,
                chosen,
                structure.max_rep,
                structure.max_visible,
            )
            picks = as_buffer(picks_block)
            layers = structure.unravel(
                as_buffer(rep_block), None if def_levels is None else as_buffer(def_block), num_values
            )
        else:
            picks = as_buffer(chosen)
            num_values = picks.size // 8
            if coding.def_ is not None:
                layers = structure.unravel(None, coding.def_.pick(def_, num_levels, picks), num_values)
            else:
                layers = structure.without_levels(num_values)
        picked = coding.values.pick_chunks(buffers, counts, picks)
        values = self._resolved(index, picked, num_values)
        array = values.to_arrow(num_values, self._leaf.arrow_type, layers[0].validity)
        return LeafSlice(array, layers[1:])

    def direct(self, fetch: Fetch) -> MiniBlocks | None:
        if self._direct is None:
            index = self._chunk_index(fetch)
            lengths = index.position[1:] - index.position[:-1]
            self._direct = (self._direct_of(index, self._buffers[1][0], lengths, self.num_rows),)
        return self._direct[0]

    def _direct_of(self, index: _ChunkIndex, base: int, lengths: _Int64s, num_rows: int) -> MiniBlocks | None:
        """Return the description for the kernel. Positions in `index` count from byte `base` of the file."""
        if self._coding.direct is None:
            return None
        places = ChunkPlaces(
            index.position[:-1] + base, lengths, index.first_value, index.first_row, index.ended_rows
        )
        return direct_pages(num_rows, places, self._coding.direct, index.dictionary)

    def is_like(self, other: Page) -> bool:
        """Return whether two indexed pages can be joined: both have the same encodings, and no dictionary."""
        if not isinstance(other, MiniBlockPage) or self._index is None or other._index is None:
            return False
        coding, theirs = self._coding, other._coding
        return (
            coding.dictionary is None
            and theirs.dictionary is None
            and coding.large == theirs.large
            and coding.structure.layers == theirs.structure.layers
            and coding.rep == theirs.rep
            and coding.def_ == theirs.def_
            and coding.values == theirs.values
            and self._index.ends_with_row
        )

    @property
    def known_bytes(self) -> int:
        return PAGE_BYTES + (0 if self._index is None else self._index.num_bytes)

    def _chunk_index(self, fetch: Fetch) -> _ChunkIndex:
        if self._index is None:
            ranges = self.index_ranges
            if ranges:  # none are left if another thread has read them meanwhile
                self.learn(fetch(ranges))
        assert self._index is not None
        return self._index

    def _resolved(self, index: _ChunkIndex, values: Values, num_values: int) -> Values:
        """Return the values, looked up in the dictionary if the page has one."""
        if index.dictionary is None:
            return values
        return look_up(values, num_values, index.dictionary, self._coding.num_dictionary_items)

    def _parse_index(self, buffers: Sequence[pa.Buffer]) -> _ChunkIndex:
        """Parse the bytes of `index_ranges`."""
        coding = self._coding
        words, *rest = buffers
        places = kernels.locate_chunks(words, coding.large, coding.num_items, self._buffers[1][1])
        # Copies: each view would be one more object for the collector of garbage, for every open page.
        position, first_value = (np.frombuffer(memoryview(block), np.int64).copy() for block in places)
        dictionary = None
        if coding.dictionary is not None:
            dictionary = decode_dictionary(
                coding.dictionary, rest[0], coding.num_dictionary_items, self._leaf.arrow_type
            )
        first_row = ended_rows = first_value
        if coding.structure.has_lists:
            first_row, ended_rows = self._locate_rows(rest[-1], len(position) - 1)
        return _ChunkIndex(position, first_value, first_row, ended_rows, dictionary)

    def _locate_rows(self, repetition_index: pa.Buffer, num_chunks: int) -> tuple[_Int64s, _Int64s]:
        """Return, for each chunk, its first row and the number of rows that end before it."""
        counts_per_chunk = self._coding.index_depth + 1
        if repetition_index.size != 8 * counts_per_chunk * num_chunks:
            raise CorruptData(f"a repetition index of {repetition_index.size} bytes for {num_chunks} chunks")
        index = np.frombuffer(repetition_index, "<u8").reshape(num_chunks, counts_per_chunk)
        if self.num_rows > num_chunks * _MAX_CHUNK_LEVELS:
            raise CorruptData(f"{self.num_rows} rows in {num_chunks} chunks")
        if (index[:, 0] > self.num_rows).any():
            raise CorruptData(f"a chunk that ends more than the page's {self.num_rows} rows")
        ended_rows = np.zeros(num_chunks + 1, np.int64)
        np.cumsum(index[:, 0], out=ended_rows[1:])
        if ended_rows[-1] != self.num_rows:
            raise CorruptData(f"a repetition index of {ended_rows[-1]} rows in a page of {self.num_rows}")
        first_row = ended_rows.copy()
        # If inner lists or entries follow the last row that ends in the chunk, a further row has begun in it.
        first_row[1:] += index[:, 1:].any(axis=1)
        return first_row, ended_rows


@lru_cache(maxsize=512)
def _shared_coding(layout: bytes, symbol_table: bytes, leaf: LeafType) -> MiniBlockCoding:
    """Return the coding of pages of several files, without the counts of one page."""
    try:
        message = proto.MiniBlockLayout.FromString(layout)
    except DecodeError:
        raise CorruptData("the page's description cannot be parsed") from None
    if symbol_table:
        message.value_compression.fsst.symbol_table = symbol_table
    return MiniBlockCoding.parse(message, leaf)


def runs_alike(pages: Iterable[Page]) -> Iterator[list[Page]]:
    """Yield the pages of a leaf in runs of consecutive pages that can be joined."""
    run: list[Page] = []
    for page in pages:
        if run and not (isinstance(run[-1], MiniBlockPage) and run[-1].is_like(page)):
            yield run
            run = []
        run.append(page)
    if run:
        yield run


class JoinedPages:
    """Consecutive indexed mini-block pages, read as one page. Its rows are the rows of all pages."""

    def __init__(self, pages: Sequence[Page]) -> None:
        """Join the pages of a run from `runs_alike`."""
        parts = [page for page in pages if isinstance(page, MiniBlockPage)]
        indices = [page._index for page in parts if page._index is not None]
        self._first = parts[0]
        self._index = _joined(
            [(index, page._buffers[1][0]) for index, page in zip(indices, parts, strict=True)]
        )
        self._gaps = np.cumsum([len(index.position) for index in indices])[:-1] - 1
        self._num_rows = sum(page.num_rows for page in parts)
        self.known_bytes = PAGE_BYTES + self._index.num_bytes
        self._direct: tuple[MiniBlocks | None] | None = None

    def pick(self, fetch: Fetch, rows: Int64s) -> Picking[LeafSlice]:
        """Return the rows with these strictly ascending numbers."""
        return self._first._pick(self._index, 0, rows)

    def direct(self, fetch: Fetch) -> MiniBlocks | None:
        """Return the description for the kernel that reads and decodes by itself; None if it cannot decode
        the pages.
        """
        if self._direct is None:
            lengths = np.diff(self._index.position)
            lengths[self._gaps] = 0
            self._direct = (self._first._direct_of(self._index, 0, lengths, self._num_rows),)
        return self._direct[0]


def _joined(parts: Sequence[tuple[_ChunkIndex, int]]) -> _ChunkIndex:
    """Return the index of the chunks of several pages. Each part is the index of a page, and the file
    position of its chunks.

    The gap between two pages becomes a chunk without values.
    """

    def counted_on(arrays: Sequence[_Int64s]) -> _Int64s:
        begins = np.cumsum([0, *(array[-1] for array in arrays[:-1])])
        return np.concatenate([array + begin for array, begin in zip(arrays, begins, strict=True)])

    indices = [index for index, _ in parts]
    has_lists = indices[0].first_row is not indices[0].first_value
    first_value = counted_on([index.first_value for index in indices])
    return _ChunkIndex(
        position=np.concatenate([index.position + base for index, base in parts]),
        first_value=first_value,
        first_row=counted_on([index.first_row for index in indices]) if has_lists else first_value,
        ended_rows=counted_on([index.ended_rows for index in indices]) if has_lists else first_value,
        dictionary=None,
    )
