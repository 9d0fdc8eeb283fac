"""Streams whose schema has dictionaries. They are sent as one Arrow reader."""

from collections.abc import Generator, Iterator
from itertools import chain

import pyarrow as pa

from lance_core.api.serving import BatchRun, DeferredError


def one_reader(schema: pa.Schema, runs: Iterator[BatchRun]) -> Iterator[pa.RecordBatchReader]:
    """Yield the batches as one reader: a bare batch is sent without its dictionaries, another reader with
    all of them again.

    An error inside a reader would arrive as an unknown one, so it ends the reader and is raised after it,
    where errors keep their class.
    """
    failure = DeferredError()

    def readable() -> Generator[pa.RecordBatch, None, None]:
        with failure:
            yield from chain.from_iterable(map(BatchRun.batches, runs))

    yield pa.RecordBatchReader.from_batches(schema, readable())
    failure.raise_kept()
