"""The public interface: all names that users of the package need, with those of the reference library.

A user of the reference writes `import lance_core as lance`: the package root offers the names that are listed
here. For a module of the reference, such as `lance.fragment`, write `lance_core.api.fragment`; there are also
`arrow`, `bitmap`, `blob`, `commit`, `dataset`, `debug`, `file`, `indices`, `optimize`, `progress`, `sampler`,
`schema`, `udf`, `vector`. (`lance_core.file` is not `lance.file` but the file format itself.)
The root offers the most used names of these modules, too.
docs/from-pylance.md lists what is missing.

    dataset        `dataset` opens a LanceDataset; all objects that only its methods take or return
    fragment       LanceFragment, and descriptions of fragments as plain data
    file           single data files without a dataset, and side files of blobs
    schema         LanceSchema: a schema with the ids of its fields
    writing        `write_dataset` and `write_fragments`
    optimize, udf, progress, query
                   compactions, functions for new columns, observers of writes, full text queries
    blob, bitmap   blobs as values and as files; sets of small numbers
    commit         locks and conflicts of commits
    sampler        samples of rows, and rows shared among processes
    torch          datasets, tensors and ranks for PyTorch
    indices        kinds of indices, and the training of their parts
    vector         tables of vectors; debug: metadata as text
    arrow          Arrow types for bfloat16 and images, which arrow_types defines
    names          the import of names at their first use, and names that are missing
    serving        the names that a server needs beside those of the reference
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.api.commit import BulkCommitResult
from lance_core.api.dataset import (
    AlterColumn,
    Branch,
    Branches,
    ColumnOrdering,
    DeleteResult,
    IndexInformation,
    LanceDataset,
    LanceScanner,
    Tag,
    Tags,
    UpdateResult,
    VectorSearchQuery,
    Version,
    dataset,
)
from lance_core.api.dataset.io_stats import IOStats, bytes_read_counter, iops_counter
from lance_core.api.dataset.methods.facts import (
    DatasetStats,
    DataStatistics,
    FieldStatistics,
    LanceStats,
    VersionRef,
)
from lance_core.api.fragment import (
    DataFile,
    DeletionFile,
    FragmentMetadata,
    FragmentSession,
    LanceFragment,
    RowDatasetVersionMeta,
    RowIdMeta,
)
from lance_core.api.names.late import import_late
from lance_core.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    DatasetExistsError,
    DatasetNotFoundError,
    IndexNotFoundError,
    InvalidInputError,
    LanceError,
    RefConflictError,
    RefNotFoundError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_core.process.counters import CacheUse
from lance_core.scan.scanner import cache_stats, set_cache_directory
from lance_core.scan.session import Session
from lance_core.scan.statistics import ScanStatistics
from lance_core.table.bases import DatasetBasePath
from lance_core.table.indices import IndexDescription

if TYPE_CHECKING:
    from lance_core.api.arrow import (
        BFloat16,
        BFloat16Array,
        BFloat16Type,
        EncodedImageArray,
        EncodedImageType,
        FixedShapeImageTensorArray,
        FixedShapeImageTensorType,
        ImageArray,
        ImageURIArray,
        ImageURIType,
        PandasBFloat16Array,
        bfloat16_array,
    )
    from lance_core.api.blob import Blob, BlobArray, BlobColumn, BlobFile, BlobType, blob_array, blob_field
    from lance_core.api.dataset.delta import DatasetDelta
    from lance_core.api.dataset.merge_insert import ExecuteResult, MergeInsertBuilder
    from lance_core.api.dataset.operations import Index, IndexFile, LanceOperation, Transaction
    from lance_core.api.dataset.scanner_builder import ScannerBuilder
    from lance_core.api.dataset.sql import SqlQuery, SqlQueryBuilder
    from lance_core.api.dataset.vector_partitions import VectorIndexReader
    from lance_core.api.debug import format_fragment, format_manifest, format_schema, list_transactions
    from lance_core.api.file import LanceFileReader, LanceFileSession, LanceFileWriter
    from lance_core.api.file.blob_descriptors import (
        BlobDescriptor,
        BlobDescriptorArrayBuilder,
        DedicatedBlobWriter,
        PackedBlobWriter,
    )
    from lance_core.api.fragment.row_id_sequence import RowIdSequence
    from lance_core.api.indices import (
        IndexConfig,
        IndexFileVersion,
        IndexSegment,
        IndexSegmentDescription,
        IndicesBuilder,
        IvfModel,
        PqModel,
        SupportedDistributedIndices,
    )
    from lance_core.api.optimize import (
        Compaction,
        CompactionMetrics,
        CompactionOptions,
        CompactionPlan,
        CompactionTask,
        DatasetOptimizer,
        IndexCoverage,
        LostCoverage,
        RewriteResult,
    )
    from lance_core.api.progress import (
        FileSystemFragmentWriteProgress,
        FragmentWriteProgress,
        IndexProgress,
        NoopFragmentWriteProgress,
    )
    from lance_core.api.query import (
        BooleanQuery,
        BoostQuery,
        DocumentGranularity,
        FullTextOperator,
        FullTextQuery,
        FullTextQueryType,
        MatchQuery,
        MultiMatchQuery,
        Occur,
        PhraseQuery,
    )
    from lance_core.api.sampler import (
        FragmentSampler,
        FullScanSampler,
        Sampler,
        ShardedBatchSampler,
        ShardedFixedBatchSampler,
        ShardedFragmentSampler,
        maybe_sample,
    )
    from lance_core.api.sampler.sharded_batch_iterator import ShardedBatchIterator
    from lance_core.api.schema import LanceField, LanceSchema, json_to_schema, schema_to_json
    from lance_core.api.udf import BatchUDF, batch_udf
    from lance_core.api.vector import validate_vector_index, vec_to_table
    from lance_core.api.writing.datasets import write_dataset
    from lance_core.api.writing.fragments import write_fragments
    from lance_core.maintenance.auto_cleanup import AutoCleanupConfig
    from lance_core.maintenance.cleanup import (
        CleanupCandidateFile,
        CleanupExplanation,
        CleanupReferencedBranch,
        CleanupStats,
    )
    from lance_core.version import __version__

__all__ = [
    "AlterColumn",
    "AutoCleanupConfig",
    "BFloat16",
    "BFloat16Array",
    "BFloat16Type",
    "BatchUDF",
    "Blob",
    "BlobArray",
    "BlobColumn",
    "BlobDescriptor",
    "BlobDescriptorArrayBuilder",
    "BlobFile",
    "BlobType",
    "BooleanQuery",
    "BoostQuery",
    "Branch",
    "Branches",
    "BulkCommitResult",
    "CacheUse",
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupReferencedBranch",
    "CleanupStats",
    "ColumnOrdering",
    "CommitConflictError",
    "CommitUnknownError",
    "Compaction",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "CorruptFileError",
    "DataFile",
    "DataStatistics",
    "DatasetBasePath",
    "DatasetDelta",
    "DatasetExistsError",
    "DatasetNotFoundError",
    "DatasetOptimizer",
    "DatasetStats",
    "DedicatedBlobWriter",
    "DeleteResult",
    "DeletionFile",
    "DocumentGranularity",
    "EncodedImageArray",
    "EncodedImageType",
    "ExecuteResult",
    "FieldStatistics",
    "FileSystemFragmentWriteProgress",
    "FixedShapeImageTensorArray",
    "FixedShapeImageTensorType",
    "FragmentMetadata",
    "FragmentSampler",
    "FragmentSession",
    "FragmentWriteProgress",
    "FullScanSampler",
    "FullTextOperator",
    "FullTextQuery",
    "FullTextQueryType",
    "IOStats",
    "ImageArray",
    "ImageURIArray",
    "ImageURIType",
    "Index",
    "IndexConfig",
    "IndexCoverage",
    "IndexDescription",
    "IndexFile",
    "IndexFileVersion",
    "IndexInformation",
    "IndexNotFoundError",
    "IndexProgress",
    "IndexSegment",
    "IndexSegmentDescription",
    "IndicesBuilder",
    "InvalidInputError",
    "IvfModel",
    "LanceDataset",
    "LanceError",
    "LanceField",
    "LanceFileReader",
    "LanceFileSession",
    "LanceFileWriter",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LanceSchema",
    "LanceStats",
    "LostCoverage",
    "MatchQuery",
    "MergeInsertBuilder",
    "MultiMatchQuery",
    "NoopFragmentWriteProgress",
    "Occur",
    "PackedBlobWriter",
    "PandasBFloat16Array",
    "PhraseQuery",
    "PqModel",
    "RefConflictError",
    "RefNotFoundError",
    "RewriteResult",
    "RowDatasetVersionMeta",
    "RowIdMeta",
    "RowIdSequence",
    "Sampler",
    "ScanStatistics",
    "ScannerBuilder",
    "Session",
    "ShardedBatchIterator",
    "ShardedBatchSampler",
    "ShardedFixedBatchSampler",
    "ShardedFragmentSampler",
    "SqlQuery",
    "SqlQueryBuilder",
    "StorageError",
    "SupportedDistributedIndices",
    "Tag",
    "Tags",
    "Transaction",
    "UnsupportedFeatureError",
    "UpdateResult",
    "VectorIndexReader",
    "VectorSearchQuery",
    "Version",
    "VersionNotFoundError",
    "VersionRef",
    "__version__",
    "batch_udf",
    "bfloat16_array",
    "blob_array",
    "blob_field",
    "bytes_read_counter",
    "cache_stats",
    "dataset",
    "format_fragment",
    "format_manifest",
    "format_schema",
    "iops_counter",
    "json_to_schema",
    "list_transactions",
    "maybe_sample",
    "schema_to_json",
    "set_cache_directory",
    "validate_vector_index",
    "vec_to_table",
    "write_dataset",
    "write_fragments",
]

_LATE = {
    "AutoCleanupConfig": "lance_core.maintenance.auto_cleanup",
    "BFloat16": "lance_core.api.arrow",
    "BFloat16Array": "lance_core.api.arrow",
    "BFloat16Type": "lance_core.api.arrow",
    "BatchUDF": "lance_core.api.udf",
    "Blob": "lance_core.api.blob",
    "BlobArray": "lance_core.api.blob",
    "BlobColumn": "lance_core.api.blob",
    "BlobDescriptor": "lance_core.api.file.blob_descriptors",
    "BlobDescriptorArrayBuilder": "lance_core.api.file.blob_descriptors",
    "BlobFile": "lance_core.api.blob",
    "BlobType": "lance_core.api.blob",
    "BooleanQuery": "lance_core.api.query",
    "BoostQuery": "lance_core.api.query",
    "CleanupCandidateFile": "lance_core.maintenance.cleanup",
    "CleanupExplanation": "lance_core.maintenance.cleanup",
    "CleanupReferencedBranch": "lance_core.maintenance.cleanup",
    "CleanupStats": "lance_core.maintenance.cleanup",
    "Compaction": "lance_core.api.optimize",
    "CompactionMetrics": "lance_core.api.optimize",
    "CompactionOptions": "lance_core.api.optimize",
    "CompactionPlan": "lance_core.api.optimize",
    "CompactionTask": "lance_core.api.optimize",
    "DatasetDelta": "lance_core.api.dataset.delta",
    "DatasetOptimizer": "lance_core.api.optimize",
    "DedicatedBlobWriter": "lance_core.api.file.blob_descriptors",
    "DocumentGranularity": "lance_core.api.query",
    "EncodedImageArray": "lance_core.api.arrow",
    "EncodedImageType": "lance_core.api.arrow",
    "ExecuteResult": "lance_core.api.dataset.merge_insert",
    "FileSystemFragmentWriteProgress": "lance_core.api.progress",
    "FixedShapeImageTensorArray": "lance_core.api.arrow",
    "FixedShapeImageTensorType": "lance_core.api.arrow",
    "FragmentSampler": "lance_core.api.sampler",
    "FragmentWriteProgress": "lance_core.api.progress",
    "FullScanSampler": "lance_core.api.sampler",
    "FullTextOperator": "lance_core.api.query",
    "FullTextQuery": "lance_core.api.query",
    "FullTextQueryType": "lance_core.api.query",
    "ImageArray": "lance_core.api.arrow",
    "ImageURIArray": "lance_core.api.arrow",
    "ImageURIType": "lance_core.api.arrow",
    "Index": "lance_core.api.dataset.operations",
    "IndexConfig": "lance_core.api.indices",
    "IndexCoverage": "lance_core.api.optimize",
    "IndexFile": "lance_core.api.dataset.operations",
    "IndexFileVersion": "lance_core.api.indices",
    "IndexProgress": "lance_core.api.progress",
    "IndexSegment": "lance_core.api.indices",
    "IndexSegmentDescription": "lance_core.api.indices",
    "IndicesBuilder": "lance_core.api.indices",
    "IvfModel": "lance_core.api.indices",
    "LanceField": "lance_core.api.schema",
    "LanceFileReader": "lance_core.api.file",
    "LanceFileSession": "lance_core.api.file",
    "LanceFileWriter": "lance_core.api.file",
    "LanceOperation": "lance_core.api.dataset.operations",
    "LanceSchema": "lance_core.api.schema",
    "LostCoverage": "lance_core.api.optimize",
    "MatchQuery": "lance_core.api.query",
    "MergeInsertBuilder": "lance_core.api.dataset.merge_insert",
    "MultiMatchQuery": "lance_core.api.query",
    "NoopFragmentWriteProgress": "lance_core.api.progress",
    "Occur": "lance_core.api.query",
    "PackedBlobWriter": "lance_core.api.file.blob_descriptors",
    "PandasBFloat16Array": "lance_core.api.arrow",
    "PhraseQuery": "lance_core.api.query",
    "PqModel": "lance_core.api.indices",
    "RewriteResult": "lance_core.api.optimize",
    "RowIdSequence": "lance_core.api.fragment.row_id_sequence",
    "Sampler": "lance_core.api.sampler",
    "ScannerBuilder": "lance_core.api.dataset.scanner_builder",
    "ShardedBatchIterator": "lance_core.api.sampler.sharded_batch_iterator",
    "ShardedBatchSampler": "lance_core.api.sampler",
    "ShardedFixedBatchSampler": "lance_core.api.sampler",
    "ShardedFragmentSampler": "lance_core.api.sampler",
    "SqlQuery": "lance_core.api.dataset.sql",
    "SqlQueryBuilder": "lance_core.api.dataset.sql",
    "SupportedDistributedIndices": "lance_core.api.indices",
    "Transaction": "lance_core.api.dataset.operations",
    "VectorIndexReader": "lance_core.api.dataset.vector_partitions",
    "__version__": "lance_core.version",
    "batch_udf": "lance_core.api.udf",
    "bfloat16_array": "lance_core.api.arrow",
    "blob_array": "lance_core.api.blob",
    "blob_field": "lance_core.api.blob",
    "format_fragment": "lance_core.api.debug",
    "format_manifest": "lance_core.api.debug",
    "format_schema": "lance_core.api.debug",
    "json_to_schema": "lance_core.api.schema",
    "list_transactions": "lance_core.api.debug",
    "maybe_sample": "lance_core.api.sampler",
    "schema_to_json": "lance_core.api.schema",
    "validate_vector_index": "lance_core.api.vector",
    "vec_to_table": "lance_core.api.vector",
    "write_dataset": "lance_core.api.writing.datasets",
    "write_fragments": "lance_core.api.writing.fragments",
}

__getattr__ = import_late(__name__, _LATE)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
