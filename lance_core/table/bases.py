"""Base paths: other locations of a table's files, for shallow clones, branches and tables over several
stores.

The path of a base is absolute. Older releases of the reference also wrote relative paths, which are relative
to the working directory of the reader. A base is either the root of a dataset, with `data/` and `_deletions/`
below it, or a plain directory that holds the files themselves.

Source: docs/format.md, "Base paths".
"""

from collections.abc import Callable
from dataclasses import dataclass

from lance_core.errors import UnsupportedFeatureError
from lance_core.storage import Storage, is_object_store, scheme_of, storage_for


@dataclass(frozen=True)
class DatasetBasePath:
    """One base path of a table."""

    id: int
    name: str | None
    path: str
    is_dataset_root: bool

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


BaseOpener = Callable[[DatasetBasePath, Storage], Storage]
"""Opens a base path of the table in a storage. It raises `UnsupportedFeatureError` if the base path may not
be followed.
"""


def open_base(base: DatasetBasePath, table: Storage) -> Storage:
    """Open the storage of a base path that a manifest names, with the storage options of the table.

    Only local files, known object stores and the table's own scheme are followed. So a manifest cannot make
    this process connect to other kinds of servers.

    Raises:
        UnsupportedFeatureError: the base path has another scheme.
    """
    if not is_object_store(base.path) and scheme_of(base.path) not in ("file", scheme_of(table.uri)):
        raise UnsupportedFeatureError(f"{base} has a URL scheme that is not allowed for base paths")
    return storage_for(base.path, table.options)
