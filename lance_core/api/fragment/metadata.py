"""Descriptions of fragments as plain data, for writers on many machines and one commit.

Names, arguments and JSON are those of the reference library.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.proto import table_pb2
from lance_core.table.deletions import path_of

if TYPE_CHECKING:
    from lance_core.api.dataset.methods.opened import OpenedDataset

_ARRAY, _BITMAP = "array", "bitmap"


class _Path(str):
    """Path of a data file. Calling it is an old way to get it, which warns."""

    __slots__ = ()

    def __call__(self) -> str:
        _warn("DataFile.path()", "DataFile.path")
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Path, (str(self),)


@dataclass(repr=False)
class DataFile:
    """A file with some columns of a fragment."""

    path: str
    """Path relative to `data/` of the dataset or base path."""
    fields: list[int]
    """Field ids, one per stored column."""
    column_indices: list[int] = field(default_factory=list)
    """Column in the file, per field; empty for 0.1 files."""
    file_major_version: int = 0
    file_minor_version: int = 0
    file_size_bytes: int | None = None
    base_id: int | None = None

    def __post_init__(self) -> None:
        self.path = _Path(self.path)

    def __repr__(self) -> str:
        shown = {name: value for name, value in vars(self).items() if name != "base_id" or value is not None}
        return f"DataFile({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @classmethod
    def create(cls, dataset: OpenedDataset, path: str, *, base_id: int | None = None) -> Self:
        """Return the description of a file that exists already, for `LanceOperation.DataReplacement`.

        Columns of the file are matched with those of the dataset by name; structs need all their fields.

        Args:
            dataset: The dataset.
            path: Path of the file relative to `data/` of the dataset, or to the base path.
            base_id: Id of the base path of the file; None for the dataset itself.

        Raises:
            InvalidInputError: The dataset lacks a column of the file, or the column has another type.
            UnsupportedFeatureError: The file has version 0.1, or an unknown version.
            CorruptFileError: The bytes contradict the format.
            StorageError: The file is missing, or the storage failed.
        """
        from lance_core.table.stored_file import describe_stored_file  # late: most processes only read

        return cls.from_message(describe_stored_file(dataset.snapshot, path, base_id))

    def field_ids(self) -> list[int]:
        """Return the field ids. Deprecated: use `fields`."""
        _warn("DataFile.field_ids", "DataFile.fields")
        return self.fields

    @classmethod
    def from_message(cls, message: table_pb2.DataFile) -> Self:
        """Return the description of a data file in a manifest."""
        return cls(
            path=message.path,
            fields=list(message.fields),
            column_indices=list(message.column_indices),
            file_major_version=message.file_major_version,
            file_minor_version=message.file_minor_version,
            file_size_bytes=message.file_size_bytes or None,
            base_id=message.base_id if message.HasField("base_id") else None,
        )

    def to_message(self) -> table_pb2.DataFile:
        """Return the message that manifests and transactions store."""
        return table_pb2.DataFile(
            path=self.path,
            fields=self.fields,
            column_indices=self.column_indices,
            file_major_version=self.file_major_version,
            file_minor_version=self.file_minor_version,
            file_size_bytes=self.file_size_bytes or 0,
            base_id=self.base_id,
        )


@dataclass
class DeletionFile:
    """The file that names the deleted rows of a fragment."""

    read_version: int
    id: int
    file_type: str
    """`array` or `bitmap`."""
    num_deleted_rows: int
    base_id: int | None = None

    def asdict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return dict(vars(self))

    def json(self) -> str:
        """Return the fields as JSON."""
        return json.dumps(self.asdict())

    @classmethod
    def from_json(cls, json_data: str) -> Self:
        """Return the description from the JSON of `json`."""
        return cls(**json.loads(json_data))

    def path(self, fragment_id: int, base_uri: str | None = None) -> str:
        """Return the path of the deletion file of a fragment, relative to the dataset or below `base_uri`."""
        path = path_of(fragment_id, self.to_message())
        return path if base_uri is None else f"{base_uri.rstrip('/')}/{path}"

    @classmethod
    def from_message(cls, message: table_pb2.DeletionFile) -> Self:
        """Return the description of a deletion file in a manifest."""
        return cls(
            read_version=message.read_version,
            id=message.id,
            file_type=_BITMAP if message.file_type == table_pb2.DeletionFile.BITMAP else _ARRAY,
            num_deleted_rows=message.num_deleted_rows,
            base_id=message.base_id if message.HasField("base_id") else None,
        )

    def to_message(self) -> table_pb2.DeletionFile:
        """Return the message that manifests and transactions store.

        Raises:
            InvalidInputError: `file_type` is neither "array" nor "bitmap".
        """
        if self.file_type not in (_ARRAY, _BITMAP):
            raise InvalidInputError(
                "file_type of a deletion file", expected="array or bitmap", found=self.file_type
            )
        is_bitmap = self.file_type == _BITMAP
        return table_pb2.DeletionFile(
            file_type=table_pb2.DeletionFile.BITMAP if is_bitmap else table_pb2.DeletionFile.ARROW_ARRAY,
            read_version=self.read_version,
            id=self.id,
            num_deleted_rows=self.num_deleted_rows,
            base_id=self.base_id,
        )


@dataclass(frozen=True)
class _Sequence:
    """A serialized sequence with one entry per physical row of a fragment."""

    data: bytes = field(repr=False)

    _KEY = "inline"

    def asdict(self) -> dict[str, Any]:
        """Return the bytes as plain data: a list of numbers."""
        return {self._KEY: list(self.data)}

    def json(self) -> str:
        """Return the bytes as JSON."""
        return json.dumps(self.asdict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the sequence from the result of `asdict`.

        Raises:
            UnsupportedFeatureError: The sequence is stored outside the manifest.
        """
        if cls._KEY not in data:
            raise UnsupportedFeatureError("sequences of rows outside the manifest", found=list(data))
        return cls(bytes(data[cls._KEY]))

    @classmethod
    def from_json(cls, json_data: str) -> Self:
        """Return the description from the JSON of `json`."""
        return cls.from_dict(json.loads(json_data))


