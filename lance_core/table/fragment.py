"""Fragments, their data files and their deletion files.

A `Fragment` is a view of its message in the manifest. A table may have very many fragments, and most
questions need only a field or two of each. Therefore strings and lists are parsed and checked when they are
first used.

Source: docs/format.md, "Fragments".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from google.protobuf.unknown_fields import UnknownFieldSet

from lance_core.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.proto import table_pb2
from lance_core.storage.paths import contained_path
from lance_core.table.bases import DatasetBasePath

MAX_ROWS = 1 << 32
"""Bound of row offsets and of fragment ids, exclusive: each has 32 bits in a row address."""
TOMBSTONE = -2
"""Field id of an obsolete column in the field list of a data file."""


class Lineage(Enum):
    """Row id and row versions of a table with stable row ids; the values are the field ids of
    hidden columns.
    """

    ROW_ID = -3
    CREATED_AT = -4
    LAST_UPDATED_AT = -5


_INLINE = {
    Lineage.ROW_ID: "inline_row_ids",
    Lineage.CREATED_AT: "inline_created_at_versions",
    Lineage.LAST_UPDATED_AT: "inline_last_updated_at_versions",
}
_EXTERNAL_FIELDS = {Lineage.ROW_ID: 6, Lineage.LAST_UPDATED_AT: 8, Lineage.CREATED_AT: 10}
"""Numbers of the fields of a fragment's message that refer to a sequence in a separate file. Early
descriptions of the format have these fields. No library writes them, and current descriptions leave them out.
"""
_IN_COLUMN = {
    Lineage.ROW_ID: "column_row_ids",
    Lineage.CREATED_AT: "column_created_at_versions",
    Lineage.LAST_UPDATED_AT: "column_last_updated_at_versions",
}
_MOST_KNOWN_FILES = 1 << 12
"""Most data files that are kept, with a few hundred bytes each."""
HIDDEN = frozenset(kind.value for kind in Lineage)
"""Field ids of hidden columns, which are not in the schema."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldFields:
    """Fields that a data file contains. Files with equal fields share one object."""

    field_ids: tuple[int, ...]
    """All stored fields, hidden columns included, tombstones left out."""
    columns: Mapping[int, int]
    """Column number in the file by field id, without tombstones and hidden columns. In a 0.1 file the column
    number is the distance of the field id from the first field id of the file.
    """
    hidden_columns: Mapping[int, int]
    """Column number in the file by field id, for hidden columns only; see `Lineage`."""


@dataclass(frozen=True, slots=True, eq=False)
class DataFile:
    """Data file with some columns of a fragment."""

    path: str
    """Path relative to the dataset, or to the base path of the file."""
    held: HeldFields
    version: FileVersion
    size: int
    """Bytes; 0 if unknown."""
    base_id: int | None = None
    """Id of the base path that contains the file; None for the dataset itself."""

    @property
    def known_size(self) -> int | None:
        """Size to compare with that of the stored file, in bytes; None if the manifest cannot be relied on.

        Some releases of the reference measured 0.1 files before their end was written.
        """
        return (self.size or None) if self.version >= FileVersion.V2_0 else None

    @property
    def columns(self) -> Mapping[int, int]:
        """Column number in the file by field id, see `HeldFields`."""
        return self.held.columns

    @property
    def field_ids(self) -> tuple[int, ...]:
        """Fields of the schema with a column in the file."""
        return tuple(self.held.columns)


@dataclass(frozen=True)
class DeletionFile:
    """Deletion file of a fragment."""

    path: str
    """Path relative to the dataset, or to the base path of the file."""
    is_bitmap: bool
    """Whether the file is a Roaring bitmap; otherwise it is an Arrow file."""
    read_version: int
    id: int
    num_deleted_rows: int | None
    """Number of deleted rows; None if the manifest does not say (libraries before 0.8)."""
    base_id: int | None = None
    """Id of the base path that contains the file; None for the dataset itself."""


