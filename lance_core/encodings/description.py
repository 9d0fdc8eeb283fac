"""Descriptions of pages for people who inspect a file, the same for all file versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class LayoutDescription:
    """The layout of one page.

    Attributes:
        layout: `mini-block`, `full-zip`, `constant` or `blob`; `array` in 2.0 files.
        streams: encoding of each stream, in the order values, dictionary, repetition, definition. Absent
            streams are left out.
        layers: layers of the column, innermost first; empty in 2.0 files.
    """

    layout: str
    streams: Mapping[str, str]
    layers: tuple[str, ...]

    def __str__(self) -> str:
        values = self.streams.get("values")
        others = "; ".join(f"{name} {chain}" for name, chain in self.streams.items() if name != "values")
        parts = [part for part in (values, others) if part]
        return f"{self.layout}: {'; '.join(parts)}" if parts else self.layout
