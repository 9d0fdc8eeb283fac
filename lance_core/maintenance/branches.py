"""Creating and removing branches.

A branch is a shallow clone in `tree/{branch}/`, and a file that names the version with which it began. The
clone is written first, so that every reader that finds the file can open the branch.

Source: docs/format.md, "Tags and branches".
"""

import time
from collections.abc import Mapping
from uuid import uuid4

from lance_core.errors import (
    DatasetExistsError,
    FileMissingError,
    InvalidInputError,
    LanceError,
    RefConflictError,
    RefNotFoundError,
)
from lance_core.hints import did_you_mean
from lance_core.maintenance.clone import clone_table
from lance_core.maintenance.tags import branch_json, create_ref, new_name
from lance_core.storage import Storage
from lance_core.table.refs import (
    Branch,
    branch_path,
    branch_storage,
    check_branch_name,
    list_branches,
    list_tags,
    read_branch,
)
from lance_core.table.snapshot import Snapshot
from lance_core.table.versions import REFS, TREE, VERSIONS, manifest_path

_DATASET_DIRECTORIES = {VERSIONS, "_transactions", "data", "_deletions", "_indices", REFS, TREE}


def create_branch(root: Storage, name: str, source: Snapshot) -> Snapshot:
    """Create a branch that begins with the version `source` of the dataset whose main branch is at `root`.

    Raises:
        InvalidInputError: the name is not a valid branch name.
        RefConflictError: the branch exists, or an incomplete one does.
        RefNotFoundError: the branch of `source` was removed.
        VersionNotFoundError: the version was removed meanwhile.
        LanceError: another error of `clone_table`.
    """
    path = branch_path(new_name(name))
    if not _DATASET_DIRECTORIES.isdisjoint(name.split("/")[1:]):
        raise InvalidInputError(
            "a branch below another branch must not have the name of a dataset directory", found=repr(name)
        )
    if root.exists(path):
        raise RefConflictError(f"branch {name!r} already exists")
    parent, version = source.manifest.branch, source.manifest.version
    steps = read_branch(root, parent).branch_identifier if parent else ()
    try:
        branch = clone_table(source, branch_storage(root, name), branch=name)
    except DatasetExistsError:
        raise RefConflictError(
            f"branch {name!r} is being created, or its creation was interrupted; in that case delete it first"
        ) from None
    content = Branch(
        parent_branch=parent,
        branch_identifier=(*steps, (version, uuid4().hex)),
        parent_version=version,
        create_at=int(time.time()),
        manifest_size=source.manifest.size,
    )
    try:
        create_ref(root, path, branch_json(content), f"branch {name!r}")
        # a cleanup may have removed the version before it saw the branch
        manifest_path(source.storage, version)
    except LanceError as error:
        if not isinstance(error, RefConflictError):
            delete_branch(root, name)
        raise
    return branch


def delete_branch(root: Storage, name: str) -> None:
    """Remove a branch and its files. The branch may be incomplete.

    Raises:
        RefNotFoundError: the branch does not exist.
        RefConflictError: other branches or tags depend on the branch.
    """
    check_branch_name(name)
    branches = list_branches(root)
    parts = _directories(root, f"{TREE}/{name}")
    own = (
        parts & _DATASET_DIRECTORIES
    )  # other directories are branches below this name, which may be incomplete
    if name not in branches and not own:
        raise RefNotFoundError(f"no branch {name!r}{did_you_mean(name, list(branches))}")
    children = sorted(standing_on(name, branches))
    if children:
        raise RefConflictError(f"branch {name!r} is the base of other branches", found=children)
    tags = sorted(tag for tag, content in list_tags(root).items() if content.branch == name)
    if tags:
        raise RefConflictError(f"branch {name!r} has versions with tags", found=tags)
    root.delete_file(branch_path(name))
    for part in sorted(own):
        root.delete_directory(f"{TREE}/{name}/{part}")
    if parts == own:
        root.delete_directory(f"{TREE}/{name}")


def standing_on(name: str | None, branches: Mapping[str, Branch]) -> dict[str, list[int]]:
    """Return the branches that depend on a branch, and the versions of it that they need.

    A branch depends on `name` if it began with one of its versions, or with such a branch: files of all these
    branches may be in this one. None is the main branch.
    """
    steps = branches[name].branch_identifier if name is not None and name in branches else ()
    found: dict[str, list[int]] = {}
    for other, branch in branches.items():
        identifier = branch.branch_identifier
        versions = {branch.parent_version} if branch.parent_branch == name else set()
        if len(identifier) > len(steps) and identifier[: len(steps)] == steps and (steps or name is None):
            versions.add(identifier[len(steps)][0])
        if versions and other != name:
            found[other] = sorted(versions)
    return found


def _directories(root: Storage, path: str) -> set[str]:
    try:
        return {entry.name for entry in root.list_directory(path) if entry.is_directory}
    except FileMissingError:
        return set()
