"""Creating, moving and removing tags; metadata of tags and branches.

A reference is a small JSON file that is written as a whole. A cleanup removes no version that a reference
names. Because a cleanup may run at the same time, the writer of a reference checks afterwards that the
version still exists, and the cleanup looks for new references after it has removed versions (see `cleanup`).

Source: docs/format.md, "Tags and branches".
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from lance_core.errors import (
    AlreadyExistsError,
    ArgumentTypeError,
    InvalidInputError,
    RefConflictError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_core.storage import Storage
from lance_core.table.refs import Branch, Tag, branch_path, read_branch, read_tag, tag_path
from lance_core.table.snapshot import Snapshot
from lance_core.table.versions import manifest_path


def create_tag(root: Storage, name: str, target: Snapshot) -> None:
    """Create a tag for the version `target` of the dataset whose main branch is at `root`.

    Raises:
        InvalidInputError: the name is not a valid tag name.
        RefConflictError: the tag exists.
        VersionNotFoundError: the version was removed meanwhile.
    """
    now = datetime.now(UTC)
    tag = Tag(target.manifest.branch, target.manifest.version, now, now, target.manifest.size)
    create_ref(root, tag_path(new_name(name)), _tag_json(tag), f"tag {name!r}")
    _confirm(root, tag_path(name), target)


def update_tag(root: Storage, name: str, target: Snapshot) -> None:
    """Let a tag name another version, and keep its metadata.

    Raises:
        RefNotFoundError: the tag does not exist.
        LanceError: another error of `create_tag`; the tag is unchanged.
    """
    before = read_tag(root, name)
    after = replace(
        before,
        branch=target.manifest.branch,
        version=target.manifest.version,
        updated_at=datetime.now(UTC),
        manifest_size=target.manifest.size,
    )
    root.put(tag_path(name), _tag_json(after))
    try:
        manifest_path(target.storage, target.manifest.version)
    except VersionNotFoundError:
        root.put(tag_path(name), _tag_json(before))
        raise


def delete_tag(root: Storage, name: str) -> None:
    """Remove a tag, not its version. Raise `RefNotFoundError` if the tag does not exist."""
    read_tag(root, name)
    root.delete_file(tag_path(name))


def replace_tag_metadata(root: Storage, name: str, metadata: Mapping[str, str]) -> None:
    """Replace all metadata of a tag. Raise `RefNotFoundError` if the tag does not exist."""
    root.put(tag_path(name), _tag_json(replace(read_tag(root, name), metadata=_texts(metadata))))


def replace_branch_metadata(root: Storage, name: str, metadata: Mapping[str, str]) -> None:
    """Replace all metadata of a branch. Raise `RefNotFoundError` if the branch does not exist."""
    root.put(branch_path(name), branch_json(replace(read_branch(root, name), metadata=_texts(metadata))))


def new_name(name: str) -> str:
    """Return the name of a new reference if it is ASCII, otherwise raise `InvalidInputError`.

    Existing names may have other letters. The reference library cannot list the references of a dataset with
    such a name.
    """
    if not name.isascii():
        raise InvalidInputError("name of a tag or branch", expected="ASCII characters", found=ascii(name))
    return name


def create_ref(root: Storage, path: str, data: bytes, what: str) -> None:
    """Write the file of a new reference. Of several writers one succeeds, if the storage supports an
    exclusive put.

    `what` names the reference in the message of a `RefConflictError`.
    """
    try:
        try:
            root.put_if_absent(path, data)
        except UnsupportedFeatureError:  # like the reference library, which never puts references exclusively
            if root.exists(path):
                raise AlreadyExistsError("file exists", file=path) from None
            root.put(path, data)
    except AlreadyExistsError:
        raise RefConflictError(f"{what} already exists") from None


def branch_json(branch: Branch) -> bytes:
    """Return the content of a branch's file."""
    content = {
        "parentBranch": branch.parent_branch,
        "identifier": {"version_mapping": [list(step) for step in branch.branch_identifier]},
        "parentVersion": branch.parent_version,
        "createAt": branch.create_at,
        "manifestSize": branch.manifest_size,
        "metadata": dict(branch.metadata),
    }
    return json.dumps(content, indent=2).encode()


def _tag_json(tag: Tag) -> bytes:
    content: dict[str, object] = {"branch": tag.branch, "version": tag.version}
    for key, time in (("createdAt", tag.created_at), ("updatedAt", tag.updated_at)):
        if time is not None:
            content[key] = time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    content |= {"manifestSize": tag.manifest_size, "metadata": dict(tag.metadata)}
    return json.dumps(content, indent=2).encode()


def _confirm(root: Storage, path: str, target: Snapshot) -> None:
    """Remove a new reference and raise if its version was cleaned up before the cleanup could see the
    reference.
    """
    try:
        manifest_path(target.storage, target.manifest.version)
    except VersionNotFoundError:
        root.delete_file(path)
        raise


def _texts(metadata: Mapping[str, str]) -> dict[str, str]:
    for key, text in metadata.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise ArgumentTypeError(f"metadata must be text by text, got {key!r}: {text!r}")
    return dict(metadata)
