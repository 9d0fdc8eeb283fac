"""Tags and branches: names for versions, kept as JSON files below the main root of a dataset.

`_refs/tags/{tag}.json` names a version of some branch. `_refs/branches/{branch}.json` names the version with
which a branch began; `/` in a branch name is written as `%2F`. The versions of a branch are in
`tree/{branch}/`, a dataset directory that shares older files through base paths. The references of all
branches are below the main root.

Source: docs/format.md, "Tags and branches".
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from lance_core.errors import (
    CorruptFileError,
    FileMissingError,
    InvalidInputError,
    RefNotFoundError,
)
from lance_core.hints import did_you_mean
from lance_core.pool import run_both, run_each
from lance_core.storage import Storage
from lance_core.table.versions import REFS, TREE

MAIN = "main"

TAGS = f"{REFS}/tags"
BRANCHES = f"{REFS}/branches"

_SUFFIX = ".json"
_MAX_BYTES = 1 << 20
_MAX_DEPTH = 16
_COMPONENT = re.compile(r"[\w.-]{1,255}")
_FRACTION = re.compile(r"(\.\d{6})\d+")
T = TypeVar("T")


@dataclass(frozen=True)
class Tag:
    """Name for one version."""

    branch: str | None
    """Branch of the version; None for the main branch."""
    version: int
    created_at: datetime | None
    updated_at: datetime | None
    manifest_size: int
    """Bytes of the manifest; 0 if unknown."""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Branch:
    """Branch, described by the version with which it began."""

    parent_branch: str | None
    """Branch of that version; None for the main branch."""
    branch_identifier: tuple[tuple[int, str], ...]
    """Version and random id of every step from the main branch to this branch."""
    parent_version: int
    create_at: int
    """Time of creation, in seconds since the epoch."""
    manifest_size: int
    metadata: Mapping[str, str] = field(default_factory=dict)


def check_tag_name(name: str) -> str:
    """Return `name` if it is a valid tag name, otherwise raise `InvalidInputError` (threat T9)."""
    if not _is_path_component(name) or name.startswith(".") or name.endswith("."):
        raise _bad_name("tag", name)
    return name


def check_branch_name(name: str) -> str:
    """Return `name` if it is a valid branch name, otherwise raise `InvalidInputError` (threat T9)."""
    if name == MAIN or len(name) > 255 or not all(map(_is_path_component, name.split("/"))):
        raise _bad_name("branch", name)
    return name


def tag_path(name: str) -> str:
    """Return the path of a tag's file; errors are those of `check_tag_name`."""
    return f"{TAGS}/{check_tag_name(name)}{_SUFFIX}"


def branch_path(name: str) -> str:
    """Return the path of a branch's file; errors are those of `check_branch_name`."""
    return f"{BRANCHES}/{quote(check_branch_name(name), safe='')}{_SUFFIX}"


def read_tag(root: Storage, name: str) -> Tag:
    """Return a tag of the dataset whose main branch is at `root`.

    Raises:
        InvalidInputError: the name is not a valid tag name.
        RefNotFoundError: the tag does not exist.
        CorruptFileError: the file of the tag does not parse.
    """
    tag = find_tag(root, name)
    if tag is None:
        raise RefNotFoundError(f"no tag {name!r}{did_you_mean(name, tag_names(root))}")
    return tag


def find_tag(root: Storage, name: str) -> Tag | None:
    """Return the tag, or None if it does not exist; other errors are those of `read_tag`."""
    try:
        return _read(root, tag_path(name), _parse_tag)
    except FileMissingError:
        return None


def read_branch(root: Storage, name: str) -> Branch:
    """Return a branch of the dataset whose main branch is at `root`; errors are like those of `read_tag`."""
    try:
        return _read(root, branch_path(name), _parse_branch)
    except FileMissingError:
        raise no_branch(root, name) from None


def no_branch(root: Storage, name: str) -> RefNotFoundError:
    """Return the error for a branch that does not exist; its message suggests similar names."""
    return RefNotFoundError(f"no branch {name!r}{did_you_mean(name, branch_names(root))}")


def tag_names(root: Storage) -> list[str]:
    """Return the names of all tags, sorted. Files without a valid tag name are ignored."""
    return sorted(name for name in _names(root, TAGS) if _allowed(check_tag_name, name))


def branch_names(root: Storage) -> list[str]:
    """Return the names of all branches except main, sorted. Files without a valid branch name are ignored."""
    names = (unquote(name) for name in _names(root, BRANCHES))
    return sorted(name for name in names if _allowed(check_branch_name, name))


