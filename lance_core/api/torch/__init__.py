"""Datasets as PyTorch takes them, with the names of `lance.torch`; needs PyTorch (`lance-flight[torch]`).

data           datasets and loaders
dist           the place of this process among all processes of a training run
tensors        record batches as tensors
kept_batches   record batches of the first pass over a dataset, kept on disk for later passes
"""

from __future__ import annotations

import torch

__all__ = ["preferred_device"]


def preferred_device(device: str | torch.device | None = None) -> torch.device:
    """Return the given device, or the fastest kind of device that this machine has."""
    if device is not None:
        return torch.device(device)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
