"""Single values out of chunks: which chunks, which of their values, which rows; beside plain Python."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData
from support.runs.draws import draws
from support.twins import inputs, nested, packing, values
from support.twins.values import integers

seeds = st.integers(0, 1 << 30)


def edges(counts: list[int]) -> list[int]:
    return [0, *accumulate(counts)]


def some(rng: random.Random, total: int) -> list[int]:
    """Ascending numbers below `total`."""
    return sorted(rng.sample(range(total), rng.randint(0, total)))


@settings(max_examples=draws(80), deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), seeds)
def test_the_chunks_that_hold_some_values(counts: list[int], seed: int) -> None:
    rng = random.Random(seed)
    sizes = [8 * rng.randint(1, 5) for _ in counts]
    positions, first = edges(sizes), edges(counts)
    wanted = some(rng, first[-1])
    offsets, lengths, starts, picked_counts, picks = kernels.choose_chunks(
        inputs.int64s(positions), inputs.int64s(first), inputs.int64s(wanted), 1000
    )
    chosen = sorted({next(i for i in range(len(counts)) if first[i] <= v < first[i + 1]) for v in wanted})
    assert inputs.numbers(offsets, "<i8") == [1000 + positions[i] for i in chosen]
    assert inputs.numbers(lengths, "<i8") == [sizes[i] for i in chosen]
    assert inputs.numbers(starts, "<i8") == edges([sizes[i] for i in chosen])
    assert picked_counts.total == sum(counts[i] for i in chosen)
    held = [value for i in chosen for value in range(first[i], first[i + 1])]
    assert [held[pick] for pick in inputs.numbers(picks, "<i8")] == wanted


@settings(max_examples=draws(80), deadline=None)
@given(st.lists(st.lists(st.integers(0, 255), max_size=9), min_size=1, max_size=6), seeds)
def test_fixed_values(chunks: list[list[int]], seed: int) -> None:
    rng = random.Random(seed)
    counts = inputs.counts(list(map(len, chunks)))
    flat = inputs.joined(chunks)
    wanted = some(rng, len(flat))
    picks = inputs.int64s(wanted)
    for width in (1, 2, 3, 4, 8, 16):
        stream = inputs.stream([b"".join(v.to_bytes(width, "little") for v in chunk) for chunk in chunks], 3)
        found = bytes(memoryview(kernels.pick_fixed(stream, counts, picks, width)))
        assert found == b"".join(flat[pick].to_bytes(width, "little") for pick in wanted)
    bits = inputs.stream([inputs.bitmap([v % 2 == 1 for v in chunk]) for chunk in chunks], 1)
    found_bits = inputs.bits(kernels.pick_bits(bits, counts, picks), len(wanted))
    assert found_bits == [flat[pick] % 2 == 1 for pick in wanted]


@pytest.mark.parametrize("word_bits", [8, 16, 32, 64])
def test_packed_values_at_every_width(word_bits: int) -> None:
    rng = random.Random(word_bits)
    for width in range(word_bits + 1):
        chunks = [[rng.getrandbits(width) if width else 0 for _ in range(n)] for n in (1024, 1, 700)]
        stream = inputs.stream([packing.pack_inline(chunk, word_bits, width) for chunk in chunks], width % 8)
        flat = inputs.joined(chunks)
        wanted = range(0, len(flat), 3)
        counts = inputs.counts([1024, 1, 700])
        found = kernels.pick_inline(stream, counts, inputs.int64s(wanted), word_bits)
        assert inputs.numbers(found, f"<u{word_bits // 8}") == [flat[pick] for pick in wanted], width


@settings(max_examples=draws(60), deadline=None)
@given(st.lists(st.lists(st.binary(max_size=12), max_size=9), min_size=1, max_size=6), seeds)
def test_variable_values(chunks: list[list[bytes]], seed: int) -> None:
    rng = random.Random(seed)
    flat = inputs.joined(chunks)
    wanted = some(rng, len(flat))
    for bits in (32, 64):
        stream = inputs.stream([values.variable_chunk(chunk, bits) for chunk in chunks], rng.randrange(8))
        counts = inputs.counts(list(map(len, chunks)))
        found = kernels.pick_variable(stream, counts, inputs.int64s(wanted), bits)
        assert inputs.texts(*found, bits) == [flat[pick] for pick in wanted]


@settings(max_examples=draws(60), deadline=None)
@given(st.sampled_from(("flat", "inline", "packed", "runs")), st.integers(1, 4), seeds)
def test_levels(coding: str, bits: int, seed: int) -> None:
    rng = random.Random(seed)
    chunks = [sorted(rng.getrandbits(bits) for _ in range(rng.choice((1, 16, 1000)))) for _ in range(3)]
    coded = {
        "flat": lambda chunk: integers(chunk, 16),
        "inline": lambda chunk: packing.pack_inline(chunk, 16),
        "packed": lambda chunk: packing.pack_out_of_line(chunk, 16, bits, raw_tail=True),
        "runs": lambda chunk: values.run_block(chunk, 16),
    }[coding]
    flat = inputs.joined(chunks)
    wanted = some(rng, len(flat))
    found = kernels.pick_levels(
        inputs.stream([coded(chunk) for chunk in chunks], 5),
        inputs.counts(list(map(len, chunks))),
        inputs.int64s(wanted),
        coding,
        bits,
    )
    assert inputs.numbers(found, "<u2") == [flat[pick] for pick in wanted]


@settings(max_examples=draws(150), deadline=None)
@given(st.integers(1, 3), st.integers(1, 20), seeds)
def test_rows_of_lists(num_lists: int, num_rows: int, seed: int) -> None:
    """Rows that begin in the middle of chunks and run over several: chosen, and cut out."""
    rng = random.Random(seed)
    column = nested.random_column(rng, [nested.LIST] * num_lists, num_rows)
    levels = nested.shred(column)
    visible_limit = nested.max_visible(column.nodes, column.layers)
    rep, def_ = levels.rep, levels.def_ or [0] * len(levels.rep)
    visible = [level <= visible_limit for level in def_]
    # Cut entries into chunks anywhere.
    cuts = sorted({0, len(rep), *(rng.randrange(len(rep) + 1) for _ in range(rng.randint(0, 6)))})
    chunks = list(pairwise(cuts))
    row_starts = [i for i, level in enumerate(rep) if level == num_lists]
    row_ends = [*row_starts[1:], len(rep)]
    counts = [sum(visible[begin:end]) for begin, end in chunks]
    first_rows = [sum(start < cut for start in row_starts) for cut in cuts]
    ended = [sum(end <= cut for end in row_ends) for cut in cuts]
    wanted = some(rng, num_rows)

    offsets, _, _, chosen_counts, begun, places = kernels.choose_row_chunks(
        inputs.int64s([8 * i for i in range(len(cuts))]),
        inputs.int64s(edges(counts)),
        inputs.int64s(first_rows),
        inputs.int64s(ended),
        inputs.int64s(wanted),
        0,
    )
    needed = [
        i
        for i, (begin, end) in enumerate(chunks)
        if any(row_starts[row] < end and row_ends[row] > begin for row in wanted)
    ]
    chosen = [offset // 8 for offset in inputs.numbers(offsets, "<i8")]
    assert chosen == needed
    held = [entry for i in chosen for entry in range(*chunks[i])]
    picked_rep, picked_def, picks, num_values = kernels.pick_rows(
        inputs.u16([rep[entry] for entry in held], 1),
        inputs.u16([def_[entry] for entry in held], 1) if levels.def_ else None,
        inputs.counts([chunks[i][1] - chunks[i][0] for i in chosen]),
        chosen_counts,
        begun,
        places,
        num_lists,
        visible_limit,
    )
    entries = [entry for row in wanted for entry in range(row_starts[row], row_ends[row])]
    assert inputs.numbers(picked_rep, "<u2") == [rep[entry] for entry in entries]
    if levels.def_ and held:
        assert inputs.numbers(picked_def, "<u2") == [def_[entry] for entry in entries]
    held_values = [entry for entry in held if visible[entry]]
    found = [held_values[pick] for pick in inputs.numbers(picks, "<i8")]
    assert found == [entry for entry in entries if visible[entry]]
    assert num_values == len(found)


@pytest.mark.parametrize("picks", [[-1], [7], [3, 2], [1 << 62]])
def test_picks_that_are_not_there(picks: list[int]) -> None:
    """T22: no pick reaches behind the values, whatever the caller computed it from."""
    with pytest.raises(CorruptData):
        kernels.pick_fixed(inputs.stream([bytes(7)]), inputs.counts([7]), inputs.int64s(picks), 1)
