"""Levels: their codings, rows cut out of them, layers made of them; against twins and nested Python data."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData
from support.runs.draws import draws
from support.twins import inputs, nested, packing, values

CODINGS = ("flat", "inline", "packed", "runs")
nestings = st.lists(st.sampled_from((nested.LIST, nested.STRUCT)), max_size=7).filter(
    lambda nodes: nodes.count(nested.LIST) <= 4
)


def encode(levels: list[int], coding: str, bits: int) -> bytes:
    """One chunk of levels."""
    if coding == "flat":
        return values.integers(levels, 16)
    if coding == "inline":
        return packing.pack_inline(levels, 16)
    if coding == "packed":
        raw = not bits or len(levels) % 1024 <= 64 * bits
        return packing.pack_out_of_line(levels, 16, bits, raw_tail=raw)
    return values.run_block(levels, 16)


@st.composite
def encoded_levels(draw: st.DrawFn) -> tuple[list[list[int]], str, int, int]:
    """Chunks of levels, their coding, its bits, and a shift of their address."""
    rng = draw(st.randoms(use_true_random=False))
    coding = draw(st.sampled_from(CODINGS))
    bits = draw(st.integers(0 if coding == "packed" else 1, 5))
    lengths = draw(st.lists(st.sampled_from((1, 7, 16, 33, 500, 1024)), min_size=1, max_size=4))
    if coding != "inline":
        lengths.append(draw(st.sampled_from((1, 1500, 2048))))
    chunks = [[rng.getrandbits(bits) if bits else 0 for _ in range(length)] for length in lengths]
    if coding == "runs":
        chunks = [sorted(chunk) for chunk in chunks]
    return chunks, coding, bits, draw(st.integers(0, 7))


@settings(max_examples=draws(60), deadline=None)
@given(encoded_levels(), st.integers(0, 32))
def test_every_coding_and_its_fusion_with_validity(
    case: tuple[list[list[int]], str, int, int], limit: int
) -> None:
    chunks, coding, bits, shift = case
    stream = inputs.stream([encode(chunk, coding, bits) for chunk in chunks], shift)
    counts = inputs.counts(list(map(len, chunks)))
    flat = inputs.joined(chunks)
    assert inputs.numbers(kernels.decode_levels(stream, counts, coding, bits), "<u2") == flat
    bitmap, num_nulls = kernels.decode_validity(stream, counts, coding, bits, limit, 32)
    valid = [level <= limit for level in flat]
    assert inputs.bits(bitmap, len(flat)) == valid
    assert num_nulls == valid.count(False)


@pytest.mark.parametrize("limit", [0, 1, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF])
def test_validity_compares_unsigned(limit: int) -> None:
    levels = [0, 1, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF] * 8
    stream = inputs.stream([values.integers(levels, 16)])
    bitmap, _ = kernels.decode_validity(stream, inputs.counts([48]), "flat", 0, limit, 0xFFFF)
    assert inputs.bits(bitmap, 48) == [level <= limit for level in levels]


@pytest.mark.parametrize(
    ("coding", "bits", "chunk", "count"),
    [
        ("flat", 0, bytes(7), 4),
        ("flat", 0, bytes(200), 1 << 14),
        ("inline", 0, packing.pack_inline([1] * 5, 16), 1025),
        ("inline", 0, b"\x11\0" + bytes(128 * 17), 5),
        ("packed", 3, bytes(128 * 3 + 4), 1025),
        ("packed", 16, bytes(2048), 1024),
        ("packed", 0, bytes(2), 1024),
        ("runs", 0, values.run_block([1] * 10, 16), 11),
        ("runs", 0, values.run_block([1] * 10, 16), 9),
        ("runs", 0, values.run_block([1] * 10 + [2], 16), 10),
        ("runs", 0, b"\2", 1),
    ],
)
def test_encoded_levels_that_lie(coding: str, bits: int, chunk: bytes, count: int) -> None:
    """T22: fewer or more levels than the chunk says; a block of runs adds up exactly."""
    stream, counts = inputs.stream([chunk]), inputs.counts([count])
    with pytest.raises(CorruptData):
        kernels.decode_levels(stream, counts, coding, bits)
    with pytest.raises(CorruptData):
        kernels.decode_validity(stream, counts, coding, bits, 0, 9)


@pytest.mark.parametrize("coding", CODINGS)
def test_huge_counts_are_refused_before_memory_is_taken(coding: str) -> None:
    """T24: 64 bytes hold no million levels, whatever their coding."""
    stream, counts = inputs.stream([bytes(64)]), inputs.counts([1 << 50])
    with pytest.raises(CorruptData):
        kernels.decode_levels(stream, counts, coding, 2)
    with pytest.raises(CorruptData):
        kernels.decode_validity(stream, counts, coding, 2, 0, 9)


def test_validity_refuses_levels_that_no_layer_owns() -> None:
    """T22: wherever among the levels they stand."""
    for at in (0, 15, 16, 47):
        levels = [1] * 48
        levels[at] = 2
        stream = inputs.stream([values.integers(levels, 16)])
        kernels.decode_validity(stream, inputs.counts([48]), "flat", 0, 1, 2)
        with pytest.raises(CorruptData):
            kernels.decode_validity(stream, inputs.counts([48]), "flat", 0, 1, 1)


def test_a_coding_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="unknown coding"):
        kernels.decode_levels(inputs.stream([b""]), inputs.counts([0]), "delta", 0)


def find_rows_twin(
    rep: list[int], def_: list[int] | None, max_rep: int, visible: int, skip: int, num_rows: int
) -> tuple[int, int, int, int]:
    starts = [i for i, level in enumerate(rep) if level == max_rep]
    ends = [*starts, len(rep)]
    begin, end = ends[skip], ends[skip + num_rows]

    def slots_before(entry: int) -> int:
        return entry if def_ is None else sum(level <= visible for level in def_[:entry])

    return begin, end, slots_before(begin), slots_before(end)


@settings(max_examples=draws(100), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=60),
    st.integers(0, 4),
    st.booleans(),
    st.data(),
)
def test_rows_are_found(
    entries: list[tuple[int, int]], visible: int, has_def: bool, data: st.DataObject
) -> None:
    """Entries in front of the first row are the tail of a row of the chunk before."""
    rep = [level for level, _ in entries]
    def_ = [level for _, level in entries] if has_def and entries else None
    rows = rep.count(2)
    skip = data.draw(st.integers(0, rows))
    count = data.draw(st.integers(0, rows - skip))
    shift = data.draw(st.integers(0, 3))
    levels = inputs.u16(rep, shift), None if def_ is None else inputs.u16(def_, shift)
    found = kernels.find_rows(*levels, 2, visible, skip, count)
    assert found[:4] == find_rows_twin(rep, def_, 2, visible, skip, count)
    assert found[4] == sum(level <= visible for level in def_ or [0] * len(rep))
    with pytest.raises(CorruptData):
        kernels.find_rows(*levels, 2, visible, skip, rows - skip + 1)


@pytest.mark.parametrize(
    ("skip", "count"), [(1, (1 << 64) - 1), ((1 << 64) - 1, 1), (2, (1 << 64) - 2), (3, 0)]
)
def test_rows_that_are_not_there(skip: int, count: int) -> None:
    """T22: also where skipped and wanted rows overflow together."""
    with pytest.raises(CorruptData):
        kernels.find_rows(inputs.u16([1, 0, 1]), None, 1, 0, skip, count)


def test_levels_of_different_length() -> None:
    """T22: an entry has both levels or one of them throughout."""
    with pytest.raises(CorruptData):
        kernels.find_rows(inputs.u16([1, 1]), inputs.u16([0]), 1, 0, 0, 1)
    with pytest.raises(CorruptData):
        list_layer(inputs.u16([1, 1]), inputs.u16([0]), -1, -1, 0, 0, 1)


@settings(max_examples=draws(100), deadline=None)
@given(st.lists(st.integers(0, 5), max_size=70), st.integers(0, 2), st.integers(0, 5), st.integers(0, 3))
def test_items_of_a_depth(levels: list[int], depth: int, limit: int, shift: int) -> None:
    """Levels that live deeper than the layer have no slot in it."""
    depth_of = [0, 0, 1, 1, 2, 2]
    kept = [level for level in levels if depth_of[level] <= depth]
    bitmap, length, num_nulls = kernels.item_validity(
        inputs.u16(levels, shift), bytes(depth_of), depth, limit
    )
    assert length == len(kept)
    assert inputs.bits(bitmap, length) == [level <= limit for level in kept]
    assert num_nulls == sum(level > limit for level in kept)


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("at", [0, 15, 16, 33])
def test_a_level_above_the_highest(depth: int, at: int) -> None:
    """T22: a definition level that no layer owns is refused, in the fast path and in the other."""
    levels = [0] * 34
    levels[at] = 3
    with pytest.raises(CorruptData):
        kernels.item_validity(inputs.u16(levels), bytes([0, 0, 1]), depth, 0)
    with pytest.raises(CorruptData):
        kernels.item_validity(inputs.u16(levels), b"", depth, 0)


def list_layer(
    rep: Any, def_: Any, null: int, empty: int, upper: int, shown: int, max_rep: int, offset_bits: int = 32
) -> Any:
    return kernels.list_layer(rep, def_, null, empty, upper, shown, max_rep, offset_bits, True)


@settings(max_examples=draws(200), deadline=None)
@given(
    nestings, st.integers(0, 12) | st.integers(50, 150), st.integers(0, 1 << 30), st.sampled_from((32, 64))
)
def test_layers_of_random_nested_data(nodes: list[str], num_rows: int, seed: int, offset_bits: int) -> None:
    """Levels that a recursive shredder made of nested rows become the offsets and bitmaps of these rows
    again.
    """
    column = nested.random_column(random.Random(seed), nodes, num_rows)
    levels = nested.shred(column)
    expected, slots = nested.arrow_layers(column)
    assert len(levels.values) == len(slots)
    rep = inputs.u16(levels.rep, seed % 4)
    def_ = inputs.u16(levels.def_, seed % 4) if num_rows and (any(levels.def_) or seed % 2) else None
    numbers = nested.numbering(column.layers)
    depth_of, depth = [0], 0
    for kind in column.layers:
        depth += kind in (2, 4, 5, 6)
        depth_of += [depth] * nested.LEVELS_OF[kind]
    upper, depth = 0, 0
    for i, kind in enumerate(column.layers):
        layer = expected[i]
        if layer.offsets is None:
            if kind == nested.NULLABLE_ITEM and def_ is not None:
                bitmap, length, num_nulls = kernels.item_validity(def_, bytes(depth_of), depth, upper)
                assert inputs.bits(bitmap, length) == layer.valid
                assert num_nulls == layer.valid.count(False)
            upper += nested.LEVELS_OF[kind]
            continue
        upper += nested.LEVELS_OF[kind]
        outwards = column.layers[i + 1 :]
        until = next((k for k, outer in enumerate(outwards) if outer in (2, 4, 5, 6)), len(outwards))
        shown = upper + outwards[:until].count(nested.NULLABLE_ITEM)
        offsets, bitmap, length, num_nulls, num_children, next_rep, next_def = list_layer(
            rep, def_, *numbers[i], upper, shown, column.max_rep - depth, offset_bits
        )
        alone = kernels.list_layer(
            rep, def_, *numbers[i], upper, shown, column.max_rep - depth, offset_bits, False
        )
        assert [bytes(part) if i in (0, 1) else part for i, part in enumerate(alone[:5])] == [
            bytes(offsets),
            bytes(bitmap),
            length,
            num_nulls,
            num_children,
        ]
        assert not bytes(alone[5])
        assert not bytes(alone[6])
        num_starts = sum(level != 0 for level in inputs.numbers(rep, "<u2"))
        assert inputs.numbers(offsets, f"<i{offset_bits // 8}") == layer.offsets
        assert (length, num_children) == (len(layer.valid), layer.offsets[-1])
        assert num_nulls == layer.valid.count(False)
        if def_ is not None:
            assert inputs.bits(bitmap, length) == layer.valid
            def_ = next_def
        rep = next_rep
        assert len(memoryview(rep)) == 2 * num_starts
        depth += 1
    if column.max_rep:
        assert not any(bytes(rep))


@pytest.mark.parametrize(
    ("rep", "def_"),
    [
        ([0, 1], None),
        ([1, 0], [0, 2]),
        ([1, 0], [0, 1]),
        ([1, 0], [1, 3]),
        ([1, 2], None),
        ([1, 9, 0], [0, 0, 0]),
    ],
    ids=[
        "no list yet",
        "item of an empty list",
        "item of a null list",
        "item of nothing",
        "rep above",
        "rep far above",
    ],
)
def test_lists_that_contradict_themselves(rep: list[int], def_: list[int] | None) -> None:
    """T22: an item without a list, a list that has and has no items, a repetition level too high."""
    levels = inputs.u16(rep), None if def_ is None else inputs.u16(def_)
    with pytest.raises(CorruptData):
        list_layer(*levels, 1, 2, 2, 2, 1)