class Fragment:
    """Range of the rows of a table: data files with different columns, and at most one deletion file."""

    __slots__ = ("_bases", "_files", "_format", "_manifest", "_message")

    def __init__(
        self,
        message: table_pb2.DataFragment,
        manifest: str,
        format_: FileVersion | None,
        bases: Mapping[int, DatasetBasePath],
    ) -> None:
        """View the fragment `message` of the manifest file `manifest`.

        Args:
            message: the fragment's message.
            manifest: name of the manifest file for messages.
            format_: version that all data files must have; None allows different versions.
            bases: declared base paths by id.
        """
        self._bases = bases
        self._message = message
        self._manifest = manifest
        self._format = format_
        self._files: tuple[DataFile, ...] | None = None

    def __reduce__(self) -> tuple[type["Fragment"], tuple[object, ...]]:
        return Fragment, (self._message, self._manifest, self._format, self._bases)

    def __repr__(self) -> str:
        return f"Fragment(id={self.id}, physical_rows={self.physical_rows}, files={len(self._message.files)})"

    @property
    def message(self) -> table_pb2.DataFragment:
        """The fragment's message in the manifest."""
        return self._message

    @property
    def id(self) -> int:
        """Id, unique for the life of the table."""
        return self._message.id

    @property
    def physical_rows(self) -> int:
        """Number of rows in the data files, deleted rows included; 0 if the manifest does not say."""
        return self._message.physical_rows

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The data files, checked.

        Raises:
            CorruptFileError: a path leaves the dataset, a field has two columns, the lists of fields and
                columns differ in length, or the table does not declare the version or base path of a file.
            UnsupportedFeatureError: the fragment has overlay files or a file of an unknown version.
        """
        if self._files is None:
            if self._message.overlays:
                raise UnsupportedFeatureError("data overlay files", file=self._manifest)
            files = tuple([self._data_file(message) for message in self._message.files])
            held = [file.held.field_ids for file in files]
            _check_unique([field for fields in held for field in fields], self._manifest, self.id)
            self._files = files
        return self._files

    @property
    def deletion_file(self) -> DeletionFile | None:
        """The deletion file; None if no row is deleted.

        Raises:
            CorruptFileError: the table does not declare the base path of the file.
            UnsupportedFeatureError: the kind of the file is unknown.
        """
        if not self._message.HasField("deletion_file"):
            return None
        message = self._message.deletion_file
        if message.file_type not in table_pb2.DeletionFile.DeletionFileType.values():
            raise UnsupportedFeatureError(
                "unknown kind of deletion file", file=self._manifest, found=message.file_type
            )
        return DeletionFile(
            path=self._directory(message, "_deletions") + deletion_file_name(self.id, message),
            is_bitmap=message.file_type == table_pb2.DeletionFile.BITMAP,
            read_version=message.read_version,
            id=message.id,
            num_deleted_rows=message.num_deleted_rows or None,
            base_id=_base_id(message),
        )

    @property
    def num_deleted_rows(self) -> int | None:
        """Number of deleted rows; None if the manifest does not say, which releases before 0.8 wrote."""
        if not self._message.HasField("deletion_file"):
            return 0
        return self._message.deletion_file.num_deleted_rows or None

    @property
    def has_row_counts(self) -> bool:
        """Whether the manifest has the number of rows and the number of deleted rows."""
        return bool(self._message.physical_rows) and self.num_deleted_rows is not None

    @property
    def num_rows(self) -> int:
        """Number of live rows.

        Raises:
            UnsupportedFeatureError: the manifest has no row counts. `open_snapshot` adds them.
            CorruptFileError: the fragment has more deleted rows than rows.
        """
        deleted = self.num_deleted_rows
        if deleted is None:
            raise UnsupportedFeatureError(f"fragment {self.id} without row counts", file=self._manifest)
        if deleted > self.physical_rows:
            raise CorruptFileError(
                f"fragment {self.id} has more deleted rows than rows",
                file=self._manifest,
                expected=f"at most {self.physical_rows}",
                found=deleted,
            )
        return self.physical_rows - deleted

    def inline_lineage(self, kind: Lineage) -> bytes | None:
        """Return the serialized sequence of row ids or versions; None if it is not in the manifest."""
        name = _INLINE[kind]
        return getattr(self._message, name) if self._message.HasField(name) else None

    def lineage_file(self, kind: Lineage) -> DataFile | None:
        """Return the data file with the sequence as a hidden column; None if no hidden column is declared.

        Raises:
            CorruptFileError: the manifest declares a hidden column, and no data file has it; or an error of
                `files`.
            UnsupportedFeatureError: the sequence is in a separate file.
        """
        if not self._message.HasField(_IN_COLUMN[kind]):
            refuse_external(self._message, kind, self._manifest)
            return None
        for file in self.files:
            if kind.value in file.held.hidden_columns:
                return file
        raise CorruptFileError(
            f"fragment {self.id} lacks the hidden column {kind.value}", file=self._manifest
        )

    def _directory(self, message: table_pb2.DataFile | table_pb2.DeletionFile, name: str) -> str:
        """Return the path prefix of a file that a dataset keeps in its directory `name`."""
        if not message.HasField("base_id"):
            return f"{name}/"
        if message.base_id not in self._bases:
            raise CorruptFileError(
                f"file of fragment {self.id} is in a base path that the table does not declare",
                file=self._manifest,
                expected=f"one of {sorted(self._bases)}",
                found=message.base_id,
            )
        return self._bases[message.base_id].directory(name)

    def _data_file(self, message: table_pb2.DataFile) -> DataFile:
        """Return a data file. Versions of a table share most files, and what was parsed of them."""
        directory = self._directory(message, "data")
        key = message.SerializeToString(), directory, self._format
        file = _known_files.get(key)
        if file is None:
            file = self._parsed_file(message, directory)
            if len(_known_files) >= _MOST_KNOWN_FILES:
                _known_files.clear()
            _known_files[key] = file
        return file

    def _parsed_file(self, message: table_pb2.DataFile, directory: str) -> DataFile:
        try:
            path = directory + contained_path(message.path)
        except InvalidInputError:
            raise CorruptFileError(
                f"path of a data file of fragment {self.id} leaves the dataset",
                file=self._manifest,
                found=repr(message.path),
            ) from None
        version = FileVersion.from_numbers(
            message.file_major_version, message.file_minor_version, file=self._manifest
        )
        # Releases around 0.16 declared 0.1 and wrote 2.0 files (docs/format.md, "Damage that old releases
        # left").
        if self._format not in (None, FileVersion.V0_1, version):
            raise CorruptFileError(
                "data file has another version than its table",
                file=path,
                expected=self._format,
                found=version,
            )
        fields, columns = tuple(message.fields), tuple(message.column_indices)
        if version == FileVersion.V0_1:
            columns = _legacy_columns(fields, path)
        if len(fields) != len(columns):
            raise CorruptFileError(
                "data file has not one column per field", file=path, expected=len(fields), found=len(columns)
            )
        held = _held_fields(fields, columns)
        return DataFile(path, held, version, message.file_size_bytes, _base_id(message))


_known_files: dict[tuple[bytes, str, FileVersion | None], DataFile] = {}


def refuse_external(message: table_pb2.DataFragment, kind: Lineage, manifest: str) -> None:
    """Raise `UnsupportedFeatureError` if a fragment keeps a sequence in a separate file."""
    unknown = UnknownFieldSet(message)
    numbers = {unknown[place].field_number for place in range(len(unknown))}
    if _EXTERNAL_FIELDS[kind] in numbers:
        what = kind.name.lower().replace("_", " ")
        raise UnsupportedFeatureError(
            f"fragment {message.id} keeps its {what} sequence in a separate file", file=manifest
        )


def deletion_file_name(fragment_id: int, message: table_pb2.DeletionFile) -> str:
    """Return the name of a deletion file in its directory."""
    suffix = "bin" if message.file_type == table_pb2.DeletionFile.BITMAP else "arrow"
    return f"{fragment_id}-{message.read_version}-{message.id}.{suffix}"


@lru_cache(maxsize=1024)
def _held_fields(fields: tuple[int, ...], columns: tuple[int, ...]) -> HeldFields:
    """Return the fields of a file from the two lists of its message.

    The result is cached, because most files of a table have the same lists.
    """
    # A parent field without its own column may have column -1. Other negative field ids are tombstones or
    # hidden columns.
    stored = [pair for pair in zip(fields, columns, strict=True) if pair[1] >= 0]
    shown = [pair for pair in stored if pair[0] >= 0]
    hidden = [pair for pair in stored if pair[0] in HIDDEN]
    return HeldFields(tuple(field for field, _ in shown + hidden), dict(shown), dict(hidden))


def _legacy_columns(fields: Sequence[int], path: str) -> tuple[int, ...]:
    """Return the column numbers of a 0.1 file, whose page table begins with the first field of the list."""
    if fields and fields[0] < 0:
        raise UnsupportedFeatureError("0.1 data file whose first field is obsolete", file=path)
    if any(0 <= field < fields[0] for field in fields):
        raise CorruptFileError("fields of a 0.1 data file do not ascend", file=path, found=list(fields))
    return tuple(field - fields[0] for field in fields)


def _check_unique(fields: list[int], manifest: str, fragment: int) -> None:
    if len(set(fields)) != len(fields):
        twice = next(field for field in fields if fields.count(field) > 1)
        raise CorruptFileError(f"field of fragment {fragment} has two columns", file=manifest, found=twice)


def _base_id(message: table_pb2.DataFile | table_pb2.DeletionFile) -> int | None:
    return message.base_id if message.HasField("base_id") else None
