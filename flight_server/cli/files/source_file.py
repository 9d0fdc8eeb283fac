"""One file that `put` reads, whatever kind it is."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.types as types

from lance_core.errors import InvalidInputError

TEXT_BYTES = 16 << 20
"""Bytes of text that are read at once: what types are inferred from, and the longest line of CSV."""


class SourceFile(ABC):
    """One file."""

    path: str
    schema: pa.Schema
    """The columns of the file. The types of text files were decided from their first rows."""

    @property
    def num_rows(self) -> int | None:
        """The number of rows, or None if the file would have to be read to count them."""
        return None

    @abstractmethod
    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the columns of `schema`. Columns that the file lacks are null."""


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Name the file in errors of Arrow's readers, which do not tell it."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        is_encoding = isinstance(error, UnicodeDecodeError) or "invalid utf8" in str(error).lower()
        hint = "; give --encoding" if is_encoding else ""
        raise InvalidInputError(f"{path} cannot be read{hint}", found=error) from None


def readable(data_type: pa.DataType) -> pa.DataType:
    """Return the type that a reader makes first. Readers make no extension types and few dictionaries."""
    if isinstance(data_type, pa.BaseExtensionType):
        return readable(data_type.storage_type)
    return data_type.value_type if types.is_dictionary(data_type) else data_type


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns and types of a schema. Columns that the batch lacks are null."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
