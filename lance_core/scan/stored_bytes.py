"""Bytes that the pages of each field take in the data files of a version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from lance_core.file.data_file import ModernFile
from lance_core.pool import run_all
from lance_core.scan.session import session_of
from lance_core.table.fragment import DataFile, Fragment
from lance_core.table.snapshot import Snapshot


def bytes_by_field(snapshot: Snapshot) -> Mapping[int, int]:
    """Return the compressed bytes of the pages of each field, by field id.

    Only the metadata of the data files is read. Fields without columns of their own, such as structs, and the
    fields of 0.1 files are left out. Rows that a deletion file removes count.

    Raises:
        LanceError: a data file cannot be read.
    """
    files = session_of(snapshot).files

    def measured(fragment: Fragment, data_file: DataFile) -> Counter[int]:
        reader = files.open(snapshot, fragment, data_file).reader
        return _bytes_of(reader, data_file) if isinstance(reader, ModernFile) else Counter()

    pairs = [(fragment, file) for fragment in snapshot.manifest.fragments for file in fragment.files]
    calls = [lambda pair=pair: measured(*pair) for pair in pairs]
    return sum(run_all(calls, snapshot.storage.is_remote), Counter())


def _bytes_of(reader: ModernFile, data_file: DataFile) -> Counter[int]:
    """Return the bytes by field in one file.

    A column without a field belongs to the field of the column before: a string of an early 2.0 file has one
    for its offsets and one for its bytes.
    """
    owners = {column: field_id for field_id, column in data_file.columns.items()}
    found: Counter[int] = Counter()
    owner = None
    for index in range(reader.metadata.num_columns):
        owner = owners.get(index, owner)
        if owner is not None:
            pages = reader.metadata.column(index).pages
            found[owner] += sum(size for page in pages for _, size in page.buffers)
    return found
