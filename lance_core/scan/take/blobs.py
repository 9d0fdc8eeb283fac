"""Blobs of single rows: as files that are read on demand, or as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.scan.files.data_files import DataFiles, FragmentFiles
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import ROW_ADDRESS, DataColumn, project, project_taken
from lance_core.scan.read.blobs import BlobPlace, BlobSource, read_places
from lance_core.scan.take.keys import Keys, as_keys, fragments_of, grouped, positions
from lance_core.scan.take.row_taker import RowTaker
from lance_core.schema import leaves
from lance_core.table.snapshot import Snapshot

_TAKERS = {"ids": RowTaker.by_row_id, "addresses": RowTaker.by_address, "indices": RowTaker.by_offset}


@dataclass(frozen=True, slots=True)
class FoundBlobs:
    """The blobs of chosen rows, in the order of the choice."""

    addresses: list[int]
    """Address of each row."""
    places: list[BlobPlace | None]
    """Location of the bytes of each value; None for a null."""

    def read(self) -> list[tuple[int, bytes | None]]:
        """Return the address of each row with the bytes of its value, all read at once."""
        values = (None if value is None else bytes(memoryview(value)) for value in read_places(self.places))
        return list(zip(self.addresses, values, strict=True))


def find_blobs(snapshot: Snapshot, files: DataFiles, column: str, **keys: Any) -> FoundBlobs:
    """Return the blobs of rows.

    Args:
        snapshot: Version to read.
        files: Files of the table.
        column: Name or dotted path of a blob column.
        keys: `ids`, `addresses` or `indices`; exactly one of them is not None.

    Raises:
        InvalidInputError: Not exactly one of the keys is given, the column has no blobs, or an id has no row.
        UnsupportedFeatureError: An address belongs to a deleted row.
        LanceError: A page or a deletion file cannot be read.
    """
    given = {name: as_keys(values, name) for name, values in keys.items() if values is not None}
    if len(given) != 1:
        raise InvalidInputError(
            "Exactly one of ids, indices, or addresses must be specified", found=sorted(given) or "none"
        )
    ((name, wanted),) = given.items()
    projected = project(snapshot.manifest.schema, ScanOptions(columns=(column,))).columns[0]
    if not isinstance(projected, DataColumn):
        raise InvalidInputError("not a blob column", column=column)
    (blob, *others) = leaves(projected.field)
    is_listed = any(field.children and field.logical_type != "struct" for field in projected.field.walk())
    if others or not blob.is_blob_descriptor or is_listed:
        raise InvalidInputError("not a blob column", column=column)
    taken = project_taken(snapshot.manifest.schema, (column, ROW_ADDRESS))
    rows = _TAKERS[name](RowTaker(snapshot, taken, files), wanted)
    if rows.num_rows != len(wanted):
        _refuse_missing(snapshot, name, wanted, rows.num_rows)
    descriptors, addresses = rows.columns
    for _ in projected.path:  # taken rows have the structs around the field
        (descriptors,) = descriptors.flatten()
    return locate_blobs(snapshot, files, blob.id, column, descriptors, addresses)


def locate_blobs(
    snapshot: Snapshot,
    files: DataFiles,
    field_id: int,
    column: str,
    descriptors: pa.StructArray,
    addresses: pa.Array,
) -> FoundBlobs:
    """Return the blobs that descriptors of rows describe.

    Args:
        snapshot: Version that the rows are from.
        files: Files of the table.
        field_id: Id of the blob field.
        column: Its name, for messages.
        descriptors: Descriptor of each row; null for a null.
        addresses: Address of each row.

    Raises:
        LanceError: A file cannot be opened, or a descriptor points outside its file.
    """
    found: list[BlobPlace | None] = [None] * len(descriptors)
    fragments = snapshot.manifest.fragment_by_id
    for fragment_id, chosen in grouped(fragments_of(addresses.to_numpy())):
        source = _source(FragmentFiles(snapshot, fragments[fragment_id], files), field_id, column)
        if source is None:
            continue
        rows = positions(chosen)
        for row, place in zip(rows.tolist(), source.locate(descriptors.take(pa.array(rows))), strict=True):
            found[row] = place
    return FoundBlobs(addresses.to_pylist(), found)


def read_blob_ranges(
    snapshot: Snapshot,
    files: DataFiles,
    column: str,
    requests: Sequence[tuple[int, int, int]],
    selector: str,
) -> list[tuple[int, int, bytes | None]]:
    """Return the bytes of ranges of blobs.

    Args:
        snapshot: Version to read.
        files: Files of the table.
        column: Name or dotted path of a blob column.
        requests: Row, position in the blob, and number of bytes of each range.
        selector: What the rows are: `ids`, `addresses` or `indices`.

    Returns:
        Number, row address and bytes of each request, in order. The bytes of a null are None.

    Raises:
        InvalidInputError: The selector is none of the three, or a range leaves its blob.
        LanceError: The errors of `find_blobs`.
    """
    if selector not in _TAKERS:
        raise InvalidInputError("selector", expected=f"one of {', '.join(_TAKERS)}", found=repr(selector))
    keys, of_request = np.unique(as_keys([row for row, _, _ in requests], selector), return_inverse=True)
    found = find_blobs(snapshot, files, column, **{selector: keys})
    places: list[BlobPlace | None] = []
    for number, ((row, offset, length), key) in enumerate(zip(requests, of_request.tolist(), strict=True)):
        place = found.places[key]
        try:
            places.append(place and place.part(offset, length))
        except InvalidInputError as error:
            raise InvalidInputError(f"request {number} for row {row}: {error}", column=column) from None
    parts = FoundBlobs([found.addresses[key] for key in of_request.tolist()], places)
    return [(number, address, data) for number, (address, data) in enumerate(parts.read())]


def _refuse_missing(snapshot: Snapshot, kind: str, wanted: Keys, num_found: int) -> None:
    """Raise the error for rows that are deleted: a result without them would not fit the keys."""
    expected, found = f"{len(wanted)} rows", f"{num_found} rows"
    if kind == "ids" and snapshot.manifest.has_stable_row_ids:
        raise InvalidInputError("row ids without a live row", expected=expected, found=found)
    raise UnsupportedFeatureError(
        "A take operation that includes row addresses must not target deleted rows",
        expected=expected,
        found=found,
    )


def _source(files: FragmentFiles, field_id: int, column: str) -> BlobSource | None:
    """Return the data file of a fragment with the descriptors of a blob field; None if there is none."""
    for data_file in files.data_files:
        if field_id in data_file.columns:
            return BlobSource.open(files, data_file, column)
    return None
