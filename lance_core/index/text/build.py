"""Writing of full text indices.

Texts become terms, which are gathered in memory until they reach a limit. The gathered documents then become
a partition of the index: a dictionary and posting lists of its own. So memory is bounded, whatever the size
of the table is.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyroaring

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.index.build import BuiltSegment, IndexedRows, Parameters
from lance_core.index.json.documents import is_json
from lance_core.index.progress import stage
from lance_core.index.segment_files import SegmentFiles
from lance_core.index.segment_writer import SMALL_PAGE_BYTES, SegmentWriter
from lance_core.index.text.arrays import float32s, int32s, int64s, uint32s
from lance_core.index.text.dictionary import map_of
from lance_core.index.text.json_analyzer import analyzer_of
from lance_core.index.text.old_partition import TERMS_FILE, old_parameters
from lance_core.index.text.parameters import TextParameters, parameters_of, parse_parameters
from lance_core.index.text.partition import reading
from lance_core.index.text.segment import METADATA_FILE
from lance_core.kernels import Block, TermCollector
from lance_core.proto import index_pb2

_NEW_VERSION = 2
_VERSIONS = (1, 2)
_MEMORY_BYTES = 512 << 20
_MIB = 1 << 20
_TERMS_AT_ONCE = 1 << 13
_BLOCKS = {"posting_block_size": "128"}
_TAIL = {1: {"posting_tail_codec": "fixed32_v1"}, 2: {"posting_tail_codec": "varint_delta_v1"}}
_POSITIONS = {"positions_layout": "shared_stream_v2", "positions_codec": "packed_delta_v1"}
"""Metadata of format 2 with positions."""
_STRINGS = pa.list_(pa.list_(pa.large_binary()))
"""Type of the positions of format 1: strings of the documents of a term."""
_BUILD_OPTIONS = ("memory_limit", "num_workers", "format_version", "document_granularity")
"""Options that are not stored with the index."""


def check_texts(field: pa.Field) -> None:
    """Raise `TypeError` if a column cannot have a full text index."""
    if is_json(field):
        return
    kind = field.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise TypeError(f"expected texts, lists of texts or JSON, found {field.type}")


def text_parameters(files: SegmentFiles) -> Parameters:
    """Return the parameters of a full text index; see `lance_core.index.build.IndexKind.parameters_of`."""
    name = _metadata_file(files)
    with files.source(name) as source, reading(source.name):
        if name == TERMS_FILE:
            options = old_parameters(source.metadata)
        else:
            options = parse_parameters(source.metadata.get("params", b"null"))
        version = source.metadata.get("format_version")
    found = {each.name: getattr(options, each.name) for each in fields(options) if each.name != "block_size"}
    return {**found, "format_version": 1} if version == b"1" else found


def _metadata_file(files: SegmentFiles) -> str:
    """Return the name of the file with the parameters of a segment, or of a partition not merged yet."""
    staged = (name for name in files.sizes if name.startswith("staging/") and name.endswith(METADATA_FILE))
    return next(staged, METADATA_FILE if files.has(METADATA_FILE) else TERMS_FILE)


def text_statistics(files: SegmentFiles) -> dict[str, Any]:
    """Return the parameters of a full text index, and the number of its documents and of the terms of all
    partitions; see `lance_core.index.build.IndexKind.statistics_of`.
    """
    name = _metadata_file(files)
    is_old = name == TERMS_FILE
    with files.source(name) as source, reading(source.name):
        parameters = json.loads(source.metadata.get("tokenizer" if is_old else "params", b"null"))
        numbers = json.loads(source.metadata.get("partitions", b"[]"))
        prefixes = [""] if is_old else [f"part_{int(number)}_" for number in numbers]
    found = {"params": parameters, "num_tokens": 0, "num_docs": 0}
    for prefix in prefixes:
        for key, kind in (("num_tokens", "tokens" if is_old else "invert"), ("num_docs", "docs")):
            with files.source(f"{prefix}{kind}.lance") as source:
                found[key] += source.num_rows
    return found


def build_text(rows: IndexedRows, parameters: Parameters, writer: SegmentWriter) -> BuiltSegment:
    """Write the files of a full text index; see `lance_core.index.build.Builder`.

    `parameters` are the fields of `TextParameters`, `memory_limit` (MiB that the gathered terms may take, 512
    unless given), `format_version` (2, or 1 for old releases), and options of the reference that have no
    effect here or only one value: `num_workers` and `document_granularity` ("row").
    """
    options, build = _options_of(rows, parameters), _checked(parameters)
    partitions = _write_partitions(rows, options, build, writer, 0)
    with stage(rows.observer, "write_metadata", 1, "files") as advance:
        write_metadata(writer, _metadata(options, build.version, partitions))
        advance(1)
    return BuiltSegment(build.version, text_details(options, build.version))


def stage_text(
    rows: IndexedRows, parameters: Parameters, writer: SegmentWriter, first_partition: int
) -> None:
    """Write partitions of a full text index that several machines build; see `merge_staged_text`.

    Args:
        rows, parameters, writer: Those of `build_text`.
        first_partition: Number of the first partition, of which no other machine has a number.
    """
    options, build = _options_of(rows, parameters), _checked(parameters)
    partitions = _write_partitions(rows, options, build, writer, first_partition)
    with stage(rows.observer, "write_metadata", len(partitions), "files") as advance:
        for number in partitions:
            metadata = _metadata(options, build.version, [number])
            writer.write(f"part_{number}_{METADATA_FILE}", pa.schema([]), [], metadata=metadata)
            advance(1)


def _options_of(rows: IndexedRows, parameters: Parameters) -> TextParameters:
    options = parameters_of({name: value for name, value in parameters.items() if name not in _BUILD_OPTIONS})
    options = replace(options, lance_tokenizer="json" if is_json(rows.field) else "text")
    if options.block_size != 128:
        raise UnsupportedFeatureError(
            "block size of a new full text index", expected="128", found=options.block_size
        )
    return options


def _write_partitions(
    rows: IndexedRows, options: TextParameters, build: _Build, writer: SegmentWriter, first: int
) -> list[int]:
    """Write all rows as partitions, one at least. Return their numbers, which begin with `first`."""
    partitions: list[int] = []
    with stage(rows.observer, "load_data"):  # stages are those of the reference
        scanned = rows.scan()
    with stage(rows.observer, "tokenize_docs", rows.num_rows) as advance:
        gathered = _Gathered(options, build.version)
        for batch in scanned:
            gathered.add(batch)
            advance(batch.num_rows)
            if gathered.num_bytes > build.most_bytes:
                partitions.append(first + len(partitions))
                gathered.write(partitions[-1], writer)
                gathered = _Gathered(options, build.version)
    with stage(rows.observer, "copy_partitions", 1, "partitions") as advance:
        if gathered.num_documents or not partitions:
            partitions.append(first + len(partitions))
            gathered.write(partitions[-1], writer)
        advance(1)
    return partitions


class _Build(NamedTuple):
    """Options of a build that are not stored.

    Attributes:
        version: Version of the files.
        most_bytes: Bytes that gathered terms may take.
    """

    version: int
    most_bytes: int


def _checked(parameters: Mapping[str, object]) -> _Build:
    """Check the options that are not stored."""
    given = parameters.get("format_version")
    names = {str(version): version for version in _VERSIONS}
    version = _NEW_VERSION if given is None else names.get(str(given).removeprefix("v"))
    if version is None:
        raise InvalidInputError("unsupported FTS format version", expected="1 or 2", found=given)
    granularity = parameters.get("document_granularity") or "row"
    if getattr(granularity, "value", granularity) != "row":
        raise UnsupportedFeatureError("document_granularity", expected="row", found=granularity)
    limit = parameters.get("memory_limit")
    if limit is None:
        return _Build(version, _MEMORY_BYTES)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidInputError("memory_limit", expected="a number of MiB", found=limit)
    return _Build(version, limit * _MIB)


class _Gathered:
    """Terms of documents that will be one partition."""

    def __init__(self, options: TextParameters, version: int) -> None:
        self._options = options
        self._version = version
        self._analyzer = analyzer_of(options)
        self._collector = TermCollector(options.with_position, version)
        self._row_keys: list[npt.NDArray[np.uint64]] = []
        self._lengths: list[npt.NDArray[np.uint32]] = []

    @property
    def num_documents(self) -> int:
        return self._collector.num_documents

    @property
    def num_bytes(self) -> int:
        """Memory of the terms, and of what writing them takes."""
        return 2 * self._collector.num_bytes + self._analyzer.num_bytes + 16 * self.num_documents

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows: texts, and row keys."""
        words = self._analyzer.read(batch.column(0))
        counts = self._collector.add(
            words.numbers,
            words.positions if self._options.with_position else None,
            words.ends,
            self._analyzer.terms.data,
        )
        lengths = uint32s(counts)
        has_terms = lengths > 0
        self._lengths.append(lengths[has_terms])
        self._row_keys.append(batch.column(1).to_numpy()[has_terms])

    def write(self, number: int, writer: SegmentWriter) -> None:
        """Write the files of the partition with a number. Nothing can be added afterwards."""
        row_keys = np.concatenate([np.empty(0, np.uint64), *self._row_keys])
        lengths = np.concatenate([np.empty(0, np.uint32), *self._lengths])
        self._row_keys, self._lengths = [], []
        order = None
        if (row_keys[1:] < row_keys[:-1]).any():
            order = np.argsort(row_keys, kind="stable").astype(np.uint32)
            row_keys, lengths = row_keys[order], lengths[order]
        terms, ranks, num_bytes = map_of(self._analyzer.vocabulary)
        self._collector.sort(None if order is None else order.data, ranks.data)
        schema = pa.schema([_required("_rowid", pa.uint64()), _required("_num_tokens", pa.uint32())])
        writer.write(
            f"part_{number}_docs.lance",
            schema,
            [pa.record_batch([pa.array(row_keys), pa.array(lengths)], schema=schema)],
            metadata={"total_tokens": str(int(lengths.sum(dtype=np.uint64)))},
            page_bytes=SMALL_PAGE_BYTES,
        )
        schema = pa.schema(
            [
                _required("_token_fst_bytes", pa.large_binary()),
                _required("_token_next_id", pa.uint32()),
                _required("_token_total_length", pa.uint64()),
            ]
        )
        values = [terms, len(ranks), num_bytes]
        columns = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
        writer.write(f"part_{number}_tokens.lance", schema, [pa.record_batch(columns, schema=schema)])
        writer.write(
            f"part_{number}_invert.lance",
            self._postings_schema,
            self._postings(len(ranks)),
            metadata=_postings_metadata(self._options, self._version),
            page_bytes=SMALL_PAGE_BYTES,
        )

    @property
    def _postings_schema(self) -> pa.Schema:
        fields = [
            _required("_posting", pa.list_(pa.large_binary())),
            _required("_max_score", pa.float32()),
            _required("_length", pa.uint32()),
        ]
        if self._options.with_position and self._version == 1:
            fields.append(_required("_position", _STRINGS))
        elif self._options.with_position:
            fields += [
                _required("_compressed_position", pa.large_binary()),
                _required("_position_block_offset", pa.list_(pa.uint32())),
            ]
        return pa.schema(fields)

    def _postings(self, num_terms: int) -> Iterator[pa.RecordBatch]:
        schema = self._postings_schema
        first = 0
        while first < num_terms:
            end = min(first + _TERMS_AT_ONCE, num_terms)
            data, block_ends, list_ends, bounds, lengths, positions, position_ends, starts, string_ends = (
                self._collector.encode(first, end)
            )
            first += len(uint32s(lengths))
            lists = _offsets(int32s(list_ends))
            columns = [
                pa.ListArray.from_arrays(lists, _binary(block_ends, data)),
                pa.array(float32s(bounds)),
                pa.array(uint32s(lengths)),
            ]
            if self._options.with_position and self._version == 1:
                strings = pa.ListArray.from_arrays(
                    _offsets(int64s(string_ends).astype(np.int32)), _binary(position_ends, positions)
                )
                documents = _offsets(np.cumsum(uint32s(lengths), dtype=np.int32))
                columns.append(pa.ListArray.from_arrays(documents, strings))
            elif self._options.with_position:
                columns += [
                    _binary(position_ends, positions),
                    pa.ListArray.from_arrays(lists, pa.array(uint32s(starts))),
                ]
            yield pa.record_batch(columns, schema=schema)


