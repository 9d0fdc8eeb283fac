"""Blobs as a caller holds them; see `LanceDataset.take_blobs`."""

from lance_core.scan.read.blobs import BlobFile

__all__ = ["BlobFile"]
