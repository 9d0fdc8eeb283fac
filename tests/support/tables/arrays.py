"""Seeded Arrow arrays of any type: a distribution of values, a pattern of nulls, a shape of lists.

`make_array` walks the type and fills every level. Leaves are made from 64-bit *codes*: the distribution
decides the codes (sorted, runs, few distinct ones, ...) and the type decides what value a code stands for, so
every distribution exists for every type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DISTRIBUTIONS = ("random", "small", "sorted", "constant", "runs", "few", "extremes")
TEXT_DISTRIBUTIONS = ("empty", "words", "long", "mixed", "huge")
NULL_PATTERNS = ("none", "sparse", "half", "runs", "all", "all_but_one")
LIST_SHAPES = ("short", "empty", "single", "long", "spanning", "one_huge")

DAY_MS = 86_400_000
RUN_LENGTHS = (1, 2, 7, 254, 255, 256, 300, 700)
WORDS = (
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "https://example.com/",
    "mini-block",
)
UNICODE = "naïve façade Größe 東京 🦊 \x00 é"


@dataclass(frozen=True)
class Spec:
    """Specification of a random array: names from DISTRIBUTIONS or TEXT_DISTRIBUTIONS, NULL_PATTERNS and
    LIST_SHAPES.
    """

    distribution: str = "random"
    nulls: str = "none"
    lists: str = "short"

    def __str__(self) -> str:
        return f"{self.distribution}_{self.nulls}_{self.lists}"


def make_array(field: pa.Field, length: int, spec: Spec, rng: np.random.Generator) -> pa.Array:
    """Return an array of `length` values of the field's type; nulls appear only where a field is nullable."""
    data_type = field.type
    valid = _validity(field.nullable, length, spec, rng)
    if isinstance(data_type, pa.BaseExtensionType):
        storage = make_array(field.with_type(data_type.storage_type), length, spec, rng)
        return pa.ExtensionArray.from_storage(data_type, storage)
    if pa.types.is_null(data_type):
        return pa.nulls(length)
    if pa.types.is_dictionary(data_type):
        return _dictionary(data_type, length, valid, spec, rng)
    if pa.types.is_struct(data_type):
        children = [make_array(child, length, spec, rng) for child in data_type]
        return pa.Array.from_buffers(data_type, length, [_bitmap(valid)], children=children)
    if pa.types.is_fixed_size_list(data_type):
        items = make_array(data_type.value_field, length * data_type.list_size, spec, rng)
        return pa.Array.from_buffers(data_type, length, [_bitmap(valid)], children=[items])
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_map(data_type):
        return _list(data_type, length, valid, spec, rng)
    codes = _codes(spec.distribution, length, rng)
    if pa.types.is_boolean(data_type):
        return pa.Array.from_buffers(data_type, length, [_bitmap(valid), _pack(codes & 1 == 1)])
    if _is_text(data_type):
        return _text(data_type, codes, valid, spec, rng)
    values = _fixed_width(data_type, codes, spec.distribution, rng)
    return pa.Array.from_buffers(data_type, length, [_bitmap(valid), pa.py_buffer(values.tobytes())])


def _is_text(data_type: pa.DataType) -> bool:
    small = pa.types.is_string(data_type) or pa.types.is_binary(data_type)
    large = pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type)
    return small or large or pa.types.is_string_view(data_type) or pa.types.is_binary_view(data_type)


# --- validity -------------------------------------------------------------------------------------


def _validity(nullable: bool, length: int, spec: Spec, rng: np.random.Generator) -> np.ndarray | None:
    """True where a value is present; None for "no nulls"."""
    if not nullable or spec.nulls == "none":
        return None
    if spec.nulls == "all":
        return np.zeros(length, bool)
    if spec.nulls == "all_but_one":
        return np.arange(length) == length // 2
    if spec.nulls == "runs":
        return _codes("runs", length, rng) % 3 != 0
    return rng.random(length) >= {"sparse": 0.01, "half": 0.5}[spec.nulls]


