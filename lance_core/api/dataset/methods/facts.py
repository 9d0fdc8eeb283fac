"""The part of a dataset's interface that tells its size, its files, its ids and its session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import pyarrow as pa

from lance_core.api.dataset.io_stats import IOStats
from lance_core.api.dataset.methods.index_building import IndexBuilding
from lance_core.arguments import named_arguments
from lance_core.scan.session import Session, session_of
from lance_core.table.versions import list_versions

if TYPE_CHECKING:
    from lance_core.api.bitmap import Bitmap

_SMALL_FILE_ROWS = 1024


class VersionRef(TypedDict):
    """One entry of `LanceDataset.version_refs`."""

    version: int


class DatasetStats(TypedDict):
    """Result of `LanceStats.dataset_stats`."""

    num_deleted_rows: int
    num_fragments: int
    num_small_files: int


@dataclass
class FieldStatistics:
    """Size of a field in the data files."""

    id: int
    bytes_on_disk: int
    """Compressed bytes of the field's pages; 0 for a field without pages, such as a struct."""


@dataclass
class DataStatistics:
    """Sizes of all fields in the data files."""

    fields: list[FieldStatistics]
    """One entry per field, parents before their children."""


@named_arguments
class LanceStats:
    """Statistics of one version of a dataset: `LanceDataset.stats`."""

    def __init__(self, dataset: Facts) -> None:
        self._dataset = dataset

    def dataset_stats(self, max_rows_per_group: int = _SMALL_FILE_ROWS) -> DatasetStats:
        """Return the numbers of deleted rows, of fragments, and of fragments with few rows.

        Args:
            max_rows_per_group: A fragment with fewer rows, deleted rows included, counts as small.
        """
        fragments = self._dataset.snapshot.manifest.fragments
        return {
            "num_deleted_rows": self._dataset.count_deleted_rows(),
            "num_fragments": len(fragments),
            "num_small_files": sum(fragment.physical_rows < max_rows_per_group for fragment in fragments),
        }

    def data_stats(self) -> DataStatistics:
        """Return the compressed bytes of each field. Only the metadata of data files is read.

        The sizes of fields in 0.1 files are not known, and count as 0.

        Raises:
            LanceError: A data file cannot be read.
        """
        from lance_core.scan.stored_bytes import bytes_by_field  # late: most processes ask for no sizes

        snapshot = self._dataset.snapshot
        sizes = bytes_by_field(snapshot)
        ids = [node.id for field in snapshot.manifest.schema.fields for node in field.walk()]
        return DataStatistics([FieldStatistics(number, sizes.get(number, 0)) for number in ids])

    def index_stats(self, index_name: str) -> dict[str, object]:
        """Return how much of the dataset an index covers, like `LanceDataset.index_statistics`.

        Raises:
            IndexNotFoundError: There is no such index.
        """
        return self._dataset.index_statistics(index_name)


class Facts(IndexBuilding):
    """Methods that answer from manifests, listings and the metadata of files, without reading rows."""

    @property
    def stats(self) -> LanceStats:
        """Statistics of this version."""
        return LanceStats(self)

    def count_deleted_rows(self) -> int:
        """Return the number of rows in the data files that deletion files remove."""
        return sum(
            fragment.physical_rows - fragment.num_rows for fragment in self._snapshot.manifest.fragments
        )

    def session(self) -> Session:
        """Return the session of reads and changes of this dataset."""
        return session_of(self._snapshot)

    def io_stats_snapshot(self) -> IOStats:
        """Return the reads and writes since the last `io_stats_incremental` of this object, or since the
        start of the process. Those of other datasets of the process count, too.
        """
        return IOStats.of_process().since(self._counted)

    def io_stats_incremental(self) -> IOStats:
        """Return what `io_stats_snapshot` returns, and count from now on."""
        earlier, self._counted = self._counted, IOStats.of_process()
        return self._counted.since(earlier)

    _counted = IOStats(0, 0, 0, 0)

    def fragment_ids(self) -> Bitmap:
        """Return the ids of all fragments of this version."""
        from lance_core.api.bitmap import Bitmap  # late: most processes ask for no ids

        return Bitmap(self._snapshot.manifest.fragment_ids)

    @property
    def max_field_id(self) -> int:
        """The largest field id of this version, in its schema and its files; -1 if there are no fields."""
        from lance_core.changes.columns.schema_evolution import (
            next_field_id,  # late: most processes only read
        )

        return next_field_id(self._snapshot.manifest) - 1

    def version_refs(self) -> list[VersionRef]:
        """Return the numbers of all versions of the opened branch, oldest first. No manifest is read."""
        return [VersionRef(version=number) for number in list_versions(self._storage)]

    def tracked_files(
        self, *, min_version: int | None = None, progress: Callable[[int, int | None], object] | None = None
    ) -> pa.RecordBatchReader:
        """Return the files that the versions of the opened branch refer to, one row per version and file.

        Args:
            min_version: First version to list; all if left out.
            progress: Called after each version with the numbers of versions listed so far, and of all.

        Returns:
            A reader of batches with `version`, `base_uri`, `path` relative to it, and `type`: manifest,
            transaction file, data file, deletion file or index file. The manifests are read with it.
        """
        from lance_core.maintenance.listed_files import tracked_files

        return tracked_files(self._snapshot, min_version, progress)

    def all_files(self) -> pa.RecordBatchReader:
        """Return the files in the directory of the opened branch, whether or not a version needs them.

        Files in base paths are left out.

        Returns:
            A reader of batches with `base_uri`, `path` relative to it, `size_bytes` and `last_modified`.
        """
        from lance_core.maintenance.listed_files import present_files

        return present_files(self._snapshot)

    @property
    def initial_storage_options(self) -> dict[str, str] | None:
        """The storage options that the dataset was opened with; None without any."""
        return dict(self._storage_options) if self._storage_options else None

    def latest_storage_options(self) -> dict[str, str] | None:
        """Return the storage options in use, which are those that the dataset was opened with."""
        return self.initial_storage_options
