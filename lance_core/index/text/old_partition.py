"""Full text indices of releases before 0.30, which have one file of postings for all rows.

Postings name documents by their row keys, and are rows of `invert.lance`, term after term. The documents of
such an index are numbered here in the order of their row keys, so that its posting lists become those of a
partition.

Source: docs/format.md, "Full text indices".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.index.row_sets import Keys
from lance_core.index.segments import OpenSegment
from lance_core.index.text.arrays import uint32s
from lance_core.index.text.parameters import TextParameters, parse_parameters
from lance_core.index.text.partition import Documents, Partition, numbers_of, reading
from lance_core.kernels import Block, Postings
from lance_core.number_sets import are_among

TERMS_FILE = "tokens.lance"
_BLOCK = 128
_FULL_BLOCK = np.dtype(
    [
        ("bound", "<f4"),
        ("first", "<u4"),
        ("difference_bits", "u1"),
        ("differences", "<u4", _BLOCK),
        ("frequency_bits", "u1"),
        ("frequencies", "<u4", _BLOCK),
    ]
)
"""Full block of a posting list with 32 bits for each value."""

Numbers = npt.NDArray[np.uint32]


def old_parameters(metadata: Mapping[str, bytes]) -> TextParameters:
    """Return the options in the metadata of `TERMS_FILE`.

    Raises:
        ValueError: They contradict the format.
        UnsupportedFeatureError: The index has a tokenizer that is not supported.
    """
    stored = json.loads(metadata.get("tokenizer", b"{}"))
    if isinstance(stored, dict) and stored.get("base_tokenizer") == "":
        stored["base_tokenizer"] = "simple"
    try:
        return parse_parameters(json.dumps(stored))
    except InvalidInputError as error:
        raise ValueError(str(error)) from None


class OldPartition(Partition):
    """All documents of an old index; see `Partition`, whose errors its methods raise."""

    def __init__(self, segment: OpenSegment) -> None:
        super().__init__(segment, 0, "arrow", _BLOCK)

    def _load_documents(self) -> Documents:
        file = self._segment.open_file(self._file_name("docs"))
        rows = file.read(0, file.num_rows, ["_rowid", "_num_tokens"])
        with reading(file.name):
            order = np.argsort(numbers_of(rows.column(0), np.uint64), kind="stable")
            lengths = numbers_of(rows.column(1), np.uint32)[order]
        keys = self._segment.present(self._stored_keys)
        return Documents(keys, lengths, int(lengths.sum(dtype=np.uint64)))

    @property
    def _stored_keys(self) -> Keys:
        """The row keys of the documents as the files have them, ascending."""

        def load() -> Keys:
            file = self._segment.open_file(self._file_name("docs"))
            rows = file.read(0, file.num_rows, ["_rowid"])
            with reading(file.name):
                keys = np.sort(numbers_of(rows.column(0), np.uint64))
                if (keys[1:] == keys[:-1]).any():
                    raise ValueError("a document is there twice")
            return keys

        return self._segment.kept("stored keys", load, lambda keys: keys.nbytes)

    @property
    def _starts(self) -> npt.NDArray[np.int64]:
        """The first row of the postings of each term, and the end of all."""

        def load() -> npt.NDArray[np.int64]:
            file = self._postings_file
            with reading(file.name):
                starts = json.loads(file.metadata.get("offsets", b"null"))
                if not isinstance(starts, list) or not all(type(start) is int for start in starts):
                    raise ValueError("offsets of the posting lists are no list of numbers")
                found = np.array([*starts, file.num_rows], np.int64)
                if found[0] != 0 or (found[1:] < found[:-1]).any():
                    raise ValueError("offsets of the posting lists do not ascend to the number of postings")
            return found

        return self._segment.kept("offsets", load, lambda starts: starts.nbytes)

    @property
    def _num_lists(self) -> int:
        return len(self._starts) - 1

    def _posting_bytes(self, postings: Postings) -> int:
        return super()._posting_bytes(postings) + 6 * len(postings)

    def _load_postings(self, number: int) -> Postings:
        (postings,) = self._load_lists(number, number + 1)
        return postings

    def _load_lists(self, start: int, end: int) -> Iterator[Postings]:
        file = self._postings_file
        starts = self._starts[start : end + 1]
        rows = file.read(int(starts[0]), int(starts[-1]), ["_rowid", "_frequency"])
        with reading(file.name):
            keys = numbers_of(rows.column(0), np.uint64)
            frequencies = _whole(numbers_of(rows.column(1), np.float32))
            for first, last in zip(starts[:-1] - starts[0], starts[1:] - starts[0], strict=True):
                documents, order = self._documents_of(keys[first:last])
                yield posting_list(documents, frequencies[first:last][order], len(self._stored_keys))

    def _documents_of(self, keys: Keys) -> tuple[Numbers, npt.NDArray[np.intp]]:
        """Return the numbers of documents, ascending, and the order in which this sorts them."""
        if not are_among(self._stored_keys, keys).all():
            raise ValueError("a posting list names an unknown document")
        order = np.argsort(keys, kind="stable")
        documents = np.searchsorted(self._stored_keys, keys[order])
        return documents.astype(np.uint32), order

    def _decode_positions(self, number: int, frequencies: Block) -> Block | memoryview:
        file = self._postings_file
        start, end = map(int, self._starts[number : number + 2])
        rows = file.read(start, end, ["_rowid", "_position"])
        with reading(file.name):
            _, order = self._documents_of(numbers_of(rows.column(0), np.uint64))
            lists = rows.column(1).take(pa.array(order))
            counts = np.asarray(lists.value_lengths().fill_null(0), np.uint32)
            if not np.array_equal(counts, uint32s(frequencies)):
                raise ValueError("positions of a term do not fit its frequencies")
            return memoryview(numbers_of(lists.flatten(), np.uint32).tobytes())

    def _file_name(self, kind: str) -> str:
        return f"{kind}.lance"


def _whole(frequencies: npt.NDArray[np.float32]) -> Numbers:
    """Return frequencies, which the files have as floats; `ValueError` if one is no frequency."""
    if not ((frequencies >= 1) & (frequencies < 1 << 31)).all():
        raise ValueError("a frequency is less than 1")
    return frequencies.astype(np.uint32)


def posting_list(documents: Numbers, frequencies: Numbers, num_documents: int) -> Postings:
    """Return the posting list of ascending documents below `num_documents`, in blocks of full width."""
    num_blocks = len(documents) // _BLOCK
    full = num_blocks * _BLOCK
    blocks = np.zeros(num_blocks, _FULL_BLOCK)
    blocks["difference_bits"] = blocks["frequency_bits"] = 32
    if num_blocks:
        grid = documents[:full].reshape(num_blocks, _BLOCK)
        blocks["first"] = grid[:, 0]
        blocks["differences"] = np.diff(grid, axis=1, prepend=grid[:, :1])
        blocks["frequencies"] = frequencies[:full].reshape(num_blocks, _BLOCK)
    ends = _FULL_BLOCK.itemsize * np.arange(1, num_blocks + 1, dtype=np.int64)
    data = blocks.tobytes()
    if full < len(documents):
        data += bytes(4) + documents[full:].tobytes() + frequencies[full:].tobytes()
        ends = np.append(ends, len(data))
    return Postings(data, ends.data, len(documents), num_documents, _BLOCK, True)
