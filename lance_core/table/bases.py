"""Base paths: other locations of a table's files, for shallow clones, branches and tables over several
stores.

The path of a base is absolute. Older releases of the reference also wrote relative paths, which are relative
to the working directory of the reader. A base is either the root of a dataset, with `data/` and `_deletions/`
below it, or a plain directory that holds the files themselves.

Source: docs/format.md, "Base paths".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.proto import table_pb2
from lance_core.storage import Storage, is_object_store, scheme_of, storage_for
from lance_core.storage.scoped_options import scoped_options


@dataclass(frozen=True)
class DatasetBasePath:
    """One base path of a table.

    Attributes:
        path: Absolute path or URL of a directory.
        name: Name for `target_bases`.
        is_dataset_root: Whether data files are in `data/` below the path, or in the directory itself.
        id: Number of the base path in its table. A base path with number 0 gets one when it is added.
    """

    path: str
    name: str | None = None
    is_dataset_root: bool = False
    id: int = 0

    def __init__(
        self, path: str, name: str | None = None, is_dataset_root: bool = False, id: int | None = None
    ) -> None:
        for attribute, value in (
            ("path", path),
            ("name", name),
            ("is_dataset_root", is_dataset_root),
            ("id", id or 0),
        ):
            object.__setattr__(self, attribute, value)

    @classmethod
    def from_message(cls, message: table_pb2.BasePath) -> DatasetBasePath:
        """Return the base path that a manifest or a transaction describes."""
        name = message.name if message.HasField("name") else None
        return cls(message.path, name, message.is_dataset_root, message.id)

    def to_message(self) -> table_pb2.BasePath:
        """Return the message that manifests and transactions store."""
        return table_pb2.BasePath(
            id=self.id, name=self.name, path=self.path, is_dataset_root=self.is_dataset_root
        )

    def directory(self, name: str) -> str:
        """Return the path prefix of the files that a dataset keeps in its directory `name`.

        The prefix is empty if this base is a plain directory.
        """
        return f"{name}/" if self.is_dataset_root else ""

    def __str__(self) -> str:
        """Describe the base for messages. The path is left out, because clients must not see paths of the
        server.
        """
        return f"base path {self.id}" + (f" ({self.name})" if self.name else "")


class BlobDirectory(DatasetBasePath):
    """Directory of a blob outside the dataset. A value of the blob column names it, and no manifest."""

    def __str__(self) -> str:
        return "blob outside the dataset"


BaseOpener = Callable[[DatasetBasePath, Storage], Storage]
"""Opens a base path of the table in a storage. It raises `UnsupportedFeatureError` if the base path may not
be followed.
"""


def open_base(base: DatasetBasePath, table: Storage, options: Mapping[str, str] | None = None) -> Storage:
    """Open the storage of a base path that a manifest names.

    `options` are the storage options of the base path. If they are left out, the storage options of the table
    apply. Only local files, known object stores and the table's own scheme are followed. So a manifest cannot
    make this process connect to other kinds of servers.

    Raises:
        UnsupportedFeatureError: the base path has another scheme.
    """
    if not is_object_store(base.path) and scheme_of(base.path) not in ("file", scheme_of(table.uri)):
        raise UnsupportedFeatureError(f"{base} has a URL scheme that is not allowed for base paths")
    return storage_for(base.path, scoped_options(table.options, base.id) if options is None else options)


@dataclass(frozen=True)
class OptionsOfBases:
    """Opener of base paths with the storage options of a caller. Only the process has them, not the table."""

    shared: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """Options of all storages, and `base_<id>.<key>` for the base path with this id."""
    by_path: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False, hash=False)
    """Options of the base path with this path, used instead of `shared`."""

    def __call__(self, base: DatasetBasePath, table: Storage) -> Storage:
        """Open a base path like `open_base`."""
        options = self.by_path.get(base.path)
        return open_base(base, table, scoped_options(self.shared, base.id) if options is None else options)


def base_opener(
    storage_options: Mapping[str, str] | None, base_store_params: Mapping[str, Mapping[str, str]] | None
) -> BaseOpener:
    """Return the opener of base paths for the arguments of `lance_core.dataset`."""
    if not storage_options and not base_store_params:
        return open_base
    return OptionsOfBases(storage_options or {}, base_store_params or {})


def numbered(new: Iterable[DatasetBasePath], bases: Iterable[DatasetBasePath] = ()) -> list[DatasetBasePath]:
    """Return base paths to add beside `bases`, those with number 0 with the next free numbers.

    Raises:
        InvalidInputError: a base path cannot be added, see `check_new_base`.
    """
    known, added = list(bases), []
    for base in new:
        number = base.id or max((other.id for other in known), default=0) + 1
        added.append(replace(base, id=number))
        check_new_base(added[-1], known)
        known.append(added[-1])
    return added


def check_new_base(new: DatasetBasePath, bases: Iterable[DatasetBasePath]) -> None:
    """Check that a base path can be added beside `bases`.

    Raises:
        InvalidInputError: the path is not absolute, or another base path has the same id, name or path.
    """
    if not new.path.startswith("/") and "://" not in new.path:
        raise InvalidInputError("base path", expected="an absolute one", found=repr(new.path))
    for base in bases:
        if new.path == base.path or new.id == base.id or (new.name is not None and new.name == base.name):
            raise InvalidInputError(
                "base path already exists",
                expected="another path, name and id than those of existing base paths",
                found=new.name or new.path,
            )
