"""Bounds, counts and checksums against plain Python."""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData
from support.runs.draws import draws
from support.twins import inputs, zones

INTEGERS = [("signed", 8), ("signed", 16), ("signed", 32), ("signed", 64), ("signed", 128), ("signed", 256)]
INTEGERS += [("unsigned", 8), ("unsigned", 16), ("unsigned", 32), ("unsigned", 64)]


def bitmap(flags: list[bool]) -> bytes:
    return np.packbits(np.array(flags, bool), bitorder="little").tobytes()


def fixed(
    values: list[Any], pack: Any, order: str, width: int, start: int, per_zone: int, unpack: Any
) -> list[Any]:
    """Return the kernel's answer for the values from `start` on, as (nulls, NaNs, least, most)."""
    validity = None if None not in values else inputs.place(bitmap([value is not None for value in values]))
    data = b"".join(pack(0 if value is None else value) for value in values)
    count = len(values) - start
    nulls, nans, known, least, most = kernels.fixed_zones(
        inputs.place(data, 3), validity, start, count, per_zone, order, width
    )
    result = []
    for zone in range(len(known)):
        sides = [unpack(bytes(side)[zone * width : (zone + 1) * width]) for side in (least, most)]
        if not bytes(known)[zone]:
            sides = [None, None]
        counts = [inputs.numbers(block, "<i8")[zone] for block in (nulls, nans)]
        result.append((*counts, *sides))
    return result


@st.composite
def numbers(draw: st.DrawFn, element: st.SearchStrategy[Any]) -> tuple[list[Any], int, int]:
    """Values with nulls here and there, long enough for vectors; the first row, and rows per zone."""
    pool = draw(st.lists(element, min_size=1, max_size=12))
    rng = random.Random(draw(st.integers(0, 1 << 30)))
    null_share = draw(st.sampled_from((0.0, 0.02, 0.5, 1.0)))
    length = draw(st.integers(0, 700))
    values = [None if rng.random() < null_share else rng.choice(pool) for _ in range(length)]
    return values, draw(st.integers(0, min(9, length))), draw(st.sampled_from((1, 7, 64, 100, 1000)))


@pytest.mark.parametrize(("order", "bits"), INTEGERS)
@settings(max_examples=draws(40), deadline=None)
@given(data=st.data())
def test_integers(order: str, bits: int, data: st.DataObject) -> None:
    is_signed = order == "signed"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    values, start, per_zone = data.draw(numbers(st.integers(low, high) | st.sampled_from((low, high, 0))))
    width = bits // 8
    found = fixed(
        values,
        lambda value: value.to_bytes(width, "little", signed=is_signed),
        order,
        width,
        start,
        per_zone,
        lambda raw: int.from_bytes(raw, "little", signed=is_signed),
    )
    assert found == zones.zones(values[start:], per_zone, lambda some: (min(some), max(some)))


@pytest.mark.parametrize("code", ["e", "f", "d"])
@settings(max_examples=draws(60), deadline=None)
@given(data=st.data())
def test_floats(code: str, data: st.DataObject) -> None:
    """NaN of either sign is counted and no bound; zeros of both signs are one value."""
    width = struct.calcsize(code)
    special = st.sampled_from((math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0))
    values, start, per_zone = data.draw(numbers(st.floats(width=8 * width) | special))
    found = fixed(
        values,
        lambda value: struct.pack("<" + code, value),
        "floats",
        width,
        start,
        per_zone,
        lambda raw: struct.unpack("<" + code, raw)[0],
    )
    assert repr(found) == repr(zones.zones(values[start:], per_zone, zones.float_bounds))


@settings(max_examples=draws(60), deadline=None)
@given(numbers(st.booleans()))
def test_booleans(case: tuple[list[Any], int, int]) -> None:
    values, start, per_zone = case
    validity = inputs.place(bitmap([value is not None for value in values]))
    nulls, _, known, least, most = kernels.fixed_zones(
        inputs.place(bitmap([bool(value) for value in values])),
        validity,
        start,
        len(values) - start,
        per_zone,
        "bits",
        1,
    )
    expected = zones.zones(values[start:], per_zone, lambda some: (min(some), max(some)))
    assert inputs.numbers(nulls, "<i8") == [zone[0] for zone in expected]
    assert list(bytes(known)) == [zone[2] is not None for zone in expected]
    for side, position in ((least, 2), (most, 3)):
        assert [bool(flag) for flag in bytes(side)] == [bool(zone[position]) for zone in expected]


