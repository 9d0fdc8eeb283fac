"""Progress of work on an index: stages that begin, advance and end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class IndexProgress:
    """One event of a stage of work on an index.

    `completed` and `total` are amounts of work in `unit`, as far as they are known.
    """

    event: Literal["start", "progress", "complete"]
    stage: str
    completed: int | None = None
    total: int | None = None
    unit: str = ""

    @property
    def fraction(self) -> float | None:
        """The part of the stage that is done, 0 to 1; None if it is not known."""
        return min(self.completed / self.total, 1.0) if self.completed is not None and self.total else None


Observer = Callable[[IndexProgress], None]
"""Is called with each event by the thread that does the work. If it raises, the work stops with its error."""


def unobserved(event: IndexProgress) -> None:
    """Do nothing."""


def until_complete(observer: Observer) -> Observer:
    """Return an observer whose error at the end of a stage is raised when the next stage begins.

    So an error at the end of the last stage, when there is no work left to stop, is ignored.
    """
    held: list[Exception] = []

    def observe(event: IndexProgress) -> None:
        if held:
            raise held[0]
        try:
            observer(event)
        except Exception as error:
            if event.event != "complete":
                raise
            held.append(error)

    return observe


@contextmanager
def stage(
    observer: Observer, name: str, total: int | None = None, unit: str = "rows"
) -> Iterator[Callable[[int], None]]:
    """Report the begin and the end of a stage. Yield a function that reports further completed work.

    Args:
        observer: Is called with the events.
        name: Name of the stage.
        total: Amount of work of the stage in `unit`, if it is known.
        unit: What is counted, such as "rows".
    """
    completed = 0

    def advance(amount: int) -> None:
        nonlocal completed
        completed += amount
        observer(IndexProgress("progress", name, completed, total, unit))

    observer(IndexProgress("start", name, 0, total, unit))
    yield advance
    observer(IndexProgress("complete", name, completed, total, unit))
