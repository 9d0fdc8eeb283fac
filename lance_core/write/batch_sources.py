"""Sources of rows: conversion of all supported inputs to a schema and a stream of record batches."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from lance_core.errors import ArgumentTypeError, InvalidInputError
from lance_core.write.caller_errors import as_os_errors

_END = object()
MAX_BATCH_BYTES = 8 << 20
"""Bytes above which a batch is cut into slices, which bounds the memory for encoding."""


@runtime_checkable
class _Stored(Protocol):
    """Scan of stored rows, such as a `LanceScanner`."""

    def verified(self) -> Any:
        """Return the same scan with checks of page checksums.

        Without the checks, a damaged page would be copied and get a valid checksum.
        """


def batches_of(data: Any, schema: pa.Schema | None = None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema of `data` and an iterator over its rows.

    Args:
        data: an Arrow table, batch, reader, dataset or scanner; a dataset or scanner of this package; a
            pandas or polars frame; a dict of columns; a list of dicts; an object with `__arrow_c_stream__`;
            or an iterable of batches.
        schema: schema to which frames, dicts and iterables of batches are converted; required for iterables.

    Raises:
        InvalidInputError: `data` is an iterable, and `schema` is missing.
        ArgumentTypeError: `data` is of another type.
    """
    if isinstance(data, pa.RecordBatch):
        return data.schema, iter([data])
    if isinstance(data, pa.Table):
        return data.schema, iter(data.to_batches())
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, _given(data)
    datasets = sys.modules.get(
        "pyarrow.dataset"
    )  # a caller with a dataset has imported pyarrow.dataset; importing it here would load pandas
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
        try:
            return batches_of(pa.table(dict(data), schema=schema))
        except (TypeError, pa.ArrowException) as error:
            raise ArgumentTypeError(f"data must map names to the values of columns: {error}") from None
    if isinstance(data, list) and data and isinstance(data[0], Mapping):
        return batches_of(pa.Table.from_pylist(data, schema=schema))
    if isinstance(data, Iterable):
        if schema is None:
            raise InvalidInputError("record batches of an iterable need a schema")
        return schema, _cast(_given(data), schema)
    raise ArgumentTypeError(f"cannot write data of type {type(data).__name__}")


def slices(batch: pa.RecordBatch, max_bytes: int = MAX_BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield a batch in slices of about `max_bytes`, without copying."""
    num_slices = max(1, -(-batch.nbytes // max_bytes))
    step = max(1, -(-batch.num_rows // num_slices))
    if step >= batch.num_rows:
        yield batch
        return
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _given(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches of the caller's iterable. Its exceptions are OSErrors, too."""
    with as_os_errors():
        iterator = iter(batches)
    while True:
        with as_os_errors():
            batch = next(iterator, _END)
        if batch is _END:
            return
        yield batch


def _cast(batches: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            raise ArgumentTypeError(f"expected record batches, got {type(batch).__name__}")
        if batch.schema.equals(schema):
            yield batch
            continue
        try:
            yield from pa.Table.from_batches([batch]).cast(schema).to_batches()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise InvalidInputError(
                "batch does not match the given schema", expected=schema, found=error
            ) from None
