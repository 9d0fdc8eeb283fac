"""Checks of the peers: which of them are ready to redeem tickets.

One thread per peer asks for the action `health`, at most once per interval and never twice at a time. The
interval varies at random, so that the servers of a root do not ask together. Plans read the last answers and
wait for nothing.
"""

import json
import logging
import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from flight_server.logs import log_event
from flight_server.security.server_tokens import key_id, server_token
from flight_server.settings import Settings

_LONGEST_ANSWER_SECONDS = 2.0
_MOST_LATE_ANSWERS = 2
"""A peer that refuses connections, or says that it stops, is left out at once. A peer that is only late may
be busy: it is left out after so many answers.
"""


class Peers:
    """The peers of one server, and what their last answers said."""

    def __init__(
        self,
        settings: Settings,
        signing_key: bytes,
        changed: Callable[[Sequence[str]], None],
        own: Sequence[str] = (),
    ) -> None:
        """Prepare to check the peers of the settings, except those that are in `own` or advertised.

        `changed` gets the locations of all ready peers, whenever they change.
        """
        self._settings = settings
        self._signing_key = signing_key
        self._changed = changed
        self._lock = threading.Lock()
        ours = {*own, *settings.advertise}
        self._ready: dict[str, tuple[str, ...] | None] = {
            uri: None for uri in settings.peers if uri not in ours
        }
        """By peer: its locations; none if it is not ready, None before its first answer."""

    def start(self) -> None:
        """Begin to check, in threads that end with the process."""
        for uri in self._ready:
            threading.Thread(target=self._watch, args=(uri,), name=f"peer {uri}", daemon=True).start()

    def _watch(self, uri: str) -> None:
        client: flight.FlightClient | None = None
        late = 0
        pause = threading.Event()
        while True:
            try:
                if client is None:
                    client = self._connect(uri)
                locations, late = self._ask(client) or (uri,), 0
                self._answered(uri, locations, "")
            except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
                late = late + 1 if isinstance(error, flight.FlightTimedOutError) else _MOST_LATE_ANSWERS
                if late >= _MOST_LATE_ANSWERS:
                    self._answered(uri, (), _reason(error))
                if client is not None:  # gRPC would wait longer and longer before it connects again
                    client.close()
                    client = None
            pause.wait(self._settings.peer_check_interval * random.uniform(0.75, 1.25))

    def _connect(self, uri: str) -> flight.FlightClient:
        settings = self._settings
        arguments: dict[str, Any] = {}
        if settings.peer_ca is not None:
            arguments["tls_root_certs"] = Path(settings.peer_ca).read_bytes()
        if (
            settings.tls_client_ca is not None
            and settings.tls_cert is not None
            and settings.tls_key is not None
        ):
            arguments["cert_chain"] = Path(settings.tls_cert).read_bytes()
            arguments["private_key"] = Path(settings.tls_key).read_bytes()
        return flight.FlightClient(uri, **arguments)

    def _ask(self, client: flight.FlightClient) -> tuple[str, ...]:
        """Return the locations of a peer that is ready.

        Raises:
            ArrowException: the peer does not answer in time, or it stops.
            ValueError: another signing key, so the peer would refuse our tickets.
        """
        proof = f"Bearer {server_token(self._signing_key)}".encode()
        options = flight.FlightCallOptions(
            timeout=_LONGEST_ANSWER_SECONDS, headers=[(b"authorization", proof)]
        )
        (answer,) = client.do_action(flight.Action("health", b"{}"), options)
        health = json.loads(answer.body.to_pybytes())
        if health["key_id"] != key_id(self._signing_key):
            raise ValueError("the server has another signing key; give all servers the same one")
        return tuple(str(location) for location in health["locations"])

    def _answered(self, uri: str, locations: tuple[str, ...], problem: str) -> None:
        with self._lock:
            before = self._ready[uri]
            if locations == before:
                return
            self._ready[uri] = locations
            self._changed([each for found in self._ready.values() for each in found or ()])
        if problem:
            log_event(logging.WARNING, "peer_left", {"server": uri, "message": problem})
        else:
            log_event(logging.INFO, "peer_ready", {"server": uri, "locations": ",".join(locations)})


def _reason(error: Exception) -> str:
    """Return the first sentence of an error; gRPC's own are long."""
    return str(error).partition(". ")[0][:200]
