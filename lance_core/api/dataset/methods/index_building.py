"""The part of a dataset's interface that builds indices."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from uuid import UUID

from lance_core.api.dataset.methods.indexing import Indexing
from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from lance_core.api.dataset.operations import Index
    from lance_core.api.indices import IndexConfig
    from lance_core.api.progress import IndexProgress
    from lance_core.changes.indexing.segment import IndexRequest
    from lance_core.index.progress import Observer

    VectorArray: TypeAlias = np.ndarray[Any, Any] | pa.FixedSizeListArray | pa.FixedShapeTensorArray


class IndexBuilding(Indexing):
    """Methods that build indices of a dataset."""

    def create_scalar_index(
        self,
        column: str,
        index_type: str | IndexConfig,
        name: str | None = None,
        *,
        replace: bool = True,
        train: bool = True,
        fragment_ids: Sequence[int] | None = None,
        index_uuid: str | None = None,
        progress_callback: Callable[[IndexProgress], None] | None = None,
        transaction_id: str | None = None,
        sync: bool = True,
        **kwargs: Any,
    ) -> None:
        """Build an index on the values of a column, and move to the version with it.

        Memory is bounded: rows are sorted in runs, in the directory for temporary files.

        Args:
            column: Name or dotted path of the column.
            index_type: Kind of the index, such as "BTREE"; or the kind with its options.
            name: Name of the index; None for `<column>_idx`.
            replace: Replace the index with this name, of whatever kind. False refuses to.
            train: Index the rows. False makes an index that covers no rows yet; `optimize.optimize_indices`
                adds them.
            fragment_ids: Full text indices only: write partitions of these fragments, and commit nothing; see
                `merge_index_metadata`. All other kinds have `create_index_uncommitted`.
            index_uuid: Uuid of the files.
            progress_callback: Is called with the progress. If it raises, the build stops.
            transaction_id: UUID of the transaction. Repeating it gives the first result.
            sync: On local disks make everything durable before returning.
            kwargs: Options of the kind by name, as in `IndexConfig.parameters`.

        Raises:
            UnknownColumnError: There is no such column.
            ColumnTypeError: The kind does not index columns of this type.
            UnsupportedFeatureError: There is no such kind.
            InvalidInputError: An option is wrong, or the name is in use.
            CommitConflictError: Other writers were in conflict too often.
        """
        request = _request(column, index_type, name, train, fragment_ids, index_uuid, kwargs)
        if fragment_ids is not None:
            from lance_core.changes.indexing.staged import stage_partitions  # late: most processes only read

            stage_partitions(self.snapshot, request, observer=_observer(progress_callback), sync=sync)
            return
        self._build(request, replace, progress_callback, transaction_id, sync)

    def create_index(
        self,
        column: str | list[str],
        index_type: str | IndexConfig,
        name: str | None = None,
        metric: str = "L2",
        replace: bool = False,
        num_partitions: int | None = None,
        ivf_centroids: VectorArray | None = None,
        pq_codebook: VectorArray | None = None,
        num_sub_vectors: int | None = None,
        *,
        target_partition_size: int | None = None,
        train: bool = True,
        fragment_ids: Sequence[int] | None = None,
        index_uuid: str | None = None,
        progress_callback: Callable[[IndexProgress], None] | None = None,
        transaction_id: str | None = None,
        sync: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Build an index on vectors, or on other values, and move to the version with it.

        Vector indices are trained on a sample of the rows. If there are too few rows for that, the index
        covers none of them; searches compare all rows then, and `optimize.optimize_indices` builds it later.

        Args:
            column: Name or dotted path of the column.
            index_type: "IVF_FLAT", "IVF_SQ", "IVF_PQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ",
                "IVF_HNSW_PQ", or a kind of `create_scalar_index`.
            name: Name of the index; None for `<column>_idx`.
            metric: Vector indices only: "L2", "cosine", "dot" or "hamming".
            replace: Replace the index with this name. False refuses to.
            num_partitions: Vector indices only: number of partitions. None means one per
                `target_partition_size` rows.
            ivf_centroids: Centroids of the partitions, which are not trained then.
            pq_codebook: Codewords of "IVF_PQ": [sub-vector][codeword][dimension of the sub-vector].
            num_sub_vectors: Sub-vectors of "IVF_PQ", a divisor of the dimension.
            target_partition_size: Wanted rows of a partition.
            train, index_uuid, progress_callback, transaction_id, sync: Those of `create_scalar_index`.
            fragment_ids: Must be None; see `create_index_uncommitted`.
            kwargs: Further options by name: `num_bits`, `sample_rate`, `max_iters`, `skip_transpose`,
                `rabitq_model` (from `lance_core.api.indices.build_rq_model`), and for graphs `m`,
                `ef_construction` and `max_level`. Options of the reference about threads, caches and the
                order of work have no effect. An `accelerator` is not used: the index is built on the CPU, and
                a warning is logged.

        Returns:
            This dataset, at the version with the index.

        Raises:
            UnknownColumnError: There is no such column.
            ColumnTypeError: The kind does not index columns of this type.
            UnsupportedFeatureError: There is no such kind, or not with this metric.
            InvalidInputError: An option is wrong, or the name is in use.
            CommitConflictError: Other writers were in conflict too often.
        """
        if fragment_ids is not None:
            raise InvalidInputError(
                "fragment_ids", expected="None; `create_index_uncommitted` indexes single fragments"
            )
        options = _vector_options(
            index_type,
            kwargs,
            metric=metric,
            num_partitions=num_partitions,
            ivf_centroids=ivf_centroids,
            pq_codebook=pq_codebook,
            num_sub_vectors=num_sub_vectors,
            target_partition_size=target_partition_size,
        )
        request = _request(_one(column), index_type, name, train, None, index_uuid, options)
        self._build(request, replace, progress_callback, transaction_id, sync)
        return self

    def create_index_uncommitted(
        self,
        column: str | list[str],
        index_type: str | IndexConfig,
        name: str | None = None,
        metric: str = "L2",
        replace: bool = False,
        num_partitions: int | None = None,
        ivf_centroids: VectorArray | None = None,
        pq_codebook: VectorArray | None = None,
        num_sub_vectors: int | None = None,
        *,
        target_partition_size: int | None = None,
        train: bool = True,
        fragment_ids: Sequence[int] | None = None,
        index_uuid: str | None = None,
        progress_callback: Callable[[IndexProgress], None] | None = None,
        sync: bool = True,
        **kwargs: Any,
    ) -> Index:
        """Build the files of one segment of an index, which belong to no version yet.

        Several machines may index some fragments each. `commit_existing_index_segments` makes one index of
        their segments. `merge_existing_index_segments` joins segments before that.

        Args:
            column, index_type, name, metric, num_partitions, ivf_centroids, pq_codebook, num_sub_vectors,
                target_partition_size, train, index_uuid, progress_callback, sync, kwargs: Those of
                `create_index`.
            replace: Has no effect: the commit replaces segments of the same fragments.
            fragment_ids: Ids of the fragments to index.

        Raises:
            InvalidInputError: There are no fragment ids, or an error of `create_scalar_index`.
        """
        if fragment_ids is None:
            raise InvalidInputError("create_index_uncommitted requires fragment_ids")
        from lance_core.api.dataset.operations import Index  # late: most processes only read
        from lance_core.changes.indexing.segment import build_segment

        options = _vector_options(
            index_type,
            kwargs,
            metric=metric,
            num_partitions=num_partitions,
            ivf_centroids=ivf_centroids,
            pq_codebook=pq_codebook,
            num_sub_vectors=num_sub_vectors,
            target_partition_size=target_partition_size,
        )
        if ivf_centroids is not None:
            # Only codes in the order of the rows can be merged by the reference.
            options.setdefault("skip_transpose", True)
        request = _request(_one(column), index_type, name, train, fragment_ids, index_uuid, options)
        if request.uuid is not None and request.kind.upper() == "BTREE":
            raise InvalidInputError(
                "index_uuid is no longer accepted for B-trees: each segment has a uuid of its own"
            )
        observer = _observer(progress_callback)
        return Index.from_message(build_segment(self.snapshot, request, observer=observer, sync=sync))

    def commit_existing_index_segments(
        self,
        index_name: str,
        column: str,
        segments: Sequence[Index],
        *,
        transaction_id: str | None = None,
        sync: bool = True,
    ) -> Self:
        """Make a version in which an index consists of segments that were built before.

        Args:
            index_name: Name of the index.
            column: Name or dotted path of the indexed column.
            segments: Results of `create_index_uncommitted` or `merge_existing_index_segments`.
            transaction_id: UUID of the transaction. Repeating it gives the first result.
            sync: On local disks make the version durable before returning.

        Returns:
            This dataset, at the new version.

        Raises:
            InvalidInputError: Two segments cover one fragment, are of different kinds, or index other
                columns.
            CommitConflictError: Fragments were rewritten since they were indexed.
        """
        from lance_core.changes.indexing.create import commit_segments  # late: most processes only read

        messages = [segment.to_message() for segment in segments]
        self._snapshot = commit_segments(
            self.snapshot, index_name, column, messages, transaction_id=transaction_id, sync=sync
        )
        return self

    def merge_existing_index_segments(self, segments: Sequence[Index], *, sync: bool = True) -> Index:
        """Build one segment that covers the fragments of several segments, which stay as they are.

        Args:
            segments: Results of `create_index_uncommitted`.
            sync: On local disks make the files durable before returning.

        Raises:
            InvalidInputError: There are no segments, or they are of different kinds or index different
                columns.
        """
        from lance_core.api.dataset.operations import Index  # late: most processes only read
        from lance_core.changes.indexing.optimize import merge_segments

        messages = [segment.to_message() for segment in segments]
        return Index.from_message(merge_segments(self.snapshot, messages, sync=sync))

    def merge_index_metadata(
        self,
        index_uuid: str,
        index_type: str,
        batch_readhead: int | None = None,
        progress_callback: Callable[[IndexProgress], None] | None = None,
        *,
        sync: bool = True,
    ) -> None:
        """Make a segment of the partitions that `create_scalar_index` wrote with `fragment_ids`.

        Nothing is committed: the caller commits `LanceOperation.CreateIndex`. All kinds of indices can be
        built on several machines with `create_index_uncommitted` instead, which is simpler.

        Args:
            index_uuid: The `index_uuid` of all partitions.
            index_type: "INVERTED" or "FTS".
            batch_readhead: Has no effect.
            progress_callback: Is called with the progress.
            sync: On local disks make the files durable before returning.

        Raises:
            InvalidInputError: Another kind, there are no partitions, or they were built with different
                options.
        """
        from lance_core.changes.indexing.staged import merge_partitions  # late: most processes only read

        observer = _observer(progress_callback)
        merge_partitions(self.snapshot, index_type, _uuid(index_uuid), observer=observer, sync=sync)

    def _build(
        self,
        request: IndexRequest,
        replace: bool,
        progress_callback: Callable[[IndexProgress], None] | None,
        transaction_id: str | None,
        sync: bool,
    ) -> None:
        from lance_core.changes.indexing.create import create_index

        self._snapshot = create_index(
            self.snapshot,
            request,
            replace_existing=replace,
            observer=_observer(progress_callback),
            transaction_id=transaction_id,
            sync=sync,
        )


