"""One partition of a segment: its documents, its terms, and their posting lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.index.index_file import IndexFile
from lance_core.index.segments import OpenSegment
from lance_core.index.text.arrays import int64s
from lance_core.index.text.dictionary import Dictionary, dictionary_of_columns
from lance_core.index.text.scores import Collection
from lance_core.kernels import Block, Postings, decode_position_lists, decode_positions
from lance_core.schema import arrow_values

_Number = TypeVar("_Number", bound=np.generic)

_LIST_BYTES = 1 << 10
"""Estimated memory of a posting list besides its blocks."""
_LISTS_AT_ONCE = 256
"""Posting lists that are read together ahead of queries."""


class Documents(NamedTuple):
    """Documents of a partition by number."""

    row_keys: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint32]
    """Number of terms of each document."""
    num_tokens: int
    """Number of terms of all documents."""


class TermPositions(NamedTuple):
    """The documents that have a term, with the positions of the term in each."""

    documents: Block
    frequencies: Block
    positions: Block | memoryview


class Partition:
    """One partition of a segment. Everything is read when it is needed, and the cache keeps it; thread-safe.

    Attributes:
        number: Number in the names of its files.
        documents: All documents.
    """

    def __init__(self, segment: OpenSegment, number: int, term_format: str, block_size: int) -> None:
        """Open a partition.

        Args:
            segment: The segment.
            number: Number of the partition.
            term_format: "fst" or "arrow", the form of its terms.
            block_size: Documents of a block of a posting list, unless the file says otherwise.
        """
        self._segment = segment
        self.number = number
        self._term_format = term_format
        self._block_size = block_size

    @property
    def documents(self) -> Documents:
        """All documents. Errors are those of `OpenSegment.open_file`."""
        return self._segment.kept(
            ("documents", self.number),
            self._load_documents,
            lambda documents: documents.row_keys.nbytes + documents.lengths.nbytes,
        )

    def prefetches(self) -> list[Callable[[], object]]:
        """Return calls that read what every search needs, for remote files side by side."""
        return [lambda: self.documents, lambda: self.dictionary]

    def _load_documents(self) -> Documents:
        file, _ = self._segment.open_files((self._file_name("docs"), self._file_name("invert")))
        rows = file.read(0, file.num_rows, ["_rowid", "_num_tokens"])
        with reading(file.name):
            lengths = numbers_of(rows.column(1), np.uint32)
            block_size = self._posting_block_size
            if block_size == 256:
                lengths = rounded_lengths(lengths)
            total = int(numbers_of(rows.column(1), np.uint32).sum(dtype=np.uint64))
            keys = self._segment.present(numbers_of(rows.column(0), np.uint64))
            return Documents(keys, lengths, total)

    def norms(self, collection: Collection) -> npt.NDArray[np.float32]:
        """Return `Collection.norms` of the documents."""
        average = float(collection.average_length)
        return self._segment.kept(
            ("norms", self.number, average),
            lambda: collection.norms(self.documents.lengths),
            lambda norms: norms.nbytes,
        )

    @property
    def dictionary(self) -> Dictionary:
        """All terms. Errors are those of `OpenSegment.open_file`."""
        return self._segment.kept(
            ("dictionary", self.number), self._load_dictionary, lambda terms: terms.num_bytes
        )

    def _load_dictionary(self) -> Dictionary:
        file = self._segment.open_file(self._file_name("tokens"))
        if self._term_format == "arrow":
            rows = file.read(0, file.num_rows, ["_token", "_token_id"])
            with reading(file.name):
                return dictionary_of_columns(rows.column(0), rows.column(1))
        rows = file.read(0, file.num_rows, ["_token_fst_bytes"])
        with reading(file.name):
            if rows.num_rows != 1:
                raise ValueError(f"{rows.num_rows} dictionaries")
            return Dictionary(rows.column(0)[0].as_py())

    def find(self, term: str) -> int | None:
        """Return the number of a term; None if no document has it. Errors are those of `dictionary`."""
        with reading(self._segment.path(self._file_name("tokens"))):
            number = self.dictionary.find(term)
        if number is not None and number >= self._num_lists:
            raise CorruptFileError(
                "number of a term",
                file=self._segment.path(self._file_name("tokens")),
                expected=f"less than {self._num_lists}",
                found=number,
            )
        return number

    def similar(self, term: str, distance: int, prefix_bytes: int, limit: int) -> list[str]:
        """Return terms that are similar to a term, see `Dictionary.similar`."""
        with reading(self._segment.path(self._file_name("tokens"))):
            return self.dictionary.similar(term, distance, prefix_bytes, limit)

    def num_documents_with(self, number: int) -> int:
        """Return the number of documents that have a term."""
        return len(self.postings(number))

    def postings(self, number: int) -> Postings:
        """Return the posting list of a term. Raise `LanceError` if it cannot be read."""
        return self._segment.kept(
            ("postings", self.number, number), lambda: self._load_postings(number), self._posting_bytes
        )

    def _load_postings(self, number: int) -> Postings:
        rows = self._postings_file.take(np.array([number], np.int64), ["_posting", "_length"])
        return self._posting_list(rows)

    def warm(self) -> Iterator[None]:
        """Read the documents, the terms and the posting lists into the cache, some at each step.

        Errors are those of `postings`.
        """
        _ = self.documents, self.dictionary
        yield
        for start in range(0, self._num_lists, _LISTS_AT_ONCE):
            end = min(start + _LISTS_AT_ONCE, self._num_lists)
            for number, postings in enumerate(self._load_lists(start, end), start):
                self._segment.keep(("postings", self.number, number), postings, self._posting_bytes(postings))
            yield

    def _load_lists(self, start: int, end: int) -> Iterator[Postings]:
        """Yield the posting lists of the terms `[start, end)`."""
        rows = self._postings_file.read(start, end, ["_posting", "_length"])
        return (self._posting_list(rows.slice(place, 1)) for place in range(end - start))

    def _posting_list(self, rows: pa.RecordBatch) -> Postings:
        """Return the posting list in one row of the file."""
        file = self._postings_file
        with reading(file.name):
            data, ends = _strings(rows.column(0).flatten())
            return Postings(
                data,
                ends.data,
                int(rows.column(1)[0].as_py()),
                len(self.documents.lengths),
                self._posting_block_size,
                self._posting_tail(file),
            )

    def reading_postings(self) -> AbstractContextManager[None]:
        """Return a block in which errors of kernels about posting lists come to name their file."""
        return reading(self._postings_file.name)

    def require_positions(self) -> None:
        """Raise `UnsupportedFeatureError` if the index has no positions, which phrases need."""
        if not {"_position", "_compressed_position"} & set(self._postings_file.arrow_schema.names):
            raise UnsupportedFeatureError("position is not found but required for phrase queries")

    def positions(self, number: int) -> TermPositions:
        """Return the positions of a term, of an index that has positions.

        Raises:
            LanceError: Something cannot be read.
        """
        file = self._postings_file

        def load() -> TermPositions:
            with reading(file.name):
                documents, frequencies = self.postings(number).decode()
                return TermPositions(documents, frequencies, self._decode_positions(number, frequencies))

        return self._segment.kept(
            ("positions", self.number, number), load, lambda found: sum(map(len, found))
        )

    def _decode_positions(self, number: int, frequencies: Block) -> Block | memoryview:
        file = self._postings_file
        row = np.array([number], np.int64)
        if "_compressed_position" in file.arrow_schema.names:
            rows = file.take(row, ["_compressed_position", "_position_block_offset"])
            codec = file.metadata.get("positions_codec", b"packed_delta_v1")
            if codec not in (b"packed_delta_v1", b"varint_doc_delta_v2"):
                raise UnsupportedFeatureError("positions of a full text index", found=codec.decode("latin1"))
            starts = numbers_of(rows.column(1).flatten(), np.uint32)
            return decode_positions(
                rows.column(0)[0].as_buffer(),
                starts.data,
                frequencies,
                self._posting_block_size,
                codec == b"packed_delta_v1",
            )
        lists = file.take(row, ["_position"]).column(0).flatten()
        data, ends = _strings(lists.flatten())
        lengths = lists.value_lengths().fill_null(arrow_values.scalar_of(0, pa.int32()))
        document_ends = np.cumsum(numbers_of(lengths, np.int64))
        return decode_position_lists(data, ends.data, document_ends.data, frequencies)

    def _posting_bytes(self, postings: Postings) -> int:
        """Return the estimated memory of a posting list."""
        return _LIST_BYTES + 2 * len(postings)

    @property
    def _num_lists(self) -> int:
        """Number of posting lists, one for each term."""
        return self._postings_file.num_rows

    @property
    def _postings_file(self) -> IndexFile:
        return self._segment.open_file(self._file_name("invert"))

    @property
    def _posting_block_size(self) -> int:
        return self._postings_file.integer("posting_block_size", self._block_size)

    def _posting_tail(self, file: IndexFile) -> bool:
        codec = file.metadata.get("posting_tail_codec", b"fixed32_v1")
        if codec not in (b"fixed32_v1", b"varint_delta_v1"):
            raise UnsupportedFeatureError("posting lists of a full text index", found=codec.decode("latin1"))
        return codec == b"fixed32_v1"

    def _file_name(self, kind: str) -> str:
        return f"part_{self.number}_{kind}.lance"


@contextmanager
def reading(file: str) -> Iterator[None]:
    """Raise `CorruptFileError` with the name of the file where values of the file contradict the format."""
    try:
        yield
    except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
        if isinstance(error, CorruptFileError):
            raise
        raise CorruptFileError("full text index", file=file, found=error) from None


def rounded_lengths(lengths: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return lengths of documents with their four most significant bits only, as scores use them in indices
    with blocks of 256 documents.
    """
    bits = np.zeros(len(lengths), np.uint32)
    rest = lengths >> np.uint32(4)
    while rest.any():
        bits += (rest != 0).astype(np.uint32)
        rest = rest >> np.uint32(1)
    return (lengths >> bits) << bits


def numbers_of(array: pa.Array, kind: type[_Number]) -> npt.NDArray[_Number]:
    """Return an array of numbers; `ValueError` if there are nulls."""
    if array.null_count:
        raise ValueError(f"{array.null_count} nulls")
    numbers: npt.NDArray[_Number] = arrow_values.numbers_of(array).astype(kind, copy=False)
    return numbers


def _strings(array: pa.Array) -> tuple[pa.Buffer | bytes, npt.NDArray[np.int64]]:
    """Return byte strings, one after the other, and the end of each."""
    wide = array.cast(pa.large_binary())
    if not len(wide):
        return b"", np.empty(0, np.int64)
    _, offsets, data = wide.buffers()
    found = int64s(offsets)[wide.offset : wide.offset + len(wide) + 1]
    if data is None:
        return b"", np.zeros(len(wide), np.int64)
    first, last = int(found[0]), int(found[-1])
    return data.slice(first, last - first), found[1:] - first
