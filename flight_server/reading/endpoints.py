"""Distribution of the row ranges of a plan to the endpoints of a Flight, and of endpoints to servers."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from flight_server.peers.rendezvous import Affinity
from flight_server.requests.commands import RowKeys
from lance_core.api.serving import Fragment, FragmentScan

_SMALLEST_RANGE_BYTES = 4 << 20
"""Bytes of data files below which another endpoint costs more than it gains."""

_SMALLEST_RANGE_ROWS = 1 << 16
"""Limit in rows, if the manifest does not know the sizes of the files."""


def split_for_servers(
    scans: Sequence[FragmentScan], fragments: Mapping[int, Fragment], num_servers: int
) -> list[FragmentScan]:
    """Return the scans, large ones split into ranges of about equal size.

    A scan is large if it has more rows than a share of all rows, when each of `num_servers` has the same
    share. Ranges of less than `_SMALLEST_RANGE_BYTES` are not made.
    """
    if num_servers < 2:
        return list(scans)
    share = -(-sum(scan.end - scan.start for scan in scans) // num_servers)
    ranges: list[FragmentScan] = []
    for scan in scans:
        num_rows = scan.end - scan.start
        smallest = _smallest_range(fragments[scan.fragment_id])
        count = min(-(-num_rows // share), max(1, num_rows // smallest))
        cuts = [scan.start + num_rows * number // count for number in range(count + 1)]
        ranges.extend(FragmentScan(scan.fragment_id, start, end) for start, end in pairwise(cuts))
    return ranges


def affinities(
    dataset: str,
    endpoints: Sequence[Sequence[FragmentScan]],
    fragments: Mapping[int, Fragment],
    *,
    are_stable: bool,
) -> list[Affinity]:
    """Return the affinity of each endpoint. The key names the data file of its first row.

    `are_stable` says that the ranges do not depend on the number of servers. Then each range of a fragment
    has a key of its own.
    """
    found: list[Affinity] = []
    rotation = 0
    before: int | None = None
    for endpoint in endpoints:
        if not endpoint:
            found.append(Affinity(dataset.encode()))
            continue
        first = endpoint[0]
        rotation = rotation + 1 if first.fragment_id == before else 0
        before = first.fragment_id
        files = fragments[first.fragment_id].files
        key = f"{dataset} {files[0].path if files else first.fragment_id}"
        if not are_stable:
            found.append(Affinity(key.encode(), rotation))
        else:
            found.append(Affinity(f"{key} {first.start}".encode() if rotation else key.encode()))
    return found


def split_scans(
    scans: Sequence[FragmentScan], *, rows_per_endpoint: int | None, max_endpoints: int
) -> Iterator[tuple[FragmentScan, ...]]:
    """Yield the fragment scans of each endpoint, in order.

    An endpoint has one fragment or, where given, one range of `rows_per_endpoint` rows of a fragment. Beyond
    `max_endpoints`, neighbouring ranges share an endpoint. Without scans there is one empty endpoint. Costs
    O(scans + endpoints), however small the ranges are.
    """
    if not scans:
        yield ()
        return
    num_ranges = sum(_num_ranges(scan, rows_per_endpoint) for scan in scans)
    ranges_per_endpoint = -(-num_ranges // max_endpoints)
    endpoint: list[FragmentScan] = []
    room = ranges_per_endpoint
    for scan in scans:
        start = scan.start
        while start < scan.end:
            rest = FragmentScan(scan.fragment_id, start, scan.end)
            taken = min(room, _num_ranges(rest, rows_per_endpoint))
            end = scan.end if rows_per_endpoint is None else min(scan.end, start + taken * rows_per_endpoint)
            endpoint.append(FragmentScan(scan.fragment_id, start, end))
            start = end
            room -= taken
            if room == 0:
                yield tuple(endpoint)
                endpoint, room = [], ranges_per_endpoint
    if endpoint:
        yield tuple(endpoint)


def affinity_of_keys(dataset: str, keys: RowKeys) -> Affinity:
    """Return the affinity of single rows: lookups of one dataset spread over the servers by their keys."""
    return Affinity(dataset.encode() + np.array(keys.values, np.uint64).tobytes())


def _smallest_range(fragment: Fragment) -> int:
    """Return the rows of the smallest range that is worth an endpoint, 1 or more."""
    sizes = [file.size for file in fragment.files]
    if not all(sizes):
        return _SMALLEST_RANGE_ROWS
    return max(1, _SMALLEST_RANGE_BYTES * fragment.physical_rows // max(sum(sizes), 1))


def _num_ranges(scan: FragmentScan, rows_per_endpoint: int | None) -> int:
    return 1 if rows_per_endpoint is None else -(-(scan.end - scan.start) // rows_per_endpoint)
