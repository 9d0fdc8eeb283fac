"""Distribution of fragment scans to endpoints."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flight_server.reading.endpoints import affinities, split_for_servers, split_scans
from lance_core.proto import table_pb2
from lance_core.scan.plan.scan_plan import FragmentScan
from lance_core.table.fragment import Fragment


def split(
    scans: list[FragmentScan], rows_per_endpoint: int | None = None, max_endpoints: int = 1024
) -> list[list[tuple[int, int, int]]]:
    endpoints = split_scans(scans, rows_per_endpoint=rows_per_endpoint, max_endpoints=max_endpoints)
    return [[(scan.fragment_id, scan.start, scan.end) for scan in endpoint] for endpoint in endpoints]


A, B, C = FragmentScan(0, 0, 10), FragmentScan(3, 5, 12), FragmentScan(4, 0, 1)


def test_nothing_left_is_one_empty_endpoint() -> None:
    assert split([]) == [[]]


def test_one_endpoint_per_fragment() -> None:
    assert split([A, B]) == [[(0, 0, 10)], [(3, 5, 12)]]


def test_rows_per_endpoint_cuts_fragments() -> None:
    assert split([A, B], rows_per_endpoint=4) == [
        [(0, 0, 4)],
        [(0, 4, 8)],
        [(0, 8, 10)],
        [(3, 5, 9)],
        [(3, 9, 12)],
    ]


def test_neighbours_share_an_endpoint_beyond_the_cap() -> None:
    assert split([A, B, C], max_endpoints=2) == [[(0, 0, 10), (3, 5, 12)], [(4, 0, 1)]]
    assert split([A, B], rows_per_endpoint=4, max_endpoints=2) == [[(0, 0, 10)], [(3, 5, 12)]]
    assert split([A, B, C], max_endpoints=1) == [[(0, 0, 10), (3, 5, 12), (4, 0, 1)]]


def test_tiny_pieces_cost_nothing() -> None:
    """T19: a billion pieces are grouped by arithmetic, not one after the other."""
    began = time.process_time()
    assert len(split([FragmentScan(0, 0, 10**9)], rows_per_endpoint=1)) == 1024
    assert time.process_time() - began < 0.5


scans = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20), st.integers(1, 30)), max_size=8).map(
    lambda items: [FragmentScan(fragment, start, start + rows) for fragment, start, rows in items]
)


@given(scans, st.none() | st.integers(1, 12), st.integers(1, 9))
def test_every_row_once_and_in_order(
    planned: list[FragmentScan], rows_per_endpoint: int | None, max_endpoints: int
) -> None:
    endpoints = split(planned, rows_per_endpoint, max_endpoints)
    expected = [(scan.fragment_id, row) for scan in planned for row in range(scan.start, scan.end)]
    found = [
        (fragment, row)
        for endpoint in endpoints
        for fragment, start, end in endpoint
        for row in range(start, end)
    ]
    assert found == expected
    assert 1 <= len(endpoints) <= max_endpoints


def test_a_limit_of_endpoints_is_kept_exactly() -> None:
    for count in (1, 2, 3, 7, 50):
        assert len(split([FragmentScan(i, 0, 5) for i in range(50)], max_endpoints=count)) <= count


@pytest.mark.parametrize("rows", [1, 3, 10, 11])
def test_pieces_are_no_larger_than_asked(rows: int) -> None:
    for endpoint in split([A, B, C], rows_per_endpoint=rows):
        assert sum(end - start for _, start, end in endpoint) <= rows


def fragments(*sizes: tuple[int, int]) -> dict[int, Fragment]:
    """Return fragments by id, each with one file; given are rows and bytes, 0 bytes for an unknown size."""
    found = {}
    for number, (num_rows, num_bytes) in enumerate(sizes):
        file = table_pb2.DataFile(path=f"{number}.lance", file_size_bytes=num_bytes)
        message = table_pb2.DataFragment(id=number, files=[file], physical_rows=num_rows)
        found[number] = Fragment(message, "manifest", None, {})
    return found


def split_for(num_servers: int, *sizes: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the fragment and the number of rows of each range."""
    planned = [FragmentScan(number, 0, num_rows) for number, (num_rows, _) in enumerate(sizes)]
    ranges = split_for_servers(planned, fragments(*sizes), num_servers)
    rows = [(scan.fragment_id, row) for scan in ranges for row in (scan.start, scan.end)]
    assert rows == sorted(rows), "in the order of the dataset"
    return [(scan.fragment_id, scan.end - scan.start) for scan in ranges]


LARGE = (1_000_000, 1 << 30)


def test_a_large_fragment_is_split_evenly() -> None:
    assert split_for(1, LARGE) == [(0, 1_000_000)]
    assert split_for(4, LARGE) == [(0, 250_000)] * 4
    assert split_for(3, LARGE, (3000, 1 << 20)) == [(0, 333_333), (0, 333_333), (0, 333_334), (1, 3000)]


def test_fragments_of_a_share_stay_whole() -> None:
    assert split_for(4, *[LARGE] * 4) == [(number, 1_000_000) for number in range(4)]
    assert split_for(2, *[LARGE] * 5) == [(number, 1_000_000) for number in range(5)]


def test_small_ranges_are_not_made() -> None:
    """Below 4 MiB of files, or 65,536 rows of unknown size, another endpoint costs more than it gains."""
    assert split_for(100, (1000, 12 << 20)) == [(0, 333), (0, 333), (0, 334)]
    assert split_for(100, (200_000, 0)) == [(0, 66_666), (0, 66_667), (0, 66_667)]
    assert split_for(100, (1000, 1 << 20)) == [(0, 1000)]


def test_split_ranges_follow_each_other_to_other_servers() -> None:
    known = fragments(LARGE, LARGE)
    ranges = [
        [scan] for scan in split_for_servers([FragmentScan(0, 5, 999_999), B], known | {3: known[1]}, 3)
    ]
    found = affinities("trips", ranges, known | {3: known[1]}, are_stable=False)
    assert [each.rotation for each in found] == [0, 1, 2, 0]
    assert len({each.key for each in found}) == 2


def test_ranges_that_the_client_asked_for_have_keys_of_their_own() -> None:
    """Another number of servers must not move them all."""
    ranges = [[FragmentScan(0, start, start + 10)] for start in range(0, 50, 10)]
    found = affinities("trips", ranges, fragments(LARGE), are_stable=True)
    assert len({each.key for each in found}) == 5
    assert {each.rotation for each in found} == {0}


def test_every_version_of_a_dataset_has_the_same_keys() -> None:
    """The key is the data file, not the number of the fragment or its rows."""
    whole = affinities("trips", [[FragmentScan(1, 0, 10)]], fragments(LARGE, LARGE), are_stable=False)
    limited = affinities("trips", [[FragmentScan(1, 3, 5)]], fragments(LARGE, LARGE), are_stable=False)
    assert whole == limited
    assert affinities("trips", [()], {}, are_stable=False)[0].rotation == 0
