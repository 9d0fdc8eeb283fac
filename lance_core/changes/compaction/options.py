"""Options of compaction. The names, defaults and settings are those of the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from lance_core.errors import InvalidInputError, UnsupportedFeatureError

_SETTING = "lance.compaction."
"""Prefix of table settings. They apply to options that are left out."""

_MODES = ("reencode", "try_binary_copy", "force_binary_copy")

_HINTS = frozenset({"io_buffer_size", "binary_copy_read_batch_bytes"})
"""Options of the reference that have no effect here."""


@dataclass(frozen=True)
class CompactionOptions:
    """Options of `Compaction.plan` and `compact_files`."""

    target_rows_per_fragment: int = 1024 * 1024
    """Fragments with fewer rows are rewritten together with their neighbours."""
    max_rows_per_group: int = 1024
    """Rows of a batch of 0.1 files."""
    max_bytes_per_file: int | None = None
    """Size at which a new file begins, in bytes; the default of `write_dataset` if None."""
    materialize_deletions: bool = True
    """Whether fragments are rewritten because of deleted rows."""
    materialize_deletions_threshold: float = 0.1
    """Share of deleted rows above which a fragment is rewritten."""
    defer_index_remap: bool = False
    """Whether index files stay as they are, and readers translate the row addresses in them until
    `optimize_indices` rewrites the files. Without stable row ids only.
    """
    num_threads: int | None = None
    """Number of tasks at the same time; one if None, since each task uses all cores."""
    batch_size: int | None = None
    """Largest number of rows to read at once; limited by bytes if None."""
    compaction_mode: str | None = None
    """Has no effect: rows are always decoded and encoded again. "force_binary_copy" is refused."""
    max_source_fragments: int | None = None
    max_source_rows: int | None = None
    max_source_bytes: int | None = None
    """The plan ends before the first task that exceeds one of these limits."""
    excluded_fragment_ids: tuple[int, ...] = ()
    """Fragments that are not rewritten. Fragments on both sides of one are not rewritten together."""
    data_storage_version: str | None = None
    """File version of the table. Another one is refused."""

    def __post_init__(self) -> None:
        for name, value, least in (
            ("target_rows_per_fragment", self.target_rows_per_fragment, 0),
            ("max_rows_per_group", self.max_rows_per_group, 1),
            ("num_threads", self.num_threads, 0),
            ("batch_size", self.batch_size, 1),
        ):
            if value is not None and value < least:
                raise InvalidInputError(name, expected=f"{least} or more", found=value)
        if self.compaction_mode not in (None, *_MODES):
            raise InvalidInputError("compaction_mode", expected=", ".join(_MODES), found=self.compaction_mode)
        if self.compaction_mode == "force_binary_copy":
            raise UnsupportedFeatureError("compaction_mode", found="force_binary_copy")

    @staticmethod
    def parse(given: Mapping[str, Any], settings: Mapping[str, str] | None = None) -> CompactionOptions:
        """Return options from their names. Options that are left out or None come from the table's settings.

        Raises:
            InvalidInputError: An option does not exist or is out of range.
            UnsupportedFeatureError: An option is not supported.
        """
        known = {field.name for field in fields(CompactionOptions)}
        values: dict[str, Any] = {}
        for key, text in (settings or {}).items():
            name = key.removeprefix(_SETTING)
            if name != key and name in known:
                values[name] = _parse(name, text)
        for name, value in given.items():
            if name not in known and name not in _HINTS:
                raise InvalidInputError("there is no compaction option of this name", found=name)
            if value is not None and name in known:
                values[name] = tuple(value) if name == "excluded_fragment_ids" else value
        return CompactionOptions(**values)


def _parse(name: str, text: str) -> Any:
    """Return the value of a setting."""
    kinds: dict[str, Callable[[str], Any]] = {
        "materialize_deletions": _flag,
        "defer_index_remap": _flag,
        "materialize_deletions_threshold": float,
        "compaction_mode": str,
        "data_storage_version": str,
    }
    try:
        return kinds.get(name, int)(text)
    except ValueError:
        raise InvalidInputError("setting of the table", column=_SETTING + name, found=text) from None


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"
