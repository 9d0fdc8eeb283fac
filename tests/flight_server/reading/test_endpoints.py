"""Distribution of fragment scans to endpoints."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flight_server.reading.endpoints import split_scans
from lance_core.scan.plan.scan_plan import FragmentScan


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
