"""Full text indices in the layout of releases before 0.30, written from the documents of a table."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from lance.file import LanceFileWriter

import lance_core

OPTIONS: dict[str, Any] = {"stem": False, "remove_stop_words": False, "ascii_folding": False}


def with_old_index(
    dataset: lance_core.LanceDataset,
    column: str = "text",
    *,
    with_position: bool = True,
    tokenizer: Mapping[str, Any] | None = None,
) -> lance_core.LanceDataset:
    """Return the next version of a table, whose full text index on a column has old files.

    Words are what blanks divide; the texts have no others.

    Args:
        dataset: The table. All its rows get into the index.
        column: The column.
        with_position: Whether the index has positions.
        tokenizer: Options to store instead of those of the words.
    """
    dataset.create_scalar_index(column, "INVERTED", with_position=with_position, **OPTIONS)
    (made,) = dataset.read_transaction(dataset.version).operation.new_indices
    old = replace(made, uuid=str(uuid4()), files=None, index_version=0)
    folder = Path(dataset.uri) / "_indices" / old.uuid
    folder.mkdir()
    rows = dataset.to_table([column], with_row_id=True)
    lengths: dict[int, int] = {}
    postings: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row, text in zip(rows["_rowid"].to_pylist(), rows[column].to_pylist(), strict=True):
        words = (text or "").lower().split()
        if words:
            lengths[row] = len(words)
        for position, word in enumerate(words):
            postings[word][row].append(position)
    terms = sorted(postings, key=lambda term: -sum(map(len, postings[term].values())))
    _write_files(folder, terms, postings, dict(reversed(lengths.items())), with_position)
    stored = {"base_tokenizer": "simple", "language": "English", "max_token_length": 40, "lower_case": True}
    stored |= OPTIONS | {"with_position": with_position}
    numbers = {term: number for number, term in enumerate(terms)}
    named = sorted(numbers, key=str.encode)
    schema = pa.schema(
        [_required("_token", pa.string()), _required("_token_id", pa.uint32())],
        {"tokenizer": json.dumps(dict(tokenizer if tokenizer is not None else stored))},
    )
    columns = [pa.array(named), pa.array([numbers[term] for term in named], pa.uint32())]
    write_file(folder / "tokens.lance", pa.RecordBatch.from_arrays(columns, schema=schema))
    operation = lance_core.LanceOperation.CreateIndex(new_indices=[old], removed_indices=[made])
    return lance_core.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)


def _write_files(
    folder: Path,
    terms: list[str],
    postings: Mapping[str, Mapping[int, list[int]]],
    lengths: Mapping[int, int],
    with_position: bool,
) -> None:
    """Write the postings and the documents, which are not in the order of the rows."""
    schema = pa.schema(
        [
            pa.field("_rowid", pa.uint64(), nullable=False),
            pa.field("_num_tokens", pa.uint32(), nullable=False),
        ]
    )
    documents = [pa.array(list(lengths), pa.uint64()), pa.array(list(lengths.values()), pa.uint32())]
    write_file(folder / "docs.lance", pa.RecordBatch.from_arrays(documents, schema=schema))
    offsets, rows, frequencies, positions = [], [], [], []
    for term in terms:
        offsets.append(len(rows))
        for row, places in sorted(postings[term].items()):
            rows.append(row)
            frequencies.append(float(len(places)))
            positions.append(places)
    fields = [_required("_rowid", pa.uint64()), _required("_frequency", pa.float32())]
    columns = [pa.array(rows, pa.uint64()), pa.array(frequencies, pa.float32())]
    if with_position:
        fields.append(_required("_position", pa.list_(pa.int32())))
        columns.append(pa.array(positions, pa.list_(pa.int32())))

    metadata = {"offsets": json.dumps(offsets), "max_scores": json.dumps([100.0] * len(terms))}
    schema = pa.schema(fields, metadata)
    write_file(folder / "invert.lance", pa.RecordBatch.from_arrays(columns, schema=schema))


def write_file(path: Path, batch: pa.RecordBatch) -> None:
    """Write a file as those releases did, in the place of another one."""
    path.unlink(missing_ok=True)
    with LanceFileWriter(str(path), batch.schema, version="2.0") as writer:
        writer.write_batch(batch)


def _required(name: str, data_type: pa.DataType) -> pa.Field:
    return pa.field(name, data_type, nullable=False)
