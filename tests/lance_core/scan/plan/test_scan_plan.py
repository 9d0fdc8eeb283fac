"""Plans: which live rows of which fragments."""

import pytest

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.scan_plan import FragmentScan, plan_scan


@pytest.fixture
def snapshot(deleted):
    return lance_core.dataset(deleted.uri).snapshot


def scans(snapshot, **options):
    return plan_scan(snapshot, ScanOptions(**options)).fragment_scans


def test_fragments_are_units_of_work_in_dataset_order(snapshot, deleted):
    """Row counts leave deleted rows out."""
    assert scans(snapshot) == tuple(
        FragmentScan(fragment.fragment_id, 0, fragment.count_rows()) for fragment in deleted.get_fragments()
    )
    assert plan_scan(snapshot, ScanOptions()).num_rows == deleted.count_rows()


@pytest.mark.parametrize(
    ("limit", "offset"),
    [(0, None), (1, None), (10**9, None), (None, 10**9), (None, 1349), (1, 1350), (2000, 1000)],
)
def test_limit_and_offset_become_row_ranges(snapshot, deleted, limit, offset):
    plan = plan_scan(snapshot, ScanOptions(limit=limit, offset=offset))
    live = range(deleted.count_rows())[offset or 0 :][:limit]
    starts = {}
    before = 0
    for fragment in deleted.get_fragments():
        starts[fragment.fragment_id] = before
        before += fragment.count_rows()
    rows = [
        starts[scan.fragment_id] + row for scan in plan.fragment_scans for row in range(scan.start, scan.end)
    ]
    assert rows == list(live)
    assert plan.num_rows == len(live)
    assert all(scan.start < scan.end for scan in plan.fragment_scans)


def test_chosen_fragments_are_read_in_the_order_given(snapshot):
    assert [scan.fragment_id for scan in scans(snapshot, fragments=(3, 0))] == [3, 0]
    assert scans(snapshot, fragments=()) == ()
    with pytest.raises(InvalidInputError, match="77"):
        scans(snapshot, fragments=(0, 77))


def test_a_plan_cut_down_to_parts_counts_their_rows(snapshot):
    plan = plan_scan(snapshot, ScanOptions())
    part = plan.with_fragment_scans([FragmentScan(0, 10, 20), FragmentScan(2, 0, 5)])
    assert (part.num_rows, part.schema, part.options) == (15, plan.schema, plan.options)


@pytest.mark.parametrize(
    "options",
    [{"limit": -1}, {"offset": -1}, {"batch_rows": 0}, {"batch_bytes": 0}, {"fragments": (1, 1)}],
    ids=str,
)
def test_options_out_of_range_are_refused_by_name(options):
    with pytest.raises(InvalidInputError, match=next(iter(options)).removesuffix("s")):
        ScanOptions(**options)
