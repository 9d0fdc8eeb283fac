"""Facts of datasets: which there are, and what their manifests say. Without Flight types."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import pyarrow as pa

from flight_server.catalog.local import Catalog
from flight_server.catalog.views import View
from flight_server.errors import report_error
from flight_server.requests.names import DatasetReference
from lance_core.api.serving import (
    IndexDescription,
    VersionEntry,
    Written,
    find_written,
    index_statistics,
    map_ahead,
    prewarm_index,
    validate_snapshot,
    version_entries,
)
from lance_core.errors import LanceError

_EMPTY_SCHEMA = pa.schema([])


@dataclass(frozen=True)
class DatasetSummary:
    """Dataset as its latest manifest describes it.

    Only the name is known if `error` is set, or if the caller may list the dataset but not read it.
    """

    name: str
    schema: pa.Schema = _EMPTY_SCHEMA
    version: int | None = None
    num_rows: int = -1
    """-1 if the caller may not know the number of rows."""
    num_bytes: int = -1
    """Bytes of the data files, -1 if the manifest does not give the sizes of all files, or if the caller may
    not know them.
    """
    error: str | None = None


@dataclass(frozen=True)
class DatasetDescription:
    """Version of a dataset as its manifest describes it."""

    summary: DatasetSummary
    branch: str | None
    """None is the main branch."""
    identity: str
    """Identity of the manifest. A dataset that was dropped and made again has other identities."""
    fragment_ids: frozenset[int] | None
    """None if the caller may not know them."""
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

        An empty pattern matches all names; `*` also matches `/`. A dataset that the caller has no right to
        read has only its name. A dataset that cannot be read has its name and an `error`.
        """
        names = (name for name in self._catalog.names() if not pattern or fnmatchcase(name, pattern))
        return map_ahead(self._summary, names, self._catalog.is_remote)

    def describe(self, reference: DatasetReference) -> DatasetDescription:
        """Return the facts in the manifest of one version that are not about hidden columns or rows."""
        view = self._catalog.view(reference)
        manifest = view.snapshot.manifest
        tags, branches = self._catalog.refs(reference.name)
        return DatasetDescription(
            summary=_summarize(reference.name, view),
            branch=manifest.branch,
            identity=manifest.identity,
            data_storage_version=manifest.data_storage_version,
            indices=tuple(view.snapshot.describe_indices()) if view.is_whole else (),
            fragment_ids=None
            if view.hides_rows
            else frozenset(fragment.id for fragment in manifest.fragments),
            config=dict(manifest.config) if view.is_whole else {},
            metadata=dict(manifest.table_metadata) if view.is_whole else {},
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

    def index_statistics(self, reference: DatasetReference, name: str) -> dict[str, object]:
        """Return facts about an index; errors are those of `index_statistics` of the core."""
        return index_statistics(self._catalog.open(reference), name)

    def prewarm_index(self, reference: DatasetReference, name: str) -> int:
        """Read the files of an index; return the number of the version. Errors are those of the core."""
        snapshot = self._catalog.open(reference)
        prewarm_index(snapshot, name)
        return snapshot.manifest.version

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
        """Return versions of a branch, oldest first; arguments and errors are those of `version_entries`.

        A caller who may read only a part of the dataset gets no totals, and cannot ask for effects.
        """
        view = self._catalog.view(reference)
        if with_effects and not view.is_whole:
            raise self._catalog.missing(reference.name, " as a whole")
        entries = version_entries(view.snapshot, first, last, limit=limit, with_effects=with_effects)
        return entries if view.is_whole else [replace(entry, metadata={}) for entry in entries]

    def find_transaction(self, reference: DatasetReference, transaction_id: str) -> Written | None:
        """Return what a transaction added to a branch; None if it made no version."""
        return find_written(self._catalog.open(reference).storage, transaction_id)

    def _summary(self, name: str) -> DatasetSummary:
        readable = self._catalog.needing("read")
        if not readable.admits(name):
            return DatasetSummary(name)
        try:
            return _summarize(name, readable.view(DatasetReference(name)))
        except LanceError as error:
            report = report_error(error, self._root)
            return DatasetSummary(name, error=f"[{report.name}] {report.message}")


def _summarize(name: str, view: View) -> DatasetSummary:
    fragments = view.snapshot.manifest.fragments
    sizes = [file.size for fragment in fragments for file in fragment.files]
    return DatasetSummary(
        name=name,
        schema=view.schema.to_arrow(),
        version=view.snapshot.manifest.version,
        num_rows=-1 if view.hides_rows else sum(fragment.num_rows for fragment in fragments),
        num_bytes=_total(sizes) if view.is_whole else -1,
    )


def _total(sizes: Sequence[int]) -> int:
    """Return the sum of sizes; -1 if one of them is unknown, which manifests store as 0."""
    return sum(sizes) if all(sizes) else -1
