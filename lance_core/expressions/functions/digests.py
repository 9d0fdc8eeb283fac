"""Digests of text and bytes, and their forms as text: hexadecimal and base64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_core import kernels
from lance_core.errors import InvalidInputError
from lance_core.expressions.builders import cast
from lance_core.expressions.coercion import is_binary, is_string, value_type
from lance_core.expressions.comparisons import Datum
from lance_core.expressions.functions.registry import (
    Bound,
    Function,
    as_constant_text,
    as_integer,
    expect,
    offsets_and_bytes,
    unfit,
)
from lance_core.expressions.tree import Expression, Literal

_DIGESTS = ("md5", "sha224", "sha256", "sha384", "sha512")
_ENCODINGS = ("base64", "base64pad", "hex")
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_NO_DIGIT = 255


def _hex_values() -> np.ndarray:
    table = np.full(256, _NO_DIGIT, np.uint8)
    for digits in (b"0123456789abcdef", b"0123456789ABCDEF"):
        table[np.frombuffer(digits, np.uint8)] = np.arange(16)
    return table


_HEX_VALUES = _hex_values()


def _as_bytes(name: str, argument: Expression) -> Expression:
    """Return an argument that must be text or bytes, as large_binary."""
    kind = value_type(argument.type)
    if is_string(kind) or is_binary(kind) or types.is_null(kind):
        return cast(argument, pa.large_binary())
    raise unfit(name, argument, "text or bytes")


def _chosen(name: str, argument: Expression, known: Sequence[str]) -> Literal:
    """Return an argument that must be one of the known names."""
    literal = as_constant_text(name, argument)
    if literal.value.as_py() not in known:
        raise InvalidInputError(f"{name} takes one of {', '.join(known)}, not {literal.value.as_py()!r}")
    return literal


def _with_nulls(values: pa.Array, like: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_valid(like), values, pa.scalar(None, values.type)) if like.null_count else values


def _variable(
    blocks: tuple[kernels.Block, kernels.Block], data_type: pa.DataType, like: pa.Array
) -> pa.Array:
    """Return values of 64-bit offsets in another type, null where `like` is."""
    large = pa.large_string() if is_string(data_type) else pa.large_binary()
    values = pa.Array.from_buffers(large, len(like), [None, *map(pa.py_buffer, blocks)])
    return _with_nulls(values.cast(data_type), like)


def _digest(values: Datum, name: str) -> pa.Array:
    block = kernels.digest_values(*offsets_and_bytes(values), len(values), name)
    width = len(block) // max(len(values), 1)
    digests = pa.Array.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(block)])
    return _with_nulls(digests.cast(pa.binary()), values)


def _named(digest: str) -> Function:
    """Return the function that gives one digest as bytes."""

    def bind(name: str, arguments: Sequence[Expression]) -> Bound:
        expect(name, arguments, 1)
        return [_as_bytes(name, arguments[0])], pa.binary()

    return Function(bind, lambda values: _digest(values, digest))


def _bind_md5(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 1)
    return [_as_bytes(name, arguments[0])], pa.string()


def _bind_digest(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2)
    return [_as_bytes(name, arguments[0]), _chosen(name, arguments[1], _DIGESTS)], pa.binary()


def _bind_encode(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2)
    return [_as_bytes(name, arguments[0]), _chosen(name, arguments[1], _ENCODINGS)], pa.string()


def _encode(values: Datum, encoding: pa.Scalar) -> pa.Array:
    if encoding.as_py() == "hex":
        return _hex(values)
    padding = encoding.as_py() == "base64pad"
    return _variable(
        kernels.encode_base64(*offsets_and_bytes(values), len(values), padding), pa.string(), values
    )


def _hex(values: pa.Array) -> pa.Array:
    """Return bytes as two digits each."""
    offsets, data = offsets_and_bytes(values)
    ends = np.frombuffer(offsets, np.int64)[: len(values) + 1]
    given = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    digits = np.empty(2 * len(given), np.uint8)
    digits[0::2], digits[1::2] = _HEX[given >> 4], _HEX[given & 15]
    buffers = [None, pa.py_buffer(2 * (ends - ends[0])), pa.py_buffer(digits)]
    return _with_nulls(
        pa.Array.from_buffers(pa.large_string(), len(values), buffers).cast(pa.string()), values
    )


def _bind_decode(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2)
    return [_as_bytes(name, arguments[0]), _chosen(name, arguments[1], _ENCODINGS)], pa.binary()


def _decode(values: Datum, encoding: pa.Scalar) -> pa.Array:
    if encoding.as_py() == "hex":
        return _unhex(values)
    # A null may have bytes below it.
    texts = pc.fill_null(values, b"") if values.null_count else values
    required = encoding.as_py() == "base64pad"
    try:
        blocks = kernels.decode_base64(*offsets_and_bytes(texts), len(texts), required)
    except kernels.NoResult as error:
        raise pa.ArrowInvalid(str(error)) from None
    return _variable(blocks, pa.binary(), values)


def _unhex(values: pa.Array) -> pa.Array:
    texts = pc.fill_null(values, b"") if values.null_count else values
    offsets, data = offsets_and_bytes(texts)
    ends = np.frombuffer(offsets, np.int64)[: len(texts) + 1]
    digits = _HEX_VALUES[np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]]
    ends = ends - ends[0]
    odd = np.flatnonzero(np.diff(ends) % 2)
    strange = np.flatnonzero(digits == _NO_DIGIT)
    if len(odd) or len(strange):
        place = np.searchsorted(ends, strange[0], "right") - 1 if len(strange) else odd[0]
        raise pa.ArrowInvalid(f"value {place} has no even number of hexadecimal digits")
    found = digits[0::2] << 4 | digits[1::2]
    buffers = [None, pa.py_buffer(ends // 2), pa.py_buffer(found)]
    return _with_nulls(
        pa.Array.from_buffers(pa.large_binary(), len(texts), buffers).cast(pa.binary()), values
    )


def _bind_to_hex(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 1)
    return [as_integer(name, arguments[0])], pa.string()


def _to_hex(numbers: Datum) -> pa.Array:
    """Return integers in hexadecimal digits; negative numbers as their 64 bits."""
    bits = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False).view(np.uint64)
    digits = _HEX[(bits[:, None] >> np.arange(60, -1, -4, dtype=np.uint64)) & np.uint64(15)]
    whole = pa.Array.from_buffers(
        pa.binary(16), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(digits))]
    )
    text = pc.utf8_ltrim(whole.cast(pa.binary()).cast(pa.string()), characters="0")
    return _with_nulls(pc.if_else(pc.equal(text, ""), "0", text), numbers)


FUNCTIONS = {
    "md5": Function(_bind_md5, lambda values: _hex(_digest(values, "md5").cast(pa.large_binary()))),
    **{name: _named(name) for name in _DIGESTS[1:]},
    "digest": Function(_bind_digest, lambda values, name: _digest(values, name.as_py())),
    "encode": Function(_bind_encode, _encode),
    "decode": Function(_bind_decode, _decode),
    "to_hex": Function(_bind_to_hex, _to_hex),
}
