"""Distribution of the row ranges of a plan to the endpoints of a Flight."""

from collections.abc import Iterator, Sequence

from lance_core.api.serving import FragmentScan


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


def _num_ranges(scan: FragmentScan, rows_per_endpoint: int | None) -> int:
    return 1 if rows_per_endpoint is None else -(-(scan.end - scan.start) // rows_per_endpoint)
