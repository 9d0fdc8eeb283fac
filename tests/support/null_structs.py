"""Structs that the reference cannot read: it miscounts their nulls beside null or empty lists in small pages.

It fails with "Incorrect number of nulls for StructArray, expected 2 got 1". The smallest table is a
`struct<l: list<int32>>` with the rows null and {l: null} in pages of one row, written by itself. With other
leaves beside it the same rows may make it panic over an array that is too short.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path

import lance
import pyarrow as pa

from lance_core.file.metadata import read_file_metadata
from lance_core.storage import storage_for
from support.reference import PanicException, read_reference, write_reference_pages

_PANIC = "assertion failed: end <= self.len()"
_MESSAGE = re.compile(r"Incorrect number of nulls for StructArray, expected \d+ got \d+")


def miscount(error: BaseException) -> str:
    """Return the part of the message with both numbers where the reference failed so; else empty."""
    found = _MESSAGE.search(str(error))
    return found[0] if found else ""


def miscounts_its_own(
    error: BaseException, source: pa.Table, written: Path, version: str, scratch: Path
) -> bool:
    """Return whether the reference fails with this very message, numbers included, or panics, on pages of
    its own.

    `written` is a dataset that holds `source`. The reference writes the structs of each file to `scratch`
    with one of their leaves, in the pages that the file has: leaves of one struct may differ in theirs.
    """
    message = miscount(error)
    return bool(message) and any(
        _failure(leaf, cuts, version, scratch) in (message, _PANIC)
        for rows, page_cuts in _files(written, source)
        for cuts in sorted(page_cuts)
        for column, name in zip(rows.columns, rows.column_names, strict=True)
        for leaf in _single_leaves(column, name)
    )


def _failure(leaf: pa.Table, cuts: tuple[int, ...], version: str, path: Path) -> str:
    shutil.rmtree(path, ignore_errors=True)
    try:
        pages = [
            leaf.slice(start, end - start).combine_chunks().to_batches()[0] for start, end in pairwise(cuts)
        ]
        write_reference_pages(pages, path, version)
        read_reference(path)
    except PanicException as error:
        return _PANIC if _PANIC in str(error) else ""
    except (OSError, pa.ArrowInvalid) as error:
        return miscount(error)
    return ""


def _files(dataset: Path, source: pa.Table) -> Iterator[tuple[pa.Table, set[tuple[int, ...]]]]:
    """Yield the rows of each data file, and where pages of its columns begin and end."""
    start = 0
    for fragment in lance.dataset(str(dataset)).get_fragments():
        (file,) = fragment.data_files()
        rows = source.slice(start, fragment.count_rows())
        start += rows.num_rows
        metadata = read_file_metadata(storage_for(str(dataset), None).open_file(f"data/{file.path}"))
        lengths = (
            [page.num_rows for page in metadata.column(index).pages] for index in range(metadata.num_columns)
        )
        yield rows, {tuple(accumulate(pages, initial=0)) for pages in lengths}


def _single_leaves(column: pa.ChunkedArray, name: str) -> Iterator[pa.Table]:
    """Yield a column of structs with one of the leaves at a time; nothing for other columns.

    In chunks as it is: dictionaries of several may not go together.
    """
    if pa.types.is_struct(column.type):
        for chunks in zip(*map(_leaves, column.chunks), strict=True):
            yield pa.table({name: pa.chunked_array(chunks)})


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    if not pa.types.is_struct(array.type):
        yield array
        return
    for position, field in enumerate(array.type):
        for leaf in _leaves(array.field(position)):
            yield pa.StructArray.from_arrays(
                [leaf], fields=[field.with_type(leaf.type)], mask=array.is_null()
            )
