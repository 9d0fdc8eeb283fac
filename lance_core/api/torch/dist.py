"""The place of this process among all processes of a training run.

There are the processes of `torch.distributed`, and each of them may have worker processes of a `DataLoader`.
"""

from __future__ import annotations

import torch.distributed
import torch.utils.data

__all__ = [
    "get_dist_rank",
    "get_dist_world_size",
    "get_global_rank",
    "get_global_world_size",
    "get_mp_rank",
    "get_mp_world_size",
]


def get_dist_world_size() -> int:
    """Return the number of processes of `torch.distributed`, or 1 if it is not initialized."""
    return torch.distributed.get_world_size() if _is_distributed() else 1


def get_dist_rank() -> int:
    """Return the number of this process in `torch.distributed`, or 0 if it is not initialized."""
    return torch.distributed.get_rank() if _is_distributed() else 0


def get_mp_world_size() -> int:
    """Return the number of worker processes of the `DataLoader`, or 1 outside such a process."""
    worker = torch.utils.data.get_worker_info()
    return 1 if worker is None else worker.num_workers


def get_mp_rank() -> int:
    """Return the number of this worker process of the `DataLoader`, or 0 outside such a process."""
    worker = torch.utils.data.get_worker_info()
    return 0 if worker is None else worker.id


def get_global_world_size() -> int:
    """Return the number of processes that read: all workers of all processes."""
    return get_dist_world_size() * get_mp_world_size()


def get_global_rank() -> int:
    """Return the number of this process among all that read.

    A worker process does not know `torch.distributed`, unless the worker initializes it, too.
    """
    return get_dist_rank() * get_mp_world_size() + get_mp_rank()


def _is_distributed() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())
