"""Datasets and loaders of PyTorch over datasets of Lance, with the names of `lance.torch.data`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
import torch.utils.data

from lance_core.api.dataset import LanceDataset as StoredDataset
from lance_core.api.dataset import dataset as open_dataset
from lance_core.api.sampler.samplers import (
    Columns,
    FullScanSampler,
    Sampler,
    ShardedBatchSampler,
    ShardedFragmentSampler,
    maybe_sample,
)
from lance_core.api.torch.dist import get_dist_rank, get_dist_world_size, get_mp_rank, get_mp_world_size
from lance_core.api.torch.kept_batches import KeptBatches
from lance_core.api.torch.tensors import Batch, ToTensorFn, bfloat16_tensor, to_tensors
from lance_core.errors import InvalidInputError
from lance_core.scan.plan.projection import ROW_ID
from lance_core.scan.samples import regrouped

__all__ = ["LanceDataset", "SafeLanceDataset", "TensorDataset", "ToTensorFn", "get_safe_loader"]

# Scripts build their own `to_tensor_fn` on these, under the names of the reference.
_to_tensor = to_tensors
_bf16_to_tensor = bfloat16_tensor


class LanceDataset(torch.utils.data.IterableDataset):  # type: ignore[misc]  # PyTorch is no requirement
    """Batches of a dataset as tensors.

    All batches of a process but its last have `batch_size` rows, so give the `DataLoader` `batch_size=None`.
    Every process that reads gets its own share of the fragments: each worker of a `DataLoader` in each
    process of `torch.distributed`.
    """

    def __init__(
        self,
        dataset: StoredDataset | str | Path,
        batch_size: int,
        *args: Any,
        dataset_options: Mapping[str, Any] | None = None,
        columns: Columns = None,
        filter: str | None = None,
        samples: int | None = 0,
        cache: str | Path | bool | None = None,
        with_row_id: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        shard_granularity: Literal["fragment", "batch"] | None = None,
        batch_readahead: int = 16,
        to_tensor_fn: ToTensorFn | None = to_tensors,
        sampler: Sampler | None = None,
        auto_detect_rank: bool = True,
        **kwargs: Any,
    ) -> None:
        """Describe what to read.

        Args:
            dataset: The dataset, or its location.
            batch_size: Rows of a batch.
            args: No effect.
            dataset_options: Arguments of `lance_core.dataset`, if `dataset` is a location.
            columns: As for `scanner`. Columns of blobs become lists of `BlobFile`, for `to_tensor_fn`.
            filter: SQL text; only rows for which it is true are read.
            samples: Number of rows chosen at random by each process, as `maybe_sample` does. 0 reads all.
            cache: Write the first pass over the batches to a temporary file, and read later passes from it:
                True, or the directory of the file. Processes have files of their own.
            with_row_id: Add the column `_rowid`. A `ShardedBatchSampler` and `samples` add none, like those
                of the reference.
            rank, world_size: Number of this process and of all processes that read; deprecated.
            shard_granularity: What the processes share: fragments, which is the default, or batches.
            batch_readahead: No effect: reads ahead are bounded by bytes.
            to_tensor_fn: Converts batches. None yields record batches, or mappings if there are blobs.
            sampler: Chooses the rows. The shares of processes are then those that the sampler knows.
            auto_detect_rank: Find rank and number of processes. If it is False, and they are not given, each
                process reads all rows.
            kwargs: No effect.

        Raises:
            InvalidInputError: An argument is not valid.
            LanceError: The errors of `lance_core.dataset`.
        """
        super().__init__()
        if batch_size < 1:
            raise InvalidInputError("batch_size", expected="1 or more", found=batch_size)
        if shard_granularity not in (None, "fragment", "batch"):
            raise InvalidInputError(
                "shard_granularity", expected="'fragment' or 'batch'", found=shard_granularity
            )
        if isinstance(dataset, str | Path):
            dataset = open_dataset(dataset, **(dataset_options or {}))
        if rank is not None and world_size is not None:
            warnings.warn("rank and world_size are deprecated", DeprecationWarning, stacklevel=2)
        self.dataset = dataset
        self.columns = columns
        self.batch_size = batch_size
        self.samples = samples
        self.filter = filter
        self.with_row_id = with_row_id
        self.batch_readahead = batch_readahead
        self.shard_granularity = shard_granularity
        self.rank = rank
        self.world_size = world_size
        self.sampler = sampler
        self.cache = cache
        self._to_tensor_fn = to_tensor_fn
        self._auto_detect_rank = auto_detect_rank
        self._distributed: tuple[int, int] | None = None
        self._kept: KeptBatches | None = None

    def __repr__(self) -> str:
        return f"LanceTorchDataset({self.dataset.uri}, size={self.samples})"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a worker of a `DataLoader`, with the place of this process.

        A worker that was not forked knows nothing of `torch.distributed`.
        """
        return {**self.__dict__, "_distributed": self._process(), "_kept": None}

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read."""
        return self.dataset.scanner(columns=self.columns or None).projected_schema

    def __iter__(self) -> Iterator[Any]:
        if self.cache and self._kept is None:
            self._kept = KeptBatches(None if self.cache is True else self.cache)
        blobs = self._blob_columns()
        source = partial(self._batches, self._sampler(), blobs)
        for rows in source() if self._kept is None else self._kept.batches(source):
            batch = self._with_blobs(rows, blobs) if blobs else rows
            if self._to_tensor_fn is None:
                yield batch
            else:
                yield self._to_tensor_fn(batch, hf_converter=None, use_blob_api=bool(blobs))

    def _sampler(self) -> Sampler:
        if self.sampler is not None:
            return self.sampler
        rank, world_size = self.rank, self.world_size
        if self._auto_detect_rank:
            process, processes = self._process()
            workers = get_mp_world_size()
            rank = process * workers + get_mp_rank() if rank is None else rank
            world_size = processes * workers if world_size is None else world_size
        if rank is None or world_size is None:
            return FullScanSampler()
        kind = ShardedBatchSampler if self.shard_granularity == "batch" else ShardedFragmentSampler
        return kind(rank, world_size)

    def _process(self) -> tuple[int, int]:
        """Return the number of the process of `torch.distributed`, and how many there are."""
        return self._distributed or (get_dist_rank(), get_dist_world_size())

    def _batches(self, sampler: Sampler, blobs: Sequence[str]) -> Iterable[pa.RecordBatch]:
        """Return the batches of all columns but blobs, with row ids if there are blobs."""
        columns = self.columns or None
        if blobs:
            names = columns or self.dataset.schema.names
            columns = [*(name for name in names if name != ROW_ID and name not in blobs), ROW_ID]
        if self.samples:
            chosen = columns or self.dataset.schema.names
            batches = maybe_sample(self.dataset, self.samples, chosen, self.batch_size, filt=self.filter)
        else:
            with_row_id = self.with_row_id and not blobs and not isinstance(sampler, ShardedBatchSampler)
            batches = sampler(
                self.dataset,
                columns=columns,
                filter=self.filter,
                batch_size=self.batch_size,
                with_row_id=with_row_id,
                batch_readahead=self.batch_readahead,
            )
        return regrouped(batches, self.batch_size)

    def _with_blobs(self, rows: pa.RecordBatch, blobs: Sequence[str]) -> Batch:
        columns: dict[str, Any] = dict(zip(rows.schema.names, rows.columns, strict=True))
        for name in blobs:
            columns[name] = self.dataset.take_blobs(name, ids=rows[ROW_ID])
        return columns

    def _blob_columns(self) -> list[str]:
        if isinstance(self.columns, dict):
            return []
        wanted = self.columns or self.dataset.schema.names
        fields = self.dataset.snapshot.manifest.schema.fields
        return [
            field.name for field in fields if field.name in wanted and (field.is_blob or field.is_blob_v2)
        ]


class SafeLanceDataset(torch.utils.data.Dataset):  # type: ignore[misc]  # PyTorch is no requirement
    """Rows of a dataset as dicts, for the samplers of PyTorch. Each process opens the dataset itself."""

    def __init__(
        self, uri: str | Path, *, dataset_options: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Open the dataset for its number of rows.

        Args:
            uri: Location of the dataset.
            dataset_options: Arguments of `lance_core.dataset`.
            kwargs: Arguments of `torch.utils.data.Dataset`.

        Raises:
            LanceError: The errors of `lance_core.dataset`.
        """
        super().__init__(**kwargs)
        self.uri = uri
        self.dataset_options = dict(dataset_options or {})
        self._ds: StoredDataset | None = open_dataset(uri, **self.dataset_options)
        self._len = self._ds.count_rows()
        # Every process opens this version: the rows of later versions have other offsets.
        branch, version = self._ds.snapshot.manifest.branch, self._ds.version
        self._pinned = {**self.dataset_options, "version": (branch, version)}

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, which opens the dataset itself."""
        return {**self.__dict__, "_ds": None}

    def __len__(self) -> int:
        return self._len

    def __getitem__(self, idx: int) -> dict[str, Any]:
        return self.__getitems__([idx])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return the rows at these row offsets."""
        if self._ds is None:
            self._ds = open_dataset(self.uri, **self._pinned)
        return cast(list[dict[str, Any]], self._ds.take(indices).to_pylist())


