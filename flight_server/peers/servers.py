"""Servers of one root: this one and its peers, as the plans of this server name them."""

import threading
from collections.abc import Sequence

from flight_server.peers.rendezvous import Affinity, Ranking

MOST_LOCATIONS = 8
"""Locations of one endpoint. The plan of a thousand endpoints would otherwise be megabytes of addresses."""


class Servers:
    """Locations of the servers that can redeem a ticket now. Thread-safe; never waits for a peer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own: tuple[str, ...] = ()
        self._ready_peers: tuple[str, ...] = ()
        self._ranking = Ranking(())

    @property
    def own(self) -> tuple[str, ...]:
        """Locations of this server: those of its workers, or what it advertises."""
        return self._own

    @property
    def count(self) -> int:
        """Number of locations that plans name."""
        return len(self._ranking.locations)

    def update(self, *, own: Sequence[str] | None = None, ready_peers: Sequence[str] | None = None) -> None:
        """Replace the locations of this server, or those of the peers that are ready."""
        with self._lock:
            self._own = self._own if own is None else tuple(own)
            self._ready_peers = self._ready_peers if ready_peers is None else tuple(ready_peers)
            self._ranking = Ranking((*self._own, *self._ready_peers))

    def of_endpoints(self, affinities: Sequence[Affinity]) -> list[list[str]]:
        """Return the locations of each endpoint, at most `MOST_LOCATIONS`, best first."""
        ranking = self._ranking
        return [
            [ranking.locations[position] for position in row]
            for row in ranking.rank(affinities, MOST_LOCATIONS).tolist()
        ]
