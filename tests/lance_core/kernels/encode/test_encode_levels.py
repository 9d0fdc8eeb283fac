"""Levels of arrays and chunks with levels: against the twin that goes value by value."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.encodings.v2_1.encoders.page_levels import structure_of
from lance_core.encodings.v2_1.encoders.shredding import Kind, LeafRows, Step, shred
from lance_core.kernels import ChunkOverflow, CorruptData
from lance_core.schema.from_arrow import schema_from_arrow
from support.twins import inputs, nested, values
from support.twins.pages import as_arrow

NODES = st.lists(st.sampled_from((nested.LIST, nested.STRUCT)), max_size=4)


def arrow_type(nodes: tuple[str, ...]) -> pa.DataType:
    kind = pa.int64()
    for node in reversed(nodes[:-1]):
        kind = pa.list_(kind) if node == nested.LIST else pa.struct([("c", kind)])
    return kind


def shredded(column: nested.Column, start: int = 0) -> tuple[LeafRows, tuple[Step, ...]]:
    """Return the rows from `start` on, cut out of a larger array."""
    array = pa.array([as_arrow(row) for row in column.rows], arrow_type(column.nodes)).slice(start)
    (field,) = schema_from_arrow(pa.schema([pa.field("x", array.type)])).fields
    (rows,) = shred(field, array)
    steps = tuple(Step(Kind.LIST if node == nested.LIST else Kind.ITEM) for node in column.nodes)
    return rows, steps


@settings(deadline=None)
@given(NODES, st.integers(0, 2**32), st.integers(1, 40), st.integers(0, 3))
def test_levels_are_those_of_the_twin(nodes: list[str], seed: int, num_rows: int, start: int) -> None:
    column = nested.random_column(random.Random(seed), nodes, num_rows + start)
    rows, steps = shredded(column, start)
    structure = structure_of(rows, steps)
    cut = nested.Column(column.nodes, column.rows[start:], tuple(map(int, structure.layers)))
    expected = nested.shred(cut)
    rep = [0] * len(expected.rep) if structure.rep is None else inputs.numbers(structure.rep.data, "<u2")
    def_ = [0] * len(expected.rep) if structure.def_ is None else inputs.numbers(structure.def_.data, "<u2")
    assert (rep, def_) == (expected.rep, expected.def_)
    assert rows.values.to_pylist() == expected.values
    assert structure.num_entries == len(expected.rep)
    assert structure.num_values == len(expected.values)
    assert structure.num_valid == sum(value is not None for value in expected.values)
    assert structure.max_visible == nested.max_visible(cut.nodes, cut.layers)


@settings(deadline=None)
@given(
    NODES,
    st.integers(0, 2**32),
    st.integers(1, 60),
    st.integers(1, 4),
    st.sampled_from(("flat", "packed", "runs")),
)
def test_chunks_are_taken_apart_again(
    nodes: list[str], seed: int, num_rows: int, log: int, coding: str
) -> None:
    column = nested.random_column(random.Random(seed), nodes, num_rows)
    rows, steps = shredded(column)
    structure = structure_of(rows, steps)
    n = structure.num_values
    counts = [1 << log] * (n >> log) + [n % (1 << log)] * (n % (1 << log) > 0) or [0]
    data = inputs.place(values.integers(range(n), 32), 1)
    starts = [4 * sum(counts[:i]) for i in range(len(counts))]
    stream = kernels.Stream(data, inputs.int64s(starts), inputs.int64s([4 * count for count in counts]))
    for large in (False, True):
        words, chunks, index = kernels.assemble_chunks(
            [stream],
            inputs.counts(counts),
            structure.rep_data,
            (coding, structure.rep.bits if structure.rep else 0),
            structure.def_data,
            (coding, structure.def_.bits if structure.def_ else 0),
            structure.max_rep,
            structure.max_visible,
            large,
        )
        numbers = inputs.numbers(words, "<u4" if large else "<u2")
        sizes = [((word >> 4) + 1) * 8 for word in numbers]
        assert sum(sizes) == len(chunks)
        assert [word & 15 for word in numbers] == [*[log] * (len(counts) - 1), 0]
        ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
        num_levels, rep, def_, (found,) = kernels.parse_chunks(
            bytes(memoryview(chunks)),
            inputs.int64s(ends),
            inputs.counts(counts),
            structure.rep is not None,
            structure.def_ is not None,
            1,
            large,
        )
        assert b"".join(found.chunks()) == bytes(data)
        for levels, stored in ((structure.rep, rep), (structure.def_, def_)):
            if levels is not None:
                block = kernels.decode_levels(stored, num_levels, coding, levels.bits)
                assert inputs.numbers(block, "<u2") == inputs.numbers(levels.data, "<u2")
        if structure.rep is not None:
            assert inputs.numbers(index, "<u8") == repetition_index(structure, counts)


def repetition_index(structure: object, counts: list[int]) -> list[int]:
    """Rows that end in each chunk, and entries behind the last of them."""
    rep = inputs.numbers(structure.rep.data, "<u2")  # type: ignore[attr-defined]
    def_ = [0] * len(rep) if structure.def_ is None else inputs.numbers(structure.def_.data, "<u2")  # type: ignore[attr-defined]
    index, entry = [], 0
    for number, count in enumerate(counts):
        begin, visible = entry, 0
        while entry < len(rep) and (visible < count or number + 1 == len(counts)):
            visible += def_[entry] <= structure.max_visible  # type: ignore[attr-defined]
            entry += 1
        ends = [k for k in range(begin, entry) if k + 1 == len(rep) or rep[k + 1] == max(rep)]
        index += [len(ends), entry - (ends[-1] + 1 if ends else begin)]
    return index


def test_too_many_levels_for_a_chunk_are_an_overflow() -> None:
    empties = memoryview(b"\1\0" * 70_000)
    stream = kernels.Stream(b"", inputs.int64s([0]), inputs.int64s([0]))
    with pytest.raises(ChunkOverflow, match="70000 levels"):
        kernels.assemble_chunks(
            [stream], inputs.counts([0]), empties, ("flat", 0), empties, ("flat", 0), 1, 0, True
        )


def test_too_many_bytes_for_a_chunk_are_an_overflow() -> None:
    stream = kernels.Stream(bytes(33_000), inputs.int64s([0]), inputs.int64s([33_000]))
    arguments = ([stream], inputs.counts([1]), None, ("flat", 0), None, ("flat", 0), 0, 0)
    with pytest.raises(ChunkOverflow, match="bytes"):
        kernels.assemble_chunks(*arguments, False)
    kernels.assemble_chunks(*arguments, True)


STREAM = kernels.Stream(bytes(16), inputs.int64s([0, 8]), inputs.int64s([8, 8]))
NO_LEVELS = (None, ("flat", 0), None, ("flat", 0), 0, 0, True)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 130), st.integers(1, 3_000)), max_size=9))
def test_levels_are_counted_and_mapped(runs: list[tuple[int, int]]) -> None:
    levels = np.concatenate([np.full(n, level, "<u2") for level, n in [(0, 0), *runs]])
    numbers = np.arange(131) * 7 % 5
    assert kernels.count_levels(levels, 130) == np.bincount(levels, minlength=131).tolist()
    mapped = inputs.numbers(kernels.map_levels(levels, numbers.tolist()), "<u2")
    assert mapped == numbers[levels].tolist()


@pytest.mark.parametrize(
    "kernel",
    [
        lambda: kernels.assemble_chunks([STREAM], inputs.counts([2]), *NO_LEVELS),
        lambda: kernels.assemble_chunks([STREAM], inputs.counts([3, 1]), *NO_LEVELS),
        lambda: kernels.assemble_chunks([STREAM], inputs.counts([1, 1]), *NO_LEVELS),
        lambda: kernels.assemble_chunks(
            [STREAM], inputs.counts([2, 2]), None, ("flat", 0), bytes(6), ("flat", 0), 0, 1, True
        ),
        lambda: kernels.assemble_chunks(
            [STREAM], inputs.counts([2, 2]), bytes(6), ("flat", 0), bytes(8), ("flat", 0), 1, 1, True
        ),
        lambda: kernels.shred_items(None, 3, b"\7", 6, 3, 1, 9),
        lambda: kernels.shred_items(None, 3, None, 0, 2, 1, 9),
        lambda: kernels.shred_items(bytes(6), 3, None, 0, 4, 1, 9),
        lambda: kernels.shred_items(bytes(4), 3, None, 0, 3, 1, 9),
        lambda: kernels.shred_lists(None, None, 2, bytes(8), 32, 2, None, 0, 1, 2, 1, 9),
        lambda: kernels.shred_lists(
            None, None, 2, values.integers([0, 5, 3], 32), 32, 2, None, 0, 1, 2, 1, 9
        ),
        lambda: kernels.shred_lists(
            None, None, 3, values.integers([0, 1, 2], 32), 32, 2, None, 0, 1, 2, 1, 9
        ),
        lambda: kernels.count_levels(b"\5\0", 4),
        lambda: kernels.map_levels(b"\5\0", [1, 2]),
        lambda: kernels.repeat_levels(b"\5\0", 1 << 40),
        lambda: kernels.encode_levels(b"\5\0", ("packed", 16)),
        lambda: kernels.encode_levels(b"\5\0", ("inline", 0)),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(kernel: object) -> None:
    with pytest.raises(CorruptData):
        kernel()  # type: ignore[operator]
