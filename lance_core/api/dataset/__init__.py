"""Datasets, with the names of `lance.dataset`.

opening            `dataset`, which opens a dataset
lance_dataset      LanceDataset: one version of a dataset; methods: most of its methods, by subject
delta, merge_insert, scanner_builder, sql
                   objects that methods of a dataset return
operations         LanceOperation and Transaction; transactions: the same objects from committed messages
vector_partitions  the reader of the partitions of a vector index
scans              scans by the arguments of the reference
sql_functions      functions of filters for SQL queries
io_stats           counts of reads and writes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.api.dataset.lance_dataset import LanceDataset
from lance_core.api.dataset.methods.column_changes import AlterColumn
from lance_core.api.dataset.methods.commits import BulkCommitResult
from lance_core.api.dataset.methods.facts import (
    DatasetStats,
    DataStatistics,
    FieldStatistics,
    LanceStats,
    VersionRef,
)
from lance_core.api.dataset.methods.history import Version
from lance_core.api.dataset.methods.indexing import IndexInformation
from lance_core.api.dataset.methods.row_changes import DeleteResult, UpdateResult
from lance_core.api.dataset.methods.tags_and_branches import Branch, Branches, Tag, Tags
from lance_core.api.dataset.opening import dataset
from lance_core.api.names.late import import_late
from lance_core.scan.plan.options import ColumnOrdering
from lance_core.scan.plan.search_filter import VectorSearchQuery
from lance_core.scan.scanner import LanceScanner
from lance_core.table.transaction import COMMIT_MESSAGE

if TYPE_CHECKING:
    from lance_core.api.dataset.delta import DatasetDelta
    from lance_core.api.dataset.merge_insert import ExecuteResult, MergeInsertBuilder
    from lance_core.api.dataset.operations import Index, IndexFile, LanceOperation, Transaction
    from lance_core.api.dataset.scanner_builder import ScannerBuilder
    from lance_core.api.dataset.sql import SqlQuery, SqlQueryBuilder
    from lance_core.api.dataset.vector_partitions import VectorIndexReader
    from lance_core.api.optimize import DatasetOptimizer
    from lance_core.api.writing.datasets import write_dataset
    from lance_core.maintenance.auto_cleanup import AutoCleanupConfig

__all__ = [
    "LANCE_COMMIT_MESSAGE_KEY",
    "AlterColumn",
    "AutoCleanupConfig",
    "Branch",
    "Branches",
    "BulkCommitResult",
    "ColumnOrdering",
    "DataStatistics",
    "DatasetDelta",
    "DatasetOptimizer",
    "DatasetStats",
    "DeleteResult",
    "ExecuteResult",
    "FieldStatistics",
    "Index",
    "IndexFile",
    "IndexInformation",
    "LanceDataset",
    "LanceOperation",
    "LanceScanner",
    "LanceStats",
    "MergeInsertBuilder",
    "ScannerBuilder",
    "SqlQuery",
    "SqlQueryBuilder",
    "Tag",
    "Tags",
    "Transaction",
    "UpdateResult",
    "VectorIndexReader",
    "VectorSearchQuery",
    "Version",
    "VersionRef",
    "dataset",
    "write_dataset",
]

LANCE_COMMIT_MESSAGE_KEY = COMMIT_MESSAGE

__getattr__ = import_late(
    __name__,
    {
        "AutoCleanupConfig": "lance_core.maintenance.auto_cleanup",
        "DatasetDelta": "lance_core.api.dataset.delta",
        "DatasetOptimizer": "lance_core.api.optimize",
        "ExecuteResult": "lance_core.api.dataset.merge_insert",
        "Index": "lance_core.api.dataset.operations",
        "IndexFile": "lance_core.api.dataset.operations",
        "LanceOperation": "lance_core.api.dataset.operations",
        "MergeInsertBuilder": "lance_core.api.dataset.merge_insert",
        "ScannerBuilder": "lance_core.api.dataset.scanner_builder",
        "SqlQuery": "lance_core.api.dataset.sql",
        "SqlQueryBuilder": "lance_core.api.dataset.sql",
        "Transaction": "lance_core.api.dataset.operations",
        "VectorIndexReader": "lance_core.api.dataset.vector_partitions",
        "write_dataset": "lance_core.api.writing.datasets",
    },
)
