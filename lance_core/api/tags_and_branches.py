"""The tags and branches of a dataset as a caller sees them, with the names and results of the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, TypedDict, TypeVar, cast

from lance_core.api.opened import OpenedDataset, Reference
from lance_core.errors import InvalidInputError
from lance_core.maintenance.branches import delete_branch
from lance_core.maintenance.tags import (
    create_tag,
    delete_tag,
    replace_branch_metadata,
    replace_tag_metadata,
    update_tag,
)
from lance_core.table.refs import list_branches, list_tags, read_tag
from lance_core.table.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


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


class Tags:
    """Names for versions of a dataset, of all its branches.

    Versions are given as for `LanceDataset.checkout_version`; without one the opened version is meant. A tag
    keeps its version from being cleaned up.
    """

    def __init__(self, dataset: OpenedDataset) -> None:
        self._dataset = dataset
        self._root = dataset.root

    def list(self) -> dict[str, Tag]:
        """All tags by name."""
        return {name: cast("Tag", asdict(tag)) for name, tag in list_tags(self._root).items()}

    def list_ordered(self, order: str | None = None) -> OrderedTags:
        """All tags by version, the latest first unless `order` is "asc"; those of one version by name."""
        return _ordered(self.list(), lambda tag: tag["version"], order)

    def get_version(self, tag: str) -> int:
        """Return the version that a tag names; a tag that does not exist is a `RefNotFoundError`."""
        return read_tag(self._root, tag).version

    def create(self, tag: str, reference: Reference | None = None) -> None:
        """Name a version.

        Raises:
            InvalidInputError: no tag may have this name.
            RefConflictError: there is such a tag.
            DatasetNotFoundError: there is no such version.
        """
        create_tag(self._root, tag, self._target(reference))

    def update(self, tag: str, reference: Reference | None = None) -> None:
        """Let a tag name another version; one that does not exist is a `RefNotFoundError`."""
        update_tag(self._root, tag, self._target(reference))

    def delete(self, tag: str) -> None:
        """Remove a tag; the version stays. One that does not exist is a `RefNotFoundError`."""
        delete_tag(self._root, tag)

    def replace_metadata(self, tag: str, metadata: Mapping[str, str]) -> None:
        """Replace all that is noted on a tag; one that does not exist is a `RefNotFoundError`."""
        replace_tag_metadata(self._root, tag, metadata)

    def _target(self, reference: Reference | None) -> Snapshot:
        return self._dataset.snapshot if reference is None else self._dataset.open_reference(reference)


class Branches:
    """The branches of a dataset beside the main one; `LanceDataset.create_branch` makes them."""

    def __init__(self, dataset: OpenedDataset) -> None:
        self._root = dataset.root

    def list(self) -> dict[str, Branch]:
        """All branches by name."""
        branches = {name: asdict(branch) for name, branch in list_branches(self._root).items()}
        for branch in branches.values():
            branch["branch_identifier"] = [*branch["branch_identifier"]]
        return cast("dict[str, Branch]", branches)

    def list_ordered(self, order: str | None = None) -> OrderedBranches:
        """All branches by the version they began at, the latest first unless `order` is "asc"."""
        return _ordered(self.list(), lambda branch: branch["parent_version"], order)

    def delete(self, branch: str) -> None:
        """Remove a branch with all its versions and files.

        Raises:
            RefNotFoundError: there is no such branch.
            RefConflictError: other branches began with it, or tags name versions of it.
        """
        delete_branch(self._root, branch)

    def replace_metadata(self, branch: str, metadata: Mapping[str, str]) -> None:
        """Replace all that is noted on a branch; one that does not exist is a `RefNotFoundError`."""
        replace_branch_metadata(self._root, branch, metadata)


def _ordered(refs: dict[str, T], version: Callable[[T], int], order: str | None) -> list[tuple[str, T]]:
    if order not in (None, "asc", "desc"):
        raise InvalidInputError("order of refs", expected="asc or desc", found=repr(order))
    return sorted(refs.items(), key=lambda item: version(item[1]), reverse=order != "asc")
