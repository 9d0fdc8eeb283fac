"""Names of the reference library that this package lacks, and what to use instead.

A name that is listed here raises `MissingNameError` where it is used. docs/pylance-names.md shows the same
lists, which `make names` compares with the reference. Whoever adds a name to the package removes it here.
"""

from __future__ import annotations

from collections.abc import Mapping

from lance_core.errors import MissingNameError

_INDICES = "build indices with pylance; changes made here keep them right"
_SEARCH = "search with pylance on the same dataset"
_WAL = "no write-ahead log: use `insert` and `merge_insert`"
_OPTIONS = "keep the options that the script gave to `dataset`"
_NONE = "nothing"
_SEGMENTS = "`create_index_uncommitted`"

MISSING: Mapping[str, Mapping[str, str]] = {
    "LanceDataset": {
        "from_pydantic_model": "`write_dataset` with a schema of Arrow",
        "initialize_mem_wal": _WAL,
        "mem_wal_index_details": _WAL,
        "mem_wal_writer": _WAL,
        "storage_options_accessor": _OPTIONS,
    },
    "LanceOperation": {
        "Clone": "`shallow_clone`",
        "DataOverlay": "`update`, `merge_insert`",
        "DataOverlayFile": "`update`, `merge_insert`",
        "DataOverlayGroup": "`update`, `merge_insert`",
    },
    "LanceScanner": {
        "from_batches": "`pyarrow.dataset.Scanner`",
        "from_dataset": "`scanner` of the dataset",
        "from_fragment": "`scanner` of the fragment",
        "scan_batches": "`to_batches`",
        "take": "`take` of the dataset",
    },
    "MergeInsertBuilder": {
        "mark_sstables_as_compacted": _WAL,
    },
    "CompactionOptions": {
        "binary_copy_read_batch_bytes": _NONE,
        "io_buffer_size": _NONE,
    },
    "lance": {
        "FFILanceTableProvider": "DuckDB, Polars, or `sql` of a dataset",
        "FtsToken": _SEARCH,
        "CompactedSsTable": _WAL,
        "ExecutionPlan": "`explain_plan` of a scan",
        "LsmPointLookupPlanner": _WAL,
        "LsmScanner": _WAL,
        "LsmVectorSearchPlanner": _WAL,
        "ShardSnapshot": _WAL,
        "ShardWriter": _WAL,
        "ShardingField": _WAL,
        "ShardingSpec": _WAL,
        "evaluate_sharding_spec": _WAL,
        "io": "fsspec, for other stores",
        "set_logger": "Python's `logging`",
        "simd_info": _NONE,
        "tokenize": _SEARCH,
    },
    "blob": {"BlobIterator": "`open` of each value"},
    "dataset": {
        "serialize_row_addrs": _NONE,
    },
    "IndicesBuilder": {
        "assign_ivf_partitions": _SEGMENTS,
    },
    "query": {
        "CombinedFieldsQuery": "`MultiMatchQuery`",
        "MinHashQuery": _SEARCH,
    },
    "torch.data": {"concat_batches": "`pyarrow.concat_batches`"},
    "vector": {
        "compute_partitions": _INDICES,
        "compute_pq_codes": _INDICES,
        "find_duplicate_pairs": _INDICES,
        "find_duplicate_pairs_in_partition": _INDICES,
        "get_ivf_partition_info": _INDICES,
        "hamming_clustering_for_ivf_partition": _INDICES,
        "hamming_clustering_for_range": _INDICES,
        "hamming_clustering_for_sample": _INDICES,
        "one_pass_assign_ivf_pq_on_accelerator": _INDICES,
        "one_pass_train_ivf_pq_on_accelerator": _INDICES,
        "train_ivf_centroids_on_accelerator": _INDICES,
        "train_pq_codebook_on_accelerator": _INDICES,
    },
    "udf": {
        "BatchUDFCheckpoint": "`batch_udf` with a `checkpoint_file`",
        "normalize_transform": _NONE,
    },
}
"""Alternatives of missing names, by the class, module or package (`lance`) that would have the name."""

MISSING_MODULES: Mapping[str, str] = {
    "hf": "`write_dataset` with the batches of Arrow",
    "indices": _INDICES,
    "log": "Python's `logging`",
    "mem_wal": _WAL,
    "namespace": "paths, or the names of a server (`flight_client`)",
    "otel": "`/metrics` of a server",
    "pydantic": "a schema of Arrow",
    "torch": "functions of PyTorch",
    "tracing": "`explain_plan` of a scan",
}
"""Alternatives of modules that are missing."""


def missing_name(place: str, name: str) -> MissingNameError | None:
    """Return the error of a name that the reference has and this package lacks, or None for any other name.

    Args:
        place: A class, a module of the reference (`fragment`), or `lance` for the package, which offers
            the names of its modules, too.
        name: The name that was used.
    """
    places = [*MISSING.values(), MISSING_MODULES] if place == "lance" else [MISSING.get(place, {})]
    found = next((names[name] for names in places if name in names), None)
    if found is None:
        return None
    owner = "lance_core" if place == "lance" else place
    return MissingNameError(f"{owner} lacks {name!r} of pylance; use instead: {found}")
