"""Base paths: other locations of files of a table, for shallow clones, branches and tables over several
stores.

The path of a base is absolute. Older releases also wrote the path they were given, which is relative to the
working directory of the reader. A base is the root of a dataset, with `data/` and its siblings below it, or a
plain directory with the files themselves.
Source: docs/format.md, "Base paths".
"""

from collections.abc import Callable
from dataclasses import dataclass

from lance_core.errors import UnsupportedFeatureError
from lance_core.storage import OBJECT_STORES, S3_WITH_DYNAMODB, Storage, scheme_of, storage_for


@dataclass(frozen=True)
class DatasetBasePath:
    """One base path of a table."""

    id: int
    name: str | None
    path: str
    is_dataset_root: bool

    def directory(self, name: str) -> str:
        """Return the path in front of the names of files in the directory `name` of a dataset."""
        return f"{name}/" if self.is_dataset_root else ""

    def __str__(self) -> str:
        """For messages; the path is left out, it belongs to the host."""
        return f"base path {self.id}" + (f" ({self.name})" if self.name else "")


BaseOpener = Callable[[DatasetBasePath, Storage], Storage]
"""Decides whether a base path of the table in a storage may be followed; one that may not is an
`UnsupportedFeatureError`.
"""


def open_base(base: DatasetBasePath, table: Storage) -> Storage:
    """Follow a base path that a manifest names, as the reference does, with the options of the table.

    A manifest alone cannot make this process speak to other kinds of servers than files and object stores.
    """
    if scheme_of(base.path) not in ("file", *OBJECT_STORES, S3_WITH_DYNAMODB, scheme_of(table.uri)):
        raise UnsupportedFeatureError(f"{base} has a scheme that is not followed")
    return storage_for(base.path, table.options)
