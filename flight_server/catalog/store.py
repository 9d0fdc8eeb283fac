"""The catalog of a root in an object store.

What makes a directory a dataset are names, so that a few listings answer every question, and no object is
read. All objects below the root are served: a store has no links that could lead elsewhere.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from flight_server.catalog.local import (
    MAXIMUM_NAMESPACES,
    STAGING_DIRECTORY,
    VERSIONS_DIRECTORY,
    Catalog,
    ambiguous,
)
from flight_server.requests.names import SUFFIX, is_path_component, shown
from lance_core import DatasetBasePath, Session
from lance_core.api.serving import (
    BlobDirectory,
    Entry,
    Storage,
    remove_leftovers,
    withdraw_table,
)
from lance_core.errors import (
    FileMissingError,
    InvalidInputError,
    StorageError,
    UnsupportedFeatureError,
)

_log = logging.getLogger(__name__)

_LISTINGS_AT_ONCE = 32

_LOCATION_SECONDS = 5.0
"""Seconds for which the location of a dataset is trusted. Its versions are looked up by every request."""
_MAXIMUM_LOCATIONS = 10_000


class StoreCatalog(Catalog):
    """The datasets below one prefix of an object store. Thread-safe."""

    is_remote = True

    def __init__(self, root: Storage, cache_bytes: int, session: Session | None = None) -> None:
        """Serve the datasets below `root`, whose reads use `session`."""
        super().__init__(root.uri, cache_bytes, session=session)
        self._storage = root
        self._listings = ThreadPoolExecutor(_LISTINGS_AT_ONCE, thread_name_prefix="catalog")
        self._locations: dict[str, tuple[float, str]] = {}
        self._locations_lock = threading.Lock()

    def probe(self) -> None:
        self._directories("")

    def names(self) -> Iterator[str]:
        """Yield names like `Catalog.names`, with one listing per directory that is not part of a dataset,
        and one per dataset.
        """
        return filter(self.admits, self._names_in("", self._directories(""), 0))

    def _names_in(self, namespace: str, directories: list[str], depth: int) -> Iterator[str]:
        paths = [f"{namespace}/{name}" if namespace else name for name in directories]
        listed = list(zip(paths, self._listings.map(self._directories, paths), strict=True))
        datasets = Counter(path.removesuffix(SUFFIX) for path, below in listed if VERSIONS_DIRECTORY in below)
        for path, below in listed:
            component = path.rpartition("/")[2]
            name = path.removesuffix(SUFFIX)
            if VERSIONS_DIRECTORY in below:
                if not is_path_component(component.removesuffix(SUFFIX)) or name.endswith(SUFFIX):
                    self._report(path, "is a dataset whose name is not allowed")
                elif datasets[name] == 1:
                    self._remember(name, path)
                    yield name
                elif path == name:  # and there is one with the suffix: opening says that
                    yield name
            elif is_path_component(component):
                if depth < MAXIMUM_NAMESPACES:
                    yield from self._names_in(path, below, depth + 1)
                else:
                    self._report(path, "is nested too deep")
            elif not component.startswith("."):
                self._report(path, "is not served: its name is not allowed")

    def _find(self, name: str) -> str | None:
        """Return the path of a dataset below the root, as `Catalog._find` does; it is kept for a while."""
        with self._locations_lock:
            since, path = self._locations.get(name, (0.0, ""))
        if path and time.monotonic() - since < _LOCATION_SECONDS:
            return path
        above = _namespaces(name)
        is_dataset = list(self._listings.map(self._is_dataset, [*above, name, name + SUFFIX]))
        found = [
            path for path, there in zip((name, name + SUFFIX), is_dataset[len(above) :], strict=True) if there
        ]
        if any(is_dataset[: len(above)]) or not found:
            return None
        if len(found) > 1:
            raise ambiguous(name, found)
        self._remember(name, found[0])
        return found[0]

    def _has_namespace(self, name: str) -> bool:
        return not any(self._listings.map(self._is_dataset, _namespaces(name)))

    def _components_in(self, namespace: str) -> list[str]:
        names = (directory.removesuffix(SUFFIX) for directory in self._directories(namespace))
        return list(filter(is_path_component, names))

    def place(self, name: str) -> str:
        """Return the path below the root at which a new dataset of this name is made."""
        self._check_whole(name)
        above = _namespaces(name)
        if len(above) >= MAXIMUM_NAMESPACES:
            raise InvalidInputError(
                f"dataset name {shown(name)} has more than {MAXIMUM_NAMESPACES} path components"
            )
        for namespace, there in zip(above, self._listings.map(self._is_dataset, above), strict=True):
            if there:
                raise self._taken(name, namespace, "a dataset")
        return name + SUFFIX

    def remove_unfinished(self, path: str) -> None:
        """Do nothing: a store has no directories without files."""

    def hide(self, name: str) -> str:
        """Remove the tags, branches and versions of a dataset; see `lance_core.maintenance.drop`.

        The other files stay. Returns the path of the dataset, for `delete`.

        Raises:
            DatasetNotFoundError: there is no such dataset; errors of `locate`.
            StorageError: the store failed. The dataset is still there, without some of its tags, branches and
                older versions; or it is gone, and files stay that no version refers to.
        """
        path = self.locate(name)
        try:
            withdraw_table(self.storage(path))
        finally:
            self._forget(name)
        return path

    def delete(self, path: str) -> None:
        """Delete what `hide` left; what cannot be deleted is reported in the log."""
        try:
            remove_leftovers(self.storage(path))
        except StorageError as error:
            _log.warning("directory %s cannot be deleted: %s", shown(path), error)

    def staging_paths(self) -> Iterator[str]:
        yield from self._staging_in("", 0)

    def _staging_in(self, parent: str, depth: int) -> Iterator[str]:
        paths = [f"{parent}/{name}" if parent else name for name in self._directories(parent)]
        for path, below in zip(paths, self._listings.map(self._directories, paths), strict=True):
            if STAGING_DIRECTORY in below:
                yield path
            elif depth < MAXIMUM_NAMESPACES and VERSIONS_DIRECTORY not in below:
                yield from self._staging_in(path, depth + 1)

    def storage(self, path: str) -> Storage:
        return self._storage.below(path)

    def _open_base(self, base: DatasetBasePath, table: Storage) -> Storage:
        """Return the storage of a base path below the root (threat T11); refuse any other, and every blob
        outside its dataset: the root has files to which the caller may have no right (threat T3).
        """
        root, path = _place(self._storage.uri) + "/", _place(base.path)
        if path.startswith(root) and not isinstance(base, BlobDirectory):
            return self._storage.below(path[len(root) :])
        raise UnsupportedFeatureError(f"{base}: files outside the served root")

    def _forget(self, name: str) -> None:
        with self._locations_lock:
            self._locations.pop(name, None)

    def _remember(self, name: str, path: str) -> None:
        with self._locations_lock:
            if len(self._locations) >= _MAXIMUM_LOCATIONS:
                self._locations.clear()
            self._locations[name] = (time.monotonic(), path)

    def _is_dataset(self, path: str) -> bool:
        return VERSIONS_DIRECTORY in self._directories(path)

    def _directories(self, path: str) -> list[str]:
        try:
            entries: list[Entry] = self._storage.list_directory(path)
        except FileMissingError:
            return []
        return sorted(entry.name for entry in entries if entry.is_directory)


def _namespaces(name: str) -> list[str]:
    """Return the namespaces that contain a name: `a` and `a/b` for `a/b/c`."""
    components = name.split("/")
    return ["/".join(components[:depth]) for depth in range(1, len(components))]


def _place(uri: str) -> str:
    """Return the URL without `+ddb` and parameters, which choose how to commit, not where data is."""
    scheme, separator, path = uri.partition("://")
    return scheme.removesuffix("+ddb") + separator + path.partition("?")[0].rstrip("/")
