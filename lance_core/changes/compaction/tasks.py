"""Data that is passed between planning, executing and committing, here or on other machines."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

from google.protobuf.message import DecodeError

from lance_core.changes.compaction.options import CompactionOptions
from lance_core.errors import InvalidInputError
from lance_core.proto import table_pb2
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot

Messages = tuple[table_pb2.DataFragment, ...]


class Opened(Protocol):
    """A dataset that is open, as `LanceDataset` is."""

    @property
    def snapshot(self) -> Snapshot: ...


@dataclass(frozen=True)
class LostCoverage:
    """An index that covered rows before a compaction and does not cover them any more.

    Nothing is lost for readers: they find these rows by scanning until the index is updated.
    """

    index: str
    """Name of the index."""
    index_type: str
    """Kind of the index, such as "ZoneMap"."""
    fragment_ids: tuple[int, ...]
    """New fragments that the index does not cover, though it covered all their rows before."""
    num_rows: int
    """Rows of these fragments."""


@dataclass(frozen=True, repr=False)
class CompactionMetrics:
    """Numbers of fragments and files that a compaction removed and added."""

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    """Data files and deletion files."""
    files_added: int = 0
    lost_coverage: tuple[LostCoverage, ...] = ()
    """Indices that cover less than before. Only known once the compaction is committed."""

    def __repr__(self) -> str:
        """Return the text of the reference; lost coverage, which the reference does not tell, where there
        is any.
        """
        shown = [field.name for field in fields(self) if field.name != "lost_coverage" or self.lost_coverage]
        return f"CompactionMetrics({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __add__(self, other: CompactionMetrics) -> CompactionMetrics:
        names = [field.name for field in fields(self)]
        return CompactionMetrics(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True)
class CompactionTask:
    """Neighbouring fragments that become others."""

    read_version: int
    messages: Messages
    options: CompactionOptions

    @property
    def fragments(self) -> list[Fragment]:
        """The fragments that are rewritten."""
        return _views(self.messages)

    def execute(self, dataset: Opened) -> RewriteResult:
        """Write the rows of the task; see `lance_core.changes.compaction.execute`."""
        from lance_core.changes.compaction.execute import execute

        return execute(dataset.snapshot, self)

    def json(self) -> str:
        """Return the text that `from_json` reads."""
        return json.dumps(self._parts())

    @staticmethod
    def from_json(text: str) -> CompactionTask:
        """Return the task that `json` wrote; anything else is an `InvalidInputError`."""
        return CompactionTask._of(_loads(text, "compaction task"))

    def _parts(self) -> dict[str, Any]:
        return {
            "read_version": self.read_version,
            "fragments": _texts(self.messages),
            "options": asdict(self.options),
        }

    @staticmethod
    def _of(parts: Mapping[str, Any]) -> CompactionTask:
        try:
            options = CompactionOptions.parse(parts["options"])
            return CompactionTask(int(parts["read_version"]), _messages(parts["fragments"]), options)
        except (KeyError, TypeError, ValueError, DecodeError) as error:
            raise InvalidInputError("compaction task", found=error) from None


@dataclass(frozen=True)
class CompactionPlan:
    """Tasks that can run in any order, and anywhere."""

    read_version: int
    tasks: list[CompactionTask]

    def num_tasks(self) -> int:
        """Return the number of tasks."""
        return len(self.tasks)

    def json(self) -> str:
        """Return the text that `from_json` reads."""
        return json.dumps(
            {"read_version": self.read_version, "tasks": [task._parts() for task in self.tasks]}
        )

    @staticmethod
    def from_json(text: str) -> CompactionPlan:
        """Return the plan that `json` wrote; anything else is an `InvalidInputError`."""
        parts = _loads(text, "compaction plan")
        try:
            tasks = [CompactionTask._of(each) for each in parts["tasks"]]
            return CompactionPlan(int(parts["read_version"]), tasks)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError("compaction plan", found=error) from None


@dataclass(frozen=True)
class RewriteResult:
    """Fragments that one task wrote; they belong to no version yet."""

    read_version: int
    original: Messages
    new: Messages

    @property
    def original_fragments(self) -> list[Fragment]:
        """The fragments that are replaced."""
        return _views(self.original)

    @property
    def new_fragments(self) -> list[Fragment]:
        """The fragments that come in their place; they have no ids yet."""
        return _views(self.new)

    @property
    def metrics(self) -> CompactionMetrics:
        """Return the metrics of this task alone."""
        removed = sum(len(each.files) + each.HasField("deletion_file") for each in self.original)
        added = sum(len(each.files) for each in self.new)
        return CompactionMetrics(len(self.original), len(self.new), removed, added)

    def json(self) -> str:
        """Return the text that `from_json` reads."""
        return json.dumps(
            {
                "read_version": self.read_version,
                "original_fragments": _texts(self.original),
                "new_fragments": _texts(self.new),
            }
        )

    @staticmethod
    def from_json(text: str) -> RewriteResult:
        """Return the result that `json` wrote; anything else is an `InvalidInputError`."""
        parts = _loads(text, "result of a compaction task")
        try:
            original, new = (_messages(parts[name]) for name in ("original_fragments", "new_fragments"))
            return RewriteResult(int(parts["read_version"]), original, new)
        except (KeyError, TypeError, ValueError, DecodeError) as error:
            raise InvalidInputError("result of a compaction task", found=error) from None


def _views(messages: Sequence[table_pb2.DataFragment]) -> list[Fragment]:
    return [Fragment(message, "compaction", None, {}) for message in messages]


def _texts(messages: Iterable[table_pb2.DataFragment]) -> list[str]:
    return [base64.b64encode(message.SerializeToString()).decode() for message in messages]


def _messages(texts: Iterable[str]) -> Messages:
    return tuple(table_pb2.DataFragment.FromString(base64.b64decode(text)) for text in texts)


def _loads(text: str, what: str) -> dict[str, Any]:
    try:
        parts = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(what, found=error) from None
    if not isinstance(parts, dict):
        raise InvalidInputError(what, expected="a JSON object", found=text[:80])
    return parts
