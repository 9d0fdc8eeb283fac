"""The part of a dataset's interface that lists and drops indices."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict
from uuid import UUID

from lance_core.api.bitmap import Bitmap
from lance_core.api.dataset.methods.opened import OpenedDataset
from lance_core.errors import InvalidInputError
from lance_core.table.indices import IndexDescription, IndexSegmentDescription

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_core.api.indices.training import IvfModel


class IndexInformation(TypedDict):
    """One entry of `LanceDataset.list_indices`: one segment of an index."""

    name: str
    type: str
    uuid: str
    fields: list[str]
    version: int
    fragment_ids: set[int]
    base_id: int | None


class Indexing(OpenedDataset):
    """Methods for the indices of a dataset."""

    @property
    def has_index(self) -> bool:
        """Whether the version has any index."""
        return bool(self._snapshot.manifest.stored_index_segments)

    def describe_indices(self) -> list[IndexDescription]:
        """Return the indices by name, as the manifest lists them."""
        return [
            replace(index, segments=[_with_set(segment) for segment in index.segments])
            for index in self._snapshot.describe_indices()
        ]

    def list_indices(self) -> list[IndexInformation]:
        """Return one entry per index segment; `describe_indices` has more facts.

        Warns:
            DeprecationWarning: As in the reference, `describe_indices` should be used instead.
        """
        warnings.warn(
            "list_indices is deprecated; use describe_indices instead", DeprecationWarning, stacklevel=3
        )
        return [
            IndexInformation(
                name=index.name,
                type=index.index_type,
                uuid=segment.uuid,
                fields=list(index.field_names),
                version=segment.dataset_version_at_last_update,
                fragment_ids=set(segment.fragment_ids),
                base_id=segment.base_id,
            )
            for index in self.describe_indices()
            for segment in index.segments
        ]

    def index_statistics(self, index_name: str) -> dict[str, object]:
        """Return how much of the dataset an index covers, and facts from its files.

        A segment of a vector index has the path of its first file as `uri`.

        Raises:
            IndexNotFoundError: There is no such index.
            CorruptFileError: A file of the index is damaged.
        """
        from lance_core.changes.indexing.facts import index_statistics  # late: it is rarely needed
        from lance_core.index.vector.model import INDEX_FILE

        found = index_statistics(self.snapshot, index_name)
        entries = {entry.description.uuid: entry for entry in self.snapshot.index_segments}
        segments = found["segments"]
        for facts in segments if isinstance(segments, list) else ():
            if "centroids" in facts:
                storage, directory = self.snapshot.index_directory(entries[facts["uuid"]])
                facts["uri"] = f"{storage.uri}/{directory}/{INDEX_FILE}"
        return found

    def get_ivf_model(self, index_name: str) -> IvfModel:
        """Return the partitions of the first segment of a vector index.

        Raises:
            IndexNotFoundError: There is no such index.
            InvalidInputError: It is no vector index, or it has no data yet.
            CorruptFileError: A file of the index is damaged.
        """
        from lance_core.api.indices.training import (  # late: it is rarely needed
            IvfModel,
            vector_array,
        )

        segments = self.index_statistics(index_name)["segments"]
        first = segments[0] if isinstance(segments, list) else {}
        if "centroids" not in first:
            raise InvalidInputError("partitions of a vector index", found=index_name)
        return IvfModel(vector_array(first["centroids"]), first["metric_type"])

    def centroids(self, *, index_name: str | None = None, column: str | None = None) -> pa.FixedSizeListArray:
        """Return the centroids of the partitions of a vector index, see `get_ivf_model`.

        Args:
            index_name: Name of the index.
            column: Column of the index, if the name is not given.

        Raises:
            InvalidInputError: Neither is given, or the column has no vector index.
        """
        if index_name is None:
            if column is None:
                raise InvalidInputError("Must provide 'index_name' or 'column'.")
            names = [
                index.name
                for index in self.describe_indices()
                if list(index.field_names) == [column] and index.index_type.startswith("IVF")
            ]
            if not names:
                raise InvalidInputError("vector index of a column", found=column)
            index_name = names[0]
        return self.get_ivf_model(index_name).centroids

    def remap_row_addrs(self, addrs: pa.Array) -> pa.Array | None:
        """Translate row addresses that were read before compactions with `defer_index_remap`.

        The dataset knows such a compaction until `optimize_indices` has rewritten all indices. Translate
        addresses soon after the compaction: addresses from before a forgotten compaction are returned
        unchanged.

        Args:
            addrs: Row addresses (`_rowaddr`) as uint64, with nulls or without.

        Returns:
            The present row addresses, null for rows that were deleted before a compaction; None if the
            dataset knows no such compaction.

        Raises:
            InvalidInputError: `addrs` has another type.
            CorruptFileError: The description of a compaction is damaged.
        """
        from lance_core.index.moving.reused_fragments import present_addresses  # late: it is rarely needed

        reuse = self.snapshot.manifest.fragment_reuse
        return None if reuse is None else present_addresses(reuse, addrs)

    def prewarm_index(
        self,
        name: str,
        *,
        with_position: bool = False,
        index_segments: Iterable[str | UUID] | None = None,
    ) -> None:
        """Read the files of an index ahead of queries.

        Args:
            name: Name of the index.
            with_position: Has no effect: whole files are read.
            index_segments: Uuids of the segments to read; None means all.

        Raises:
            IndexNotFoundError: There is no such index.
            InvalidInputError: The index has no such segment.
        """
        from lance_core.changes.indexing.facts import prewarm_index  # late: it is rarely needed

        try:
            uuids = None if index_segments is None else [UUID(str(uuid)) for uuid in index_segments]
        except ValueError as error:
            raise InvalidInputError(f"index_segments: {error}") from None
        prewarm_index(self.snapshot, name, uuids)

    def drop_index(self, name: str, *, transaction_id: str | None = None, sync: bool = True) -> None:
        """Drop an index, and move to the version without it.

        Files of the index stay as long as an older version needs them: `cleanup_old_versions` removes them.

        Args:
            name: Name of the index as `describe_indices` lists it, not the name of a column.
            transaction_id: UUID of the transaction. Repeating it gives the first result.
            sync: On local disks make the version durable before returning.

        Raises:
            IndexNotFoundError: There is no such index.
            UnsupportedFeatureError: The index belongs to the system.
            CommitConflictError: Another commit is in conflict with this one.
        """
        from lance_core.changes.drop_index import drop_index  # late: most processes only read

        self._snapshot = drop_index(self.snapshot, name, transaction_id=transaction_id, sync=sync)


def _with_set(segment: IndexSegmentDescription) -> IndexSegmentDescription:
    """Return the description of a segment whose fragments are a set with the methods of the reference."""
    fragment_ids: Any = Bitmap(segment.fragment_ids)
    return replace(segment, fragment_ids=fragment_ids)
