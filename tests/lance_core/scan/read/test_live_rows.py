"""Live rows of a fragment, and dropping deleted ones from arrays."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lance_core.scan.read.live_rows import LiveRows
from lance_core.table.fragment import MAX_ROWS
from support.runs.each_case import each_case

fragments = st.integers(0, 60).flatmap(
    lambda rows: st.tuples(st.just(rows), st.sets(st.integers(0, max(rows - 1, 0)), max_size=rows))
)


@given(fragments, st.data())
def test_live_rows_agree_with_counting(fragment, data):
    num_rows, deleted = fragment
    live = [row for row in range(num_rows) if row not in deleted]
    rows = LiveRows(num_rows, np.array(sorted(deleted), dtype=np.uint32))
    assert rows.num_rows == len(live)
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(live)), st.integers(0, len(live)))))
    first, last = rows.physical_range(start, end)
    assert rows.live_between(first, last).tolist() == live[start:end]
    assert rows.num_live(first, last) == end - start
    if end > start:
        assert (first, last) == (live[start], live[end - 1] + 1)
    offsets = rows.live_rows_before(np.arange(num_rows))
    assert [int(offsets[row]) for row in live] == list(range(len(live)))
    assert rows.physical_rows(np.arange(len(live))).tolist() == live
    asked = np.arange(num_rows + 2)
    assert rows.are_live(asked).tolist() == [row not in deleted for row in asked.tolist()]
    assert rows.only_live(asked[:num_rows]).tolist() == live


def test_a_fragment_may_have_as_many_rows_as_offsets() -> None:
    """T23: the end of the largest fragment is no row offset of 32 bits."""
    rows = LiveRows(MAX_ROWS, np.array([0, MAX_ROWS - 2], np.uint32))
    assert rows.live_rows_before(np.array([1, MAX_ROWS - 1, MAX_ROWS])).tolist() == [
        *(0, MAX_ROWS - 3, MAX_ROWS - 2)
    ]
    assert rows.physical_range(0, MAX_ROWS - 2) == (1, MAX_ROWS)
    assert rows.physical_rows(np.array([0, MAX_ROWS - 3])).tolist() == [1, MAX_ROWS - 1]
    assert rows.num_live(0, MAX_ROWS) == MAX_ROWS - 2


ARRAYS = {
    "int": pa.array(range(1000)),
    "nulls": pa.array([None if k % 3 else k for k in range(1000)]),
    "text": pa.array([None if k % 7 == 0 else str(k) for k in range(1000)]),
    "struct": pa.array([{"a": k, "b": [str(k)] * (k % 3)} if k % 5 else None for k in range(1000)]),
    "list": pa.array([None if k % 11 == 0 else list(range(k % 4)) for k in range(1000)]),
    "vector": pa.array([[k, k + 1] for k in range(1000)], pa.list_(pa.float32(), 2)),
    "map": pa.array([[(str(k), k)] for k in range(1000)], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array([str(k % 9) for k in range(1000)]).dictionary_encode(),
    "uuid": pa.array([bytes([k % 256]) * 16 for k in range(1000)], pa.binary(16)).view(pa.uuid()),
}


@each_case("kind", ARRAYS)
@each_case(
    "deleted",
    [range(0), [0], [999], [0, 499, 500, 999], range(100, 900), range(0, 1000, 2), range(1000)],
)
def test_dropping_rows_keeps_the_others_in_order(kind, deleted):
    array = ARRAYS[kind]
    pieces = [array.slice(0, 500), array.slice(500)]
    rows = LiveRows(1000, np.array(deleted, dtype=np.uint32))
    kept = rows.drop_deleted(pieces, 0)
    gone = set(deleted)
    expected = [value for row, value in enumerate(array.to_pylist()) if row not in gone]
    assert [value for piece in kept for value in piece.to_pylist()] == expected
    assert all(piece.type == array.type and len(piece) for piece in kept)
    later = rows.drop_deleted([array.slice(700)], 700)
    assert [value for piece in later for value in piece.to_pylist()] == expected[rows.num_live(0, 700) :]
