"""Facts of datasets: which there are, and what their manifests say. Without Flight types."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pyarrow as pa

from flight_server.catalog.local import Catalog
from flight_server.errors import report_error
from flight_server.requests.names import DatasetReference
from lance_core.api.serving import (
    IndexDescription,
    Snapshot,
    VersionEntry,
    Written,
    find_written,
    map_ahead,
    validate_snapshot,
    version_entries,
)
from lance_core.errors import LanceError

_EMPTY_SCHEMA = pa.schema([])


@dataclass(frozen=True)
class DatasetSummary:
    """Dataset as its latest manifest describes it; if `error` is set, nothing else is known."""

    name: str
    schema: pa.Schema = _EMPTY_SCHEMA
    version: int | None = None
    num_rows: int = -1
    num_bytes: int = -1
    """Bytes of the data files, -1 if the manifest does not give the sizes of all files."""
    error: str | None = None


@dataclass(frozen=True)
class DatasetDescription:
    """Version of a dataset as its manifest describes it."""

    summary: DatasetSummary
    branch: str | None
    """None is the main branch."""
    identity: str
    """Identity of the manifest. A dataset that was dropped and made again has other identities."""
    fragment_ids: frozenset[int]
    data_storage_version: str
    indices: tuple[IndexDescription, ...]
    config: dict[str, str]
    metadata: dict[str, str]
    """Metadata that users set on the table."""
    tags: tuple[str, ...]
    branches: tuple[str, ...]
    """Names of the branches, without the main branch."""


@dataclass(frozen=True)
class FragmentSummary:
    """Fragment as the manifest describes it."""

    id: int
    num_rows: int
    physical_rows: int
    """Rows of the data files, deleted rows included."""
    num_bytes: int
    """Bytes of the data files, -1 if the manifest does not give the sizes of all files."""


@dataclass(frozen=True)
class VersionSettings:
    """Settings and metadata of one version."""

    version: int
    config: dict[str, str]
    table_metadata: dict[str, str]
    schema_metadata: dict[str, str]


class Datasets:
    """Facts of the datasets of one catalog. Thread-safe."""

    def __init__(self, catalog: Catalog, root: str) -> None:
        """Read from `catalog`. Error messages never show `root`, the path of the served folder."""
        self._catalog = catalog
        self._root = root

    def summaries(self, pattern: str) -> Iterator[DatasetSummary]:
        """Yield the datasets whose names match the glob `pattern`, each from its manifest alone.

        An empty pattern matches all names; `*` also matches `/`. A dataset that cannot be read has only its
        name and an `error`.
        """
        names = (name for name in self._catalog.names() if not pattern or fnmatchcase(name, pattern))
        return map_ahead(self._summary, names, self._catalog.is_remote)

    def describe(self, reference: DatasetReference) -> DatasetDescription:
        """Return the facts in the manifest of one version."""
        snapshot = self._catalog.open(reference)
        manifest = snapshot.manifest
        tags, branches = self._catalog.refs(reference.name)
        return DatasetDescription(
            summary=_summarize(reference.name, snapshot),
            branch=manifest.branch,
            identity=manifest.identity,
            data_storage_version=manifest.data_storage_version,
            indices=tuple(manifest.describe_indices()),
            fragment_ids=frozenset(fragment.id for fragment in manifest.fragments),
            config=dict(manifest.config),
            metadata=dict(manifest.table_metadata),
            tags=tuple(tags),
            branches=tuple(branches),
        )

    def fragments(self, reference: DatasetReference) -> tuple[int, tuple[FragmentSummary, ...]]:
        """Return the number of the version, and its fragments in dataset order."""
        manifest = self._catalog.open(reference).manifest
        return manifest.version, tuple(
            FragmentSummary(
                fragment.id,
                fragment.num_rows,
                fragment.physical_rows,
                _total([file.size for file in fragment.files]),
            )
            for fragment in manifest.fragments
        )

    def settings(self, reference: DatasetReference) -> VersionSettings:
        """Return the settings and metadata of one version."""
        manifest = self._catalog.open(reference).manifest
        return VersionSettings(
            manifest.version,
            dict(manifest.config),
            dict(manifest.table_metadata),
            dict(manifest.schema.metadata),
        )

    def validate(self, reference: DatasetReference) -> int:
        """Check every file of a version, and return its number; errors are those of `validate_snapshot`."""
        snapshot = self._catalog.open(reference)
        validate_snapshot(snapshot)
        return snapshot.manifest.version

    def versions(
        self,
        reference: DatasetReference,
        *,
        first: int = 0,
        last: int = sys.maxsize,
        limit: int | None = None,
        with_effects: bool = False,
    ) -> Sequence[VersionEntry]:
        """Return versions of a branch, oldest first; arguments and errors are those of `version_entries`."""
        snapshot = self._catalog.open(reference)
        return version_entries(snapshot, first, last, limit=limit, with_effects=with_effects)

    def find_transaction(self, reference: DatasetReference, transaction_id: str) -> Written | None:
        """Return what a transaction added to a branch; None if it made no version."""
        return find_written(self._catalog.open(reference).storage, transaction_id)

    def _summary(self, name: str) -> DatasetSummary:
        try:
            return _summarize(name, self._catalog.open(DatasetReference(name)))
        except LanceError as error:
            report = report_error(error, self._root)
            return DatasetSummary(name, error=f"[{report.name}] {report.message}")


def _summarize(name: str, snapshot: Snapshot) -> DatasetSummary:
    manifest = snapshot.manifest
    return DatasetSummary(
        name=name,
        schema=manifest.schema.to_arrow(),
        version=manifest.version,
        num_rows=sum(fragment.num_rows for fragment in manifest.fragments),
        num_bytes=_total([file.size for fragment in manifest.fragments for file in fragment.files]),
    )


def _total(sizes: Sequence[int]) -> int:
    """Return the sum of sizes; -1 if one of them is unknown, which manifests store as 0."""
    return sum(sizes) if all(sizes) else -1
