"""Fragments and the files they consist of.

A fragment is a view of its message in the manifest: a table may have very many, and most questions about a
table need a field or two of each. What is derived from strings and lists is checked when it is first used.
Source: Lance table format, "Fragments, data files"; docs/format.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lance_core.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.proto import table_pb2
from lance_core.storage.paths import contained_path

MAX_ROWS = 1 << 32
"""Rows and fragments are numbered with 32 bits each in a row address."""


@dataclass(frozen=True)
class DataFile:
    """A file that holds some columns of a fragment."""

    path: str
    """Relative to the dataset."""
    field_ids: tuple[int, ...]
    """Fields with a column in the file. Tombstones and hidden columns are left out."""
    column_indices: tuple[int, ...]
    """The column of each field; in 0.1 files how far its id is from the smallest one of the file."""
    version: FileVersion
    size: int
    """Bytes, 0 when unknown."""

    @property
    def columns(self) -> Mapping[int, int]:
        """Field id to column of the file."""
        return dict(zip(self.field_ids, self.column_indices, strict=True))


@dataclass(frozen=True)
class DeletionFile:
    """A file that names deleted rows of a fragment."""

    path: str
    """Relative to the dataset."""
    is_bitmap: bool
    """A Roaring bitmap rather than an Arrow file."""
    read_version: int
    id: int
    num_deleted_rows: int | None
    """None when the manifest does not say (libraries before 0.8)."""


class Fragment:
    """A horizontal slice of a table."""

    __slots__ = ("_files", "_format", "_manifest", "_message")

    def __init__(self, message: table_pb2.DataFragment, manifest: str, format_: FileVersion | None) -> None:
        """View `message` of the file `manifest`; data files must have version `format_` unless it is None."""
        self._message = message
        self._manifest = manifest
        self._format = format_
        self._files: tuple[DataFile, ...] | None = None

    def __repr__(self) -> str:
        return f"Fragment(id={self.id}, physical_rows={self.physical_rows}, files={len(self._message.files)})"

    @property
    def id(self) -> int:
        """Unique for the life of the table."""
        return self._message.id

    @property
    def physical_rows(self) -> int:
        """Rows in the files, deleted ones included; 0 when the manifest does not say."""
        return self._message.physical_rows

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The data files, checked.

        Raises:
            CorruptFileError: a path leaves the dataset, a field has two columns, lists of unequal length, a
                file version that the table does not declare.
            UnsupportedFeatureError: overlay files, another base path, an unknown file version.
        """
        if self._files is None:
            if self._message.overlays:
                raise UnsupportedFeatureError("data overlay files", file=self._manifest)
            files = tuple(self._data_file(message) for message in self._message.files)
            _check_unique([field for file in files for field in file.field_ids], self._manifest, self.id)
            self._files = files
        return self._files

    @property
    def deletion_file(self) -> DeletionFile | None:
        """The file of deleted rows; another base path is an `UnsupportedFeatureError`."""
        if not self._message.HasField("deletion_file"):
            return None
        message = self._message.deletion_file
        _refuse_base(message, self._manifest, self.id)
        if message.file_type not in table_pb2.DeletionFile.DeletionFileType.values():
            raise UnsupportedFeatureError(
                "kind of deletion file", file=self._manifest, found=message.file_type
            )
        is_bitmap = message.file_type == table_pb2.DeletionFile.BITMAP
        name = f"{self.id}-{message.read_version}-{message.id}.{'bin' if is_bitmap else 'arrow'}"
        return DeletionFile(
            path=f"_deletions/{name}",
            is_bitmap=is_bitmap,
            read_version=message.read_version,
            id=message.id,
            num_deleted_rows=message.num_deleted_rows or None,
        )

    @property
    def num_deleted_rows(self) -> int | None:
        """Rows named by the deletion file; None when the manifest does not say (libraries before 0.8)."""
        if not self._message.HasField("deletion_file"):
            return 0
        return self._message.deletion_file.num_deleted_rows or None

    @property
    def has_row_counts(self) -> bool:
        """Whether the manifest says how many rows there are and how many of them are deleted."""
        return bool(self._message.physical_rows) and self.num_deleted_rows is not None

    @property
    def num_rows(self) -> int:
        """Rows that are not deleted.

        Raises:
            UnsupportedFeatureError: the manifest does not say; `open_snapshot` completes such manifests.
            CorruptFileError: more rows are deleted than there are.
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

    @property
    def inline_row_ids(self) -> bytes | None:
        """The serialized row id sequence, where the table has stable row ids."""
        return self._message.inline_row_ids if self._message.HasField("inline_row_ids") else None

    def _data_file(self, message: table_pb2.DataFile) -> DataFile:
        _refuse_base(message, self._manifest, self.id)
        try:
            path = "data/" + contained_path(message.path)
        except InvalidInputError:
            raise CorruptFileError(
                f"path of a data file of fragment {self.id} leaves the dataset",
                file=self._manifest,
                found=repr(message.path),
            ) from None
        version = FileVersion.from_numbers(
            message.file_major_version, message.file_minor_version, file=self._manifest
        )
        # Releases around 0.16 said 0.1 while they wrote 2.0 files (Lance table format, section 2.6).
        if self._format not in (None, FileVersion.V0_1, version):
            raise CorruptFileError(
                "data file has another version than its table",
                file=path,
                expected=self._format,
                found=version,
            )
        columns: Sequence[int] = message.column_indices
        if version == FileVersion.V0_1:
            columns = _legacy_columns(message.fields, path)
        if len(message.fields) != len(columns):
            raise CorruptFileError(
                "data file needs one column per field",
                file=path,
                expected=len(message.fields),
                found=len(columns),
            )
        # Negative fields are obsolete or hidden columns; parents without a column of their own may say -1.
        pairs = [
            (field, column)
            for field, column in zip(message.fields, columns, strict=True)
            if field >= 0 and column >= 0
        ]
        return DataFile(
            path=path,
            field_ids=tuple(field for field, _ in pairs),
            column_indices=tuple(column for _, column in pairs),
            version=version,
            size=message.file_size_bytes,
        )


def _legacy_columns(fields: Sequence[int], path: str) -> list[int]:
    """Columns of a 0.1 file: its page table begins with the first field of the list."""
    if fields and fields[0] < 0:
        raise UnsupportedFeatureError("0.1 data file whose first field is obsolete", file=path)
    return [field - fields[0] for field in fields]


def _check_unique(fields: list[int], manifest: str, fragment: int) -> None:
    if len(set(fields)) != len(fields):
        twice = next(field for field in fields if fields.count(field) > 1)
        raise CorruptFileError(f"field of fragment {fragment} has two columns", file=manifest, found=twice)


def _refuse_base(message: table_pb2.DataFile | table_pb2.DeletionFile, manifest: str, fragment: int) -> None:
    if message.HasField("base_id"):
        raise UnsupportedFeatureError(
            f"file of fragment {fragment} in another base path",
            file=manifest,
            found=f"base {message.base_id}",
        )