def write_metadata(
    writer: SegmentWriter, metadata: Mapping[str, str], deleted_fragments: pyroaring.BitMap | None = None
) -> None:
    """Write the file that describes a segment.

    Args:
        writer: Writer of the segment.
        metadata: Metadata of the file's schema, which names the partitions.
        deleted_fragments: Fragments whose rows are left out, although documents of them may be there.
    """
    schema = pa.schema([_required("deleted_fragments", pa.binary())])
    left_out = pa.array([bytes((deleted_fragments or pyroaring.BitMap()).serialize())], pa.binary())
    writer.write(METADATA_FILE, schema, [pa.record_batch([left_out], schema=schema)], metadata=metadata)


def _postings_metadata(options: TextParameters, version: int) -> dict[str, str]:
    """Return the metadata of a file of posting lists."""
    positions = _POSITIONS if options.with_position and version > 1 else {}
    return {"format_version": str(version), **_BLOCKS, **_TAIL[version], **positions}


def _metadata(options: TextParameters, version: int, partitions: list[int]) -> dict[str, str]:
    return {
        **_postings_metadata(options, version),
        "params": options.to_json(),
        "partitions": json.dumps(partitions),
        "token_set_format": "fst",
    }


def text_details(options: TextParameters, version: int) -> bytes:
    """Return the details of an index for the manifest."""
    details = index_pb2.InvertedIndexDetails(
        base_tokenizer=options.base_tokenizer,
        language=json.dumps(options.language),
        with_position=options.with_position,
        max_token_length=options.max_token_length,
        lower_case=options.lower_case,
        stem=options.stem,
        remove_stop_words=options.remove_stop_words,
        ascii_folding=options.ascii_folding,
        min_ngram_length=options.min_ngram_length,
        max_ngram_length=options.max_ngram_length,
        prefix_only=options.prefix_only,
        block_size=options.block_size,
        posting_format_version=version,
    )
    return details.SerializeToString(deterministic=True)


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _offsets(ends: npt.NDArray[np.integer]) -> pa.Array:
    return pa.array(np.concatenate([np.zeros(1, ends.dtype), ends]))


def _binary(ends: Block, data: Block) -> pa.Array:
    """Return byte strings from their ends in `data`."""
    offsets = _offsets(int64s(ends))
    buffers = [None, offsets.buffers()[1], pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
