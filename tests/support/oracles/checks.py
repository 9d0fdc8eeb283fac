"""Checks of one written dataset: whole table, row ranges and nested projections, all exactly."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import event

from lance_core.api.dataset import dataset as open_dataset
from support.oracles.comparison import TableDifferenceError, assert_tables_equal, assert_values_equal
from support.tables.cases import Case
from support.tables.null_structs import miscount
from support.tables.reference import (
    PANICS,
    read_reference,
    reference_schema,
    write_reference,
    write_reference_pages,
)

RANGES_PER_CASE = 2
TAKEN_ROWS = 12
MOST_PROJECTED = 24
VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def write_case(case: Case, version: str, path: Path) -> pa.Table:
    """Write the case with the reference; returns the source data."""
    batches = case.batches()
    source = pa.Table.from_batches(batches)
    if case.pages > 1:
        write_reference_pages(batches, path, version)
    else:
        write_reference(source, path, version)
    return source


def expected_table(case: Case, path: Path, source: pa.Table) -> pa.Table:
    """Return the table that the reference reads. It must equal the source, or the cell belongs into
    `LEFT_OUT`.
    """
    stored = as_stored(source, path)
    if case.reference_fails:
        return stored
    expected = read_reference(path)
    for name in source.schema.names:
        assert_values_equal(
            stored[name], expected[name], label=f"{case.name}: reference against source: {name}"
        )
    return expected


def as_stored(source: pa.Table, path: Path) -> pa.Table:
    """Return the source under the dataset's schema: views are stored as plain strings and binaries."""
    schema = reference_schema(path)
    columns = [
        source[field.name].cast(VIEWS[source[field.name].type])
        if source[field.name].type in VIEWS
        else source[field.name]
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def write_generated(case: Case, path: Path) -> tuple[Case, pa.Table] | None:
    """Write a generated case; returns it with what has to be read, or None where the reference refuses it.

    Where the reference misreads its own file, the source is the truth.
    """
    try:
        source = write_case(case, case.versions[0], path)
    except (OSError, pa.ArrowInvalid, *PANICS) as error:
        event(f"the reference does not write it: {type(error).__name__}")
        return None
    try:
        return case, expected_table(case, path, source)
    except (OSError, pa.ArrowInvalid, *PANICS, TableDifferenceError) as error:
        event(f"the reference does not read it: {type(error).__name__}")
        case = replace(case, reference_fails=str(error))
        return case, expected_table(case, path, source)


def check_local(case: Case, path: Path, expected: pa.Table, *, of_reference: bool = False) -> None:
    """Our reading of the dataset: all of it, ranges of rows, children of structs.

    Where the reference wrote the dataset and miscounts nulls of structs when it reads only some of their
    children (see `null_structs`), what is expected of these is cut out of `expected`.
    """
    dataset = open_dataset(str(path))
    assert dataset.count_rows() == expected.num_rows
    assert_tables_equal(expected, dataset.to_table(), label=case.name)

    for offset, limit in _row_ranges(case, expected.num_rows):
        found = dataset.to_table(offset=offset, limit=limit)
        assert_tables_equal(
            expected.slice(offset, limit), found, label=f"{case.name}, offset={offset} limit={limit}"
        )

    for rows in _single_rows(case, expected.num_rows):
        chosen = pa.concat_tables([expected.slice(0, 0), *(expected.slice(row, 1) for row in rows)])
        assert_tables_equal(chosen, dataset.take(rows), label=f"{case.name}, rows={rows}")

    if case.reference_fails:
        return
    paths = [path for field in expected.schema for path in _struct_children(field)]
    for chosen in _subsets(paths, case):
        try:
            projected = read_reference(path, columns=chosen)
        except pa.ArrowInvalid as error:
            if not (of_reference and miscount(error)):
                raise
            projected = _cut_out(expected, chosen)
        found = dataset.to_table(columns=chosen)
        assert_tables_equal(projected, found, label=f"{case.name}, columns={chosen}")


def _cut_out(table: pa.Table, paths: list[str]) -> pa.Table:
    """Children of structs by dotted paths, as projections name them; null where a struct above is."""
    fields, columns = [], []
    for path in paths:
        top, *names = path.split(".")
        field, nullable = table.schema.field(top), table.schema.field(top).nullable
        for name in names:
            field = field.type.field(name)
            nullable = nullable or field.nullable
        fields.append(field.with_name(path).with_nullable(nullable))
        columns.append(pc.struct_field(table[top], names))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _row_ranges(case: Case, rows: int) -> Iterator[tuple[int, int]]:
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    for _ in range(RANGES_PER_CASE if rows > 1 else 0):
        offset = int(rng.integers(0, rows))
        yield offset, int(rng.integers(1, rows - offset + 1))


def _single_rows(case: Case, rows: int) -> Iterator[list[int]]:
    """Rows to take: none, one, many with both ends, one of them twice, in any order."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    yield []
    if rows:
        scattered = [0, rows - 1, *rng.integers(0, rows, TAKEN_ROWS).tolist()]
        neighbours = range(scattered[2], min(rows, scattered[2] + 3))
        yield rng.permutation([*scattered, *neighbours, scattered[-1]]).tolist()
        yield [scattered[-1]]


def _struct_children(field: pa.Field, prefix: str = "") -> Iterator[str]:
    """Dotted paths of what lies in structs (not below lists: the reference cannot project there)."""
    if not pa.types.is_struct(field.type) or (field.metadata or {}).get(b"lance-encoding:packed"):
        return
    for child in field.type:
        yield f"{prefix}{field.name}.{child.name}"
        yield from _struct_children(child, f"{prefix}{field.name}.")


def _subsets(paths: list[str], case: Case) -> Iterator[list[str]]:
    """Many children of structs in one projection, and a few of them in another order."""
    if not paths:
        return
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    yield [paths[index] for index in sorted(rng.permutation(len(paths))[:MOST_PROJECTED])]
    yield [paths[index] for index in rng.permutation(len(paths))[:3]]
