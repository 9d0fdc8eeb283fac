"""Servers of the datasets, to which the driver and every executor connect."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import flight_client


@dataclass(frozen=True)
class Server:
    """Servers of the same folder, with token and certificates. Executors receive it and connect."""

    uris: tuple[str, ...]
    token: str | None = field(default=None, repr=False)
    tls_root_certs: str | None = field(default=None, repr=False)
    """PEM text."""

    @staticmethod
    def of(uri: str, *, token_file: str | None = None, tls_root_certs: str | None = None) -> Server:
        """Return the servers at one address, or at several addresses with commas.

        Args:
            uri: `grpc://host:port,grpc://other:port`.
            token_file: file with the token. It is read here, so that executors need no copy.
            tls_root_certs: PEM file with certificates that servers are checked with, also read here.

        Raises:
            OSError: a file cannot be read.
        """
        return Server(
            uris=tuple(part.strip() for part in uri.split(",")),
            token=None if token_file is None else Path(token_file).read_text(encoding="utf-8").strip(),
            tls_root_certs=None if tls_root_certs is None else Path(tls_root_certs).read_text("utf-8"),
        )

    def client(self, number: int = 0) -> flight_client.Client:
        """Return a client whose first server is `number` modulo the number of servers."""
        first = number % len(self.uris)
        return flight_client.connect(
            self.uris[first:] + self.uris[:first], token=self.token, tls_root_certs=self.tls_root_certs
        )

    @property
    def options(self) -> dict[str, str]:
        """Connection as options of the data source."""
        given = {"token": self.token, "tlsRootCerts": self.tls_root_certs}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def read_options(self) -> dict[str, str]:
        """Options of the data source for rows that a job writes elsewhere.

        Servers check the pages of such rows: otherwise a damaged page would get a valid checksum in the copy.
        """
        return {**self.options, "verifyChecksums": "true"}
