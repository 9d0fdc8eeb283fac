"""Shared state of an operation: the next version apart from its manifest."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lance_core.commit.index_section import DeferredMoves, IndexSectionEditor
from lance_core.file.footer import FileVersion
from lance_core.proto import table_pb2
from lance_core.table.manifest import Manifest


@dataclass(frozen=True)
class TableSettings:
    """Settings of a new table, or of an overwrite."""

    file_version: FileVersion | None = None
    """Version of the data files; None means the version of the first data file, or of the table."""
    stable_row_ids: bool = False
    """Whether the table gets stable row ids. This takes effect for new tables only."""
    dictionaries: Mapping[int, pa.Array] = field(default_factory=dict)
    """Values of the dictionary columns of 0.1 files, by field id."""


@dataclass
class Context:
    """State of the next version while an operation is applied."""

    version: int
    """Number of the next version."""
    stable_row_ids: bool
    """Whether the table has stable row ids."""
    indices: IndexSectionEditor
    settings: TableSettings
    is_new: bool
    """Whether the next version is the first one."""
    read_version: Callable[[int], Manifest]
    """Returns the manifest of an older version of the table."""
    deferred_moves: DeferredMoves | None = None
    """Moves of a rewrite that leaves index files as they are."""
    changed: list[table_pb2.DataFragment] = field(default_factory=list)
    """New or changed fragments in the next manifest."""
