"""Dataset names as clients write them: which ones are allowed, and what their parts mean.

A name is the path of a dataset below the served root, `/` between segments, without the `.lance` suffix. It
may end in `@12` (a version), `@gold` (a tag) or `@dev:12` (a branch and optionally a version of it).
Nothing is ever decoded or normalised: a name either matches letter by letter or is refused (threat T7).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lance_core.errors import InvalidInputError, UnsupportedFeatureError

SUFFIX = ".lance"
MAXIMUM_NAME_CHARACTERS = 1024
MAXIMUM_VERSION = (1 << 63) - 1

_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_DIGITS = re.compile(r"[0-9]{1,20}")


def is_segment(text: str) -> bool:
    """Whether `text` may be one segment of a name, of a tag or of a branch."""
    return _SEGMENT.fullmatch(text) is not None


def shown(text: str) -> str:
    """A client's text as it may stand in messages and logs: escaped and short."""
    escaped = ascii(text)
    return escaped if len(escaped) <= 160 else f"{escaped[:150]}...{escaped[0]}"


@dataclass(frozen=True)
class DatasetReference:
    """A name and the version it asks for (None: the latest). No instance holds a name that is not allowed."""

    name: str
    """Segments with `/` between them; no suffix."""
    version: int | None = None

    def __post_init__(self) -> None:
        """Raises InvalidInputError naming the segment that is not allowed."""
        if len(self.name) > MAXIMUM_NAME_CHARACTERS:
            raise InvalidInputError(
                f"dataset name of {len(self.name)} characters; at most {MAXIMUM_NAME_CHARACTERS}"
            )
        for segment in self.name.split("/"):
            if not is_segment(segment):
                raise InvalidInputError(
                    f"dataset name {shown(self.name)}: a segment is not allowed",
                    expected=_SEGMENT.pattern,
                    found=shown(segment),
                )
        if self.name.endswith(SUFFIX):
            raise InvalidInputError(f"dataset name {shown(self.name)}: a name ends without {SUFFIX}")


def parse_name(text: str) -> DatasetReference:
    """The dataset and version that `text` names; one `.lance` suffix is accepted.

    Raises InvalidInputError when a part is not allowed and UnsupportedFeatureError for tags and branches.
    """
    name, at, version = text.partition("@")
    reference = DatasetReference(name.removesuffix(SUFFIX))
    return replace(reference, version=_parse_version(name, version)) if at else reference


def parse_path(path: Sequence[str]) -> DatasetReference:
    """The dataset that the path of a FlightDescriptor names: `["ns", "trips"]` or `["ns/trips"]`."""
    return parse_name("/".join(path))


def _parse_version(name: str, reference: str) -> int:
    if _DIGITS.fullmatch(reference):
        version = int(reference)
        if version > MAXIMUM_VERSION:
            raise InvalidInputError(
                f"dataset name {shown(name)}: no version is larger than {MAXIMUM_VERSION}"
            )
        return version
    branch, colon, version_text = reference.partition(":")
    for segment in branch.split("/"):
        if not is_segment(segment):
            raise InvalidInputError(
                f"dataset name {shown(name)}: {shown(reference)} is no version, tag or branch"
            )
    if not colon and "/" in branch:
        raise InvalidInputError(
            f"dataset name {shown(name)}: a branch is written with a colon, as in @{branch}:"
        )
    if not colon:
        raise UnsupportedFeatureError(
            f"dataset name {shown(name)}: tags are not supported yet (tag {branch})"
        )
    if version_text and not _DIGITS.fullmatch(version_text):
        raise InvalidInputError(f"dataset name {shown(name)}: {shown(version_text)} is no version")
    raise UnsupportedFeatureError(
        f"dataset name {shown(name)}: branches are not supported yet (branch {branch})"
    )
