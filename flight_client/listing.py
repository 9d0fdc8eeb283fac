"""List of the datasets of a server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import overload

import pyarrow as pa
from pyarrow import flight

from flight_client.terminal import count

_MAX_SHOWN_COLUMNS = 20
"""Largest number of column names that the list shows of a dataset."""


@dataclass(frozen=True)
class DatasetSummary:
    """Dataset as its latest manifest describes it. With `error` set, nothing else is known."""

    name: str
    version: int | None
    schema: pa.Schema
    num_rows: int | None
    num_bytes: int | None
    """None if the manifest does not say."""
    error: str | None = None

    @staticmethod
    def of(info: flight.FlightInfo) -> DatasetSummary:
        """Return the summary in an entry of ListFlights."""
        known = json.loads(info.app_metadata)
        error = known.get("error")
        return DatasetSummary(
            name=known["dataset"],
            version=known.get("version"),
            schema=info.schema,
            num_rows=info.total_records if info.total_records >= 0 and error is None else None,
            num_bytes=info.total_bytes if info.total_bytes >= 0 and error is None else None,
            error=error,
        )


class Listing(Sequence[DatasetSummary]):
    """Sequence of datasets, shown as a table."""

    def __init__(self, summaries: Iterable[DatasetSummary]) -> None:
        self._summaries = tuple(summaries)

    @overload
    def __getitem__(self, index: int) -> DatasetSummary: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[DatasetSummary]: ...
    def __getitem__(self, index: int | slice) -> DatasetSummary | Sequence[DatasetSummary]:
        return self._summaries[index]

    def __len__(self) -> int:
        return len(self._summaries)

    @property
    def names(self) -> list[str]:
        """Names of the datasets."""
        return [summary.name for summary in self]

    def __repr__(self) -> str:
        width = max((len(name) for name in self.names), default=0)
        return "\n".join(f"{cells[0]:<{width}}  {'  '.join(cells[1:])}".rstrip() for cells in self._rows())

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in self._rows()
        )
        return f"<table><tr><th>dataset</th><th>version</th><th>rows</th><th>columns</th></tr>{rows}</table>"

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        for summary in self:
            if summary.error is not None:
                yield summary.name, "", "", f"cannot be read: {summary.error}"
            else:
                rows = "" if summary.num_rows is None else f"{summary.num_rows:,} rows"
                yield summary.name, f"version {summary.version}", rows, _columns(summary.schema.names)


def _columns(names: list[str]) -> str:
    shown = names[:_MAX_SHOWN_COLUMNS]
    hidden = [f"... {count(len(names) - len(shown), 'more column')}"] if len(names) > len(shown) else []
    return ", ".join([*shown, *hidden])
