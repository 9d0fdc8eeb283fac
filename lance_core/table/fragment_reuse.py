"""Fragments that compactions replaced, while index files still name the old fragments.

A compaction that leaves index files as they are ("deferred remapping") adds a version to the entry
`__lance_frag_reuse` of the index section. The version has groups: fragments that were rewritten together, the
new fragments with their rows, and the old addresses of these rows. So the row addresses in index files, and
the fragments that an index covers, can be translated when they are read.

Source: docs/format.md, "Fragment reuse index".
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyroaring
from google.protobuf.message import DecodeError

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.proto.index_pb2 import FragmentReuseIndexDetails as Details

FRAGMENT_REUSE = "__lance_frag_reuse"
"""Name of the entry in the index section."""
FILE_NAME = "details.binpb"
"""File with the groups, in the directory of the entry, if they are too large for the manifest."""
MOST_INLINE_BYTES = 200 << 10
"""Size up to which the groups are in the manifest."""

ZONES = ("zonemap", "bloomfilter")
"""Kinds of indices that describe ranges of rows. Their rows cannot be translated."""
_MOST_FRAGMENTS = 1 << 32

ReadPart = Callable[[str, int, int], bytes]
"""Function that returns bytes of a file of the table: path, start, number of bytes."""


@dataclass(frozen=True)
class FragmentReuse:
    """Content of the entry `__lance_frag_reuse` of one version of a table.

    Attributes:
        uuid: Uuid of the entry. Another content has another uuid.
        versions: One message per compaction, oldest first.
        file: File with the content, for messages.
    """

    uuid: str
    versions: Sequence[Details.Version]
    file: str

    def followed(self, covered: pyroaring.BitMap, kind: str, dataset_version: int) -> pyroaring.BitMap:
        """Return the present fragments that an index covers.

        If an index covers only some fragments of a group, it does not cover the new fragments.

        Args:
            covered: The covered fragments, as the entry of the index has them. The entry may be translated
                already.
            kind: Kind of the index in lower case, such as "btree".
            dataset_version: Version of the table for which the files of the index were written.
        """
        covered = covered.copy()
        for version in self.versions:
            for old, new in _ids(version):
                known = covered & old
                covered -= known
                if kind in ZONES:
                    # Another writer may have translated the entry, but nobody can translate the zones.
                    if dataset_version <= version.dataset_version:
                        covered -= new
                elif known and known == old:
                    covered |= new
        return covered


def parse_fragment_reuse(
    details: bytes, uuid: str, directory: str, read: ReadPart | None, file: str
) -> FragmentReuse:
    """Return the content of an entry.

    Args:
        details: Details of the entry.
        uuid: Uuid of the entry.
        directory: Directory of the files of the entry.
        read: Reads files of the table; None if the entry is in another table.
        file: The manifest, for messages.

    Raises:
        CorruptFileError: The content does not decode, or contradicts itself.
        UnsupportedFeatureError: The content is in a file of another table.
        LanceError: The file of the content cannot be read.
    """
    try:
        message = Details.FromString(details)
        content = message.inline
        if message.HasField("external"):
            external = message.external
            if read is None:
                raise UnsupportedFeatureError("fragment reuse index in a base path", file=file)
            if "/" in external.path or external.path in ("", ".", ".."):
                raise CorruptFileError("file of a fragment reuse index", file=file, found=external.path)
            file = f"{directory}/{external.path}"
            content = Details.Content.FromString(read(file, external.offset, external.size))
    except DecodeError:
        raise CorruptFileError("fragment reuse index does not decode", file=file) from None
    for version in content.versions:
        _check(version, file)
    return FragmentReuse(uuid, tuple(content.versions), file)


def new_fragments(versions: Iterable[Details.Version]) -> pyroaring.BitMap:
    """Return the ids of the new fragments of all groups."""
    return pyroaring.BitMap().union(*(new for version in versions for _, new in _ids(version)))


def old_fragments(versions: Iterable[Details.Version]) -> pyroaring.BitMap:
    """Return the ids of the replaced fragments of all groups."""
    return pyroaring.BitMap().union(*(old for version in versions for old, _ in _ids(version)))


def _ids(version: Details.Version) -> Iterator[tuple[pyroaring.BitMap, pyroaring.BitMap]]:
    """Yield the old and the new ids of each group."""
    for group in version.groups:
        yield (
            pyroaring.BitMap([each.id for each in group.old_fragments]),
            pyroaring.BitMap([each.id for each in group.new_fragments]),
        )


def _check(version: Details.Version, file: str) -> None:
    old = [each.id for group in version.groups for each in group.old_fragments]
    new = [each.id for group in version.groups for each in group.new_fragments]
    if max([*old, *new], default=0) >= _MOST_FRAGMENTS:
        raise CorruptFileError(
            "fragment id of a fragment reuse index",
            file=file,
            expected="32-bit numbers",
            found=max([*old, *new]),
        )
    if len(set(old)) != len(old) or len(set(new)) != len(new):
        raise CorruptFileError("a fragment reuse index names a fragment twice", file=file)
