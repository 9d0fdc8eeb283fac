"""Repairs of the damage that releases of the reference are known to have left in manifests.

| release | what is wrong | what a reader finds after the repair | |---|---|---| | before 0.8.15 | indices
name fragments that they do not cover | the coverage of these indices is unknown | | before 0.11 | a new
column got the id of a dropped one | the new column has an id of its own | | 0.16 | two fragments have one id
| the later fragment has an id of its own | | 0.16 | the table says 0.1, all its data files are 2.x | the
version of the data files |

Wrong row counts of releases before 0.8.1 are repaired in `snapshot`, because their repair reads data files.
Ids are repaired only in manifests that such a release signed. In a newer manifest, a repeated id is
corruption. The next commit writes the repaired manifest.

Source: docs/format.md, "Damage that old releases left".
"""

import re
from collections.abc import Iterable, Set
from functools import lru_cache

from google.protobuf.message import DecodeError

from lance_core.errors import CorruptFileError
from lance_core.file.footer import FileVersion
from lance_core.proto import table_pb2
from lance_core.table.fragment import TOMBSTONE

_REFERENCE = "lance"
_Release = tuple[int, ...]
_FIRST_WITH_COVERAGE: _Release = (0, 8, 15)
_FIRST_WITH_OWN_FIELD_IDS: _Release = (0, 11)
_FIRST_WITH_OWN_FRAGMENT_IDS: _Release = (0, 17)
_LATER: _Release = (1 << 31,)


def repair_manifest(
    message: table_pb2.Manifest, index_section: bytes | None, name: str
) -> tuple[bytes | None, tuple[str, ...]]:
    """Repair the manifest `message` of the file `name` in place.

    Returns:
        The repaired index section, and for each repair a sentence that says what was wrong.

    Raises:
        CorruptFileError: a fragment with the id of an earlier fragment has a deletion file, whose name
            contains this id.
    """
    release = _release(message)
    notes: list[str] = []
    if release < _FIRST_WITH_COVERAGE:
        index_section = _forget_coverage(index_section)
    if release < _FIRST_WITH_OWN_FIELD_IDS:
        twice, moved = _separate_fields(message, name)
        if twice:
            index_section = _without_indices_on(index_section, moved)
            notes.append(
                f"fields {sorted(twice)} have two columns in one fragment, of which the last one counts"
            )
    if release < _FIRST_WITH_OWN_FRAGMENT_IDS and (ids := _separate_fragments(message, name)):
        notes.append(f"two fragments have the id {ids[0]}")
    if message.data_format.version == FileVersion.V0_1.name:
        versions = _file_versions(message)
        if len(versions) == 1 and (version := versions.pop()) != FileVersion.V0_1:
            notes.append(f"the table says that its data files are 0.1, but they are {version}")
            message.data_format.version = version.name
    return index_section, tuple(notes)


def has_several_file_versions(message: table_pb2.Manifest) -> bool:
    """Return whether a table that declares 0.1 has data files of 0.1 and of 2.x, as release
    0.16 left some.
    """
    return message.data_format.version == FileVersion.V0_1.name and len(_file_versions(message)) > 1


def _release(message: table_pb2.Manifest) -> _Release:
    """Return the release of the reference that signed a manifest; `_LATER` for other libraries.

    The result is empty for releases before 0.8.1, which did not sign.
    """
    if not message.HasField("writer_version"):
        return ()
    writer = message.writer_version
    return _parse_release(writer.version) if writer.library == _REFERENCE else _LATER


@lru_cache
def _parse_release(version: str) -> _Release:
    numbers = re.match(r"\d+(\.\d+)*", version)
    return _LATER if numbers is None else tuple(map(int, numbers[0].split(".")))


def _forget_coverage(index_section: bytes | None) -> bytes | None:
    """Remove the fragment bitmaps of all indices. Readers do not use an index without a bitmap."""
    section = _decoded(index_section)
    if section is None:
        return index_section
    for index in section.indices:
        index.ClearField("fragment_bitmap")
    return section.SerializeToString()


def _without_indices_on(index_section: bytes | None, fields: Set[int]) -> bytes | None:
    """Drop indices on fields with new ids, because it is unknown which of the two columns was indexed."""
    section = _decoded(index_section)
    if section is None:
        return index_section
    kept = [index for index in section.indices if not fields & set(index.fields)]
    return table_pb2.IndexSection(indices=kept).SerializeToString() if kept else None


