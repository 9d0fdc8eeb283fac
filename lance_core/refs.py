"""The tags and branches of a dataset as a caller sees them, with the names and results of the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, TypedDict, TypeVar, cast

from lance_core.errors import InvalidInputError
from lance_core.storage import Storage
from lance_core.table.refs import list_branches, list_tags, read_tag

if TYPE_CHECKING:
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
    """Names for versions of a dataset, of all its branches."""

    def __init__(self, root: Storage) -> None:
        self._root = root

    def list(self) -> dict[str, Tag]:
        """All tags by name."""
        return {name: cast("Tag", asdict(tag)) for name, tag in list_tags(self._root).items()}

    def list_ordered(self, order: str | None = None) -> OrderedTags:
        """All tags by version, the latest first unless `order` is "asc"; those of one version by name."""
        return _ordered(self.list(), lambda tag: tag["version"], order)

    def get_version(self, tag: str) -> int:
        """The version that a tag names; a tag that does not exist is a `RefNotFoundError`."""
        return read_tag(self._root, tag).version


class Branches:
    """The branches of a dataset beside the main one."""

    def __init__(self, root: Storage) -> None:
        self._root = root

    def list(self) -> dict[str, Branch]:
        """All branches by name."""
        branches = {name: asdict(branch) for name, branch in list_branches(self._root).items()}
        for branch in branches.values():
            branch["branch_identifier"] = [*branch["branch_identifier"]]
        return cast("dict[str, Branch]", branches)

    def list_ordered(self, order: str | None = None) -> OrderedBranches:
        """All branches by the version they began at, the latest first unless `order` is "asc"."""
        return _ordered(self.list(), lambda branch: branch["parent_version"], order)


def _ordered(refs: dict[str, T], version: Callable[[T], int], order: str | None) -> list[tuple[str, T]]:
    if order not in (None, "asc", "desc"):
        raise InvalidInputError("order of refs", expected="asc or desc", found=repr(order))
    return sorted(refs.items(), key=lambda item: version(item[1]), reverse=order != "asc")
