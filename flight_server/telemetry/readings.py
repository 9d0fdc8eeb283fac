"""Readings: the metrics of one process as plain data, and of several processes together.

This module is the only place that knows how metrics of processes add up. A process makes its readings itself
(`monitoring.process_readings`), may send them to another process (`to_data`), and `merge` adds them up.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Labels: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Histogram:
    """Distribution of durations.

    Attributes:
        counts: Number of durations in each bucket, the last without an upper bound. They do not add up from
            bucket to bucket.
        sum: Sum of the durations in seconds.
    """

    counts: tuple[int, ...]
    sum: float

    def __add__(self, other: "Histogram") -> "Histogram":
        counts = tuple(mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True))
        return Histogram(counts, self.sum + other.sum)


@dataclass(frozen=True)
class Metric:
    """One metric with its values by labels.

    Attributes:
        name: Name in the notation of Prometheus, with `_total` for counters.
        kind: Kind of the metric. The values of a histogram are in `histograms`.
        labels: Names of the labels.
        combined: How the values of several processes make one: their sum, or the largest of them.
        bounds: Upper bounds of the buckets of a histogram, in seconds.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    about: str
    labels: Labels = ()
    combined: Literal["sum", "max"] = "sum"
    values: Mapping[Labels, float] = field(default_factory=dict)
    histograms: Mapping[Labels, Histogram] = field(default_factory=dict)
    bounds: tuple[float, ...] = ()

    def with_process(self, other: "Metric") -> "Metric":
        """Return this metric together with the values of another process."""
        values = dict(self.values)
        for labels, value in other.values.items():
            if labels not in values:
                values[labels] = value
            elif self.combined == "max":
                values[labels] = max(values[labels], value)
            else:
                values[labels] += value
        histograms = dict(self.histograms)
        for labels, histogram in other.histograms.items():
            histograms[labels] = histograms[labels] + histogram if labels in histograms else histogram
        return Metric(
            self.name, self.kind, self.about, self.labels, self.combined, values, histograms, self.bounds
        )


Readings: TypeAlias = Sequence[Metric]


def merge(processes: Iterable[Readings]) -> Readings:
    """Return the readings of several processes of one version as the readings of one server."""
    merged: dict[str, Metric] = {}
    for readings in processes:
        for metric in readings:
            known = merged.get(metric.name)
            merged[metric.name] = metric if known is None else known.with_process(metric)
    return tuple(merged.values())


def to_data(readings: Readings) -> list[dict[str, Any]]:
    """Return readings as JSON can hold them, for another process."""
    return [
        {
            **{name: getattr(metric, name) for name in ("name", "kind", "about", "labels", "combined")},
            "values": list(metric.values.items()),
            "histograms": [
                (labels, histogram.counts, histogram.sum) for labels, histogram in metric.histograms.items()
            ],
            "bounds": metric.bounds,
        }
        for metric in readings
    ]


def from_data(data: Sequence[Mapping[str, Any]]) -> Readings:
    """Return the readings that another process of this server sent."""
    return tuple(
        Metric(
            found["name"],
            found["kind"],
            found["about"],
            tuple(found["labels"]),
            found["combined"],
            {tuple(labels): value for labels, value in found["values"]},
            {tuple(labels): Histogram(tuple(counts), total) for labels, counts, total in found["histograms"]},
            tuple(found["bounds"]),
        )
        for found in data
    )
