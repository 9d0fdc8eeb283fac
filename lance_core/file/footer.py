"""The end of a 2.x data file, which has the positions of everything else.

    ... pages ... | descriptor | column metadata ... | CMO table | GBO table | footer (40 bytes)

Footer, little endian: u64 start of the column metadata, u64 start of the column metadata offset (CMO) table,
u64 start of the global buffer offset (GBO) table, u32 number of global buffers, u32 number of columns, u16
major, u16 minor, "LANC". Both tables have one (u64 position, u64 size) pair per entry. Source:
docs/format.md, "Container".
"""

import struct
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.storage.base import ReadableFile

FOOTER_BYTES = 40
TABLE_ENTRY_BYTES = 16

SEAL = struct.Struct("<I4s")
"""Eight bytes in the gap between the GBO table and the footer, which readers skip: a CRC-32C and `SEAL_TAG`.

The CRC covers everything from the descriptor to the end of the GBO table, and then the footer.
"""
SEAL_TAG = b"C32C"

_FOOTER = struct.Struct("<QQQII8x")
_MAGIC = b"LANC"
_FOOTER_FIELDS = np.dtype(
    [
        ("column_metadata_start", "<u8"),
        ("column_table_start", "<u8"),
        ("global_table_start", "<u8"),
        ("num_global_buffers", "<u4"),
        ("num_columns", "<u4"),
        ("version", "S8"),
    ]
)
"""The footer, for the footers of many files in one array."""
_VERSION = struct.Struct("<HH4s")
"""Last bytes of every data file of any version."""


@dataclass(frozen=True, order=True)
class FileVersion:
    """Version of a data file. A later version compares greater."""

    major: int
    minor: int

    V0_1: ClassVar["FileVersion"]
    V2_0: ClassVar["FileVersion"]
    V2_1: ClassVar["FileVersion"]
    V2_2: ClassVar["FileVersion"]

    @property
    def name(self) -> str:
        """The version as users write it, such as "2.1"."""
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        return self.name

    @property
    def in_manifest(self) -> tuple[int, int]:
        """Major and minor number in the manifest for a file of this version."""
        return (0, 2) if self == FileVersion.V0_1 else (self.major, self.minor)

    @staticmethod
    def from_numbers(major: int, minor: int, *, file: str | None = None) -> "FileVersion":
        """Return the version for the numbers in a footer or a manifest.

        Raises:
            UnsupportedFeatureError: an unknown version; `file` is for the message.
        """
        if version := _SPELLINGS.get((major, minor)):
            return version
        raise UnsupportedFeatureError(
            "data file version", file=file, expected="0.1, 2.0, 2.1 or 2.2", found=f"{major}.{minor}"
        )

    @staticmethod
    def from_name(name: str, *, file: str | None = None) -> "FileVersion":
        """Return the version for a name such as "2.1". Errors are those of `from_numbers`."""
        if version := _NAMES.get(name):
            return version
        raise UnsupportedFeatureError(
            "data file version", file=file, expected="0.1, 2.0, 2.1 or 2.2", found=repr(name)
        )


FileVersion.V0_1 = FileVersion(0, 1)
FileVersion.V2_0 = FileVersion(2, 0)
FileVersion.V2_1 = FileVersion(2, 1)
FileVersion.V2_2 = FileVersion(2, 2)

_SPELLINGS = {
    (0, 0): FileVersion.V0_1,
    (0, 1): FileVersion.V0_1,
    (0, 2): FileVersion.V0_1,
    (0, 3): FileVersion.V2_0,
    (2, 0): FileVersion.V2_0,
    (2, 1): FileVersion.V2_1,
    (2, 2): FileVersion.V2_2,
}
_NAMES = {version.name: version for version in _SPELLINGS.values()}


def read_version(file: ReadableFile) -> FileVersion:
    """Return the version in the last bytes of a file.

    Raises:
        CorruptFileError: the file is not a Lance file.
        UnsupportedFeatureError: an unknown version.
    """
    size = min(file.size, _VERSION.size)
    return parse_version(bytes(memoryview(file.read(file.size - size, size))), file.name)


def parse_version(data: bytes, file: str) -> FileVersion:
    """Return the version in the last bytes of the file named `file`. Errors are those of `read_version`."""
    if len(data) < _VERSION.size:
        raise CorruptFileError(
            "file is too short for a footer", file=file, expected=f"{_VERSION.size} bytes", found=len(data)
        )
    major, minor, magic = _VERSION.unpack(data[-_VERSION.size :])
    if magic != _MAGIC:
        raise CorruptFileError("file does not end like a Lance file", file=file, expected=_MAGIC, found=magic)
    return FileVersion.from_numbers(major, minor, file=file)


@dataclass(frozen=True)
class Footer:
    """The decoded footer. Its positions have been checked against the size of the file."""

    column_metadata_start: int
    column_table_start: int
    global_table_start: int
    num_global_buffers: int
    num_columns: int
    version: FileVersion


def parse_footer(data: bytes, file_size: int, file: str) -> Footer:
    """Decode the last 40 bytes of a file of `file_size` bytes. `file` is its name for messages.

    Raises:
        CorruptFileError: the file is not a Lance file, or its positions contradict each other.
        UnsupportedFeatureError: an unknown version, or 0.1, which has another container.
    """
    if len(data) != FOOTER_BYTES:
        raise CorruptFileError(
            "file is too short for a footer", file=file, expected=f"{FOOTER_BYTES} bytes", found=len(data)
        )
    version = parse_version(data, file)
    metadata, columns, globals_, num_globals, num_columns = _FOOTER.unpack(data)
    if version < FileVersion.V2_0:
        raise UnsupportedFeatureError("data file version", file=file, expected="2.x", found=version)
    columns_end = columns + num_columns * TABLE_ENTRY_BYTES
    globals_end = globals_ + num_globals * TABLE_ENTRY_BYTES
    if not metadata <= columns <= columns_end <= globals_ <= globals_end <= file_size - FOOTER_BYTES:
        raise CorruptFileError(
            "footer positions are out of order",
            file=file,
            expected=f"column metadata, tables and footer in {file_size} bytes",
            found=(metadata, columns, columns_end, globals_, globals_end),
        )
    if num_globals == 0:
        raise CorruptFileError("file has no descriptor", file=file, expected="a global buffer", found="none")
    return Footer(metadata, columns, globals_, num_globals, num_columns, version)


def parse_footers(data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    """Return the footers of files that end at some positions of `data`, unchecked, one record per file.

    The fields have the names of those of `Footer`.
    """
    rows = data[ends[:, np.newaxis] + np.arange(-FOOTER_BYTES, 0)]
    footers: npt.NDArray[np.void] = rows.view(_FOOTER_FIELDS)[:, 0]
    return footers


def version_bytes(version: FileVersion) -> list[bytes]:
    """Return the last bytes that a file of a version may have, the field `version` of `parse_footers`."""
    return [_VERSION.pack(*numbers, _MAGIC) for numbers, each in _SPELLINGS.items() if each == version]
