"""Metrics in the formats of Prometheus."""

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from flight_server.telemetry.readings import Metric, Readings


def exposition(readings: Readings, accept: str) -> tuple[bytes, str]:
    """Return metrics in a format that the header `accept` of a request allows, and its content type."""
    registry = CollectorRegistry()
    registry.register(_Collector(readings))
    encode, media_type = choose_encoder(accept)
    return encode(registry), media_type


class _Collector(Collector):
    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def collect(self) -> Iterator[Family]:
        yield from map(_family, self._readings)


def _family(metric: Metric) -> Family:
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.about, labels=metric.labels)
        bounds = [*(f"{bound:g}" for bound in metric.bounds), "+Inf"]
        for labels, found in metric.histograms.items():
            buckets = list(zip(bounds, accumulate(found.counts), strict=True))
            histogram.add_metric(labels, buckets, found.sum)
        return histogram
    family = (CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily)(
        metric.name, metric.about, labels=metric.labels
    )
    for labels, value in metric.values.items():
        family.add_metric(labels, value)
    return family
