"""Samples of rows, and rows shared among processes, with the names of `lance.sampler`.

samplers                random samples, and the samplers of a training run
sharded_batch_iterator  batches of one of many processes, as older scripts take them
"""

from __future__ import annotations

from lance_core.api.sampler.samplers import (
    FragmentSampler,
    FullScanSampler,
    Sampler,
    ShardedBatchSampler,
    ShardedFixedBatchSampler,
    ShardedFragmentSampler,
    maybe_sample,
)
from lance_core.scan.samples import PrioritizedItem, reservoir_sampling

__all__ = [
    "FragmentSampler",
    "FullScanSampler",
    "PrioritizedItem",
    "Sampler",
    "ShardedBatchSampler",
    "ShardedFixedBatchSampler",
    "ShardedFragmentSampler",
    "maybe_sample",
    "reservoir_sampling",
]
