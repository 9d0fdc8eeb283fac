"""Datasets as a caller opens them, with the names, arguments and results of the reference library."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import pyarrow as pa
from pyroaring import FrozenBitMap

from lance_core.api.column_changes import ColumnChanges
from lance_core.api.commit import Committing
from lance_core.api.fragment import LanceFragment
from lance_core.api.history import History
from lance_core.api.opened import Reference
from lance_core.api.row_changes import RowChanges
from lance_core.api.tags_and_branches import Branches, Tags
from lance_core.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from lance_core.hints import did_you_mean, near_names
from lance_core.scan.read.blobs import BlobFile
from lance_core.scan.scanner import LanceScanner, blob_files, row_taker, scan_options
from lance_core.scan.session import Session
from lance_core.scan.take.keys import as_keys
from lance_core.storage import scheme_of, storage_for
from lance_core.table.bases import DatasetBasePath
from lance_core.table.indices import IndexDescription, index_statistics
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import open_kept, open_snapshot, version_before
from lance_core.table.versions import VERSIONS, latest_version, list_versions

if TYPE_CHECKING:
    import pandas as pd

    from lance_core.api.optimize import DatasetOptimizer


class Version(TypedDict):
    """One entry of `LanceDataset.versions`."""

    version: int
    timestamp: datetime
    metadata: dict[str, str]


class IndexInformation(TypedDict):
    """One entry of `LanceDataset.list_indices`."""

    name: str
    type: str
    uuid: str
    fields: list[str]
    version: int
    fragment_ids: FrozenBitMap
    base_id: int | None


def dataset(
    uri: str | PathLike[str],
    version: Reference | None = None,
    asof: datetime | str | None = None,
    block_size: int | None = None,
    commit_lock: object = None,
    index_cache_size: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    default_scan_options: Mapping[str, Any] | None = None,
    metadata_cache_size_bytes: int | None = None,
    index_cache_size_bytes: int | None = None,
    read_params: Mapping[str, Any] | None = None,
    session: Session | None = None,
) -> LanceDataset:
    """Open a dataset.

    Of the reference's arguments those that size its reads and caches, and `read_params`, change nothing here:
    reads follow the pages, and datasets share the caches of their session.

    Args:
        uri: Path or URL of the dataset's directory.
        version: Version to open, or the name of a tag; the latest version if left out.
        asof: Open the last version committed before this time: local time unless it carries a zone; text is
            ISO 8601. Has no effect when `version` is given.
        storage_options: Settings of the storage that the URI names.
        session: Caches, memory and settings of reads and changes, also of other versions that are opened from
            the dataset. By default datasets share one session of the process.

    Raises:
        TypeError: `session` is something else, such as a session of the reference.
        DatasetNotFoundError: there is no dataset, not this version or tag, or none as old as `asof`.
        UnsupportedFeatureError: the dataset uses a feature that is not supported, named in the message; or
            `commit_lock` or `default_scan_options` is given.
    """
    for name, value in (("commit_lock", commit_lock), ("default_scan_options", default_scan_options)):
        if value is not None:
            raise UnsupportedFeatureError(f"argument {name!r} is not supported")
    if not isinstance(session, Session | None):
        raise TypeError(f"session must be a lance_core.Session, got {type(session).__name__}")
    try:
        opened = LanceDataset(fspath(uri), version, storage_options, session=session)
    except DatasetNotFoundError as error:
        if type(error) is not DatasetNotFoundError or scheme_of(fspath(uri)) != "file":
            raise
        raise DatasetNotFoundError(f"{error}{_hint_beside(fspath(uri))}") from None
    if version is not None or asof is None:
        return opened
    return opened.checkout_version(_version_before(opened, asof))


class LanceDataset(RowChanges, ColumnChanges, History, Committing):
    """One version of a dataset."""

    def __len__(self) -> int:
        """Return the number of rows that are not deleted; without rows a dataset is false, as a list is."""
        return self.count_rows()

    @staticmethod
    def drop(
        base_uri: str | PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        ignore_not_found: bool | None = None,
    ) -> None:
        """Remove a dataset with all its versions, tags and branches.

        Args:
            base_uri: Path or URL of the dataset.
            storage_options: Settings of the storage that the URI names.
            ignore_not_found: Do nothing where there is no dataset.

        Raises:
            DatasetNotFoundError: there is no dataset.
            StorageError: the storage failed; `lance_core.maintenance.drop` says what is left then.
        """
        from lance_core.maintenance.drop import drop_table  # late: most processes only read

        try:
            drop_table(storage_for(fspath(base_uri), storage_options))
        except DatasetNotFoundError:
            if not ignore_not_found:
                raise

    @property
    def latest_version(self) -> int:
        """The version that was committed last, whichever is opened."""
        return latest_version(self._storage)

    def versions(self) -> list[Version]:
        """All versions, oldest first, with local commit time and a summary of each."""
        numbers = list_versions(self._storage)
        return [_describe(open_snapshot(self._storage, number).manifest) for number in numbers]

    def get_version(self) -> Version:
        """Return the entry of `versions` for the opened version."""
        return _describe(self._snapshot.manifest)

    @property
    def tags(self) -> Tags:
        """Names of versions."""
        return Tags(self)

    @property
    def branches(self) -> Branches:
        """The branches beside the main one."""
        return Branches(self)

    def config(self) -> dict[str, str]:
        """Settings of the table."""
        return dict(self._snapshot.manifest.config)

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata that users set on the table."""
        return dict(self._snapshot.manifest.table_metadata)

    @property
    def schema_metadata(self) -> dict[str, str]:
        """The metadata of the schema."""
        return dict(self._snapshot.manifest.schema.metadata)

    def base_paths(self) -> dict[int, DatasetBasePath]:
        """Other places that files of this version may be in, by id."""
        return dict(self._snapshot.manifest.base_paths)

    @property
    def schema(self) -> pa.Schema:
        """The columns, with the nullability and metadata of their fields."""
        return self._snapshot.manifest.schema.to_arrow()

    @property
    def data_storage_version(self) -> str:
        """Version of the data files."""
        return self._snapshot.manifest.data_storage_version

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they are moved."""
        return self._snapshot.manifest.has_stable_row_ids

    @property
    def has_index(self) -> bool:
        """Whether any index is listed."""
        return bool(self._snapshot.manifest.index_segments)

    def describe_indices(self) -> list[IndexDescription]:
        """Return the indices by name, as the manifest lists them."""
        return self._snapshot.manifest.describe_indices()

    def list_indices(self) -> list[IndexInformation]:
        """One entry per index segment; `describe_indices` tells more."""
        return [
            IndexInformation(
                name=index.name,
                type=index.index_type,
                uuid=segment.uuid,
                fields=list(index.field_names),
                version=segment.dataset_version_at_last_update,
                fragment_ids=segment.fragment_ids,
                base_id=segment.base_id,
            )
            for index in self.describe_indices()
            for segment in index.segments
        ]

    def index_statistics(self, index_name: str) -> dict[str, object]:
        """Return how much of the table an index covers. Facts that only the files of the index contain are
        left out.

        Raises:
            KeyError: there is no such index.
        """
        for index in self.describe_indices():
            if index.name == index_name:
                return index_statistics(index, self._snapshot.manifest.fragments)
        raise KeyError(f"no index {index_name!r}")

    def drop_index(self, name: str, *, transaction_id: str | None = None, sync: bool = True) -> None:
        """Drop an index by its name, and move to the version without it.

        Files of the index stay as long as an older version needs them: `cleanup_old_versions` removes them.

        Args:
            name: Of the index, as `describe_indices` tells it; not of a column.
            transaction_id: A UUID that the transaction gets as its own; repeating it gives the first result.
            sync: On local disks make the version durable before returning.

        Raises:
            IndexNotFoundError: there is no such index.
            UnsupportedFeatureError: the index belongs to the system.
            CommitConflictError: another commit made it impossible.
        """
        from lance_core.changes.drop_index import drop_index

        self._snapshot = drop_index(self.snapshot, name, transaction_id=transaction_id, sync=sync)

    def get_fragments(self) -> list[LanceFragment]:
        """All fragments in dataset order."""
        return [LanceFragment(self, fragment) for fragment in self._snapshot.manifest.fragments]

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """Return the fragment of this id, if there is one."""
        for fragment in self._snapshot.manifest.fragments:
            if fragment.id == fragment_id:
                return LanceFragment(self, fragment)
        return None

    def count_rows(self, filter: Any = None, **arguments: Any) -> int:
        """Rows that are not deleted and pass the filter, if one is given; without one no data is read.

        Args:
            filter: As for `scanner`.
            arguments: Others of `scanner`.
        """
        return self.scanner([], filter, **arguments).count_rows()

    def validate(self) -> None:
        """Check every file of this version: every byte of 2.x files of ours, and that all others decode.

        Changes check the pages that they read without being asked. This finds damage in all other pages.

        Raises:
            CorruptFileError: the first thing that is wrong; names file, column and page.
        """
        from lance_core.scan.validate import validate_snapshot  # late, as all that most processes do without

        validate_snapshot(self._snapshot)

    def scanner(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        *,
        fragments: Sequence[LanceFragment] | None = None,
        **arguments: Any,
    ) -> LanceScanner:
        """Return a scan of this version.

        Args:
            columns: Names or dotted paths in output order, or SQL expressions by name; `None` means all
                columns, an empty list rows without columns. `_rowid`, `_rowaddr` and `_rowoffset` are
                computed.
            filter: SQL text or a `pyarrow.compute.Expression`: only rows for which it is true are returned.
            limit: Most rows to return.
            offset: Rows to skip; with a filter, of those that pass.
            fragments: Fragments to read, in this order.
            arguments: `batch_size`, `batch_size_bytes`, `with_row_id`, `with_row_address`, and others of the
                reference as far as `lance_core.scan.scanner.scan_options` says.

        Raises:
            InvalidInputError: a column does not exist or is named twice, a number is out of range, an
                expression cannot be used.
            UnsupportedFeatureError: an argument or a column that is not supported yet.
            TypeError: an argument of another type.
        """
        ids = None if fragments is None else tuple(_fragment_id(fragment) for fragment in fragments)
        options = scan_options(
            self._snapshot.manifest.schema, columns, filter, limit, offset, fragments=ids, **arguments
        )
        return LanceScanner(self._snapshot, options)

    def to_table(self, *args: Any, **arguments: Any) -> pa.Table:
        """All rows at once; arguments are those of `scanner`."""
        return self.scanner(*args, **arguments).to_table()

    def to_batches(self, *args: Any, **arguments: Any) -> Iterator[pa.RecordBatch]:
        """Return the rows as batches; arguments are those of `scanner`."""
        return self.scanner(*args, **arguments).to_batches()

    def to_pandas(self, *args: Any, **arguments: Any) -> pd.DataFrame:
        """All rows as a pandas frame; arguments are those of `scanner`."""
        return self.scanner(*args, **arguments).to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return all rows as a stream of Arrow's PyCapsule interface; see `LanceScanner`."""
        return self.scanner().__arrow_c_stream__(requested_schema)

    def head(self, num_rows: int, **arguments: Any) -> pa.Table:
        """Return the first rows; arguments are those of `scanner`."""
        return self.to_table(limit=num_rows, **arguments)

    def take(self, indices: Any, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Return the rows at offsets, in the order given; an offset given twice gives its row twice.

        Args:
            indices: Integers in a list, an Arrow or a NumPy array; they count rows that are not deleted.
            columns: As for `scanner`.

        Raises:
            InvalidInputError: an offset is out of range, or a column does not exist.
        """
        taker = row_taker(self._snapshot, columns)
        return pa.Table.from_batches([taker.by_offset(as_keys(indices, "indices"))])

    def _take_rows(self, row_ids: Any, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Return the rows of row ids, in the order given; ids of rows that are deleted or never were are
        left out.

        Without stable row ids they are row addresses, and one beyond the table is an `InvalidInputError`.
        """
        taker = row_taker(self._snapshot, columns)
        return pa.Table.from_batches([taker.by_row_id(as_keys(row_ids, "row_ids"))])

    def sample(
        self,
        num_rows: int,
        columns: list[str] | dict[str, str] | None = None,
        randomize_order: bool = True,
    ) -> pa.Table:
        """Rows chosen at random, none twice.

        Args:
            num_rows: How many.
            columns: As for `scanner`.
            randomize_order: Give them in random order instead of that of the dataset, which is read faster.

        Raises:
            InvalidInputError: there are fewer rows, or a column does not exist.
        """
        total = self.count_rows()
        if not 0 <= num_rows <= total:
            raise InvalidInputError("num_rows", expected=f"0 to {total}", found=num_rows)
        indices = random.sample(range(total), num_rows)
        return self.take(indices if randomize_order else sorted(indices), columns)

    def take_blobs(
        self, blob_column: str, ids: Any = None, addresses: Any = None, indices: Any = None
    ) -> list[BlobFile | None]:
        """Return the blobs of single rows as files that are read on demand, None if a value is null.

        Args:
            blob_column: Name or dotted path of a blob column.
            ids, addresses, indices: Row ids, row addresses or row offsets; one of the three, in any order.

        Raises:
            InvalidInputError: not exactly one of the three, or the column holds no blobs.
            LanceError: as for `take` and `_take_rows`.
        """
        return blob_files(self._snapshot, blob_column, ids=ids, addresses=addresses, indices=indices)

    def insert(self, data: Any, *, mode: Literal["append", "overwrite"] = "append", **arguments: Any) -> None:
        """Write a new version on top of this one and move to it; arguments are those of `write_dataset`."""
        from lance_core.api.write import write_dataset  # it makes datasets

        self._snapshot = write_dataset(data, self, mode=mode, **arguments).snapshot

    @property
    def optimize(self) -> DatasetOptimizer:
        """Compaction."""
        from lance_core.api.optimize import DatasetOptimizer  # late: most processes only read

        return DatasetOptimizer(self)

    def checkout_version(self, version: Reference) -> LanceDataset:
        """Return another version of the dataset. This object stays at its version.

        Args:
            version: A number names a version of the branch that is open, text a tag of any branch, a pair a
                branch (`None` or "main": the main one) and its version (`None`: the latest).

        Raises:
            DatasetNotFoundError: there is no such version, tag or branch.
        """
        return self.at(self.open_reference(version))

    def checkout_latest(self) -> None:
        """Move this object to the latest version of its branch."""
        self._snapshot = self._bound(open_kept(self._storage))


def _fragment_id(fragment: object) -> int:
    if not isinstance(fragment, LanceFragment):
        raise TypeError(f"fragments must be fragments of `get_fragments`, got {type(fragment).__name__}")
    return fragment.fragment_id


def _version_before(opened: LanceDataset, asof: datetime | str) -> int:
    if isinstance(asof, str):
        try:
            asof = datetime.fromisoformat(asof)
        except ValueError:
            raise InvalidInputError("asof is not an ISO 8601 time", found=asof) from None
    elif not isinstance(asof, datetime):
        raise TypeError(f"asof must be a datetime or text, got {type(asof).__name__}")
    version = version_before(opened.snapshot.storage, asof.astimezone())
    if version is None:
        raise DatasetNotFoundError(f"{asof} is earlier than the first version of this dataset")
    return version


def _local(time: datetime) -> datetime:
    """The reference reports commit times in the local zone, without naming it."""
    return time.astimezone().replace(tzinfo=None)


def _hint_beside(path: str) -> str:
    """Return the end of a message about a path without a dataset: datasets beside it with similar names."""
    parent, name = os.path.split(path.rstrip("/"))
    try:
        entries = sorted(os.listdir(parent or "."))
    except OSError:
        return ""
    by_stem = {entry.removesuffix(".lance"): entry for entry in entries}
    near = [os.path.join(parent, by_stem[stem]) for stem in near_names(name.removesuffix(".lance"), by_stem)]
    near = [each for each in near if os.path.isdir(os.path.join(each, VERSIONS))]
    return did_you_mean(path, near) if near else ""


def _describe(manifest: Manifest) -> Version:
    return Version(
        version=manifest.version, timestamp=_local(manifest.timestamp), metadata=summarize_version(manifest)
    )


def summarize_version(manifest: Manifest) -> dict[str, str]:
    """Return the `metadata` of a version in `LanceDataset.versions`: what its fragments and files sum up
    to.
    """
    fragments = manifest.fragments
    files = [file for fragment in fragments for file in fragment.files]
    deleted = [fragment.num_deleted_rows or 0 for fragment in fragments if fragment.deletion_file is not None]
    physical_rows = sum(fragment.physical_rows for fragment in fragments)
    totals = {
        "total_data_file_rows": physical_rows,
        "total_data_files": len(files),
        "total_deletion_file_rows": sum(deleted),
        "total_deletion_files": len(deleted),
        "total_files_size": sum(file.size for file in files),
        "total_fragments": len(fragments),
        "total_rows": physical_rows - sum(deleted),
    }
    return {name: str(total) for name, total in totals.items()}
