"""Datasets as a caller opens them, with the names, arguments and results of the reference library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypedDict

import pyarrow as pa

from lance_core.errors import DatasetNotFoundError, InvalidInputError, UnsupportedFeatureError
from lance_core.fragment import LanceFragment
from lance_core.scan.options import ScanOptions
from lance_core.scan.plan import plan_scan
from lance_core.scan.scanner import LanceScanner, scan_options
from lance_core.storage import storage_for
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot, open_snapshot
from lance_core.table.versions import latest_version, list_versions

if TYPE_CHECKING:
    import pandas as pd


class Version(TypedDict):
    """One entry of `LanceDataset.versions`."""

    version: int
    timestamp: datetime
    metadata: dict[str, str]


def dataset(
    uri: str | PathLike[str],
    version: int | str | None = None,
    asof: datetime | str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> LanceDataset:
    """Open a dataset.

    Args:
        uri: Path or URL of the dataset's directory.
        version: Version to open; the latest one if left out.
        asof: Open the last version committed before this time: local time unless it carries a zone; text is
            ISO 8601. Has no effect when `version` is given.
        storage_options: Settings of the storage that the URI names.

    Raises:
        DatasetNotFoundError: there is no dataset, or not this version, or none as old as `asof`.
        UnsupportedFeatureError: the dataset uses a feature that is not supported, named in the message.
    """
    opened = LanceDataset(fspath(uri), version, storage_options)
    if version is not None or asof is None:
        return opened
    return opened.checkout_version(_version_before(opened, asof))


class LanceDataset:
    """One version of a dataset."""

    def __init__(
        self,
        uri: str,
        version: int | str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._uri = uri
        self._storage_options = storage_options
        self._storage = storage_for(uri, storage_options)
        self._snapshot = open_snapshot(self._storage, _version_number(version))

    def __repr__(self) -> str:
        return f"LanceDataset(uri={self.uri!r}, version={self.version})"

    @property
    def uri(self) -> str:
        """Where the dataset lies, as it was given."""
        return self._uri

    @property
    def snapshot(self) -> Snapshot:
        """The opened version: storage and manifest."""
        return self._snapshot

    @property
    def version(self) -> int:
        """The opened version."""
        return self._snapshot.manifest.version

    @property
    def latest_version(self) -> int:
        """The version that was committed last, whichever is opened."""
        return latest_version(self._storage)

    def versions(self) -> list[Version]:
        """All versions, oldest first, with local commit time and a summary of each."""
        manifests = (
            open_snapshot(self._storage, version).manifest for version in list_versions(self._storage)
        )
        return [
            Version(
                version=manifest.version, timestamp=_local(manifest.timestamp), metadata=_summary(manifest)
            )
            for manifest in manifests
        ]

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

    def get_fragments(self) -> list[LanceFragment]:
        """All fragments in dataset order."""
        return [LanceFragment(self, fragment) for fragment in self._snapshot.manifest.fragments]

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """The fragment of this id, if there is one."""
        for fragment in self._snapshot.manifest.fragments:
            if fragment.id == fragment_id:
                return LanceFragment(self, fragment)
        return None

    def count_rows(self, filter: Any = None) -> int:
        """Rows that are not deleted; reads no data."""
        if filter is not None:
            raise UnsupportedFeatureError("argument 'filter' is not supported yet")
        return plan_scan(self._snapshot, ScanOptions(columns=())).num_rows

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
        """A scan of this version.

        Args:
            columns: Names or dotted paths in output order; `None` means all columns, an empty list rows
                without columns. `_rowid`, `_rowaddr` and `_rowoffset` are computed.
            filter: Not supported yet.
            limit: Most rows to return.
            offset: Rows to skip.
            fragments: Fragments to read, in this order.
            arguments: `batch_size`, `batch_size_bytes`, `with_row_id`, `with_row_address`, and others of the
                reference as far as `lance_core.scan.scanner.scan_options` says.

        Raises:
            InvalidInputError: a column does not exist or is named twice, a number is out of range.
            UnsupportedFeatureError: an argument or a column that is not supported yet.
        """
        ids = None if fragments is None else tuple(fragment.fragment_id for fragment in fragments)
        options = scan_options(columns, filter, limit, offset, fragments=ids, **arguments)
        return LanceScanner(self._snapshot, options, self.schema)

    def to_table(self, *args: Any, **arguments: Any) -> pa.Table:
        """All rows at once; arguments are those of `scanner`."""
        return self.scanner(*args, **arguments).to_table()

    def to_batches(self, *args: Any, **arguments: Any) -> Iterator[pa.RecordBatch]:
        """The rows as batches; arguments are those of `scanner`."""
        return self.scanner(*args, **arguments).to_batches()

    def to_pandas(self, *args: Any, **arguments: Any) -> pd.DataFrame:
        """All rows as a pandas frame; arguments are those of `scanner`."""
        return self.scanner(*args, **arguments).to_pandas()

    def head(self, num_rows: int, **arguments: Any) -> pa.Table:
        """The first rows; arguments are those of `scanner`."""
        return self.to_table(limit=num_rows, **arguments)

    def checkout_version(self, version: int | str) -> LanceDataset:
        """Another version of the same dataset, opened beside this one.

        Raises:
            DatasetNotFoundError: there is no such version.
        """
        return LanceDataset(self._uri, version, self._storage_options)

    def checkout_latest(self) -> None:
        """Move this object to the latest version."""
        self._snapshot = open_snapshot(self._storage, None)


def _version_number(version: int | str | None) -> int | None:
    if isinstance(version, str):
        raise UnsupportedFeatureError("tags are not supported yet, give a version number", found=version)
    return version


def _version_before(opened: LanceDataset, asof: datetime | str) -> int:
    if isinstance(asof, str):
        try:
            asof = datetime.fromisoformat(asof)
        except ValueError:
            raise InvalidInputError("asof is not an ISO 8601 time", found=asof) from None
    elif not isinstance(asof, datetime):
        raise TypeError(f"asof must be a datetime or text, got {type(asof).__name__}")
    cutoff = asof if asof.tzinfo is None else _local(asof)
    earlier = [entry["version"] for entry in opened.versions() if entry["timestamp"] < cutoff]
    if not earlier:
        raise DatasetNotFoundError(f"{asof} is earlier than the first version of this dataset")
    return max(earlier)


def _local(time: datetime) -> datetime:
    """The reference reports commit times in the local zone, without naming it."""
    return time.astimezone().replace(tzinfo=None)


def _summary(manifest: Manifest) -> dict[str, str]:
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
