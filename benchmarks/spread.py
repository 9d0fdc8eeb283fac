"""`python -m benchmarks.spread`: how rendezvous hashing spreads fragments over servers.

A simulation with the ranking of the server itself: who is the first location of each fragment, and how many
fragments still meet the cache of their server after a server was lost or added. For comparison, the
remainder of a hash by the number of servers, which needs no scores, but moves nearly everything.
"""

from __future__ import annotations

import argparse
import hashlib
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence

from flight_server.peers.rendezvous import Affinity, Ranking

Choose = Callable[[Sequence[str], Sequence[Affinity]], list[str]]


def rendezvous(servers: Sequence[str], fragments: Sequence[Affinity]) -> list[str]:
    """Return the first location of each fragment."""
    ranking = Ranking(servers)
    return [ranking.locations[position] for position in ranking.rank(fragments, 1)[:, 0]]


def remainder(servers: Sequence[str], fragments: Sequence[Affinity]) -> list[str]:
    """Return the server whose number is the hash of the fragment modulo the number of servers."""
    hashes = (int.from_bytes(hashlib.blake2b(each.key, digest_size=8).digest()) for each in fragments)
    return [servers[each % len(servers)] for each in hashes]


def spread(choices: Sequence[str], num_servers: int) -> float:
    """Return the largest number of fragments of a server, divided by the mean."""
    return max(Counter(choices).values()) * num_servers / len(choices)


def hits(before: Sequence[str], after: Sequence[str]) -> float:
    """Return the share of the fragments that meet the server that read them before."""
    return sum(old == new for old, new in zip(before, after, strict=True)) / len(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=100)
    parser.add_argument("--fragments", type=int, default=10_000)
    options = parser.parse_args()
    names = [f"grpc+tls://lance-{number}.example:8815" for number in range(options.servers + 1)]
    servers, more = names[:-1], names
    namespace = uuid.UUID(int=0)
    fragments = [
        Affinity(f"trips data/{uuid.uuid5(namespace, str(number))}.lance".encode())
        for number in range(options.fragments)
    ]
    count = options.servers
    print(f"{count} servers, {options.fragments} fragments")
    print(f"{'':22} {'rendezvous':>10} {'remainder':>10} {'best':>10}")
    figures: dict[str, tuple[float, ...]] = {
        "load, max/mean": (),
        "hits, one lost": (),
        "hits, one added": (),
    }
    ways: tuple[Choose, ...] = (rendezvous, remainder)
    for choose in ways:
        before = choose(servers, fragments)
        figures["load, max/mean"] += (spread(before, count),)
        figures["hits, one lost"] += (hits(before, choose(servers[1:], fragments)),)
        figures["hits, one added"] += (hits(before, choose(more, fragments)),)
    figures["load, max/mean"] += (1.0,)
    figures["hits, one lost"] += ((count - 1) / count,)
    figures["hits, one added"] += (count / (count + 1),)
    for name, values in figures.items():
        print(f"{name:22} " + " ".join(f"{value:10.3f}" for value in values))
    after = rendezvous(servers[1:], fragments)
    print(f"load after the loss, max/mean: {spread(after, count - 1):.3f}")
    plan = fragments[:1024]
    began = time.perf_counter()
    Ranking(servers).rank(plan, 8)
    print(f"ranking of a plan of {len(plan)} endpoints: {1000 * (time.perf_counter() - began):.1f} ms")


if __name__ == "__main__":
    main()
