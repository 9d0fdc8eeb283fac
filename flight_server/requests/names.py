"""Dataset names as clients write them: which ones are allowed, and what their parts mean.

A name is the path of a dataset below the served root, with `/` between its components and without the suffix
`.lance`. It may end in `@12` (a version), `@gold` (a tag; a branch if there is no such tag) or `@dev:12` (a
branch and optionally its version).
Nothing is ever decoded or normalised: a name either matches letter by letter or is refused (threat T7).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from lance_core.errors import InvalidInputError

SUFFIX = ".lance"
MAXIMUM_NAME_CHARACTERS = 1024
MAXIMUM_VERSION = (1 << 63) - 1

_COMPONENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_DIGITS = re.compile(r"[0-9]{1,20}")
_EXCLUSIVE = (
    ("version", "tag"),
    ("version", "asof"),
    ("tag", "asof"),
    ("tag", "branch"),
    *(("ref", field) for field in ("version", "tag", "branch", "asof")),
)
MAXIMUM_IDENTITY_CHARACTERS = 256


def is_path_component(text: str) -> bool:
    """Return whether `text` may be one component of a name, of a tag or of a branch."""
    return _COMPONENT.fullmatch(text) is not None


def shown(text: str) -> str:
    """Return a client's text in a form that is safe in messages and logs: escaped, quoted and short."""
    escaped = ascii(text)
    return escaped if len(escaped) <= 160 else f"{escaped[:150]}...{escaped[0]}"


@dataclass(frozen=True)
class DatasetReference:
    """A name and the version it asks for: the latest of the main branch, unless a field says otherwise.

    No instance holds a name that is not allowed, or fields that exclude each other.
    """

    name: str
    """Components with `/` between them; no suffix."""
    version: int | None = None
    """A version of `branch`."""
    tag: str | None = None
    branch: str | None = None
    asof: datetime | None = None
    """The last version of `branch` that was committed before this time."""
    ref: str | None = None
    """A tag; a branch if there is no such tag."""
    identity: str | None = None
    """Identity of the manifest. A dataset that was dropped and made again has other identities."""

    def __post_init__(self) -> None:
        """Raise InvalidInputError, which names the component that is not allowed, or the fields."""
        if len(self.name) > MAXIMUM_NAME_CHARACTERS:
            raise InvalidInputError(
                f"dataset name of {len(self.name)} characters; at most {MAXIMUM_NAME_CHARACTERS}"
            )
        for component in self.name.split("/"):
            if not is_path_component(component):
                raise InvalidInputError(
                    f"dataset name {shown(self.name)}: a path component is not allowed",
                    expected=_COMPONENT.pattern,
                    found=shown(component),
                )
        if self.name.endswith(SUFFIX):
            raise InvalidInputError(
                f"dataset name {shown(self.name)}: only one {SUFFIX} is allowed at the end"
            )
        for first, second in _EXCLUSIVE:
            if getattr(self, first) is not None and getattr(self, second) is not None:
                raise InvalidInputError(f"dataset {self.name}: {first} and {second} cannot be given together")
        if self.identity is not None and self.version is None:
            raise InvalidInputError(f"dataset {self.name}: the field identity needs a version, too")
        if len(self.identity or "") > MAXIMUM_IDENTITY_CHARACTERS:
            raise InvalidInputError(
                f"dataset {self.name}: identity of {len(self.identity or '')} characters; at most "
                f"{MAXIMUM_IDENTITY_CHARACTERS}"
            )
        for kind, ref in (("tag", self.tag), ("branch", self.branch)):
            components = [] if ref is None else ref.split("/") if kind == "branch" else [ref]
            if not all(map(is_path_component, components)):
                raise InvalidInputError(
                    f"dataset {self.name}: not a valid name of a {kind}", found=shown(str(ref))
                )

    @property
    def names_a_version(self) -> bool:
        """Whether the reference is to anything but the latest version of the main branch."""
        return any(part is not None for part in (self.version, self.tag, self.branch, self.asof, self.ref))


@lru_cache(maxsize=1024)
def parse_name(text: str) -> DatasetReference:
    """Return the dataset and version that `text` names; one `.lance` suffix is accepted.

    Raises InvalidInputError when a part is not allowed.
    """
    name, at, version = text.partition("@")
    reference = DatasetReference(name.removesuffix(SUFFIX))
    return _with_version(reference, version) if at else reference


def parse_path(path: Sequence[str]) -> DatasetReference:
    """Return the dataset that the path of a FlightDescriptor names: `["ns", "trips"]` or `["ns/trips"]`."""
    return parse_name("/".join(path))


def _with_version(reference: DatasetReference, text: str) -> DatasetReference:
    """Return `reference` with the version, tag or branch behind the `@`."""
    ref, colon, version = text.partition(":")
    if _DIGITS.fullmatch(text):
        return replace(reference, version=_version(reference, text))
    if not all(map(is_path_component, ref.split("/"))):
        raise InvalidInputError(
            f"dataset name {shown(reference.name)}: {shown(text)} is not a valid version, tag or branch"
        )
    if colon:
        return replace(reference, branch=ref, version=_version(reference, version) if version else None)
    return replace(reference, branch=ref) if "/" in ref else replace(reference, ref=ref)


def _version(reference: DatasetReference, text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise InvalidInputError(
            f"dataset name {shown(reference.name)}: {shown(text)} is not a version number"
        )
    version = int(text)
    if version > MAXIMUM_VERSION:
        raise InvalidInputError(
            f"dataset name {shown(reference.name)}: no version is larger than {MAXIMUM_VERSION}"
        )
    return version