_log = logging.getLogger(__name__)
_WITHOUT_EFFECT = frozenset(
    {
        "filter_nan",
        "index_cache_size",
        "index_file_version",
        "shuffle_partition_batches",
        "shuffle_partition_concurrency",
        "storage_options",
        "streaming_coreset_rate",
        "streaming_refine_passes",
        "streaming_sample_rate",
    }
)


def _vector_options(
    index_type: str | IndexConfig, others: Mapping[str, Any], **options: Any
) -> dict[str, Any]:
    """Return the options of a vector index; for other kinds those that have no argument of their own."""
    if not (isinstance(index_type, str) and index_type.upper().startswith("IVF_")):
        return dict(others)
    kept = {name: value for name, value in others.items() if name not in _WITHOUT_EFFECT}
    if kept.pop("accelerator", None) is not None:
        _log.warning("Index type %s does not support GPU acceleration; falling back to CPU", index_type)
    return {**options, **kept}


def _one(column: str | list[str]) -> str:
    if isinstance(column, str):
        return column
    if len(column) != 1:
        raise InvalidInputError("columns of an index", expected="one column", found=column)
    return column[0]


def _request(
    column: str,
    index_type: str | IndexConfig,
    name: str | None,
    train: bool,
    fragment_ids: Sequence[int] | None,
    uuid: str | None,
    options: Mapping[str, Any],
) -> IndexRequest:
    from lance_core.api.indices import IndexConfig
    from lance_core.changes.indexing.segment import IndexRequest

    kind = index_type
    if isinstance(index_type, IndexConfig):
        kind, options = index_type.index_type, {**index_type.parameters, **options}
    if not isinstance(kind, str):
        raise InvalidInputError("index_type must be str or IndexConfig", found=type(index_type).__name__)
    number = None if uuid is None else _uuid(uuid)
    return IndexRequest(column, kind, name, train, fragment_ids, number, options)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInputError("Invalid UUID of index files (index_uuid)", found=text) from None


def _observer(callback: Callable[[IndexProgress], None] | None) -> Observer:
    from lance_core.index.progress import unobserved, until_complete

    return unobserved if callback is None else until_complete(callback)
