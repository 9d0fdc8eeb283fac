"""Sources of rows: everything that turns into a schema and record batches, read while it is written."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from lance_core.errors import InvalidInputError

MAX_BATCH_BYTES = 8 << 20
"""Larger batches are handed on in slices, so that what is held of each while it is encoded is bounded."""


@runtime_checkable
class _Stored(Protocol):
    """A scan of stored rows, such as a `LanceScanner`."""

    def verified(self) -> Any:
        """Return the same scan with the pages that it reads checked.

        A damaged page would get a valid checksum in the copy.
        """


def batches_of(data: Any, schema: pa.Schema | None = None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema of `data` and its rows.

    Args:
        data: an Arrow table, batch, reader, dataset or scanner, a dataset or scanner of this package, a
            pandas or polars frame, columns as a dict, rows as a list of dicts, anything with
            `__arrow_c_stream__`, or an iterable of batches.
        schema: what frames, dicts and iterables of batches are turned into; iterables need it.

    Raises:
        InvalidInputError: an iterable without a schema.
        TypeError: something else.
    """
    if isinstance(data, pa.RecordBatch):
        return data.schema, iter([data])
    if isinstance(data, pa.Table):
        return data.schema, iter(data.to_batches())
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, iter(data)
    datasets = sys.modules.get(
        "pyarrow.dataset"
    )  # a caller with a dataset has imported it; importing it loads pandas
    if datasets is not None and isinstance(data, datasets.Dataset):
        data = data.scanner()
    if datasets is not None and isinstance(data, datasets.Scanner):
        return data.projected_schema, data.to_batches()
    if type(data).__module__.partition(".")[0] == "pandas":
        return batches_of(pa.Table.from_pandas(data, schema=schema))
    if not hasattr(data, "to_reader") and hasattr(data, "scanner"):
        data = data.scanner()
    if isinstance(data, _Stored):
        data = data.verified()
    if hasattr(data, "to_reader"):
        return batches_of(data.to_reader())
    if hasattr(data, "__arrow_c_stream__"):
        return batches_of(pa.RecordBatchReader.from_stream(data))
    if isinstance(data, Mapping):
        return batches_of(pa.table(dict(data), schema=schema))
    if isinstance(data, list) and data and isinstance(data[0], Mapping):
        return batches_of(pa.Table.from_pylist(data, schema=schema))
    if isinstance(data, Iterable):
        if schema is None:
            raise InvalidInputError("record batches of an iterable need a schema")
        return schema, _cast(data, schema)
    raise TypeError(f"cannot write data of type {type(data).__name__}")


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in slices of about `MAX_BATCH_BYTES`, without a copy."""
    num_slices = max(1, -(-batch.nbytes // MAX_BATCH_BYTES))
    step = max(1, -(-batch.num_rows // num_slices))
    if step >= batch.num_rows:
        yield batch
        return
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _cast(batches: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            raise TypeError(f"expected record batches, got {type(batch).__name__}")
        if batch.schema.equals(schema):
            yield batch
            continue
        try:
            yield from pa.Table.from_batches([batch]).cast(schema).to_batches()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise InvalidInputError(
                "batch does not fit the given schema", expected=schema, found=error
            ) from None
