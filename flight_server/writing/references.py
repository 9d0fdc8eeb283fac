"""Tags and branches of datasets. They make no version. Free of Flight types."""

from collections.abc import Mapping

from flight_server.catalog.local import Catalog
from flight_server.requests.names import DatasetReference
from flight_server.writing.targets import Targets
from lance_core.api.serving import (
    Branch,
    Tag,
    create_branch,
    create_tag,
    delete_branch,
    delete_tag,
    list_branches,
    list_tags,
    read_tag,
    update_tag,
)
from lance_core.errors import RefConflictError


class References:
    """Tags and branches of the datasets of one catalog. Thread-safe.

    Every change returns the number of the version that the tag or branch names. Errors of `Targets.target`
    apply to every method.
    """

    def __init__(self, catalog: Catalog, targets: Targets) -> None:
        self._catalog = catalog
        self._targets = targets

    def tags(self, name: str) -> Mapping[str, Tag]:
        """Return the tags of a dataset by name."""
        return list_tags(self._catalog.view(DatasetReference(name)).snapshot.storage)

    def create_tag(self, tag: str, named: DatasetReference) -> int:
        """Name a version. If the tag names this version already, nothing changes.

        Raises:
            DatasetNotFoundError: there is no such version.
            RefConflictError: the tag names another version.
        """
        with self._targets.opened(DatasetReference(named.name)) as opened:
            target = self._catalog.open(named)
            try:
                create_tag(opened.root, tag, target)
            except RefConflictError:
                found = read_tag(opened.root, tag)
                if (found.branch, found.version) != (target.manifest.branch, target.manifest.version):
                    raise
        return target.manifest.version

    def update_tag(self, tag: str, named: DatasetReference) -> int:
        """Let a tag name another version.

        Raises:
            DatasetNotFoundError: there is no such version.
            RefNotFoundError: there is no such tag.
        """
        with self._targets.opened(DatasetReference(named.name)) as opened:
            target = self._catalog.open(named)
            update_tag(opened.root, tag, target)
        return target.manifest.version

    def delete_tag(self, name: str, tag: str) -> int:
        """Remove a tag; RefNotFoundError if there is none."""
        with self._targets.opened(DatasetReference(name)) as opened:
            version = read_tag(opened.root, tag).version
            delete_tag(opened.root, tag)
        return version

    def branches(self, name: str) -> Mapping[str, Branch]:
        """Return the branches of a dataset by name, without the main branch."""
        return list_branches(self._catalog.view(DatasetReference(name)).snapshot.storage)

    def create_branch(self, branch: str, source: DatasetReference) -> int:
        """Make a branch that begins with a version.

        Raises:
            DatasetNotFoundError: there is no such version.
            RefConflictError: there is such a branch.
        """
        with self._targets.opened(DatasetReference(source.name)) as opened:
            made = create_branch(opened.root, branch, self._catalog.open(source))
        return made.manifest.version

    def delete_branch(self, name: str, branch: str) -> int:
        """Remove a branch with all its versions; return the latest version of the main branch.

        Raises:
            RefNotFoundError: there is no such branch.
            RefConflictError: another branch begins with one of its versions.
        """
        with self._targets.opened(DatasetReference(name)) as opened:
            version = opened.snapshot.manifest.version
            delete_branch(opened.root, branch)
        return version
