"""Plans of a compaction and their tasks. Both are plain data and travel as JSON to other machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from google.protobuf.message import DecodeError

from lance_core.changes.compaction.options import CompactionOptions
from lance_core.changes.compaction.results import (
    Messages,
    RewriteResult,
    decode_fragments,
    encode_fragments,
    load_object,
    views_of,
)
from lance_core.changes.compaction.rewrite import rewrite_fragments
from lance_core.errors import InvalidInputError
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot


class Opened(Protocol):
    """An opened dataset, such as a `LanceDataset`."""

    @property
    def snapshot(self) -> Snapshot:
        """The opened version."""


@dataclass(frozen=True)
class CompactionTask:
    """Neighbouring fragments that one task rewrites."""

    read_version: int
    """The version that the task was planned on."""
    messages: Messages
    options: CompactionOptions

    @property
    def fragments(self) -> list[Fragment]:
        """The fragments that are rewritten."""
        return views_of(self.messages)

    def execute(self, dataset: Opened) -> RewriteResult:
        """Write the rows of the task to new fragments; errors are those of `execute` of this package."""
        return execute(dataset.snapshot, self)

    def json(self) -> str:
        """Return JSON that `from_json` reads."""
        return json.dumps(self._parts())

    @staticmethod
    def from_json(text: str) -> CompactionTask:
        """Return the task from the JSON of `json`.

        Raises:
            InvalidInputError: The text is something else.
        """
        return CompactionTask._of(load_object(text, "compaction task"))

    def _parts(self) -> dict[str, Any]:
        return {
            "read_version": self.read_version,
            "fragments": encode_fragments(self.messages),
            "options": asdict(self.options),
        }

    @staticmethod
    def _of(parts: Mapping[str, Any]) -> CompactionTask:
        try:
            options = CompactionOptions.parse(parts["options"])
            return CompactionTask(int(parts["read_version"]), decode_fragments(parts["fragments"]), options)
        except (KeyError, TypeError, ValueError, DecodeError) as error:
            raise InvalidInputError("compaction task", found=error) from None


def execute(snapshot: Snapshot, task: CompactionTask, *, sync: bool = True) -> RewriteResult:
    """Write the new fragments of a task. They become visible with the commit.

    Args:
        snapshot: Any version of the table.
        task: A task that `plan` made for this table.
        sync: Make the files durable before returning.

    Raises:
        LanceError: The errors of `rewrite_fragments`; no files are left.
    """
    return rewrite_fragments(snapshot, task.read_version, task.messages, task.options, sync=sync)


@dataclass(frozen=True)
class CompactionPlan:
    """Tasks that can run in any order, on any machine."""

    read_version: int
    """The version that was planned on."""
    tasks: list[CompactionTask]

    def num_tasks(self) -> int:
        """Return the number of tasks."""
        return len(self.tasks)

    def json(self) -> str:
        """Return JSON that `from_json` reads."""
        return json.dumps(
            {"read_version": self.read_version, "tasks": [task._parts() for task in self.tasks]}
        )

    @staticmethod
    def from_json(text: str) -> CompactionPlan:
        """Return the plan from the JSON of `json`.

        Raises:
            InvalidInputError: The text is something else.
        """
        parts = load_object(text, "compaction plan")
        try:
            tasks = [CompactionTask._of(each) for each in parts["tasks"]]
            return CompactionPlan(int(parts["read_version"]), tasks)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError("compaction plan", found=error) from None
