"""Samples of a dataset, and samplers that share its rows among the processes of a training run.

A sampler is called with a dataset and yields record batches. The samplers that shard take the number of the
process, `rank`, and the number of processes, `world_size`. Orders are repeatable: they depend on `seed`, and
on the epoch that `set_epoch` sets.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lance_core.api.dataset import LanceDataset, dataset
from lance_core.api.fragment import LanceFragment
from lance_core.encodings.values import take_values
from lance_core.errors import InvalidInputError
from lance_core.scan.plan.projection import ROW_ID
from lance_core.scan.samples import regrouped, shuffled, spread_runs
from lance_core.scan.scanner import row_taker

__all__ = [
    "FragmentSampler",
    "FullScanSampler",
    "Sampler",
    "ShardedBatchSampler",
    "ShardedFixedBatchSampler",
    "ShardedFragmentSampler",
    "maybe_sample",
]

Columns = list[str] | dict[str, str] | None


def maybe_sample(
    dataset: str | Path | LanceDataset,
    n: int,
    columns: list[str] | dict[str, str] | str,
    batch_size: int = 10240,
    max_takes: int = 2048,
    filt: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield `n` rows chosen at random, each at most once; or all rows if there are no more.

    `random.seed` makes the choice repeatable.

    Args:
        dataset: The dataset, or its location.
        n: Number of rows.
        columns: Names or dotted paths, one name, or SQL expressions by name.
        batch_size: Largest number of rows of a batch.
        max_takes: Largest number of places to read from. For a larger `n` the dataset is divided into this
            many parts of the same size, and rows that follow each other are taken from each part.
        filt: SQL text. Only rows for which it is true are chosen. The columns of the filter are read in full.

    Raises:
        InvalidInputError: An argument is not valid.
    """
    source = open_source(dataset)
    columns = [columns] if isinstance(columns, str) else columns
    _check_positive("batch_size", batch_size)
    _check_positive("max_takes", max_takes)
    if n < 0:
        raise InvalidInputError("n", expected="0 or more", found=n)
    return _sample(source, n, columns, batch_size, max_takes, filt)


def _sample(
    source: LanceDataset, n: int, columns: Columns, batch_size: int, max_takes: int, filt: str | None
) -> Iterator[pa.RecordBatch]:
    num_rows = source.count_rows()
    if n >= num_rows:
        yield from source.to_batches(columns, filt, batch_size=batch_size)
        return
    taker = row_taker(source.snapshot, columns)
    rng = np.random.default_rng(random.getrandbits(64))
    if filt is not None:
        matching = source.to_table([ROW_ID], filt)[ROW_ID].to_numpy()
        chosen = rng.choice(matching, min(n, len(matching)), replace=False)
    elif n > max_takes:
        chosen = spread_runs(num_rows, n, max_takes, rng)
    else:
        chosen = rng.choice(num_rows, n, replace=False)
    for start in range(0, len(chosen), batch_size):
        keys = chosen[start : start + batch_size].astype(np.uint64)
        yield taker.by_offset(keys) if filt is None else taker.by_row_id(keys)


