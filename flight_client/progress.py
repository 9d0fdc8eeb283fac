"""Progress bars of long transfers, on terminals and in notebooks. Without `rich` there are none."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

from flight_client.terminal import printable

_PATIENCE_SECONDS = 1.0
"""Seconds after which a bar appears that was not requested."""


class Progress:
    """Counter of rows, shown as a bar if the transfer takes long. A context manager."""

    def __init__(self, title: str, total: int | None, shown: bool | None) -> None:
        self._title = title
        self._total = total
        self._is_wanted = shown is True
        self._is_allowed = shown is not False and (shown is True or _can_show())
        self._begun = time.monotonic()
        self._num_rows = 0
        self._bar: Any = None
        self._task: Any = None

    @staticmethod
    def of_rows(title: str, total: int | None, shown: bool | None) -> Progress:
        """Return a bar for `total` rows. With `shown` None it appears on terminals only, after some time."""
        return Progress(title, total, shown)

    def add(self, num_rows: int) -> None:
        """Add received or sent rows."""
        self._num_rows += num_rows
        if self._bar is None and self._is_allowed:
            self._maybe_show()
        if self._bar is not None:
            self._bar.update(self._task, completed=self._num_rows)

    def _maybe_show(self) -> None:
        if not self._is_wanted and time.monotonic() - self._begun < _PATIENCE_SECONDS:
            return
        try:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar
        except ImportError:
            self._is_allowed = False
            return
        columns = [
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        ]
        self._bar = Bar(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task(printable(self._title), total=self._total)
        self._bar.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def _can_show() -> bool:
    """Return whether stderr is a terminal, or this is a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules
