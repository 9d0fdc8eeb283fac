"""Observers of writes, with the names of the reference; see `progress` of `lance_core.write_dataset`.

`IndexProgress` is what observers of a new index are told.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike, fspath
from os.path import abspath
from typing import Any

from lance_core.api.fragment.metadata import FragmentMetadata
from lance_core.index.progress import IndexProgress
from lance_core.proto import table_pb2
from lance_core.write.fragments import FragmentObserver

__all__ = [
    "FileSystemFragmentWriteProgress",
    "FragmentWriteProgress",
    "IndexProgress",
    "NoopFragmentWriteProgress",
]


class FragmentWriteProgress(ABC):
    """Observer that is told when a fragment is begun and completed.

    If one of its methods raises, the write stops with this error, and its files are removed.
    """

    @abstractmethod
    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Handle the start of a fragment.

        It has 0 rows, and one data file: the path and the version of the file, without fields. Its id is 0,
        or the `fragment_id` of `LanceFragment.create`. There are no `kwargs` yet.
        """

    @abstractmethod
    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Handle the end of a fragment, which is not visible before the commit."""


class NoopFragmentWriteProgress(FragmentWriteProgress):
    """Observer that does nothing."""

    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Do nothing."""

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Do nothing."""


class FileSystemFragmentWriteProgress(FragmentWriteProgress):
    """Observer that keeps a file for each fragment that is being written, named by the id of the fragment.

    `fragment_0.in_progress` is there until the fragment with id 0 is complete. It is JSON with `fragment_id`
    and `metadata`. `fragment_0.json` is JSON of the fragment as it was begun; it stays, and names the data
    file.
    """

    PROGRESS_EXT: str = ".in_progress"

    def __init__(self, base_uri: str | PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
        """Keep the directory of the files, which the first fragment creates.

        Args:
            base_uri: A path, or a URI of a file system of Arrow.
            metadata: Written into each file, such as the name of the machine.
        """
        from pyarrow.fs import FileSystem  # late: most writes do without

        given = fspath(base_uri)
        self._files, self._directory = FileSystem.from_uri(given if "://" in given else abspath(given))
        self._metadata = dict(metadata or {})

    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Create the files of a fragment."""
        self._files.create_dir(self._directory, recursive=True)
        self._write(
            self._path(fragment, self.PROGRESS_EXT), {"fragment_id": fragment.id, "metadata": self._metadata}
        )
        self._write(self._path(fragment, ".json"), fragment.to_json())

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Remove the `.in_progress` file of a fragment."""
        self._files.delete_file(self._path(fragment, self.PROGRESS_EXT))

    def _path(self, fragment: FragmentMetadata, ending: str) -> str:
        return f"{self._directory}/fragment_{fragment.id}{ending}"

    def _write(self, path: str, content: dict[str, Any]) -> None:
        with self._files.open_output_stream(path) as file:
            file.write(json.dumps(content).encode())


class _Numbered(FragmentWriteProgress):
    """Observer that passes events on to another observer, with a fixed fragment id."""

    def __init__(self, progress: FragmentWriteProgress, fragment_id: int) -> None:
        self._progress = progress
        self._fragment_id = fragment_id

    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        self._progress.begin(replace(fragment, id=self._fragment_id), **kwargs)

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        self._progress.complete(replace(fragment, id=self._fragment_id), **kwargs)


class _Observer:
    """Observer of a fragment writer that calls a `FragmentWriteProgress` with `FragmentMetadata`."""

    def __init__(self, progress: FragmentWriteProgress) -> None:
        self._progress = progress

    def begin(self, fragment: table_pb2.DataFragment) -> None:
        self._progress.begin(FragmentMetadata.from_message(fragment))

    def complete(self, fragment: table_pb2.DataFragment) -> None:
        self._progress.complete(FragmentMetadata.from_message(fragment))


def with_fragment_id(
    progress: FragmentWriteProgress | None, fragment_id: int | None
) -> FragmentWriteProgress | None:
    """Return `progress`; if `fragment_id` is given, as an observer to which each fragment has this id."""
    return progress if progress is None or fragment_id is None else _Numbered(progress, fragment_id)


def observer_of(progress: FragmentWriteProgress | None) -> FragmentObserver | None:
    """Return the observer of a fragment writer that tells `progress`."""
    return None if progress is None else _Observer(progress)
