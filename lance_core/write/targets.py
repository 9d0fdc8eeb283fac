"""Targets of new data files: the dataset itself, or its base paths, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lance_core.errors import InvalidInputError
from lance_core.storage import Storage
from lance_core.table.bases import BaseOpener, DatasetBasePath

DIRECTORY = "data"
"""Directory of the data files in a dataset."""


@dataclass(frozen=True)
class WriteTarget:
    """Location of new data files."""

    storage: Storage
    base: DatasetBasePath | None = None
    """Base path that `storage` is; None: the dataset itself."""

    @property
    def directory(self) -> str:
        """Path of the directory with the data files in `storage`. An empty path is the root."""
        return (self.base.directory(DIRECTORY) if self.base else DIRECTORY).rstrip("/")

    def path(self, name: str) -> str:
        """Return the path in `storage` of the data file `name`."""
        return f"{self.directory}/{name}" if self.directory else name


@dataclass(frozen=True)
class TargetBases:
    """Choice of the base paths that new data files are written to; by default none of them."""

    references: tuple[str, ...] | None = None
    """Names or paths of base paths. An entry equal to `uri` means the dataset itself."""
    all_bases: bool | None = None
    """True: the dataset itself and all its base paths. False: all its base paths."""
    uri: str | None = None
    """Path or URL of the dataset, as the caller gave it."""

    def resolve(
        self, bases: Iterable[DatasetBasePath], storage: Storage, open_base: BaseOpener
    ) -> list[WriteTarget]:
        """Return the targets in the order in which files are written to them; at least one.

        Args:
            bases: Base paths of the table.
            storage: Storage of the table.
            open_base: Opens a base path.

        Raises:
            InvalidInputError: A reference names no base path, the table has no base paths, or both ways of
                choosing are used.
            UnsupportedFeatureError: A base path may not be followed.
        """
        own = WriteTarget(storage)
        if self.all_bases is not None:
            if self.references:
                raise InvalidInputError("target_all_bases", expected="none beside target_bases")
            chosen = [own] if self.all_bases else []
            ordered = sorted(bases, key=lambda base: base.id)
            chosen += [WriteTarget(open_base(base, storage), base) for base in ordered]
            if not chosen:
                raise InvalidInputError(
                    "target_all_bases", expected="a dataset with base paths", found="none"
                )
            return chosen
        if not self.references:
            return [own]
        by_reference = {base.path: base for base in bases} | {
            base.name: base for base in bases if base.name is not None
        }
        chosen = []
        for reference in self.references:
            if base := by_reference.get(reference):
                chosen.append(WriteTarget(open_base(base, storage), base))
            elif reference in (self.uri, storage.uri):
                chosen.append(own)
            else:
                names = ", ".join(sorted(by_reference))
                raise InvalidInputError(
                    f"base {reference!r} in target_bases was not found in available bases",
                    expected=f"one of {names}" if names else "a dataset with base paths",
                )
        return chosen
