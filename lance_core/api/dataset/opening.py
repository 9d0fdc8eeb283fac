"""The opening of datasets."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from datetime import datetime
from os import PathLike, fspath
from typing import Any

from lance_core.api.dataset.lance_dataset import LanceDataset
from lance_core.api.dataset.methods.opened import Reference
from lance_core.arguments import named
from lance_core.errors import ArgumentTypeError, DatasetNotFoundError, InvalidInputError
from lance_core.hints import did_you_mean, near_names
from lance_core.scan.session import Session
from lance_core.storage import CommitLock, check_lock, scheme_of
from lance_core.table.snapshot import version_before
from lance_core.table.versions import VERSIONS

__all__ = ["dataset"]

_CACHE_ENTRY_BYTES = 20 << 20
"""Bytes that the reference counts for an entry of `index_cache_size`."""


@named
def dataset(
    uri: str | PathLike[str],
    version: Reference | None = None,
    asof: datetime | str | None = None,
    block_size: int | None = None,
    commit_lock: CommitLock | None = None,
    index_cache_size: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    default_scan_options: Mapping[str, Any] | None = None,
    metadata_cache_size_bytes: int | None = None,
    index_cache_size_bytes: int | None = None,
    read_params: Mapping[str, Any] | None = None,
    session: Session | None = None,
    *,
    base_store_params: Mapping[str, Mapping[str, str]] | None = None,
) -> LanceDataset:
    """Open a dataset.

    `block_size` and `read_params` have no effect: reads follow the pages.

    Args:
        uri: Path or URL of the dataset's directory.
        version: Version or tag to open; the latest version if left out.
        asof: Open the last version committed before this time. A time without a zone is local time; text is
            ISO 8601. Has no effect if `version` is given.
        storage_options: Settings of the storage that the URI names, and of base paths. The key
            `base_<id>.<key>` is for the base path with this id only.
        default_scan_options: Arguments for every scan that does not give them, by the names of the methods of
            `ScannerBuilder`. They decide the schema of the dataset, too, but not what is counted or taken.
        base_store_params: Settings of the storages of base paths by their path, instead of
            `storage_options`.
        session: Caches, memory and settings of reads and changes, also of other versions that are opened from
            the dataset. By default all datasets share one session of the process.
        metadata_cache_size_bytes, index_cache_size_bytes: Sizes of caches. If one is given and `session` is
            not, the dataset gets a session of its own with these sizes; see `Session`.
        index_cache_size: Deprecated. It counts entries of 20 MiB, and `index_cache_size_bytes` wins.
        commit_lock: Function from a version number to a context manager, which is held while commits through
            this dataset put this version. If it raises, nothing is committed. A file system without an
            exclusive put can only be written to with a lock.

    Raises:
        ArgumentTypeError: `session` is no session of this package, or `commit_lock` is no function.
        DatasetNotFoundError: There is no dataset, no such version or tag, or no version as old as `asof`.
        UnsupportedFeatureError: The dataset uses a feature that is not supported. The message names it.

    Warns:
        DeprecationWarning: `index_cache_size` is given.
    """
    check_lock(commit_lock)
    if index_cache_size is not None:
        warnings.warn(
            "index_cache_size is deprecated: use index_cache_size_bytes, with 20 MiB for each entry",
            DeprecationWarning,
            stacklevel=3,
        )
        if index_cache_size_bytes is None:
            index_cache_size_bytes = index_cache_size * _CACHE_ENTRY_BYTES
    if not isinstance(session, Session | None):
        raise ArgumentTypeError(f"session must be a lance_core.Session, got {type(session).__name__}")
    if session is None and not (metadata_cache_size_bytes is None and index_cache_size_bytes is None):
        session = Session(index_cache_size_bytes, metadata_cache_size_bytes)
    try:
        opened = LanceDataset(
            fspath(uri),
            version,
            storage_options,
            session=session,
            base_store_params=base_store_params,
            default_scan_options=default_scan_options,
            commit_lock=commit_lock,
        )
    except DatasetNotFoundError as error:
        if type(error) is not DatasetNotFoundError or scheme_of(fspath(uri)) != "file":
            raise
        raise DatasetNotFoundError(f"{error}{_hint_beside(fspath(uri))}") from None
    if version is not None or asof is None:
        return opened
    return opened.checkout_version(_version_before(opened, asof))


def _version_before(opened: LanceDataset, asof: datetime | str) -> int:
    if isinstance(asof, str):
        try:
            asof = datetime.fromisoformat(asof)
        except ValueError:
            raise InvalidInputError("asof is not an ISO 8601 time", found=asof) from None
    elif not isinstance(asof, datetime):
        raise ArgumentTypeError(f"asof must be a datetime or text, got {type(asof).__name__}")
    version = version_before(opened.snapshot.storage, asof.astimezone())
    if version is None:
        raise DatasetNotFoundError(f"{asof} is earlier than the first version of this dataset")
    return version


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
