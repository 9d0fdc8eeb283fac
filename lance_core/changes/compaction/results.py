"""Results of compaction tasks, and the numbers that a compaction reports.

A result is plain data and travels as JSON, so that tasks can run on other machines.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from google.protobuf.message import DecodeError

from lance_core.errors import InvalidInputError
from lance_core.proto import table_pb2
from lance_core.table.fragment import Fragment

Messages = tuple[table_pb2.DataFragment, ...]


@dataclass(frozen=True)
class LostCoverage:
    """An index that covered rows before a compaction and does not cover them any more.

    Readers still find these rows: they scan them until the index is updated.
    """

    index: str
    """Name of the index."""
    index_type: str
    """Kind of the index, such as "ZoneMap"."""
    fragment_ids: tuple[int, ...]
    """New fragments that the index does not cover, though it covered all their rows before."""
    num_rows: int
    """Rows of these fragments."""


@dataclass(frozen=True)
class IndexCoverage:
    """Rows that an index covers before and after a compaction, deleted rows not counted."""

    index: str
    """Name of the index."""
    index_type: str
    """Kind of the index, such as "BTree"."""
    num_rows_before: int
    num_rows_after: int


@dataclass(frozen=True, repr=False)
class CompactionMetrics:
    """Numbers of fragments and files that a compaction removed and added."""

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    """Data files and deletion files."""
    files_added: int = 0
    lost_coverage: tuple[LostCoverage, ...] = ()
    """Indices that cover less than before. Known only after the commit."""
    index_coverage: tuple[IndexCoverage, ...] = ()
    """Coverage of all indices. Known only after the commit."""

    def with_coverage(
        self, index_coverage: tuple[IndexCoverage, ...], lost_coverage: tuple[LostCoverage, ...]
    ) -> CompactionMetrics:
        """Return the metrics with the coverage that the commit left."""
        return replace(self, index_coverage=index_coverage, lost_coverage=lost_coverage)

    def __repr__(self) -> str:
        """Return the text of the reference; it also shows lost coverage if there is any."""
        shown = [field.name for field in fields(self) if field.name != "index_coverage"]
        if not self.lost_coverage:
            shown.remove("lost_coverage")
        return f"CompactionMetrics({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __add__(self, other: CompactionMetrics) -> CompactionMetrics:
        names = [field.name for field in fields(self)]
        return CompactionMetrics(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True)
class RewriteResult:
    """Fragments that one task wrote. They belong to no version yet."""

    read_version: int
    """The version that the task was planned on."""
    original: Messages
    new: Messages

    @property
    def original_fragments(self) -> list[Fragment]:
        """The fragments that are replaced."""
        return views_of(self.original)

    @property
    def new_fragments(self) -> list[Fragment]:
        """The fragments that replace them. They have no ids yet."""
        return views_of(self.new)

    @property
    def metrics(self) -> CompactionMetrics:
        """The metrics of this task alone."""
        removed = sum(len(each.files) + each.HasField("deletion_file") for each in self.original)
        added = sum(len(each.files) for each in self.new)
        return CompactionMetrics(len(self.original), len(self.new), removed, added)

    def json(self) -> str:
        """Return JSON that `from_json` reads."""
        return json.dumps(
            {
                "read_version": self.read_version,
                "original_fragments": encode_fragments(self.original),
                "new_fragments": encode_fragments(self.new),
            }
        )

    @staticmethod
    def from_json(text: str) -> RewriteResult:
        """Return the result from the JSON of `json`.

        Raises:
            InvalidInputError: The text is something else.
        """
        parts = load_object(text, "result of a compaction task")
        try:
            original, new = (
                decode_fragments(parts[name]) for name in ("original_fragments", "new_fragments")
            )
            return RewriteResult(int(parts["read_version"]), original, new)
        except (KeyError, TypeError, ValueError, DecodeError) as error:
            raise InvalidInputError("result of a compaction task", found=error) from None


def views_of(messages: Sequence[table_pb2.DataFragment]) -> list[Fragment]:
    """Return fragments for messages that no manifest holds; errors about them name the compaction."""
    return [Fragment(message, "compaction", None, {}) for message in messages]


def encode_fragments(messages: Iterable[table_pb2.DataFragment]) -> list[str]:
    """Return messages in the form that JSON holds: protobuf bytes as base64."""
    return [base64.b64encode(message.SerializeToString()).decode() for message in messages]


def decode_fragments(texts: Iterable[str]) -> Messages:
    """Return the messages from the texts of `encode_fragments`.

    Raises:
        ValueError, DecodeError: A text is something else.
    """
    return tuple(table_pb2.DataFragment.FromString(base64.b64decode(text)) for text in texts)


def load_object(text: str, what: str) -> dict[str, Any]:
    """Return a JSON object; `what` names it in messages.

    Raises:
        InvalidInputError: The text is no JSON object.
    """
    try:
        parts = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(what, found=error) from None
    if not isinstance(parts, dict):
        raise InvalidInputError(what, expected="a JSON object", found=text[:80])
    return parts
