"""Address of datasets: the servers that the driver and every executor talk to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import flight_client


@dataclass(frozen=True)
class Server:
    """Servers of the same folder, and how they are talked to. Travels to executors; connects there."""

    uris: tuple[str, ...]
    token: str | None = field(default=None, repr=False)
    tls_root_certs: str | None = field(default=None, repr=False)
    """PEM text."""

    @staticmethod
    def of(uri: str, *, token_file: str | None = None, tls_root_certs: str | None = None) -> Server:
        """Return a server, or several with commas between them.

        Args:
            uri: `grpc://host:port,grpc://other:port`.
            token_file: holds the token; it is read here, executors need no copy of the file.
            tls_root_certs: a PEM file that servers are checked with, read here, too.

        Raises:
            OSError: a file cannot be read.
        """
        return Server(
            uris=tuple(part.strip() for part in uri.split(",")),
            token=None if token_file is None else Path(token_file).read_text(encoding="utf-8").strip(),
            tls_root_certs=None if tls_root_certs is None else Path(tls_root_certs).read_text("utf-8"),
        )

    def client(self, number: int = 0) -> flight_client.Client:
        """Return a client that asks server `number` (modulo their count) first, so that tasks spread over
        all.
        """
        first = number % len(self.uris)
        return flight_client.connect(
            self.uris[first:] + self.uris[:first], token=self.token, tls_root_certs=self.tls_root_certs
        )

    @property
    def options(self) -> dict[str, str]:
        """Return the connection as options of the data source."""
        given = {"token": self.token, "tlsRootCerts": self.tls_root_certs}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def read_options(self) -> dict[str, str]:
        """The options of the data source for rows that a job writes elsewhere.

        Servers check the pages of such rows: a damaged page would get a valid checksum in the copy.
        """
        return {**self.options, "verifyChecksums": "true"}