class TensorDataset(torch.utils.data.Dataset):  # type: ignore[misc]  # PyTorch is no requirement
    """Batches of the rows of a tensor, as `LanceDataset` yields batches of a dataset."""

    def __init__(
        self, data: torch.Tensor | npt.NDArray[Any], batch_size: int, *args: Any, **kwargs: Any
    ) -> None:
        """Keep a tensor, or an array of NumPy."""
        super().__init__(*args, **kwargs)
        self._data = torch.from_numpy(data) if isinstance(data, np.ndarray) else data
        self._batch_size = batch_size

    def __repr__(self) -> str:
        return "LanceTensorDataset"

    def __len__(self) -> int:
        return math.ceil(len(self._data) / self._batch_size)

    def __getitem__(self, idx: int) -> torch.Tensor:
        """Return a batch.

        Raises:
            IndexError: There are fewer batches.
        """
        if not 0 <= idx < len(self):
            raise IndexError(f"batch {idx} of {len(self)}")
        return self._data[idx * self._batch_size :][: self._batch_size]


def get_safe_loader(
    dataset: torch.utils.data.Dataset, batch_size: int = 32, num_workers: int = 4, **kwargs: Any
) -> torch.utils.data.DataLoader:
    """Return a `DataLoader` whose worker processes are started anew, not forked, and stay between epochs.

    Args:
        dataset: A dataset such as `SafeLanceDataset`.
        batch_size: Rows of a batch.
        num_workers: Number of worker processes.
        kwargs: Other arguments of `torch.utils.data.DataLoader`.
    """
    arguments = {
        "multiprocessing_context": torch.multiprocessing.get_context("spawn") if num_workers else None,
        "persistent_workers": num_workers > 0,
        **kwargs,
    }
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size, num_workers=num_workers, **arguments)
