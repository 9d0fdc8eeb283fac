"""The rows of files that `put` sends: Parquet, CSV, JSON and Arrow, as files or as streams."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, ipc, json
from pyarrow import dataset as arrow

from flight_server.handlers.schema_caps import check_schema
from lance_core.errors import InvalidInputError

_BATCH_ROWS = 1 << 14
_TEXT_BYTES = 16 << 20
"""Of text that is read at once: what types are found in, and the longest line."""
_ARROW_FILE = b"ARROW1"


class SourceFile(ABC):
    """One file."""

    path: str
    schema: pa.Schema
    """What the file has, as far as its first rows tell."""

    @property
    def num_rows(self) -> int | None:
        """How many rows there are; None where they would have to be read for it."""
        return None

    @abstractmethod
    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows with the columns of `schema`: those the file lacks are null."""


class Rows:
    """The rows of files of one kind, one file after the other."""

    def __init__(self, files: Sequence[str], table: pa.Schema | None) -> None:
        """Look at each file; columns of text get the types that they have in `table`, if given.

        Raises:
            InvalidInputError: a file cannot be read as what its name says, or columns do not go together.
        """
        self._files = [_open(file, table or pa.schema([])) for file in files]
        try:
            # Columns that only later files have are found as well; what differs in type is an error.
            self.schema = pa.unify_schemas([file.schema for file in self._files])
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidInputError("files do not go together", found=error) from None
        check_schema(self.schema)

    @property
    def num_rows(self) -> int | None:
        """Rows of all files where their ends tell."""
        counts = [file.num_rows for file in self._files]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, checked: readers take text as it comes, whether it is UTF-8 or not."""
        for file in self._files:
            with _named(file.path):
                for batch in file.batches(self.schema):
                    batch.validate(full=True)
                    yield batch


KINDS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "ipc",
    ".feather": "ipc",
}
"""Of files, by the end of their names."""


def _open(path: str, table: pa.Schema) -> SourceFile:
    kind = KINDS[Path(path).suffix.lower()]
    with _named(path):
        if kind == "csv":
            return _CsvFile(path, table)
        if kind == "json":
            return _JsonFile(path, table)
        if kind == "ipc" and _begin(path) != _ARROW_FILE:
            return _ArrowStream(path)
        return _DatasetFile(path, kind)


def _begin(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(len(_ARROW_FILE))


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Arrow's readers say what is wrong with a file, and not with which."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} cannot be read", found=error) from None


class _DatasetFile(SourceFile):
    """Parquet and Arrow files, which know their rows."""

    def __init__(self, path: str, kind: str) -> None:
        self.path, self._kind = path, kind
        self._file = arrow.dataset(path, format=kind)
        self.schema = self._file.schema

    @property
    def num_rows(self) -> int:
        return int(self._file.count_rows())

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        file = arrow.dataset(self.path, schema=schema, format=self._kind)
        yield from file.to_batches(batch_size=_BATCH_ROWS, fragment_readahead=1)


class _ArrowStream(SourceFile):
    """What other programs keep in `.arrow` files as well: batches without an index of them."""

    def __init__(self, path: str) -> None:
        self.path = path
        with ipc.open_stream(pa.OSFile(path)) as stream:
            self.schema = stream.schema

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with ipc.open_stream(pa.OSFile(self.path)) as stream:
            for batch in stream:
                yield _fitted(batch, schema)


class _TextFile(SourceFile):
    """Text, whose types are those of a table or are found in its first rows."""

    def __init__(self, path: str, table: pa.Schema) -> None:
        self.path = path
        known = {field.name: field.type for field in table}
        with self._open(None) as found:
            # Types are found in the first rows, which may have fewer decimals or fewer zeros than the others.
            types = [known.get(field.name, field.type) for field in found.schema]
            self.schema = pa.schema(zip(found.schema.names, types, strict=True))

    @abstractmethod
    def _open(self, schema: pa.Schema | None) -> pa.RecordBatchReader:
        """Read the file, with the columns of `schema` if it is given."""

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        read = pa.schema([field.with_type(_readable(field.type)) for field in schema])
        with self._open(read) as reader:
            for batch in reader:
                yield _fitted(batch, schema)


class _CsvFile(_TextFile):
    def _open(self, schema: pa.Schema | None) -> pa.RecordBatchReader:
        options = csv.ConvertOptions()
        if schema is not None:
            types = {field.name: field.type for field in schema}
            options = csv.ConvertOptions(
                column_types=types, include_columns=schema.names, include_missing_columns=True
            )
        return csv.open_csv(
            self.path,
            csv.ReadOptions(block_size=_TEXT_BYTES),
            csv.ParseOptions(newlines_in_values=True),
            options,
        )


class _JsonFile(_TextFile):
    """One object a line. A field that only later lines have is an error: it would be lost."""

    def _open(self, schema: pa.Schema | None) -> pa.RecordBatchReader:
        options = json.ParseOptions()
        if schema is not None:
            options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
        return json.open_json(self.path, json.ReadOptions(block_size=_TEXT_BYTES), options)


def _readable(data_type: pa.DataType) -> pa.DataType:
    """What text is read as, to become the type: readers make no extension types and few dictionaries."""
    if isinstance(data_type, pa.BaseExtensionType):
        return _readable(data_type.storage_type)
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a batch in the order and with the types of a schema, null where the batch has none."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
