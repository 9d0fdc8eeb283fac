"""The tags and branches of a dataset, with the names and results of the reference library.

What changes them is imported when it is first used: most processes only read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TypedDict, TypeVar, cast

from lance_core.api.dataset.methods.opened import OpenedDataset, Reference
from lance_core.arguments import named_arguments
from lance_core.errors import InvalidInputError
from lance_core.table.refs import list_branches, list_tags, read_tag
from lance_core.table.snapshot import Snapshot


class Tag(TypedDict):
    """One entry of `Tags.list`."""

    branch: str | None
    version: int
    created_at: datetime | None
    updated_at: datetime | None
    manifest_size: int
    metadata: dict[str, str]


class Branch(TypedDict):
    """One entry of `Branches.list`."""

    parent_branch: str | None
    branch_identifier: list[tuple[int, str]]
    parent_version: int
    create_at: int
    manifest_size: int
    metadata: dict[str, str]


T = TypeVar("T")
OrderedTags = list[tuple[str, Tag]]
OrderedBranches = list[tuple[str, Branch]]


@named_arguments
class Tags:
    """The tags of a dataset: names for versions of all its branches.

    A cleanup keeps versions with a tag. Methods take a version as `LanceDataset.checkout_version` does; the
    opened version if left out.
    """

    def __init__(self, dataset: OpenedDataset) -> None:
        self._dataset = dataset
        self._root = dataset.root

    def list(self) -> dict[str, Tag]:
        """Return all tags by name."""
        return {name: cast("Tag", asdict(tag)) for name, tag in list_tags(self._root).items()}

    def list_ordered(self, order: str | None = None) -> OrderedTags:
        """Return all tags sorted by version, latest first unless `order` is "asc", then by name."""
        return _ordered(self.list(), lambda tag: tag["version"], order)

    def get_version(self, tag: str) -> int:
        """Return the version that a tag names.

        Raises:
            RefNotFoundError: There is no such tag.
        """
        return read_tag(self._root, tag).version

    def create(self, tag: str, reference: Reference | None = None) -> None:
        """Create a tag for a version.

        Raises:
            InvalidInputError: The name is not allowed.
            RefConflictError: The tag exists.
            DatasetNotFoundError: There is no such version.
        """
        from lance_core.maintenance.tags import create_tag

        create_tag(self._root, tag, self._target(reference))

    def update(self, tag: str, reference: Reference | None = None) -> None:
        """Move a tag to another version.

        Raises:
            RefNotFoundError: There is no such tag.
            DatasetNotFoundError: There is no such version.
        """
        from lance_core.maintenance.tags import update_tag

        update_tag(self._root, tag, self._target(reference))

    def delete(self, tag: str) -> None:
        """Remove a tag. Its version stays.

        Raises:
            RefNotFoundError: There is no such tag.
        """
        from lance_core.maintenance.tags import delete_tag

        delete_tag(self._root, tag)

    def replace_metadata(self, tag: str, metadata: Mapping[str, str]) -> None:
        """Replace the metadata of a tag.

        Raises:
            RefNotFoundError: There is no such tag.
        """
        from lance_core.maintenance.tags import replace_tag_metadata

        replace_tag_metadata(self._root, tag, metadata)

    def _target(self, reference: Reference | None) -> Snapshot:
        return self._dataset.snapshot if reference is None else self._dataset.open_reference(reference)


@named_arguments
class Branches:
    """All branches of a dataset except the main one. `LanceDataset.create_branch` creates them."""

    def __init__(self, dataset: OpenedDataset) -> None:
        self._root = dataset.root

    def list(self) -> dict[str, Branch]:
        """Return all branches by name."""
        branches = {name: asdict(branch) for name, branch in list_branches(self._root).items()}
        for branch in branches.values():
            branch["branch_identifier"] = [*branch["branch_identifier"]]
        return cast("dict[str, Branch]", branches)

    def list_ordered(self, order: str | None = None) -> OrderedBranches:
        """Return all branches sorted by their first version, latest first unless `order` is "asc"."""
        return _ordered(self.list(), lambda branch: branch["parent_version"], order)

    def delete(self, branch: str) -> None:
        """Remove a branch with all its versions and files.

        Raises:
            RefNotFoundError: There is no such branch.
            RefConflictError: Another branch began with a version of it, or a tag names a version of it.
        """
        from lance_core.maintenance.branches import delete_branch

        delete_branch(self._root, branch)

    def replace_metadata(self, branch: str, metadata: Mapping[str, str]) -> None:
        """Replace the metadata of a branch.

        Raises:
            RefNotFoundError: There is no such branch.
        """
        from lance_core.maintenance.tags import replace_branch_metadata

        replace_branch_metadata(self._root, branch, metadata)


def _ordered(refs: dict[str, T], version: Callable[[T], int], order: str | None) -> list[tuple[str, T]]:
    if order not in (None, "asc", "desc"):
        raise InvalidInputError("order of tags or branches", expected="asc or desc", found=repr(order))
    return sorted(refs.items(), key=lambda item: version(item[1]), reverse=order != "asc")