def _pack(flags: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little").tobytes())


def _bitmap(valid: np.ndarray | None) -> pa.Buffer | None:
    return None if valid is None else _pack(valid)


# --- codes ----------------------------------------------------------------------------------------


def _codes(distribution: str, length: int, rng: np.random.Generator) -> np.ndarray:
    """`length` unsigned 64-bit numbers that follow the named distribution."""
    if distribution == "sorted":
        return np.cumsum(rng.integers(0, 7, length, np.uint64), dtype=np.uint64)
    if distribution == "constant":
        return np.full(length, 37, np.uint64)
    if distribution == "small":
        return rng.integers(0, 1000, length, np.uint64)
    if distribution == "few":
        return rng.integers(0, 23, length, np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    if distribution == "runs":
        lengths = rng.choice(RUN_LENGTHS, length // 100 + 8)
        lengths = np.append(lengths, length)
        return np.repeat(rng.integers(0, 2**40, len(lengths), np.uint64), lengths)[:length]
    return rng.integers(0, 2**64, length, np.uint64)


# --- fixed width ----------------------------------------------------------------------------------


def _fixed_width(
    data_type: pa.DataType, codes: np.ndarray, distribution: str, rng: np.random.Generator
) -> np.ndarray:
    if distribution == "extremes":
        choices = _extremes(data_type)
        return choices[rng.integers(0, len(choices), len(codes))]
    if pa.types.is_floating(data_type):
        return _floats(data_type.bit_width, codes, distribution)
    if pa.types.is_decimal(data_type):
        return _decimals(data_type, codes, distribution, rng)
    if pa.types.is_fixed_size_binary(data_type):
        width = data_type.byte_width
        raw = np.zeros((len(codes), max(width, 8)), np.uint8)
        raw[:, :8] = codes.view(np.uint8).reshape(-1, 8)
        if distribution == "random":
            raw[:, 8:] = rng.integers(0, 256, raw[:, 8:].shape, np.uint8)
        return raw[:, :width]
    if pa.types.is_date64(data_type):
        return (codes % np.uint64(80_000)).astype(np.int64) * DAY_MS
    if pa.types.is_time(data_type):
        return (codes % np.uint64(_time_units_per_day(data_type))).astype(f"i{data_type.bit_width // 8}")
    return codes.astype(f"u{data_type.bit_width // 8}")


def _floats(bits: int, codes: np.ndarray, distribution: str) -> np.ndarray:
    """Random bit patterns (NaN payloads, subnormals, infinities), otherwise halves of small numbers."""
    if distribution == "random":
        return codes.astype(f"u{bits // 8}")
    return ((codes % np.uint64(2**15)).astype(np.float64) / 2).astype(f"f{bits // 8}")


def _decimals(
    data_type: pa.DataType, codes: np.ndarray, distribution: str, rng: np.random.Generator
) -> np.ndarray:
    """Two's complement words, shape (n, words per value), inside the type's precision."""
    usable_bits = (10**data_type.precision).bit_length() - 1
    words = np.zeros((len(codes), data_type.bit_width // 64), np.uint64)
    words[:, 0] = codes
    if distribution == "random":
        words[:, 1:] = rng.integers(0, 2**64, words[:, 1:].shape, np.uint64)
    top, kept = divmod(usable_bits, 64)
    if top < words.shape[1]:
        shift = np.int64(63 - kept)
        words[:, top] = ((words[:, top].view(np.int64) << shift) >> shift).view(np.uint64)
        words[:, top + 1 :] = np.where(words[:, top : top + 1].view(np.int64) < 0, np.uint64(2**64 - 1), 0)
    return words


def _time_units_per_day(data_type: pa.DataType) -> int:
    return 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[data_type.unit]


def _extremes(data_type: pa.DataType) -> np.ndarray:
    """Return the values that break careless code, as an array of the type's physical layout."""
    width = data_type.bit_width // 8
    if pa.types.is_floating(data_type):
        sign = 1 << (data_type.bit_width - 1)
        exponent, mantissa = {2: (5, 10), 4: (8, 23), 8: (11, 52)}[width]
        infinity = ((1 << exponent) - 1) << mantissa
        quiet = 1 << (mantissa - 1)
        positive = [0, 1, infinity, infinity - 1, infinity | quiet, infinity | quiet | 5, infinity | 1]
        return np.array([*positive, *(bits | sign for bits in positive)], f"u{width}")
    if pa.types.is_decimal(data_type):
        largest = 10**data_type.precision - 1
        numbers = (0, 1, -1, largest, -largest)
        raw = b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
        return np.frombuffer(raw, np.uint64).reshape(len(numbers), -1)
    if pa.types.is_fixed_size_binary(data_type):
        return np.array([[fill] * width for fill in (0, 1, 127, 128, 255)], np.uint8)
    if pa.types.is_date64(data_type):
        return np.array([0, DAY_MS, -DAY_MS, 10**7 * DAY_MS], np.int64)
    if pa.types.is_time(data_type):
        return np.array([0, 1, _time_units_per_day(data_type) - 1], f"i{width}")
    if pa.types.is_unsigned_integer(data_type):
        return np.array([0, 1, 2 ** (8 * width) - 1], f"u{width}")
    limit = 2 ** (8 * width - 1)
    return np.array([0, 1, -1, limit - 1, -limit], f"i{width}")


# --- variable width -------------------------------------------------------------------------------


def _text(
    data_type: pa.DataType,
    codes: np.ndarray,
    valid: np.ndarray | None,
    spec: Spec,
    rng: np.random.Generator,
) -> pa.Array:
    """Strings or bytes. Null slots are empty, as every Arrow builder leaves them."""
    binary = not (
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_string_view(data_type)
    )
    make = _TEXT_MAKERS.get(spec.distribution, _numbered)
    if binary and spec.distribution == "random":
        make = _random_bytes
    distinct = pa.array(codes).dictionary_encode()
    texts = pa.array(make(distinct.dictionary.to_numpy(), rng), pa.large_binary()).take(distinct.indices)
    if valid is not None:
        texts = pc.if_else(valid, texts, b"")
    large = pa.large_binary() if binary else pa.large_string()
    _, *offsets_and_bytes = texts.buffers()
    return pa.Array.from_buffers(large, len(texts), [_bitmap(valid), *offsets_and_bytes]).cast(data_type)


TextMaker = Callable[[np.ndarray, np.random.Generator], list[bytes]]


def _numbered(codes: np.ndarray, _: np.random.Generator) -> list[bytes]:
    return [b"key-%012d" % code for code in codes.tolist()]


def _random_letters(codes: np.ndarray, rng: np.random.Generator) -> list[bytes]:
    letters = rng.integers(97, 123, 64, np.uint8).tobytes()
    return [(letters[code % 61 :] + letters)[: code % 40] for code in codes.tolist()]


def _random_bytes(codes: np.ndarray, rng: np.random.Generator) -> list[bytes]:
    pool = rng.bytes(100_000)
    return [pool[code % 99_960 : code % 99_960 + code % 40] for code in codes.tolist()]


def _edge_texts(codes: np.ndarray, _: np.random.Generator) -> list[bytes]:
    edges = [b"", b"a", UNICODE.encode(), b"\x00", b"\x7f" * 255, b"x" * 256, "é".encode() * 200]
    return [edges[code % len(edges)] for code in codes.tolist()]


def _sentences(words: int) -> TextMaker:
    def make(codes: np.ndarray, rng: np.random.Generator) -> list[bytes]:
        stock = " ".join(WORDS[index] for index in rng.integers(0, len(WORDS), words * 40)).encode()
        top = len(stock) - words * 6
        return [stock[code % top :][: words * 2 + code % (words * 4)] for code in codes.tolist()]

    return make


def _huge(codes: np.ndarray, _: np.random.Generator) -> list[bytes]:
    """Values of 1 MB next to tiny ones."""
    large = " ".join(WORDS).encode() * 7_000
    return [large[code % 97 :][:1_000_000] if code % 3 == 0 else b"tiny" for code in codes.tolist()]


_TEXT_MAKERS: dict[str, TextMaker] = {
    "random": _random_letters,
    "extremes": _edge_texts,
    "empty": lambda codes, _: [b""] * len(codes),
    "words": _sentences(6),
    "long": _sentences(300),
    "mixed": lambda codes, rng: [
        long if code % 50 == 0 else short
        for code, long, short in zip(
            codes.tolist(), _sentences(300)(codes, rng), _sentences(3)(codes, rng), strict=True
        )
    ],
    "huge": _huge,
}


# --- dictionaries and lists -----------------------------------------------------------------------


def _dictionary(
    data_type: pa.DictionaryType, length: int, valid: np.ndarray | None, spec: Spec, rng: np.random.Generator
) -> pa.Array:
    """Indices follow the distribution; null slots keep an index that is in range."""
    wanted = 100 if data_type.index_type.bit_width == 8 else 300
    pool = make_array(
        pa.field("", data_type.value_type, nullable=False), wanted, Spec("sorted"), rng
    ).unique()
    codes = _codes(spec.distribution, length, rng) % np.uint64(len(pool))
    width = data_type.index_type.bit_width // 8
    buffers = [_bitmap(valid), pa.py_buffer(codes.astype(f"u{width}").tobytes())]
    indices = pa.Array.from_buffers(data_type.index_type, length, buffers)
    return pa.DictionaryArray.from_arrays(indices, pool, ordered=data_type.ordered)


def _list(
    data_type: pa.DataType, length: int, valid: np.ndarray | None, spec: Spec, rng: np.random.Generator
) -> pa.Array:
    lengths = _lengths(spec.lists, length, rng)
    if valid is not None and spec.lists == "one_huge":
        valid[length // 2 : length // 2 + 1] = True
    if valid is not None and spec.nulls != "runs":  # in runs, items stay below null lists: Arrow allows that
        lengths = np.where(valid, lengths, 0)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    width = 8 if pa.types.is_large_list(data_type) else 4
    buffers = [_bitmap(valid), pa.py_buffer(offsets.astype(f"i{width}").tobytes())]
    inner = replace(spec, lists=spec.lists if spec.lists in ("empty", "single") else "short")
    if pa.types.is_map(data_type):
        entry = pa.struct([data_type.key_field, data_type.item_field])
        child = make_array(pa.field("entries", entry, nullable=False), int(offsets[-1]), inner, rng)
    else:
        child = make_array(data_type.value_field, int(offsets[-1]), inner, rng)
    return pa.Array.from_buffers(data_type, length, buffers, children=[child])


def _lengths(shape: str, length: int, rng: np.random.Generator) -> np.ndarray:
    """Items per list. "spanning" has lists larger than a mini-block, "one_huge" one of 100,000 items."""
    if shape == "empty":
        return np.zeros(length, np.int64)
    if shape == "single":
        return np.ones(length, np.int64)
    if shape == "long":
        return rng.integers(0, 200, length)
    lengths = rng.integers(0, 5, length)
    if shape == "spanning":
        lengths[::50] = rng.integers(3_000, 9_000, len(lengths[::50]))
    if shape == "one_huge" and length:
        lengths[length // 2] = 100_000
    return lengths
