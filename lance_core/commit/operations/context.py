"""Context of an operation when it is applied, beside the new manifest and the operation itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lance_core.commit.index_section import IndexSectionEditor
from lance_core.file.footer import FileVersion
from lance_core.proto import table_pb2
from lance_core.table.manifest import Manifest


@dataclass(frozen=True)
class TableSettings:
    """Settings of a new table, or changes by an overwrite."""

    file_version: FileVersion | None = None
    """Version of the data files; None for the version of the first data file, or of the table."""
    stable_row_ids: bool = False
    """Whether rows keep their ids when they are moved. Only new tables can choose."""
    dictionaries: Mapping[int, pa.Array] = field(default_factory=dict)
    """By field id the values of the dictionary columns of 0.1 files."""


@dataclass
class Context:
    """One version in the making."""

    version: int
    """The number that it gets."""
    stable_row_ids: bool
    """Whether rows keep their ids when they are moved."""
    indices: IndexSectionEditor
    settings: TableSettings
    is_new: bool
    """Whether there is no version before it."""
    read_version: Callable[[int], Manifest]
    """Reads an older version of the table."""
    changed: list[table_pb2.DataFragment] = field(default_factory=list)
    """Fragments in the manifest in the making that are new or not as they were."""
