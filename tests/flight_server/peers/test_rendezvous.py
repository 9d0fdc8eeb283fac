"""Rendezvous hashing: an even spread, and few moves when a server comes or goes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from flight_server.peers.rendezvous import Affinity, Ranking
from flight_server.peers.servers import MOST_LOCATIONS, Servers

SERVERS = [f"grpc://lance-{number}.example:8815" for number in range(10)]
KEYS = [Affinity(f"trips data/{number}.lance".encode()) for number in range(5000)]


def first_choices(servers: list[str]) -> list[str]:
    ranking = Ranking(servers)
    return [ranking.locations[position] for position in ranking.rank(KEYS, 1)[:, 0]]


def test_servers_that_know_the_same_locations_choose_alike() -> None:
    assert first_choices(SERVERS) == first_choices([*reversed(SERVERS), SERVERS[3]])


def test_the_spread_is_even() -> None:
    counts = Counter(first_choices(SERVERS))
    assert set(counts) == set(SERVERS)
    assert max(counts.values()) < 1.2 * len(KEYS) / len(SERVERS)
    assert min(counts.values()) > 0.8 * len(KEYS) / len(SERVERS)


def test_a_lost_server_moves_only_its_share() -> None:
    before = first_choices(SERVERS)
    after = first_choices(SERVERS[1:])
    assert all(old in (new, SERVERS[0]) for old, new in zip(before, after, strict=True))
    inherited = Counter(new for old, new in zip(before, after, strict=True) if old == SERVERS[0])
    assert len(inherited) == len(SERVERS) - 1, "its share goes to all others"


def test_a_new_server_takes_its_share_only() -> None:
    before, after = first_choices(SERVERS[1:]), first_choices(SERVERS)
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {SERVERS[0]}
    assert 0.8 < len(moved) / (len(KEYS) / len(SERVERS)) < 1.2


def test_turns_visit_every_server_once() -> None:
    ranking = Ranking(SERVERS)
    ranks = ranking.rank([Affinity(b"data/1.lance", turn) for turn in range(20)], 3)
    assert sorted(ranks[:10, 0]) == list(range(10))
    assert np.array_equal(ranks[:10], ranks[10:])
    assert np.array_equal(ranks[1:, 0], ranks[:-1, 1]), "the next range begins with the second choice"


@pytest.mark.parametrize("count", [0, 1, 3, 40])
def test_every_endpoint_names_the_ready_servers_once(count: int) -> None:
    servers = Servers()
    servers.update(own=SERVERS[:1] if count else [])
    servers.update(ready_peers=[f"grpc://peer:{number}" for number in range(1, count)])
    assert servers.count == count
    for named in servers.of_endpoints(KEYS[:50]):
        assert len(named) == len(set(named)) == min(count, MOST_LOCATIONS)
