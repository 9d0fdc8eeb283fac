"""Keys of an index in ascending order, and binary searches in them.

Index files are sorted in the total order of IEEE 754 for floats (-NaN < -inf < ... < -0.0 < 0.0 < ... < NaN),
and by bytes for texts. Values of fixed width become NumPy arrays of integers, or of byte strings of one size,
that NumPy sorts in this order. Texts and binaries are searched where Arrow holds them.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_core.encodings.values import offset_bits
from lance_core.index.scalar.questions import Between, OneOf, Question, StartsWith
from lance_core.kernels import search_strings
from lance_core.number_sets import distinct
from lance_core.schema.arrow_values import array_of, numbers_of, scalar_of

Places = npt.NDArray[np.int64]
Side = Literal["left", "right"]
Needles: TypeAlias = npt.NDArray[Any] | pa.Array
"""Keys to search for, in the form of `needles_of`."""


class KeyRanges(NamedTuple):
    """Ranges of keys: from each of `lows` to the key at the same place of `highs`.

    None is one range without this bound. The sides are those of binary searches for the first key of a range
    and for the first key after it: "left" and "right" include the bounds.
    """

    lows: Needles | None
    low_side: Side
    highs: Needles | None
    high_side: Side

    def places(self, lower: SortedKeys, upper: SortedKeys) -> tuple[Places, Places]:
        """Return the places of the first keys and of the keys after the last ones.

        Args:
            lower: Keys that are compared with the lower bounds.
            upper: Keys that are compared with the upper bounds.
        """
        starts = None if self.lows is None else lower.search(self.lows, self.low_side)
        ends = None if self.highs is None else upper.search(self.highs, self.high_side)
        if starts is None:
            starts = np.zeros(1 if ends is None else len(ends), np.int64)
        if ends is None:
            ends = np.full(len(starts), len(upper), np.int64)
        return starts, ends

    def at(self, numbers: Places) -> KeyRanges:
        """Return the ranges with these numbers, in their order."""
        return self._each(
            lambda needles: needles.take(array_of(numbers) if isinstance(needles, pa.Array) else numbers)
        )

    def between(self, first: int, end: int) -> KeyRanges:
        """Return the ranges `[first, end)`; none if `end` is before `first`."""
        return self._each(lambda needles: needles[first : max(first, end)])

    def _each(self, choose: Callable[[Needles], Needles]) -> KeyRanges:
        lows = None if self.lows is None else choose(self.lows)
        highs = lows if self.highs is self.lows else None if self.highs is None else choose(self.highs)
        return KeyRanges(lows, self.low_side, highs, self.high_side)


class SortedKeys(Protocol):
    """Ascending keys without nulls."""

    @property
    def nbytes(self) -> int:
        """Bytes of the keys in memory."""

    def __len__(self) -> int: ...

    def search(self, needles: Needles, side: Side) -> Places:
        """Return for each needle the number of keys below it; with "right", of keys not above it."""


class FixedKeys:
    """Keys of fixed width; see `fixed_keys`."""

    def __init__(self, keys: npt.NDArray[Any]) -> None:
        self.keys = keys

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes

    def __len__(self) -> int:
        return len(self.keys)

    def search(self, needles: Needles, side: Side) -> Places:
        return self.keys.searchsorted(needles, side)


class ByteKeys:
    """Texts or binaries, ordered by their bytes."""

    def __init__(self, values: pa.Array) -> None:
        self._strings = strings_of(values)
        self._length = len(values)
        self.nbytes = values.nbytes

    def __len__(self) -> int:
        return self._length

    def search(self, needles: Needles, side: Side) -> Places:
        assert isinstance(needles, pa.Array)
        found = search_strings(*self._strings, *strings_of(needles), side == "right")
        places: Places = np.frombuffer(memoryview(found), np.int64)
        return places


def strings_of(values: pa.Array) -> tuple[memoryview, pa.Buffer | None, int]:
    """Return texts or binaries without nulls as the kernels of searches take them: offsets, data, bits of
    an offset.
    """
    _, offsets, data = values.buffers()
    bits = offset_bits(values.type)
    width = bits // 8
    whole = memoryview(offsets) if offsets else memoryview(bytes(width))
    return whole[values.offset * width : (values.offset + len(values) + 1) * width], data, bits


def sorted_keys(values: pa.Array) -> tuple[SortedKeys, Places | None]:
    """Return values without nulls as keys, and the order that sorts them; None if they are sorted already."""
    fixed = fixed_keys(values)
    if fixed is not None:
        if _are_ascending(fixed):
            return FixedKeys(fixed), None
        order = np.argsort(fixed, kind="stable")
        return FixedKeys(fixed[order]), order
    values = _binary(values)
    if len(values) < 2 or pc.all(pc.less_equal(values.slice(0, len(values) - 1), values.slice(1))).as_py():
        return ByteKeys(values), None
    indices = pc.sort_indices(values)
    return ByteKeys(values.take(indices)), numbers_of(indices).astype(np.int64)


def _are_ascending(keys: npt.NDArray[Any]) -> bool:
    return bool((keys[1:] >= keys[:-1]).all())


def needles_of(values: pa.Array) -> Needles:
    """Return values without nulls as keys to search for."""
    fixed = fixed_keys(values)
    return fixed if fixed is not None else _binary(values)


def has_order(kind: pa.DataType) -> bool:
    """Return whether indices can order the values of a type."""
    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or (types.is_temporal(kind) and not types.is_interval(kind))
        or types.is_decimal(kind)
        or is_bytes(kind)
        or types.is_fixed_size_binary(kind)
    )


def ranges_of(question: Question, kind: pa.DataType) -> list[KeyRanges] | None:
    """Return the disjoint ranges of the keys that meet a condition, at least one; None for other kinds of
    conditions.

    Args:
        question: The condition.
        kind: Type of the column, for which `has_order`.
    """
    if isinstance(question, OneOf):
        if types.is_floating(kind):
            return _floats_one_of(question.values)
        values = question.values
        points = needles_of(values.unique() if len(values) > 1 else values)
        return [KeyRanges(points, "left", points, "right")]
    if isinstance(question, Between):
        if types.is_floating(kind):
            return _floats_between(question, kind)
        return [
            KeyRanges(
                None if question.low is None else needles_of(_single(question.low)),
                "left" if question.with_low else "right",
                None if question.high is None else needles_of(_single(question.high)),
                "right" if question.with_high else "left",
            )
        ]
    if isinstance(question, StartsWith) and is_bytes(kind):
        first, end = question.prefix, end_of_prefix(question.prefix)
        starts, ends = (None if text is None else pa.repeat(scalar_of(text), 1) for text in (first, end))
        return [KeyRanges(starts, "left", ends, "left")]
    return None


def end_of_prefix(prefix: bytes) -> bytes | None:
    """Return the least bytes above all bytes with a prefix; None if there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def fixed_keys(values: pa.Array) -> npt.NDArray[Any] | None:
    """Return values of fixed width, without nulls, as an array with the order of indices; None for others."""
    kind = values.type
    if types.is_boolean(kind):
        return numbers_of(values.cast(pa.uint8()))
    if types.is_integer(kind):
        return numbers_of(values)
    if types.is_floating(kind):
        return _float_keys(numbers_of(values))
    if types.is_temporal(kind):
        return numbers_of(values.view(pa.int32() if kind.bit_width == 32 else pa.int64()))
    if types.is_decimal(kind):
        return _bytes_of_width(values, kind.bit_width // 8, is_number=True)
    if types.is_fixed_size_binary(kind):
        return _bytes_of_width(values, kind.byte_width, is_number=False)
    return None


def _float_keys(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers with the total order of floats."""
    integers: npt.NDArray[Any] = values.view(f"i{values.itemsize}")
    most = np.iinfo(integers.dtype).max
    keys: npt.NDArray[Any] = integers ^ ((integers >> (8 * values.itemsize - 1)) & most)
    return keys


def _float_key(value: float, kind: pa.DataType) -> npt.NDArray[Any]:
    return _float_keys(np.array([value], kind.to_pandas_dtype()))


def _bytes_of_width(values: pa.Array, width: int, *, is_number: bool) -> npt.NDArray[Any]:
    """Return values of `width` bytes as byte strings. Numbers are stored in little endian."""
    if not width:
        return np.zeros(len(values), "S1")
    data = np.frombuffer(values.buffers()[1] or b"", np.uint8).reshape(-1, width)
    data = data[values.offset : values.offset + len(values)]
    if is_number:
        data = data[:, ::-1].copy()
        data[:, 0] ^= 0x80  # the sign: negative numbers come first
    # NumPy pads byte strings with zeros when it compares them. All have one size, so this changes nothing.
    return np.ascontiguousarray(data).view(f"S{width}").ravel()


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether values are texts or binaries of varying size."""
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
    )


def _binary(values: pa.Array) -> pa.Array:
    """Return texts or binaries as binaries whose bytes lie one after the other."""
    wide = types.is_large_string(values.type) or types.is_large_binary(values.type)
    data_type = pa.large_binary() if wide else pa.binary()
    # Texts with offsets are laid out like binaries; a view costs a twentieth of a cast.
    return values.view(data_type) if offset_bits(values.type) else values.cast(data_type)


def _single(value: pa.Scalar) -> pa.Array:
    return pa.repeat(value, 1)


def _nan_ranges(kind: pa.DataType) -> list[KeyRanges]:
    """Return the ranges of NaN keys: below -inf with the sign bit set, and above inf."""
    least, most = (_float_key(end, kind) for end in (-np.inf, np.inf))
    return [KeyRanges(None, "left", least, "left"), KeyRanges(most, "right", None, "right")]


def _floats_one_of(values: pa.Array) -> list[KeyRanges]:
    numbers = numbers_of(values)
    is_nan = np.isnan(numbers)
    points = numbers[~is_nan]
    if (points == 0).any():
        points = np.concatenate((points, np.array([0.0, -0.0], points.dtype)))
    keys = distinct(_float_keys(points))
    ranges = [KeyRanges(keys, "left", keys, "right")]
    return ranges + _nan_ranges(values.type) if is_nan.any() else ranges


def _floats_between(question: Between, kind: pa.DataType) -> list[KeyRanges]:
    """Return the ranges of numbers, and those of NaN if the condition includes it as the greatest number."""
    low, high = (None if end is None else end.as_py() for end in (question.low, question.high))
    with_nan = high is None or (high != high and question.with_high)
    if low is not None and low != low:
        return _nan_ranges(kind) if with_nan and question.with_low else _floats_one_of(pa.nulls(0, kind))
    first, with_first = (-np.inf, True) if low is None else (low, question.with_low)
    last, with_last = (np.inf, True) if high is None or high != high else (high, question.with_high)
    if first == 0:
        first = -0.0 if with_first else 0.0
    if last == 0:
        last = 0.0 if with_last else -0.0
    numbers = KeyRanges(
        _float_key(first, kind),
        "left" if with_first else "right",
        _float_key(last, kind),
        "right" if with_last else "left",
    )
    return [numbers, *_nan_ranges(kind)] if with_nan else [numbers]


def rows_in(starts: Sequence[int] | Places, ends: Sequence[int] | Places) -> Places:
    """Return all numbers of the ranges `[starts, ends)`, range after range."""
    starts, ends = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    lengths = np.maximum(ends - starts, 0)
    if len(lengths) == 1:
        return np.arange(starts[0], starts[0] + lengths[0])
    before = np.cumsum(lengths) - lengths
    rows: Places = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return rows
