"""The rows of files that `put` sends: Parquet, CSV, JSON and Arrow, as files or as streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import ipc

from flight_server.cli.files.compressed import suffixes
from flight_server.cli.files.csv_files import open_csv_files
from flight_server.cli.files.json_files import open_json_files
from flight_server.cli.files.source_file import SourceFile, fitted, reading
from flight_server.cli.files.text_options import Column, TextOptions
from flight_server.requests.schemas import check_schema
from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from pyarrow import dataset as arrow

_BATCH_ROWS = 1 << 14
_ARROW_FILE = b"ARROW1"

KINDS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "ipc",
    ".feather": "ipc",
}
"""Kinds of files by the suffix of their names."""

COMPRESSIBLE = {"csv", "json"}
"""Kinds whose files may be compressed as a whole."""


class Rows:
    """The rows of files of one kind, one file after the other."""

    def __init__(
        self, files: Sequence[str], table: pa.Schema | None, options: TextOptions | None = None
    ) -> None:
        """Look at each file; columns of text get the types that they have in `table`, if given.

        Raises:
            InvalidInputError: a file cannot be read as what its name says, or columns do not go together.
        """
        kind = KINDS[suffixes(Path(files[0]))[0]]
        self._files: Sequence[SourceFile]
        self.columns: list[Column] = []
        """The columns of text files; empty for files that have types of their own."""
        options = options or TextOptions()
        if kind == "csv":
            self._files, self.columns = open_csv_files(files, table, options)
        elif kind == "json":
            self._files, self.columns = open_json_files(files, table, options)
        else:
            self._files = [_open(file, kind) for file in files]
        try:
            # Columns that only later files have are found as well; what differs in type is an error.
            self.schema = pa.unify_schemas([file.schema for file in self._files])
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidInputError(
                "the files have columns of the same name and different types", found=error
            ) from None
        check_schema(self.schema)

    @property
    def num_rows(self) -> int | None:
        """The number of rows, or None if the files would have to be read to count them."""
        counts = [file.num_rows for file in self._files]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, checked: not every reader makes sure that text is UTF-8."""
        for file in self._files:
            with reading(file.path):
                for batch in file.batches(self.schema):
                    batch.validate(full=True)
                    yield batch


def _open(path: str, kind: str) -> SourceFile:
    with reading(path):
        if kind == "ipc" and _begin(path) != _ARROW_FILE:
            return _ArrowStream(path)
        return _DatasetFile(path, kind)


def _begin(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(len(_ARROW_FILE))


def _open_dataset(path: str, kind: str, schema: pa.Schema | None = None) -> arrow.Dataset:
    # This module loads pandas if it is installed: every verb would take a third longer to start.
    from pyarrow import dataset as arrow

    return arrow.dataset(path, schema=schema, format=kind)


class _DatasetFile(SourceFile):
    """Parquet or Arrow file. Both kinds store their number of rows."""

    def __init__(self, path: str, kind: str) -> None:
        self.path, self._kind = path, kind
        self._file = _open_dataset(path, kind)
        self.schema = self._file.schema

    @property
    def num_rows(self) -> int:
        return int(self._file.count_rows())

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        file = _open_dataset(self.path, self._kind, schema)
        yield from file.to_batches(batch_size=_BATCH_ROWS, fragment_readahead=1)


class _ArrowStream(SourceFile):
    """An Arrow stream, which other programs keep in `.arrow` files as well: batches without an index."""

    def __init__(self, path: str) -> None:
        self.path = path
        with ipc.open_stream(pa.OSFile(path)) as stream:
            self.schema = stream.schema

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with ipc.open_stream(pa.OSFile(self.path)) as stream:
            for batch in stream:
                yield fitted(batch, schema)