def list_tags(root: Storage) -> dict[str, Tag]:
    """Return all tags by name.

    A tag that is removed during the call is left out. Errors are those of `read_tag`.
    """
    return _read_all(root, tag_names(root), tag_path, _parse_tag)


def list_branches(root: Storage) -> dict[str, Branch]:
    """Return all branches except main by name; errors are those of `list_tags`."""
    return _read_all(root, branch_names(root), branch_path, _parse_branch)


def list_refs(root: Storage) -> tuple[dict[str, Tag], dict[str, Branch]]:
    """Return the results of `list_tags` and `list_branches`, read side by side from a remote storage."""
    return run_both(partial(list_tags, root), partial(list_branches, root), root.is_remote)


def branch_storage(root: Storage, branch: str | None) -> Storage:
    """Return the storage of the versions of a branch. None and "main" mean the main branch, at `root` itself.

    Raises:
        InvalidInputError: the name is not a valid branch name.
    """
    if branch in (None, MAIN):
        return root
    return root.below(f"{TREE}/{check_branch_name(str(branch))}").locked_by(root.commit_lock)


def _is_path_component(name: str) -> bool:
    allowed = _COMPONENT.fullmatch(name) and ".." not in name and name != "."
    return bool(allowed) and not name.endswith(".lock")


def _bad_name(kind: str, name: str) -> InvalidInputError:
    return InvalidInputError(
        f"not the name of a {kind}", expected="letters, digits, '.', '-' and '_'", found=ascii(name)
    )


def _allowed(check: Callable[[str], str], name: str) -> bool:
    try:
        check(name)
    except InvalidInputError:
        return False
    return True


def _names(root: Storage, directory: str) -> Iterator[str]:
    try:
        entries = root.list_directory(directory)
    except FileMissingError:
        return
    for entry in entries:
        if entry.name.endswith(_SUFFIX) and not entry.is_directory:
            yield entry.name.removesuffix(_SUFFIX)


def _read_all(
    root: Storage, names: Iterable[str], path_of: Callable[[str], str], parse: Callable[[dict[str, Any]], T]
) -> dict[str, T]:
    def read(name: str) -> T | None:
        try:
            return _read(root, path_of(name), parse)
        except FileMissingError:  # removed after it was listed
            return None

    listed = list(names)
    found = run_each([partial(read, name) for name in listed], root.is_remote)
    return {name: ref for name, ref in zip(listed, found, strict=True) if ref is not None}


def _read(root: Storage, path: str, parse: Callable[[dict[str, Any]], T]) -> T:
    with root.open_file(path) as file:
        if file.size > _MAX_BYTES:
            raise CorruptFileError("ref is too large", file=path, expected=_MAX_BYTES, found=file.size)
        data = bytes(memoryview(file.read(0, file.size)))
    try:
        content = json.loads(data)
        _check_depth(content)
        return parse(content)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CorruptFileError("ref does not parse", file=path, found=repr(error)) from None


def _check_depth(value: Any, depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        raise ValueError(f"nested deeper than {_MAX_DEPTH}")
    if isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            _check_depth(child, depth + 1)


def _parse_tag(content: dict[str, Any]) -> Tag:
    return Tag(
        branch=_optional_text(content.get("branch")),
        version=_number(content["version"]),
        created_at=_time(content.get("createdAt")),
        updated_at=_time(content.get("updatedAt")),
        manifest_size=_number(content["manifestSize"]),
        metadata=_metadata(content.get("metadata")),
    )


def _parse_branch(content: dict[str, Any]) -> Branch:
    steps = content.get("identifier", {}).get("version_mapping", [])
    return Branch(
        parent_branch=_optional_text(content.get("parentBranch")),
        branch_identifier=tuple((_number(version), _text(uuid)) for version, uuid in steps),
        parent_version=_number(content["parentVersion"]),
        create_at=_number(content["createAt"]),
        manifest_size=_number(content["manifestSize"]),
        metadata=_metadata(content.get("metadata")),
    )


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ValueError(f"not a 64-bit number: {value!r}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"not text: {value!r}")
    return value


def _optional_text(value: Any) -> str | None:
    return None if value is None else _text(value)


def _time(value: Any) -> datetime | None:
    # Cut off nanoseconds: `datetime` has microseconds.
    if value is None:
        return None
    return datetime.fromisoformat(_FRACTION.sub(r"\1", _text(value))).astimezone(UTC)


def _metadata(value: Any) -> dict[str, str]:
    return {_text(key): _text(text) for key, text in (value or {}).items()}
