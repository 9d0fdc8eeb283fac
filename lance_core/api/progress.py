"""Progress of writes; see `progress` of `lance_core.write_dataset`."""

from lance_core.write.fragments import FragmentWriteProgress

__all__ = ["FragmentWriteProgress"]
