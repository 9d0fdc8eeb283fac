"""Interface between uploads and their writers; free of Flight types."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


class Batches(Protocol):
    """Source of rows. The iteration ends only when all rows have come, and raises if they will not come."""

    @property
    def schema(self) -> pa.Schema: ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True)
class NoRows:
    """Nothing to write but columns."""

    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(())


class Abortable(Protocol):
    """Something that writes files."""

    def abort(self) -> None:
        """Remove them."""


Abandonable = Callable[[Abortable], AbstractContextManager[None]]
"""A time in which a writer may be aborted, see `Mutations.abandonable`."""
