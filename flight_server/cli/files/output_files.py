"""Files and streams that `scan` writes: Parquet, Arrow, CSV and JSON lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.types as types
import typer
from pyarrow import csv, ipc, parquet

from flight_server.cli.files.compressed import open_output, suffixes
from flight_server.cli.files.source_file import readable
from flight_server.cli.values import json_lines
from lance_core.errors import AlreadyExistsError, FileMissingError, InvalidInputError

Format = Literal["parquet", "arrow", "csv", "json"]

_FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
"""Formats by the suffix of a file's name."""

_TEXT: set[Format] = {"csv", "json"}
"""Formats that may be compressed as a whole, and go to stdout."""


class Writer(Protocol):
    """A file to write batches to; it is complete when it is closed."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Output:
    """A file to write, in one format.

    Attributes:
        path: of the file; None for stdout.
        format: of the file.
    """

    path: Path | None
    format: Format

    @classmethod
    def of(cls, path: Path | None, given: Format | None, *, force: bool) -> Output:
        """Choose the format: the given one, else the one that the name says, else JSON lines.

        Raises:
            typer.BadParameter: the name says no format, or the format cannot be written to such a file.
            AlreadyExistsError: the file exists, and `force` does not replace it.
            FileMissingError: the folder of the file does not exist.
        """
        if path is None:
            if given not in (None, *_TEXT):
                raise typer.BadParameter(f"{given} goes into a file; give --output", param_hint="--format")
            return cls(None, given or "json")
        suffix, codec = suffixes(path)
        chosen = given or _FORMATS.get(suffix)
        if chosen is None:
            raise typer.BadParameter(
                f"{path}: give --format, or a file that ends in {', '.join(_FORMATS)}", param_hint="--output"
            )
        if codec is not None and chosen not in _TEXT:
            raise typer.BadParameter(f"{path}: {chosen} files are not compressed", param_hint="--output")
        check_new_file(path, force=force)
        return cls(path, chosen)

    @contextmanager
    def writer(self, schema: pa.Schema, stdout: IO[bytes]) -> Iterator[Writer]:
        """Open the file for rows of `schema`. The file gets its name when all rows are written.

        Raises:
            InvalidInputError: the format has no such values.
            OSError: the file cannot be written.
        """
        if self.path is None:
            with closing(_text_writer(self.format, stdout, schema, ",")) as writer:
                yield writer
            return
        suffix, codec = suffixes(self.path)
        with (
            complete_file(self.path) as partial,
            open_output(str(partial), codec) as file,
            closing(_writer(self.format, file, schema, "\t" if suffix == ".tsv" else ",")) as writer,
        ):
            yield writer


def check_new_file(path: Path, *, force: bool) -> None:
    """Check that a file can be made at a path.

    Raises:
        AlreadyExistsError: the file exists, and `force` does not replace it.
        FileMissingError: the folder of the file does not exist.
    """
    if not path.parent.is_dir():
        raise FileMissingError("the folder of the file does not exist", file=str(path))
    if path.exists() and not force:
        raise AlreadyExistsError("the file exists; --force replaces it", file=str(path))


@contextmanager
def complete_file(path: Path) -> Iterator[Path]:
    """Yield the path of a new file, which gets the name `path` at the end of the block.

    If the block raises, the new file is removed.
    """
    partial = path.with_name(f".{path.name}.{uuid4().hex[:8]}.partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _writer(format: Format, file: Any, schema: pa.Schema, delimiter: str) -> Writer:
    writer: Writer
    if format == "parquet":
        writer = parquet.ParquetWriter(file, schema)
    elif format == "arrow":
        writer = ipc.new_file(file, schema)
    else:
        writer = _text_writer(format, file, schema, delimiter)
    return writer


def _text_writer(format: Format, file: Any, schema: pa.Schema, delimiter: str) -> Writer:
    return _CsvWriter(file, schema, delimiter) if format == "csv" else _JsonWriter(file)


class _CsvWriter:
    """Writer of CSV with quotes around all text, so that an empty cell without quotes is null."""

    def __init__(self, file: Any, schema: pa.Schema, delimiter: str) -> None:
        self._schema = pa.schema([(field.name, _cell_type(field)) for field in schema])
        self._writer = csv.CSVWriter(file, self._schema, write_options=csv.WriteOptions(delimiter=delimiter))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch.cast(self._schema))

    def close(self) -> None:
        self._writer.close()


def _cell_type(field: pa.Field) -> pa.DataType:
    """Return the type that the cells of a column are written as; InvalidInputError: it has no text."""
    data_type = readable(field.type)
    bytes_ = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
    if any(is_kind(data_type) for is_kind in (types.is_nested, types.is_interval, *bytes_)):
        raise InvalidInputError(
            "CSV has no such values; choose --columns, or write JSON lines or Parquet",
            column=field.name,
            found=field.type,
        )
    return pa.string() if types.is_string_view(data_type) else data_type


class _JsonWriter:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._file.write(json_lines(batch).encode())

    def close(self) -> None:
        """Leave the file open for its owner."""
