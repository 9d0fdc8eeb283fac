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
from lance_core.scan.plan.projection import (
    ROW_ADDRESS,
    ROW_ID,
    ROW_OFFSET,
    DataColumn,
    project,
    project_taken,
)
from lance_core.scan.read.blobs import BlobPlace, BlobSource, read_places
from lance_core.scan.take.keys import Keys, as_keys, fragments_of, grouped, positions
from lance_core.scan.take.row_taker import RowTaker
from lance_core.schema import leaves
from lance_core.table.snapshot import Snapshot

_KINDS = {"ids": ROW_ID, "addresses": ROW_ADDRESS, "indices": ROW_OFFSET}


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
    taker = BlobTaker(snapshot, files, column)
    return taker.at(taker.addresses(_KINDS[name], wanted))


class BlobTaker:
    """Finder of the blobs of one column of a snapshot.

    Attributes:
        column: Name or dotted path of the column.
    """

    def __init__(self, snapshot: Snapshot, files: DataFiles, column: str) -> None:
        """Find the column in the schema of the snapshot.

        Raises:
            InvalidInputError: There is no such column, or it has no blobs.
        """
        self.column = column
        self._snapshot = snapshot
        self._files = files
        projected = project(snapshot.manifest.schema, ScanOptions(columns=(column,))).columns[0]
        if not isinstance(projected, DataColumn):
            raise InvalidInputError("not a blob column", column=column)
        (blob, *others) = leaves(projected.field)
        is_listed = any(field.children and field.logical_type != "struct" for field in projected.field.walk())
        if others or not blob.is_blob_descriptor or is_listed:
            raise InvalidInputError("not a blob column", column=column)
        self._field_id = blob.id
        self._depth = len(projected.path)
        self._rows = RowTaker(snapshot, project_taken(snapshot.manifest.schema, (column,)), files)

    @property
    def is_remote(self) -> bool:
        """Whether the dataset is in a remote store."""
        return self._snapshot.storage.is_remote

    def addresses(self, kind: str, keys: Keys) -> Keys:
        """Return the address of the row of each key; `kind` is one of `KEY_COLUMNS`.

        Raises:
            InvalidInputError: A key has no row.
            UnsupportedFeatureError: An address belongs to a deleted row.
        """
        addresses = self._rows.addresses.by(kind)(keys)
        check_found(self._snapshot, kind, keys, addresses)
        return addresses

    def at(self, addresses: Keys) -> FoundBlobs:
        """Return the blobs of the rows at these addresses, which `addresses` returned.

        Errors are those of `locate_blobs`.
        """
        (descriptors,) = self._rows.by_address(addresses).columns
        for _ in range(self._depth):  # taken rows have the structs around the field
            (descriptors,) = descriptors.flatten()
        numbers = pa.array(addresses)
        return locate_blobs(self._snapshot, self._files, self._field_id, self.column, descriptors, numbers)


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
    if selector not in _KINDS:
        raise InvalidInputError("selector", expected=f"one of {', '.join(_KINDS)}", found=repr(selector))
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


def check_found(snapshot: Snapshot, kind: str, keys: Keys, addresses: Keys) -> None:
    """Check that every key has an address: a result without some rows would not fit the keys.

    Raises:
        InvalidInputError: A stable row id has no row.
        UnsupportedFeatureError: An address belongs to a deleted row.
    """
    if len(addresses) == len(keys):
        return
    expected, found = f"{len(keys)} rows", f"{len(addresses)} rows"
    if kind == ROW_ID and snapshot.manifest.has_stable_row_ids:
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
