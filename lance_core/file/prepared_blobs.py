"""Blobs of version 2 whose bytes are stored already, in side files that a caller wrote.

A column of such blobs is a struct of `PREPARED`. Only single data files take it: the caller answers for the
side files.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.v2_1.encoders.blob import PLACED
from lance_core.errors import InvalidInputError
from lance_core.schema import Field

INLINE, PACKED, DEDICATED = 0, 1, 2
"""Kinds: in the data file, in a shared side file, in a side file of its own."""

PREPARED = pa.struct(
    [
        ("kind", pa.uint8()),
        ("data", pa.large_binary()),
        ("uri", pa.utf8()),
        ("blob_id", pa.uint32()),
        ("blob_size", pa.uint64()),
        ("position", pa.uint64()),
    ]
)
"""Type of the column, as in the reference. A value in the data file has only `data`."""

_NAMES = [member.name for member in PREPARED]


def is_prepared(field: Field) -> bool:
    """Return whether a blob field has blobs that are stored already."""
    return [child.name for child in field.children] == _NAMES


def place_prepared(values: pa.StructArray, field: Field) -> pa.StructArray:
    """Return prepared blobs as values of the type `PLACED`.

    Raises:
        InvalidInputError: A value has an unknown kind, or lacks a member that its kind needs.
    """
    members = dict(zip(_NAMES, values.flatten(), strict=True))
    kind, is_valid = members["kind"], values.is_valid()
    is_inline = pc.equal(kind, INLINE)
    in_file = pc.is_in(kind, pa.array([PACKED, DEDICATED], kind.type))
    has_place = pc.and_(members["blob_id"].is_valid(), members["blob_size"].is_valid())
    has_bytes = pc.or_(pc.and_(is_inline, members["data"].is_valid()), pc.and_(in_file, has_place))
    if not pc.all(pc.or_(pc.invert(is_valid), has_bytes.fill_null(False))).as_py():
        row = pc.index(pc.and_not(is_valid, has_bytes.fill_null(False)), True).as_py()
        raise InvalidInputError(
            "descriptor of a blob",
            column=field.name,
            expected="data in the data file, or the id and the size of a side file",
            found=values[row].as_py(),
        )
    data = pc.if_else(is_inline, members["data"], b"")
    placed = {
        "data": data.fill_null(b"").cast(pa.large_binary()),
        "uri": pa.array([""] * len(values), pa.utf8()),
        "kind": kind.fill_null(0),
        "position": members["position"].fill_null(0),
        "size": pc.if_else(is_inline, pa.scalar(0, pa.uint64()), members["blob_size"]).fill_null(0),
        "blob_id": members["blob_id"].fill_null(0),
    }
    mask = values.is_null() if values.null_count else None
    return pa.StructArray.from_arrays([placed[each.name] for each in PLACED], fields=list(PLACED), mask=mask)
