"""Manifests: one file per version of a table, which names all other files of the version.

  [u32 length, IndexSection] [u32 length, Transaction] u32 length, Manifest, u64 position, u16, u16, "LANC"

The position in the footer points at the length before the Manifest message. This message ends where the
footer begins. Positions inside the message point at the lengths of the optional sections, which may be in any
order.

Source: docs/format.md, "Manifest".
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from operator import attrgetter
from typing import TypeVar
from weakref import WeakValueDictionary

from google.protobuf.message import DecodeError, Message

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.proto import file_pb2, table_pb2, transaction_pb2
from lance_core.schema import Schema
from lance_core.table import feature_flags
from lance_core.table.bases import DatasetBasePath
from lance_core.table.fragment import MAX_ROWS, Fragment, Lineage, refuse_external
from lance_core.table.fragment_reuse import (
    FRAGMENT_REUSE,
    FragmentReuse,
    ReadPart,
    parse_fragment_reuse,
)
from lance_core.table.fragment_totals import FragmentTotals
from lance_core.table.indices import (
    DIRECTORY,
    IndexSegment,
    followed_segment,
    parse_segments,
)
from lance_core.table.manifest_repairs import repair_manifest

_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_MAGIC = b"LANC"
_WRITTEN_VERSION = (0, 2)
"""Version numbers in the footer. Readers ignore them."""
_Message = TypeVar("_Message", bound=Message)
_physical_rows = attrgetter("physical_rows")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_schemas: WeakValueDictionary[bytes, Schema] = WeakValueDictionary()
"""Schemas in use by the hash of their messages. What was derived from one serves the next version, too: its
fields, projections, and the columns of opened files.
"""


@dataclass(frozen=True)
class Manifest:
    """One version of a table, made by `parse_manifest`. Its parts are parsed when they are first used."""

    name: str
    """Path relative to the dataset."""
    size: int
    """Bytes of the file."""
    message: table_pb2.Manifest = field(repr=False)
    _transaction: bytes | None = field(repr=False)
    """Serialized transaction that made this version; None if the file does not contain it."""
    _index_section: bytes | None = field(repr=False)
    _content: bytes = field(repr=False)
    """Content of the whole file if fields have dictionary values in it, otherwise empty."""
    repairs: tuple[str, ...] = ()
    """Damage of the file that was repaired, one sentence per repair; see `manifest_repairs`."""
    is_counted: bool = False
    """Whether the row counts were read from data files, because the manifest's own counts are missing or
    unreliable.
    """
    read_part: ReadPart | None = field(default=None, repr=False, compare=False)
    """Reads files of the table that the manifest stands for; None if there are none to read."""
    tag: str | None = field(default=None, repr=False, compare=False)
    """Tag of the file, see `Storage.read_tagged`; None if it is unknown."""

    @property
    def version(self) -> int:
        return self.message.version

    @cached_property
    def schema(self) -> Schema:
        """Schema of the table, with the schema metadata. Equal schemas of several versions are one object."""
        message = self.message
        if self._content:  # it may be large, and few tables have it
            return Schema(message.fields, message.schema_metadata, file=self.name, content=self._content)
        # A copy, because the message of this version has all its fragments.
        copied = table_pb2.Manifest(fields=message.fields, schema_metadata=message.schema_metadata)
        key = sha256(copied.SerializeToString(deterministic=True)).digest()
        known = _schemas.get(key)
        if known is not None and known.is_shareable:
            return known
        schema = Schema(copied.fields, copied.schema_metadata, file=self.name)
        _schemas[key] = schema
        return schema

    @cached_property
    def fragments(self) -> tuple[Fragment, ...]:
        """Fragments in the order of their rows.

        Raises:
            CorruptFileError: an id appears twice or does not fit in 32 bits.
        """
        format_ = None if self.has_mixed_file_versions else self.declared_file_version
        bases = self.base_paths if self.fragment_ids else {}
        return tuple([Fragment(message, self.name, format_, bases) for message in self._fragment_messages])

    @cached_property
    def fragment_by_id(self) -> Mapping[int, Fragment]:
        """Fragments by id; errors are those of `fragments`."""
        return dict(zip(self.fragment_ids, self.fragments, strict=True))

    @cached_property
    def fragment_ids(self) -> Sequence[int]:
        """Ids of the fragments in the order of their rows; errors are those of `fragments`."""
        ids = [message.id for message in self._fragment_messages]
        if len(set(ids)) != len(ids) or max(ids, default=0) >= MAX_ROWS:
            raise CorruptFileError(
                "fragment ids", file=self.name, expected="unique 32-bit numbers", found=max(ids, default=0)
            )
        return ids

    @cached_property
    def fragment_rows(self) -> Sequence[int]:
        """Number of live rows of each fragment; errors are those of `Fragment.num_rows`."""
        if self.has_row_counts and not self.totals.deletion_files:
            return list(map(_physical_rows, self._fragment_messages))
        return [fragment.num_rows for fragment in self.fragments]

    @property
    def has_row_counts(self) -> bool:
        """Whether the number of rows and of deleted rows is known for every fragment.

        Releases before 0.8 wrote no counts, and release 0.8.0 wrote wrong counts. Neither signed its
        manifests.
        """
        if self.is_counted:
            return True
        if not self.message.HasField("writer_version"):
            return not self.totals.fragments
        return self.totals.is_counted

    @property
    def num_rows(self) -> int | None:
        """Number of live rows of the table; None if the manifest does not say."""
        return self.totals.physical_rows - self.totals.deleted_rows if self.has_row_counts else None

    @cached_property
    def totals(self) -> FragmentTotals:
        """Totals of the fragments and their files; errors are those of `FragmentTotals.of`."""
        return FragmentTotals.of(self.message, self.name)

    @cached_property
    def _fragment_messages(self) -> list[table_pb2.DataFragment]:
        return list(self.message.fragments)

    @cached_property
    def timestamp(self) -> datetime:
        """Time of the commit in UTC; the epoch if the manifest has no time."""
        stamp = self.message.timestamp
        try:
            return _EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)
        except OverflowError:
            raise CorruptFileError("timestamp out of range", file=self.name, found=stamp.seconds) from None

    @property
    def reader_feature_flags(self) -> int:
        return self.message.reader_feature_flags

    @property
    def writer_feature_flags(self) -> int:
        return self.message.writer_feature_flags

    @property
    def has_stable_row_ids(self) -> bool:
        return bool(self.reader_feature_flags & feature_flags.STABLE_ROW_IDS)

    @property
    def has_mixed_file_versions(self) -> bool:
        return bool(self.reader_feature_flags & feature_flags.MIXED_FILE_VERSIONS)

    @property
    def data_storage_version(self) -> str:
        """Version of the data files, such as "2.1".

        Manifests before 0.15 do not declare a version. Then the version of the first data file is returned.
        If there is no data file either, a feature flag distinguishes 2.x from 0.1.
        """
        if self.declared_file_version:
            return self.declared_file_version.name
        for fragment in self.fragments:
            for file in fragment.files:
                return file.version.name
        is_v2 = self.writer_feature_flags & feature_flags.V2_FORMAT
        return (FileVersion.V2_2 if is_v2 else FileVersion.V0_1).name

    @property
    def config(self) -> Mapping[str, str]:
        """Settings of the table."""
        return dict(self.message.config)

    @property
    def table_metadata(self) -> Mapping[str, str]:
        """Metadata that users set on the table."""
        return dict(self.message.table_metadata)

    @property
    def max_fragment_id(self) -> int | None:
        """Highest fragment id ever assigned; None if no id was assigned yet."""
        return self.message.max_fragment_id if self.message.HasField("max_fragment_id") else None

    @property
    def next_row_id(self) -> int:
        return self.message.next_row_id

    @property
    def branch(self) -> str | None:
        """Name of the branch; None on the main branch."""
        return self.message.branch if self.message.HasField("branch") else None

    @cached_property
    def base_paths(self) -> Mapping[int, DatasetBasePath]:
        """Declared base paths by id."""
        return {base.id: DatasetBasePath.from_message(base) for base in self.message.base_paths}

    @property
    def used_base_paths(self) -> tuple[DatasetBasePath, ...]:
        """Base paths that contain data files or deletion files of this version.

        Raises:
            CorruptFileError: a file is in a base path that is not declared; or an error of `fragments`.
        """
        if not self.message.base_paths:
            return ()
        ids = {file.base_id for fragment in self.fragments for file in fragment.files}
        ids |= {file.base_id for fragment in self.fragments if (file := fragment.deletion_file)}
        return tuple(base for base in self.base_paths.values() if base.id in ids)

    @cached_property
    def stored_index_segments(self) -> tuple[IndexSegment, ...]:
        """Entries of the index section, with the coverage as it is stored.

        Raises:
            CorruptFileError: the section does not decode; or an error of `parse_segments`.
        """
        if self._index_section is None:
            return ()
        section = _decode(table_pb2.IndexSection, self._index_section, "index section", self.name)
        return parse_segments(section, self.name)

    @cached_property
    def fragment_reuse(self) -> FragmentReuse | None:
        """Compactions that left index files as they were; None if there are none.

        Errors are those of `stored_index_segments` and `parse_fragment_reuse`.
        """
        for segment in self.stored_index_segments:
            if segment.name == FRAGMENT_REUSE:
                described = segment.description
                read = self.read_part if described.base_id is None else None
                directory = f"{DIRECTORY}/{described.uuid}"
                return parse_fragment_reuse(segment.details, described.uuid, directory, read, self.name)
        return None

    @cached_property
    def index_segments(self) -> tuple[IndexSegment, ...]:
        """Entries of the index section. After compactions that left index files as they were, the coverage is
        translated to the present fragments.

        Errors are those of `fragment_reuse`.
        """
        reuse = self.fragment_reuse
        segments = self.stored_index_segments
        return segments if reuse is None else tuple(followed_segment(each, reuse) for each in segments)

    @cached_property
    def searchable_segments(self) -> tuple[IndexSegment, ...]:
        """Index segments that searches can use; errors are those of `index_segments`.

        There are none if the table has stable row ids and a fragment reuse index: no known writer makes such
        a table, so it is unknown whether that index is about ids.
        """
        reuse = self.fragment_reuse
        return () if reuse is not None and self.has_stable_row_ids else self.index_segments

    @property
    def index_section(self) -> bytes | None:
        """Serialized index section; None without indices. A version that changes no index repeats these
        bytes.
        """
        return self._index_section

    @property
    def transaction_section(self) -> bytes | None:
        """Serialized transaction that made this version; None if the file does not contain it."""
        return self._transaction

    @cached_property
    def transaction_uuid(self) -> str | None:
        """Id of the transaction that made this version; None in versions of old libraries.

        The id is read from the transaction in the file, otherwise from the name of the transaction file.
        """
        if self._transaction is not None:
            message = _decode(transaction_pb2.Transaction, self._transaction, "transaction", self.name)
            return message.uuid or None
        _, _, uuid = self.message.transaction_file.removesuffix(".txn").partition("-")
        return uuid or None

    @cached_property
    def identity(self) -> str:
        """Text that differs between versions with the same number, after a table was dropped
        and made again.
        """
        origin = self.transaction_uuid
        if origin is None:
            from hashlib import (
                blake2b,
            )  # late: its import loads OpenSSL

            content = self.message.SerializeToString(deterministic=True)
            origin = blake2b(content, digest_size=16).hexdigest()
        return f"{origin}-{self.size}"

    def sharing(self, other: "Manifest") -> "Manifest":
        """Return this version with what was parsed of another version of the table, where both are equal.

        What was learnt about a schema is kept with the schema, so that it is of use for both versions. The
        result is `other` if that is the same version.
        """
        if self.identity == other.identity:
            return other
        parsed = vars(other).keys() - vars(self).keys()
        if "schema" in parsed and _is_same_schema(self, other):
            vars(self)["schema"] = other.schema
        if "stored_index_segments" in parsed and self._index_section == other._index_section:
            vars(self)["stored_index_segments"] = other.stored_index_segments
        return self

    @cached_property
    def declared_file_version(self) -> FileVersion | None:
        """Version that all data files must have unless mixed versions are allowed; None in old manifests."""
        name = self.message.data_format.version
        return FileVersion.from_name(name, file=self.name) if name else None


def parse_manifest(
    data: bytes, name: str, read_part: ReadPart | None = None, tag: str | None = None
) -> Manifest:
    """Parse a whole manifest file.

    Args:
        data: content of the file.
        name: path of the file for messages.
        read_part, tag: see `Manifest`.

    Raises:
        CorruptFileError: the bytes contradict the format.
        UnsupportedFeatureError: the manifest has a feature flag, a file version or a section that this
            package does not implement.
    """
    limit = len(data) - _FOOTER.size
    if limit < 0:
        raise CorruptFileError("manifest is too short", file=name, expected=_FOOTER.size, found=len(data))
    position, _, _, magic = _FOOTER.unpack_from(data, limit)
    if magic != _MAGIC:
        raise CorruptFileError("file does not end like a manifest", file=name, expected=_MAGIC, found=magic)
    section = _section(data, position, "manifest", name)
    end = position + _LENGTH.size + len(section)
    if end != limit:
        raise CorruptFileError("manifest does not reach the footer", file=name, expected=limit, found=end)
    message = _decode(table_pb2.Manifest, section, "manifest", name)
    feature_flags.check_readable(
        message.reader_feature_flags,
        message.writer_feature_flags,
        message.HasField("max_allocated_field_id"),
        name,
    )
    if message.HasField("fragment_tree"):
        raise UnsupportedFeatureError("fragment list outside the manifest", file=name)
    if message.data_format.file_format not in ("", "lance"):
        raise UnsupportedFeatureError("file format", file=name, found=repr(message.data_format.file_format))
    transaction = None
    if message.HasField("transaction_section"):
        transaction = _section(data, message.transaction_section, "transaction", name)
    elif message.HasField("transaction_section_deprecated"):
        transaction = _section(data, message.transaction_section_deprecated, "transaction", name)
    index_section = None
    if message.HasField("index_section"):
        index_section = _section(data, message.index_section, "index section", name)
    index_section, repairs = repair_manifest(message, index_section, name)
    manifest = Manifest(
        name=name,
        size=len(data),
        message=message,
        _transaction=transaction,
        _index_section=index_section,
        _content=data if _has_dictionaries(message) else b"",
        repairs=repairs,
        read_part=read_part,
        tag=tag,
    )
    _ = manifest.declared_file_version  # Refuse an unknown file version before the manifest is used.
    if manifest.has_stable_row_ids:
        _require_row_ids(manifest)
    return manifest


def describe_rows(
    fields: Iterable[file_pb2.Field],
    schema_metadata: Mapping[str, bytes],
    fragments: Iterable[table_pb2.DataFragment],
    *,
    name: str = "rows without a version",
    base_paths: Iterable[table_pb2.BasePath] = (),
) -> Manifest:
    """Return a description of complete fragments that no version of a table has, for scans of their rows.

    Nothing is read or stored. The version is 0, and the fragments get the ids from 0 on, in order. Errors of
    a scan call the description `name`.
    """
    message = table_pb2.Manifest(fields=fields, base_paths=base_paths)
    for key, data in schema_metadata.items():
        message.schema_metadata[key] = data
    for number, fragment in enumerate(fragments):
        message.fragments.add().CopyFrom(fragment)
        message.fragments[number].id = number
    return Manifest(
        name=name,
        size=0,
        message=message,
        _transaction=None,
        _index_section=None,
        _content=b"",
        is_counted=True,
    )


def written_manifest(
    message: table_pb2.Manifest,
    transaction: bytes,
    index_section: bytes | None,
    name: str,
    data: bytes,
    read_part: ReadPart | None = None,
    tag: str | None = None,
) -> Manifest:
    """Return the manifest that was just written to the file `name`, without reading the file again.

    The first arguments are those of `serialize_manifest`; `data` is its result. For `read_part` and `tag` see
    `Manifest`.
    """
    return Manifest(
        name=name,
        size=len(data),
        message=message,
        _transaction=transaction,
        _index_section=index_section,
        _content=data if _has_dictionaries(message) else b"",
        read_part=read_part,
        tag=tag,
    )


def serialize_manifest(
    message: table_pb2.Manifest,
    transaction: bytes,
    index_section: bytes | None = None,
    head: bytes = b"",
) -> bytes:
    """Return the bytes of a manifest file, and set the positions of its sections in `message`.

    Args:
        message: the manifest without positions, changed in place.
        transaction: the serialized transaction that makes this version.
        index_section: the serialized index section; None without indices.
        head: bytes at the beginning of the file, see `manifest_dictionaries`.
    """
    parts = [head]
    if index_section is not None:
        message.index_section = sum(map(len, parts))
        parts += [_LENGTH.pack(len(index_section)), index_section]
    message.transaction_section = sum(map(len, parts))
    parts += [_LENGTH.pack(len(transaction)), transaction]
    position = sum(map(len, parts))
    data = message.SerializeToString()
    return b"".join(
        [*parts, _LENGTH.pack(len(data)), data, _FOOTER.pack(position, *_WRITTEN_VERSION, _MAGIC)]
    )


def _is_same_schema(one: Manifest, other: Manifest) -> bool:
    mine, theirs = one.message, other.message
    return (
        not one._content
        and not other._content
        and mine.fields == theirs.fields
        and mine.schema_metadata == theirs.schema_metadata
    )


def _has_dictionaries(message: table_pb2.Manifest) -> bool:
    """Return whether fields have dictionary values in the manifest file, as only 0.1 tables do."""
    if message.data_format.version not in ("", FileVersion.V0_1.name):
        return False
    return any(field.HasField("dictionary") and field.dictionary.length for field in message.fields)


def _require_row_ids(manifest: Manifest) -> None:
    for message in manifest.message.fragments:
        if message.WhichOneof("row_id_sequence") is None:
            refuse_external(message, Lineage.ROW_ID, manifest.name)
            raise CorruptFileError(f"fragment {message.id} has no row ids", file=manifest.name)


def _section(data: bytes, position: int, what: str, name: str) -> bytes:
    """Return the bytes of a length-prefixed section, which must end before the footer."""
    limit = len(data) - _FOOTER.size
    start = position + _LENGTH.size
    if start > limit:
        raise CorruptFileError(f"{what} lies outside the file", file=name, expected=limit, found=position)
    (length,) = _LENGTH.unpack_from(data, position)
    if start + length > limit:
        raise CorruptFileError(
            f"{what} reaches into the footer", file=name, expected=limit, found=start + length
        )
    return data[start : start + length]


def _decode(kind: type[_Message], data: bytes, what: str, name: str) -> _Message:
    try:
        return kind.FromString(data)
    except DecodeError:
        raise CorruptFileError(f"{what} does not decode", file=name) from None
