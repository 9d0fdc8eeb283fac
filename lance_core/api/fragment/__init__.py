"""Fragments of a dataset, with the names of `lance.fragment`.

lance_fragment   LanceFragment: reads of one fragment
changes          the methods of LanceFragment that write files for a later commit
metadata         descriptions of fragments and of their files as plain data
row_id_sequence  the stable row ids of one fragment
session          takes of the same columns of one fragment
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.api.fragment.lance_fragment import LanceFragment
from lance_core.api.fragment.metadata import (
    DataFile,
    DeletionFile,
    FragmentMetadata,
    RowDatasetVersionMeta,
    RowIdMeta,
)
from lance_core.api.fragment.session import FragmentSession
from lance_core.api.names.late import import_late

if TYPE_CHECKING:
    from lance_core.api.fragment.row_id_sequence import RowIdSequence
    from lance_core.api.writing.fragments import write_fragments

__all__ = [
    "DataFile",
    "DeletionFile",
    "FragmentMetadata",
    "FragmentSession",
    "LanceFragment",
    "RowDatasetVersionMeta",
    "RowIdMeta",
    "RowIdSequence",
    "write_fragments",
]

__getattr__ = import_late(
    __name__,
    {
        "RowIdSequence": "lance_core.api.fragment.row_id_sequence",
        "write_fragments": "lance_core.api.writing.fragments",
    },
)
