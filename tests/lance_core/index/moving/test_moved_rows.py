"""Row addresses after a compaction, compared with a list of all rows."""

from __future__ import annotations

import numpy as np
import pyroaring
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.index.moving.moved_rows import FragmentGroup, MovedRows, NewFragment, OldFragment
from support.runs.draws import draws

OFFSET_BITS = 32


@given(data=st.data())
@settings(max_examples=draws(200), deadline=None)
def test_addresses_of_any_groups(data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=8, unique=True), label="ids")
    groups, expected, next_id = [], {}, 50
    places = data.draw(st.lists(st.integers(0, 2), min_size=len(ids), max_size=len(ids)), label="groups")
    for number in set(places):
        old, live = [], []
        for fragment in (each for each, place in zip(ids, places, strict=True) if place == number):
            size = data.draw(st.integers(0, 6))
            deleted = data.draw(st.sets(st.integers(0, size - 1))) if size else set()
            old.append(OldFragment(fragment, size, np.array(sorted(deleted), np.uint32)))
            live += [(fragment << OFFSET_BITS) + row for row in range(size) if row not in deleted]
        cuts = sorted(data.draw(st.lists(st.integers(0, len(live)), max_size=2)))
        sizes = np.diff([0, *cuts, len(live)]).tolist()
        groups.append(FragmentGroup(old, [NewFragment(next_id + n, size) for n, size in enumerate(sizes)]))
        new = [((next_id + n) << OFFSET_BITS) + row for n, size in enumerate(sizes) for row in range(size)]
        expected |= dict(zip(live, new, strict=True))
        next_id += len(sizes)
    asked = [(fragment << OFFSET_BITS) + row for fragment in range(32) for row in range(8)]
    known = data.draw(st.sets(st.sampled_from(ids)), label="known")
    rows = MovedRows.of(groups).known_to(pyroaring.BitMap(known))
    translated, kept = rows.translate(np.array(asked, np.uint64))
    for address, new, is_kept in zip(asked, translated.tolist(), kept.tolist(), strict=True):
        fragment = address >> OFFSET_BITS
        assert is_kept == (fragment not in ids or (fragment in known and address in expected))
        assert new == (expected[address] if is_kept and fragment in ids else address)


def test_without_groups_rows_stay() -> None:
    addresses = np.array([5, 1 << 40], np.uint64)
    translated, kept = MovedRows.of([]).translate(addresses)
    assert translated.tolist() == addresses.tolist()
    assert kept.all()
