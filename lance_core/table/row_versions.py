"""Row versions: the versions in which each row of a fragment was created and last changed.

A sequence is a list of runs. A run is a version and a span; the number of values in the span is the number of
rows of the run.

Source: docs/format.md, "Row ids and lineage".
"""

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from lance_core.errors import CorruptFileError
from lance_core.proto import rowids_pb2
from lance_core.table.fragment import Fragment, Lineage
from lance_core.table.row_ids import decode_segment

_FIRST_VERSION = 1
"""Version of all rows of a table without these sequences, as in the reference."""

Versions = npt.NDArray[np.uint64]


def read_versions(fragment: Fragment, kind: Lineage) -> Versions:
    """Return the version of every physical row of a fragment, from the sequence in the manifest.

    If the manifest has no sequence, every row has version 1.

    Raises:
        CorruptFileError: the sequence contradicts the format or the number of rows.
        UnsupportedFeatureError: a span is of an unknown kind.
    """
    data = fragment.inline_lineage(kind)
    if data is None:
        return np.full(fragment.physical_rows, _FIRST_VERSION, dtype=np.uint64)
    return decode_versions(data, fragment.physical_rows, f"row versions of fragment {fragment.id}")


def decode_versions(data: bytes, num_rows: int, name: str) -> Versions:
    """Decode a serialized sequence of `num_rows` versions; `name` is for messages. Errors are those of
    `read_versions`.
    """
    try:
        sequence = rowids_pb2.RowDatasetVersionSequence.FromString(data)
    except DecodeError:
        raise CorruptFileError(f"{name} do not decode") from None
    lengths: list[int] = []
    left = num_rows
    for run in sequence.runs:
        lengths.append(len(decode_segment(run.span, left, name)))
        left -= lengths[-1]
    if left:
        raise CorruptFileError(f"{name} are not one per row", expected=num_rows, found=num_rows - left)
    return np.repeat(np.array([run.version for run in sequence.runs], dtype=np.uint64), lengths)