class Sampler(ABC):
    """Base of samplers: callables from a dataset to record batches."""

    @abstractmethod
    def __call__(
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: Columns = None,
        filter: str | None = None,
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the sample.

        Args:
            dataset: The dataset.
            args: Arguments of the class that implements the sampler.
            batch_size: Largest number of rows of a batch.
            columns: As for `LanceDataset.scanner`.
            filter: SQL text; only rows for which it is true are yielded.
            batch_readahead: Without effect: reads ahead are bounded by bytes.
            with_row_id: Add the column `_rowid`.
            kwargs: Arguments of the class that implements the sampler.
        """


class FragmentSampler(Sampler):
    """Base of samplers that choose whole fragments: implement `iter_fragments`."""

    def __call__(
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: Columns = None,
        filter: str | None = None,
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the chosen fragments; see `Sampler`. Other arguments go to `iter_fragments`."""
        fragments = list(self.iter_fragments(dataset, *args, **kwargs))
        return dataset.to_batches(
            columns, filter, fragments=fragments, batch_size=batch_size, with_row_id=with_row_id
        )

    @abstractmethod
    def iter_fragments(self, dataset: LanceDataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        """Yield the fragments to read, in this order."""


class FullScanSampler(FragmentSampler):
    """Sampler of all rows in dataset order."""

    def iter_fragments(self, dataset: LanceDataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        """Yield all fragments."""
        yield from dataset.get_fragments()


class _Shard:
    """The share of one process."""

    def __init__(self, rank: int, world_size: int, randomize: bool = False, seed: int = 0) -> None:
        """Describe the share.

        Args:
            rank: Number of the process, from 0.
            world_size: Number of processes.
            randomize: Yield the share in random order.
            seed: Seed of this order. All processes must give the same seed.

        Raises:
            InvalidInputError: There is no process with this rank.
        """
        _check_positive("world_size", world_size)
        if not 0 <= rank < world_size:
            raise InvalidInputError("rank", expected=f"0 to {world_size - 1}", found=rank)
        self._rank = rank
        self._world_size = world_size
        self._randomize = randomize
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the pass over the data: each has its own random order."""
        self._epoch = epoch

    def _random(self) -> random.Random:
        return random.Random(self._seed + self._epoch)


class ShardedFragmentSampler(_Shard, FragmentSampler):
    """Sampler of every `world_size`-th fragment, from the fragment at `rank` on.

    Processes read no common page, so this is the fastest way to share a large dataset.
    """

    @staticmethod
    def from_torch(randomize: bool = False, seed: int = 0) -> ShardedFragmentSampler:
        """Return the sampler of this process of `torch.distributed`."""
        return ShardedFragmentSampler(*_torch_process(), randomize=randomize, seed=seed)

    def iter_fragments(self, dataset: LanceDataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        """Yield the fragments of this process."""
        fragments = dataset.get_fragments()
        if self._randomize:
            self._random().shuffle(fragments)
        yield from fragments[self._rank :: self._world_size]


class ShardedBatchSampler(_Shard, Sampler):
    """Sampler of every `world_size`-th batch, from batch `rank` on; with a filter, of every such row.

    Without a filter a process reads its own rows only. With a filter each process reads all rows that match,
    and drops those of the others. Their random order is an approximate one: each batch is chosen among the
    next 256.
    """

    @staticmethod
    def from_torch(randomize: bool = False, seed: int = 0) -> ShardedBatchSampler:
        """Return the sampler of this process of `torch.distributed`."""
        return ShardedBatchSampler(*_torch_process(), randomize=randomize, seed=seed)

    def __call__(
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: Columns = None,
        filter: str | None = None,
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of this process; see `Sampler`. All but the last have `batch_size` rows."""
        _check_positive("batch_size", batch_size)
        if filter is None:
            return self._ranges(
                dataset, batch_size, _with_row_id(dataset, columns) if with_row_id else columns
            )
        rows = dataset.to_batches(columns, filter, with_row_id=with_row_id)
        batches = regrouped(self._every_nth(rows), batch_size)
        return shuffled(batches, self._random()) if self._randomize else batches

    def _ranges(self, dataset: LanceDataset, batch_size: int, columns: Columns) -> Iterator[pa.RecordBatch]:
        taker, num_rows = row_taker(dataset.snapshot, columns), dataset.count_rows()
        starts = list(range(self._rank * batch_size, num_rows, self._world_size * batch_size))
        if self._randomize:
            self._random().shuffle(starts)
        for start in starts:
            yield taker.by_offset(np.arange(start, min(start + batch_size, num_rows), dtype=np.uint64))

    def _every_nth(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin = 0
        for batch in batches:
            first = (self._rank - begin) % self._world_size
            places = pa.array(np.arange(first, batch.num_rows, self._world_size))
            columns = [take_values(column, places) for column in batch.columns]
            yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)
            begin += batch.num_rows


class ShardedFixedBatchSampler(ShardedBatchSampler):
    """Sampler that also yields row offsets, as a `batch_sampler` of PyTorch does.

    Iterating yields the batches of this process as lists of row offsets. The dataset is divided into
    `world_size` parts of neighbouring rows, and each part into batches. For 1000 rows, 4 processes and
    batches of 100, process 1 has 250-349, 350-449 and 450-499.
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        randomize: bool = False,
        seed: int = 0,
        batch_size: int = 0,
        total_num_rows: int = 0,
    ) -> None:
        """Describe the share; see `ShardedBatchSampler`.

        Args:
            rank: Number of the process, from 0.
            world_size: Number of processes.
            randomize: Yield batches in random order.
            seed: Seed of this order.
            batch_size: Largest number of rows of a batch.
            total_num_rows: Number of rows of the dataset. If it is 0, there are no row offsets to yield.

        Raises:
            InvalidInputError: There is no process with this rank, or a number is out of range.
        """
        super().__init__(rank, world_size, randomize, seed)
        if total_num_rows:
            _check_positive("total_num_rows", total_num_rows)
            _check_positive("batch_size", batch_size)
        per_process = -(-total_num_rows // world_size)
        self._rows = range(total_num_rows)[rank * per_process :][:per_process]
        self._batch_size = batch_size or 1

    @staticmethod
    def from_torch(  # type: ignore[override]  # the reference adds arguments in front
        batch_size: int, total_num_rows: int, randomize: bool = False, seed: int = 0
    ) -> ShardedFixedBatchSampler:
        """Return the sampler of this process of `torch.distributed`."""
        return ShardedFixedBatchSampler(*_torch_process(), randomize, seed, batch_size, total_num_rows)

    def __len__(self) -> int:
        return -(-len(self._rows) // self._batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        starts = list(range(0, len(self._rows), self._batch_size))
        if self._randomize:
            self._random().shuffle(starts)
        for start in starts:
            yield list(self._rows[start : start + self._batch_size])


def open_source(source: str | Path | LanceDataset) -> LanceDataset:
    """Return the dataset, opened if `source` is its location."""
    return dataset(source) if isinstance(source, str | Path) else source


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise InvalidInputError(name, expected="1 or more", found=value)


def _torch_process() -> tuple[int, int]:
    """Return the rank and the number of processes of `torch.distributed`."""
    from torch import distributed  # late: most processes do without, and torch is no requirement

    return distributed.get_rank(), distributed.get_world_size()


def _with_row_id(dataset: LanceDataset, columns: Columns) -> Columns:
    if isinstance(columns, dict):
        return {**columns, ROW_ID: ROW_ID}
    names = [field.name for field in dataset.snapshot.manifest.schema.fields] if columns is None else columns
    return names if ROW_ID in names else [*names, ROW_ID]
