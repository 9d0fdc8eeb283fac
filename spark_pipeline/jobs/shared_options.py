"""Options that several jobs have: the selection of rows, the layout of written rows, the id of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from flight_client import InvalidInputError
from spark_pipeline.data_source_options import parse_columns
from spark_pipeline.jobs.job import JobOptions, about

WriteMode = Literal["create", "append", "overwrite"]
ABOUT_MODE = about("What happens to rows that the dataset has already.")
ABOUT_SORT_BY = about(
    "Columns that sort the rows, each perhaps with ` DESC`.", flag="--sort-by", unit="column [DESC]"
)
ABOUT_PARTITIONS = about("Number of partitions that are written in parallel.", minimum=1, unit="partitions")


@dataclass(frozen=True, kw_only=True)
class SelectionOptions(JobOptions):
    """Columns and rows of a frame that a job uses."""

    columns: Sequence[str] | Mapping[str, str] | None = field(
        default=None,
        metadata=about(
            "Names of the columns to use, in this order; or SQL of Spark by the new name, which renames, "
            "casts and "
            "computes. All columns if not given.",
            parse=parse_columns,
            unit="names with commas, or JSON",
        ),
    )
    where: str | None = field(
        default=None,
        metadata=about("Condition in SQL of Spark on the columns of the source; only rows that meet it."),
    )


@dataclass(frozen=True, kw_only=True)
class WriteOptions(JobOptions):
    """Layout and types of the rows that a job writes to a dataset."""

    mode: WriteMode = field(default="append", metadata=ABOUT_MODE)
    sort_by: Sequence[str] = field(default=(), metadata=ABOUT_SORT_BY)
    partitions: int | None = field(default=None, metadata=ABOUT_PARTITIONS)
    partition_rows: int | None = field(
        default=None,
        metadata=about(
            "Approximate number of rows in a partition, instead of `partitions`; counts the rows first.",
            minimum=1,
            unit="rows",
        ),
    )
    vectors: Mapping[str, int] | None = field(
        default=None,
        metadata=about(
            "List columns that become vectors, with their sizes.", flag="--vector", unit="name=size"
        ),
    )
    max_rows_per_file: int | None = field(
        default=None,
        metadata=about("Rows after which a partition continues in a new file.", minimum=1, unit="rows"),
    )
    data_storage_version: str | None = field(
        default=None,
        metadata=about(
            "Version of the data files of a new dataset: 2.0, 2.1, 2.2 or stable.", flag="--storage-version"
        ),
    )
    enable_stable_row_ids: bool | None = field(
        default=None,
        metadata=about(
            "Whether rows of a new dataset keep their ids.", flag="--stable-row-ids/--no-stable-row-ids"
        ),
    )

    def __post_init__(self) -> None:
        """Check the numbers, and that only one of them sets the partitions."""
        super().__post_init__()
        if self.partitions is not None and self.partition_rows is not None:
            raise InvalidInputError("partitions and partition_rows: expected one of them, found both")


@dataclass(frozen=True, kw_only=True)
class RunOptions(JobOptions):
    """Identity of a run, with which the same run again changes nothing."""

    transaction_id: str | None = field(
        default=None,
        metadata=about(
            "UUID of the run. A job that runs again with the same UUID makes its version only once.",
            in_file=False,
            unit="UUID",
        ),
    )
