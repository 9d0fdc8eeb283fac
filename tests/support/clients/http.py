"""Requests to the HTTP port of a server."""

from __future__ import annotations

import http.client
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from support.servers.server import RunningServer

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    """Answer of the server."""

    status: int
    headers: dict[str, str]
    body: str


def get(url: str, method: str = "GET", context: ssl.SSLContext | None = None, **headers: str) -> Answer:
    """Request a URL over a connection of its own."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = (
        http.client.HTTPSConnection(parts.hostname, parts.port, timeout=30, context=context)
        if parts.scheme == "https"
        else http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    )
    try:
        connection.request(method, parts.path, headers=headers)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, found, answer.read().decode())
    finally:
        connection.close()


def samples(text: str) -> dict[tuple[str, Labels], float]:
    """Return the samples of a page of metrics, by the name and the labels that are not empty."""
    return {
        (
            sample.name,
            frozenset((name, value) for name, value in sample.labels.items() if value),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Scrape:
    """Metrics of a server at one moment."""

    def __init__(self, server: RunningServer) -> None:
        answer = get(f"{server.http}/metrics")
        assert answer.status == 200
        self.text = answer.body
        self._samples = samples(answer.body)

    def value(self, name: str, **labels: str) -> float:
        """Return a value, 0 if there is no such sample."""
        return self._samples.get((f"lance_flight_{name}", frozenset(labels.items())), 0.0)

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples that have these labels among others."""
        asked = set(labels.items())
        return sum(
            value
            for (found, theirs), value in self._samples.items()
            if found == f"lance_flight_{name}" and asked <= theirs
        )