class RowIdMeta(_Sequence):
    """The stable row ids of the rows of a fragment."""

    _KEY = "Inline"


class RowDatasetVersionMeta(_Sequence):
    """The versions in which the rows of a fragment were created, or last updated."""


@dataclass
class FragmentMetadata:
    """Description of a fragment in a manifest."""

    id: int
    files: list[DataFile]
    physical_rows: int
    deletion_file: DeletionFile | None = None
    row_id_meta: RowIdMeta | None = None
    created_at_version_meta: RowDatasetVersionMeta | None = None
    last_updated_at_version_meta: RowDatasetVersionMeta | None = None
    overlays: list[Any] = field(default_factory=list, repr=False)
    """Always empty: datasets with data overlay files are refused."""

    @property
    def num_deletions(self) -> int:
        """Number of deleted rows."""
        return self.deletion_file.num_deleted_rows if self.deletion_file else 0

    @property
    def num_rows(self) -> int:
        """Number of live rows."""
        return self.physical_rows - self.num_deletions

    def data_files(self) -> list[DataFile]:
        """Return the data files. Deprecated: use `files`."""
        _warn("FragmentMetadata.data_files", "FragmentMetadata.files")
        return self.files

    def to_json(self) -> dict[str, Any]:
        """Return the description as plain data, for `json.dumps`."""
        deletion_file = self.deletion_file
        sequences = {name: getattr(self, name) for name in _SEQUENCES}
        return {
            "id": self.id,
            "files": [dict(vars(file)) for file in self.files],
            "overlays": [],
            "physical_rows": self.physical_rows,
            "deletion_file": deletion_file.asdict() if deletion_file else None,
            **{name: each.asdict() if each else None for name, each in sequences.items()},
        }

    @classmethod
    def from_json(cls, json_data: str) -> Self:
        """Return the description from JSON text of the result of `to_json`, here or in the reference.

        Raises:
            UnsupportedFeatureError: The fragment has data overlay files, or a sequence outside the manifest.
        """
        data = json.loads(json_data)
        if data.get("overlays"):
            raise UnsupportedFeatureError("data overlay files")
        deletion_file = data.get("deletion_file")
        sequences = {
            name: kind.from_dict(data[name]) for name, (kind, _) in _SEQUENCES.items() if data.get(name)
        }
        return cls(
            id=data["id"],
            files=[DataFile(**file) for file in data["files"]],
            physical_rows=data["physical_rows"],
            deletion_file=DeletionFile(**deletion_file) if deletion_file else None,
            **sequences,
        )

    @classmethod
    def from_message(cls, message: table_pb2.DataFragment) -> Self:
        """Return the description of a fragment in a manifest.

        Raises:
            UnsupportedFeatureError: The fragment has data overlay files, or row ids in a column.
        """
        if message.overlays:
            raise UnsupportedFeatureError("data overlay files")
        if message.WhichOneof("row_id_sequence") == "column_row_ids":
            raise UnsupportedFeatureError("row ids outside the manifest")
        sequences = {
            name: kind(getattr(message, inline))
            for name, (kind, inline) in _SEQUENCES.items()
            if message.HasField(inline)
        }
        return cls(
            id=message.id,
            files=[DataFile.from_message(file) for file in message.files],
            physical_rows=message.physical_rows,
            deletion_file=(
                DeletionFile.from_message(message.deletion_file)
                if message.HasField("deletion_file")
                else None
            ),
            **sequences,
        )

    def to_message(self) -> table_pb2.DataFragment:
        """Return the message that manifests and transactions store.

        Raises:
            UnsupportedFeatureError: `overlays` is not empty.
        """
        if self.overlays:
            raise UnsupportedFeatureError("data overlay files")
        message = table_pb2.DataFragment(
            id=self.id,
            files=[file.to_message() for file in self.files],
            physical_rows=self.physical_rows,
            deletion_file=self.deletion_file.to_message() if self.deletion_file else None,
        )
        for name, (_, inline) in _SEQUENCES.items():
            sequence = getattr(self, name)
            if sequence is not None:
                setattr(message, inline, sequence.data)
        return message


_SEQUENCES: Mapping[str, tuple[type[Any], str]] = {
    "row_id_meta": (RowIdMeta, "inline_row_ids"),
    "created_at_version_meta": (RowDatasetVersionMeta, "inline_created_at_versions"),
    "last_updated_at_version_meta": (RowDatasetVersionMeta, "inline_last_updated_at_versions"),
}
"""Class and message field of each attribute that is a sequence."""


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated. Use {new} instead.", DeprecationWarning, stacklevel=3)
