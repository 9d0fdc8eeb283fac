"""Totals of the fragments of a version, without a look at each fragment in Python.

A history may have thousands of versions with thousands of fragments each.

Source: docs/format.md, "Fragments".
"""

from typing import NamedTuple

from lance_core.errors import CorruptFileError
from lance_core.kernels import CorruptData, field_totals
from lance_core.proto import table_pb2

_FRAGMENT = (table_pb2.Manifest.FRAGMENTS_FIELD_NUMBER,)
_ROWS = (*_FRAGMENT, table_pb2.DataFragment.PHYSICAL_ROWS_FIELD_NUMBER)
_FILE = (*_FRAGMENT, table_pb2.DataFragment.FILES_FIELD_NUMBER)
_FILE_BYTES = (*_FILE, table_pb2.DataFile.FILE_SIZE_BYTES_FIELD_NUMBER)
_DELETION_FILE = (*_FRAGMENT, table_pb2.DataFragment.DELETION_FILE_FIELD_NUMBER)
_DELETED_ROWS = (*_DELETION_FILE, table_pb2.DeletionFile.NUM_DELETED_ROWS_FIELD_NUMBER)


class FragmentTotals(NamedTuple):
    """Totals of the fragments of a version, as its manifest states them."""

    fragments: int
    files: int
    """Data files."""
    file_bytes: int
    """Bytes of the data files whose sizes are known."""
    physical_rows: int
    """Rows in the data files, deleted rows included, of the fragments whose rows are counted."""
    deletion_files: int
    deleted_rows: int
    """Rows in the deletion files whose rows are counted."""
    is_counted: bool
    """Whether all fragments and deletion files have a number of rows."""

    @classmethod
    def of(cls, message: table_pb2.Manifest, name: str) -> "FragmentTotals":
        """Add up the fragments in the message of the manifest file `name`.

        Raises:
            CorruptFileError: a sum has more than 64 bits.
        """
        # A serialized message leaves out numbers that are 0, so those that are there are known.
        serialized = message.SerializeToString()
        try:
            fragments, _ = field_totals(serialized, _FRAGMENT)
            counted_fragments, physical_rows = field_totals(serialized, _ROWS)
            files, _ = field_totals(serialized, _FILE)
            _, file_bytes = field_totals(serialized, _FILE_BYTES)
            deletion_files, _ = field_totals(serialized, _DELETION_FILE)
            counted_deletion_files, deleted_rows = field_totals(serialized, _DELETED_ROWS)
        except CorruptData as error:
            raise CorruptFileError("totals of the fragments", file=name, found=str(error)) from None
        is_counted = counted_fragments == fragments and counted_deletion_files == deletion_files
        return cls(fragments, files, file_bytes, physical_rows, deletion_files, deleted_rows, is_counted)