def _decoded(index_section: bytes | None) -> table_pb2.IndexSection | None:
    """Return the index section; None if it is missing or does not decode.

    `Manifest.index_segments` reports a section that does not decode.
    """
    try:
        return None if index_section is None else table_pb2.IndexSection.FromString(index_section)
    except DecodeError:
        return None


def _separate_fields(message: table_pb2.Manifest, name: str) -> tuple[set[int], set[int]]:
    """Give new ids to fields with two columns in one fragment.

    The last column of a fragment was written for the field; the others belonged to a dropped field. The
    columns of a 0.1 file follow from the distances between its field ids. Therefore all fields of a file get
    new ids together, and so do the fields of all files that hold one of them.

    Returns:
        The fields that had two columns, and all fields with new ids; both by their old ids.

    Raises:
        CorruptFileError: the first column of a file is obsolete, while the file has other columns that are
            used.
    """
    twice = {field for fragment in message.fragments for field in _repeated(fragment)}
    if not twice:
        return set(), set()
    moved = set(twice)
    while True:
        together = {
            field
            for fragment in message.fragments
            for file in _counting_files(fragment, moved)
            for field in file.fields
            if field >= 0
        }
        if together <= moved:
            break
        moved |= together
    ids = [field.id for field in message.fields]
    ids += [field for fragment in message.fragments for file in fragment.files for field in file.fields]
    distance = max(ids) + 1 - min(moved)
    for field in message.fields:
        field.id += distance if field.id in moved else 0
        field.parent_id += distance if field.parent_id in moved else 0
    known = {field.id for field in message.fields}
    for fragment in message.fragments:
        _move_fields(fragment, moved, distance, name)
        kept = [file for file in fragment.files if known.intersection(file.fields)]
        del fragment.files[:]
        fragment.files.extend(kept)
    return twice, moved


def _repeated(fragment: table_pb2.DataFragment) -> Iterable[int]:
    """Return the fields with more than one column in a fragment."""
    if len(fragment.files) < 2:
        return ()
    fields = [field for file in fragment.files for field in file.fields if field >= 0]
    return {field for field in fields if fields.count(field) > 1} if len(set(fields)) < len(fields) else ()


def _counting_files(fragment: table_pb2.DataFragment, fields: Set[int]) -> list[table_pb2.DataFile]:
    """Return the files that hold the last column of one of `fields`, last file first."""
    seen: set[int] = set()
    found = []
    for file in reversed(fragment.files):
        if (fields & set(file.fields)) - seen:
            found.append(file)
        seen.update(file.fields)
    return found


def _move_fields(fragment: table_pb2.DataFragment, moved: Set[int], distance: int, name: str) -> None:
    seen: set[int] = set()
    for file in _counting_files(fragment, moved):
        if file.fields[0] in seen:
            raise CorruptFileError(
                f"field of fragment {fragment.id} has two columns", file=name, found=file.fields[0]
            )
        fields = list(file.fields)
        file.fields[:] = [TOMBSTONE if f < 0 or f in seen else f + distance for f in fields]
        seen.update(fields)


def _separate_fragments(message: table_pb2.Manifest, name: str) -> list[int]:
    """Give a new id to each fragment that has the id of an earlier fragment; return the repeated ids."""
    seen: set[int] = set()
    twice: list[int] = []
    highest = max([message.max_fragment_id, *(fragment.id for fragment in message.fragments)])
    for fragment in message.fragments:
        if fragment.id in seen:
            if fragment.HasField("deletion_file"):
                raise CorruptFileError(
                    "a fragment with deleted rows has the id of another one", file=name, found=fragment.id
                )
            twice.append(fragment.id)
            highest += 1
            fragment.id = highest
        seen.add(fragment.id)
    if twice:
        message.max_fragment_id = highest
    return twice


def _file_versions(message: table_pb2.Manifest) -> set[FileVersion]:
    numbers = {
        (file.file_major_version, file.file_minor_version)
        for fragment in message.fragments
        for file in fragment.files
    }
    return {FileVersion.from_numbers(*pair) for pair in numbers}
