"""The interface of a dataset that a verb reads or changes, in this process or on a server."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_core.errors import InvalidInputError

Alterations = Sequence[Mapping[str, Any]]
"""Changes of columns: `path`, and `name` or `data_type` (as SQL writes a type)."""


@dataclass(frozen=True)
class Facts:
    """Facts that `show` prints about one version of a dataset. A number that is not known is -1."""

    version: int
    schema: pa.Schema
    num_rows: int
    num_fragments: int
    data_storage_version: str


@dataclass(frozen=True)
class Selection:
    """Rows and columns that a verb reads."""

    columns: list[str] | dict[str, str] | None = None
    filter: str | None = None
    limit: int | None = None
    offset: int | None = None
    blob_handling: str | None = None
    full_text_query: dict[str, Any] | None = None
    order_by: tuple[Mapping[str, Any], ...] | None = None
    """Columns to sort by, as commands have them: `column, ascending, nulls_first`."""
    compression: str | None = None
    nearest: Mapping[str, Any] | None = None
    """Search of the nearest rows instead."""
    hybrid: Mapping[str, Any] | None = None
    """Rule by which the rows of both searches are joined."""
    search_filter: str | None = None
    """The search that is a filter of the other one instead: "vector" or "text"."""
    index_segments: tuple[str, ...] | None = None
    """Uuids of the segments of a vector index that find the nearest rows."""
    prefilter: bool | None = None

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of a command, without those that are not given."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Rows:
    """Rows that a verb reads: the batches, and the number of rows if it is known."""

    num_rows: int | None
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class Target(ABC):
    """A dataset in the local file system or on a server."""

    @abstractmethod
    def facts(self) -> Facts: ...

    @abstractmethod
    def read(self, selection: Selection) -> AbstractContextManager[Rows]: ...

    @abstractmethod
    def take(self, offsets: list[int], columns: list[str] | dict[str, str] | None) -> pa.Table:
        """Return the rows at positions in dataset order."""

    @abstractmethod
    def blob(self, column: str, offset: int) -> Iterator[bytes]:
        """Yield the bytes of one blob in parts; InvalidInputError if the value is null."""

    @abstractmethod
    def explain(self, selection: Selection, *, analyze: bool) -> dict[str, Any]:
        """Return what a read takes, in the form of `lance_core.scan.explain.Explanation.as_data`."""

    @abstractmethod
    def aggregate(
        self, aggregates: Mapping[str, str], group_by: list[str] | dict[str, str] | None, filter: str | None
    ) -> pa.Table:
        """Return one row per group of the rows that meet a filter, as the command `aggregate` does."""

    @abstractmethod
    def delete(self, predicate: str) -> dict[str, Any]:
        """Delete rows; the answer of the action `delete`."""

    @abstractmethod
    def update(self, updates: dict[str, str], where: str | None) -> dict[str, Any]:
        """Give columns new values; the answer of the action `update`."""

    @abstractmethod
    def compact(self, options: dict[str, Any]) -> dict[str, Any]:
        """Compact; the answer of the action `compact`."""

    @abstractmethod
    def cleanup(self, options: dict[str, Any]) -> dict[str, Any]:
        """Remove old versions; options and answer are those of the action `cleanup`."""

    @abstractmethod
    def versions(self) -> list[dict[str, Any]]:
        """Return all versions, oldest first: `version, timestamp` (ISO 8601, UTC) and `metadata`."""

    @abstractmethod
    def restore(self, version: int) -> dict[str, Any]:
        """Make an older version the latest one again; the answer of the action `restore`."""

    @abstractmethod
    def drop(self) -> None:
        """Remove the dataset with all its versions, tags and branches."""

    @abstractmethod
    def damage(self) -> list[str]:
        """Check every file of the version; return what is wrong, of a server the first thing only."""

    @abstractmethod
    def tags(self) -> dict[str, dict[str, Any]]:
        """Return all tags by name, as the action `list_tags` gives them."""

    @abstractmethod
    def create_tag(self, name: str) -> int:
        """Name the version; returns its number."""

    @abstractmethod
    def update_tag(self, name: str) -> int:
        """Let a tag name the version; returns its number."""

    @abstractmethod
    def delete_tag(self, name: str) -> None: ...

    @abstractmethod
    def branches(self) -> dict[str, dict[str, Any]]:
        """Return all branches by name, without the main branch, as the action `list_branches` gives them."""

    @abstractmethod
    def create_branch(self, name: str) -> int:
        """Begin a branch with the version; returns the number of the branch's first version."""

    @abstractmethod
    def delete_branch(self, name: str) -> None: ...

    @abstractmethod
    def add_columns(self, columns: dict[str, str]) -> int:
        """Add columns computed by SQL; returns the new version."""

    @abstractmethod
    def indices(self) -> list[dict[str, Any]]:
        """List the indices as the action `describe` does."""

    @abstractmethod
    def create_index(self, column: str, index_type: str, options: dict[str, Any]) -> int:
        """Build an index; returns the new version. Options are further fields of the action."""

    @abstractmethod
    def optimize_indices(self, options: dict[str, Any]) -> int:
        """Let indices cover all rows; returns the new version. Options are fields of the action."""

    @abstractmethod
    def index_statistics(self, name: str) -> dict[str, Any]:
        """Return facts about an index as the action `index_statistics` does."""

    @abstractmethod
    def prewarm_index(self, name: str) -> None:
        """Read the files of an index ahead of queries."""

    @abstractmethod
    def drop_index(self, name: str) -> int:
        """Drop an index; returns the new version."""

    @abstractmethod
    def drop_columns(self, columns: list[str]) -> int:
        """Remove columns; returns the new version."""

    @abstractmethod
    def alter_columns(self, alterations: Alterations) -> int:
        """Change names or types of columns; returns the new version."""


def null_blob(column: str, offset: int) -> InvalidInputError:
    """Return the error of a blob that is null."""
    return InvalidInputError(f"row {offset} has no value: it is null", column=column)