@pytest.mark.parametrize("width", [3, 8, 11])
@settings(max_examples=draws(40), deadline=None)
@given(data=st.data())
def test_binary_of_one_width(width: int, data: st.DataObject) -> None:
    near = st.binary(min_size=width, max_size=width) | st.sampled_from(
        (bytes(width), b"\0" * (width - 1) + b"\1")
    )
    values, start, per_zone = data.draw(numbers(near))
    found = fixed(values, lambda value: value or bytes(width), "bytes", width, start, per_zone, bytes)
    assert found == zones.zones(values[start:], per_zone, lambda some: (min(some), max(some)))


@pytest.mark.parametrize("offset_bits", [32, 64])
@settings(max_examples=draws(80), deadline=None)
@given(data=st.data())
def test_binary(offset_bits: int, data: st.DataObject) -> None:
    """Cut and raised bounds: common beginnings, zero bytes, bytes that cannot be raised."""
    parts = st.lists(st.sampled_from((b"", b"\x00", b"\xff", b"a", b"bb", b"abcdefgh")), max_size=6)
    values, start, per_zone = data.draw(numbers(parts.map(b"".join) | st.binary(max_size=20)))
    limit = data.draw(st.sampled_from((1, 4, 64)))
    lengths = [len(value or b"") for value in values]
    offsets = np.concatenate(([5], 5 + np.cumsum(lengths))).astype(f"<u{offset_bits // 8}")
    nulls, *sides = kernels.variable_zones(
        inputs.place(offsets.tobytes(), 1),
        inputs.place(b"?????" + b"".join(value or b"" for value in values), 3),
        None if None not in values else inputs.place(bitmap([value is not None for value in values])),
        start,
        len(values) - start,
        per_zone,
        offset_bits,
        limit,
        False,
    )
    expected = zones.zones(values[start:], per_zone, zones.text_bounds(limit))
    assert inputs.numbers(nulls, "<i8") == [zone[0] for zone in expected]
    for (known, ends, text), position in zip(sides, (2, 3), strict=True):
        at = inputs.numbers(ends, "<i4")
        found = [bytes(text)[at[i] : at[i + 1]] if flag else None for i, flag in enumerate(bytes(known))]
        assert found == [zone[position] for zone in expected]


@settings(max_examples=draws(300), deadline=None)
@given(st.lists(st.text(max_size=12), min_size=1, max_size=6), st.integers(4, 9))
def test_text_is_cut_between_characters(values: list[str], limit: int) -> None:
    """Bounds stay valid text, hold for everything, and are not looser than they have to be."""
    array = pa.array(values)
    _, offsets, data = array.buffers()
    _, (_, ends, least), (known, most_ends, most) = kernels.variable_zones(
        offsets, data or b"", None, 0, len(values), len(values), 32, limit, True
    )
    encoded = sorted(value.encode() for value in values)
    low = bytes(least)
    low.decode()
    assert encoded[0].startswith(low)
    assert len(low) == len(encoded[0]) or limit - 3 <= len(low) <= limit
    assert inputs.numbers(ends, "<i4") == [0, len(low)]
    if not bytes(known)[0]:
        kept = encoded[-1][:limit].decode(errors="ignore")
        assert len(encoded[-1]) > limit
        assert all(not _has_next(character) for character in kept)
        return
    high = bytes(most)
    high.decode()
    assert inputs.numbers(most_ends, "<i4") == [0, len(high)]
    assert len(high) <= limit
    assert high == encoded[-1] if len(encoded[-1]) <= limit else high > encoded[-1]


def _has_next(character: str) -> bool:
    """Return whether a character of the same number of bytes follows."""
    return ord(character) not in (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)


@pytest.mark.parametrize(
    ("text", "limit", "upper"),
    [
        ("ab\x7fx", 3, "ac"),
        ("aéz", 3, "aê"),
        ("a\ud7ffz", 4, "a\ue000"),
        ("a\uffffz", 4, "b"),
        ("\U0010ffffz", 4, None),
    ],
)
def test_raised_text(text: str, limit: int, upper: str | None) -> None:
    _, offsets, data = pa.array([text]).buffers()
    _, _, (known, _, most) = kernels.variable_zones(offsets, data, None, 0, 1, 1, 32, limit, True)
    assert (bytes(most).decode() if bytes(known)[0] else None) == upper


