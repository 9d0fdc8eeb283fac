"""Datasets written by the reference library (`pylance`), which only tests and benchmarks may import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import lance
import pyarrow as pa
from lance.file import LanceFileWriter
from lance.fragment import DataFile, FragmentMetadata

# The class of a panic of the reference's native code is not exported; it derives from BaseException. Other
# modules of a test have a class of this name, too.
PANICS = tuple(c for c in BaseException.__subclasses__() if c.__name__ == "PanicException")
FILE_VERSIONS = ("2.1", "2.2")


def write_reference(table: pa.Table, path: Path, version: str, **options: object) -> lance.LanceDataset:
    """Write `table` as a dataset with the given data storage version."""
    return lance.write_dataset(table, str(path), data_storage_version=version, **options)


def write_reference_pages(batches: Sequence[pa.RecordBatch], path: Path, version: str) -> lance.LanceDataset:
    """Write one fragment in which every batch becomes a page of its own in every column.

    The dataset writer closes a page only when 8 MiB of a column are waiting. The file writer takes that limit
    as an argument, so small batches give many pages; its file is then committed with the field ids and column
    indices of a donor dataset.
    """
    schema = batches[0].schema
    donor = lance.write_dataset(pa.Table.from_batches([batches[0]]), str(path), data_storage_version=version)
    donor_file = donor.get_fragments()[0].metadata.files[0]
    name = "pages.lance"
    with LanceFileWriter(str(path / "data" / name), schema, version=version, data_cache_bytes=1) as writer:
        for batch in batches:
            writer.write_batch(batch)
    file = DataFile(
        name,
        donor_file.fields,
        donor_file.column_indices,
        donor_file.file_major_version,
        donor_file.file_minor_version,
        (path / "data" / name).stat().st_size,
    )
    rows = sum(batch.num_rows for batch in batches)
    operation = lance.LanceOperation.Overwrite(schema, [FragmentMetadata(0, [file], rows)])
    return lance.LanceDataset.commit(str(path), operation, read_version=donor.version)


def read_reference(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Return the whole dataset, or some of its columns, as the reference reads it."""
    return lance.dataset(str(path)).to_table(columns=columns)


def reference_schema(path: Path) -> pa.Schema:
    """Return the schema of the dataset as the reference reports it."""
    return lance.dataset(str(path)).schema
