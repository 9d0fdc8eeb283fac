"""Record batches of one of many processes, in the way that scripts wrote before there were samplers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from lance_core.api.dataset import LanceDataset
from lance_core.api.sampler.samplers import (
    Columns,
    Sampler,
    ShardedBatchSampler,
    ShardedFragmentSampler,
    open_source,
)
from lance_core.errors import InvalidInputError

__all__ = ["ShardedBatchIterator"]


class ShardedBatchIterator:
    """Record batches of one process; replaced by `ShardedFragmentSampler` and `ShardedBatchSampler`."""

    def __init__(
        self,
        data: str | Path | LanceDataset,
        rank: int,
        world_size: int,
        *,
        columns: Columns = None,
        batch_size: int = 1024 * 10,
        granularity: Literal["fragment", "batch"] = "fragment",
        batch_readahead: int = 8,
        with_row_id: bool = False,
    ) -> None:
        """Describe the share: every `world_size`-th fragment or batch.

        The other arguments are those of `Sampler`.

        Raises:
            InvalidInputError: An argument is not valid.
        """
        warnings.warn("ShardedBatchIterator is deprecated: use a Sampler", DeprecationWarning, stacklevel=2)
        samplers: dict[str, type[ShardedFragmentSampler | ShardedBatchSampler]] = {
            "fragment": ShardedFragmentSampler,
            "batch": ShardedBatchSampler,
        }
        if granularity not in samplers:
            raise InvalidInputError("granularity", expected=" or ".join(samplers), found=granularity)
        self._sampler: Sampler = samplers[granularity](rank, world_size)
        self._dataset = open_source(data)
        self._arguments: dict[str, Any] = {
            "columns": columns,
            "batch_size": batch_size,
            "with_row_id": with_row_id,
        }

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._sampler(self._dataset, **self._arguments)
