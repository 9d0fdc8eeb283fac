"""Options of writing a dataset."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.file.writer_options import WriteOptions
from lance_core.table.bases import DatasetBasePath
from lance_core.write.fragments import FileLimits, FragmentObserver
from lance_core.write.targets import TargetBases

STABLE = FileVersion.V2_2
"""File version of new tables, which the current release of the reference calls stable."""

_ALIASES = {"stable": STABLE, "legacy": FileVersion.V0_1, "0.3": FileVersion.V2_0}
_UNSTABLE = ("next", "2.3")


@dataclass(frozen=True)
class DatasetWriteOptions:
    """Options of writing a dataset; see `lance_core.write_dataset`."""

    file_version: FileVersion | None = None
    """None: the one that the table has, or `STABLE` for a new one."""
    enable_stable_row_ids: bool = False
    limits: FileLimits = field(default_factory=FileLimits)
    files: WriteOptions = field(default_factory=WriteOptions)
    progress: FragmentObserver | None = None
    commit_message: str | None = None
    transaction_properties: Mapping[str, str] = field(default_factory=dict)
    transaction_id: str | None = None
    """A UUID that the transaction gets as its own; a new one if not given."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Settings that a new table gets."""
    initial_bases: Sequence[DatasetBasePath] = ()
    """Base paths of a new table."""
    targets: TargetBases = field(default_factory=TargetBases)
    """Base paths that data files are written to."""
    enable_v2_manifest_paths: bool = True
    sync: bool = True
    """Make everything durable on local disks before the commit is acknowledged."""


def file_version(name: str | None, argument: str = "data_storage_version") -> FileVersion | None:
    """Return the version that a caller names; `argument` is for messages.

    Raises:
        InvalidInputError: there is no such version.
        UnsupportedFeatureError: a version that is not stable yet.
    """
    if name is None:
        return None
    if name in _UNSTABLE:
        raise UnsupportedFeatureError("data file version, which is not stable", found=repr(name))
    try:
        return _ALIASES.get(name) or FileVersion.from_name(name)
    except UnsupportedFeatureError:
        raise InvalidInputError(
            argument, expected="stable, legacy, 0.1, 2.0, 2.1 or 2.2", found=repr(name)
        ) from None