@pytest.mark.parametrize(
    "arguments",
    [
        (b"\0" * 15, None, 0, 2, 10, "signed", 8),
        (b"\0" * 16, None, 1, 2, 10, "signed", 8),
        (b"\0" * 16, b"", 0, 2, 10, "signed", 8),
        (b"\0" * 16, b"\0", 4, 5, 10, "signed", 1),
        (b"\0" * 16, None, 0, 2, 0, "signed", 8),
        (b"\0" * 16, None, 0, 2, 10, "signed", 3),
        (b"\0" * 16, None, 0, 2, 10, "unsigned", 16),
        (b"\0" * 16, None, 0, 2, 10, "floats", 16),
        (b"\0" * 16, None, 0, 2, 10, "signed", 0),
        (b"\0" * 2, None, 0, 17, 10, "bits", 1),
        (b"\0" * 16, None, (1 << 64) - 1, 2, 10, "signed", 8),
        (b"\0" * 16, None, 0, (1 << 64) - 1, 10, "signed", 8),
    ],
)
def test_fixed_values_that_lie(arguments: tuple[Any, ...]) -> None:
    """T22, T23: fewer bytes than claimed, widths that no type has."""
    with pytest.raises(CorruptData):
        kernels.fixed_zones(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ([0, 3, 2], b"abc", None, 0, 2, 10, 32),
        ([0, 4], b"abc", None, 0, 1, 10, 32),
        ([-1, 2], b"abc", None, 0, 1, 10, 32),
        ([0, 3], b"abc", None, 0, 2, 10, 32),
        ([0, 3], b"abc", b"", 0, 1, 10, 32),
        ([0, 3], b"abc", None, 0, 1, 0, 32),
        ([0, 3], b"abc", None, 0, 1, 10, 16),
        ([0, 3], b"abc", None, (1 << 64) - 2, 1, 10, 32),
    ],
)
def test_variable_values_that_lie(arguments: tuple[Any, ...]) -> None:
    """T22, T23: offsets that decrease, leave the bytes, or are missing."""
    offsets, *others = arguments
    with pytest.raises(CorruptData):
        kernels.variable_zones(np.array(offsets, "<i4").tobytes(), *others, 64, False)


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_known_checksums(data: bytes, crc: int) -> None:
    """The vectors of RFC 3720, B.4, and the check value of the catalogues."""
    assert kernels.crc32c(data) == zones.crc32c(data) == crc


@settings(max_examples=draws(60), deadline=None)
@given(st.integers(0, 60_000), st.integers(0, 8), st.integers(0, (1 << 32) - 1), st.integers(0, 1 << 30))
def test_checksums_of_any_length(length: int, shift: int, initial: int, seed: int) -> None:
    """T26: long, short and unaligned data, whole or in two parts."""
    data = inputs.place(random.Random(seed).randbytes(length), shift)
    crc = kernels.crc32c(data, initial)
    assert crc == kernels.crc32c_by("portable", data, initial)
    cut = length // 3
    assert crc == kernels.crc32c(data[cut:], kernels.crc32c(data[:cut], initial))
    if length < 2000:
        assert crc == zones.crc32c(bytes(data), initial)


@pytest.mark.parametrize("way", kernels.crc32c_ways())
def test_every_way_to_a_checksum(way: str) -> None:
    """T26: each set of instructions that this processor has, at every length and alignment."""
    data = random.Random(7).randbytes(5000)
    crc = initial = 0x12345678
    for length in range(len(data) + 1):
        for shift in range(16):
            assert kernels.crc32c_by(way, inputs.place(data[:length], shift), initial) == crc, (length, shift)
        crc = zones.crc32c(data[length : length + 1], crc)


@pytest.mark.parametrize("way", kernels.crc32c_ways())
@settings(max_examples=draws(20), deadline=None)
@given(st.integers(0, 3 << 20), st.integers(0, 63), st.integers(0, (1 << 32) - 1), st.integers(0, 1 << 30))
def test_every_way_to_a_long_checksum(way: str, length: int, shift: int, initial: int, seed: int) -> None:
    """T26: parts of a page and whole ones."""
    data = inputs.place(random.Random(seed).randbytes(length), shift)
    assert kernels.crc32c_by(way, data, initial) == kernels.crc32c_by("portable", data, initial)


def test_a_way_that_no_processor_has() -> None:
    with pytest.raises(ValueError, match="by hand"):
        kernels.crc32c_by("by hand", b"")
