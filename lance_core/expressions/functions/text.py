"""Functions of text and bytes. Positions and lengths count characters, from 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_core import kernels
from lance_core.errors import InvalidInputError
from lance_core.expressions.builders import cast, describe
from lance_core.expressions.coercion import is_binary, is_string, value_type
from lance_core.expressions.comparisons import Datum
from lance_core.expressions.functions.cases import initcap, lower, upper
from lance_core.expressions.functions.registry import (
    Bound,
    Function,
    as_constant_integer,
    as_constant_text,
    as_integer,
    as_text,
    expect,
    offsets_and_bytes,
    pair_of,
    unfit,
)
from lance_core.expressions.patterns import contains, parts_of_texts
from lance_core.expressions.tree import Expression
from lance_core.schema.arrow_values import scalar_of, validity_of

_MOST_PADDING = 1 << 16
"""Maximum length of padded text and maximum count of `repeat`, so that a filter cannot fill the memory."""

_LITTLE = 32 << 20
"""Bytes of a result up to which its upper bound is enough: the replaced parts need not be counted."""


def _counted(data_type: pa.DataType) -> pa.DataType:
    return pa.int64() if types.is_large_string(data_type) or types.is_large_binary(data_type) else pa.int32()


def _mapped(kernel: Callable[[Datum], Datum]) -> Function:
    """Return the function that maps a text to a text by `kernel`."""

    def bind(name: str, arguments: Sequence[Expression]) -> Bound:
        expect(name, arguments, 1)
        text = as_text(name, arguments[0])
        return [text], value_type(text.type)

    return Function(bind, kernel)


def _trimmed(kernel: Callable[..., Datum]) -> Function:
    """Return the function `trim(text [, characters])` with a kernel that removes characters."""

    def bind(name: str, arguments: Sequence[Expression]) -> Bound:
        expect(name, arguments, 1, 2)
        text = as_text(name, arguments[0])
        return [text, *(as_constant_text(name, more) for more in arguments[1:])], value_type(text.type)

    def compute(text: Datum, characters: pa.Scalar | None = None) -> Datum:
        wanted = " " if characters is None else characters.as_py()
        if wanted is None:
            return pa.nulls(len(text), text.type)
        return kernel(text, characters=wanted) if wanted else text

    return Function(bind, compute)


def _measured(kernel: Callable[[Datum], Datum], *, of_bytes: bool) -> Function:
    """Return the function that gives the length of a text, or of bytes with `of_bytes`."""

    def bind(name: str, arguments: Sequence[Expression]) -> Bound:
        expect(name, arguments, 1)
        given = value_type(arguments[0].type)
        operand = arguments[0] if of_bytes and is_binary(given) else as_text(name, arguments[0])
        return [operand], _counted(value_type(operand.type))

    return Function(bind, lambda operand: kernel(operand).cast(_counted(operand.type)))


def _characters(text: pa.Array) -> pa.Array:
    """Return how many characters each text has."""
    lengths = kernels.count_characters(*parts_of_texts(text))
    return pa.Array.from_buffers(_counted(text.type), len(text), [validity_of(text), pa.py_buffer(lengths)])


def _searched(kernel: Callable[..., Datum]) -> Function:
    """Return the function that searches a constant text in a text."""

    def bind(name: str, arguments: Sequence[Expression]) -> Bound:
        expect(name, arguments, 2)
        return [as_text(name, arguments[0]), as_constant_text(name, arguments[1])], pa.bool_()

    def compute(text: Datum, part: pa.Scalar) -> Datum:
        wanted = part.as_py()
        return pa.nulls(len(text), pa.bool_()) if wanted is None else kernel(text, wanted)

    return Function(bind, compute, keeps_nulls=True)


def _pattern(pattern: pa.Scalar, flags: pa.Scalar | None) -> str | None:
    """Return a regular expression for RE2, preceded by its flags."""
    wanted, letters = pattern.as_py(), "" if flags is None else flags.as_py() or ""
    if not set(letters) <= set("imsU"):
        raise InvalidInputError(f"flags of a regular expression are i, m, s and U, not {letters!r}")
    return f"(?{letters}){wanted}" if letters and wanted is not None else wanted


def _bind_regexp_like(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2, 3)
    text = as_text(name, arguments[0])
    more = [as_constant_text(name, argument) for argument in arguments[1:]]
    check_regex(more[0].value.as_py())
    return [text, *more], pa.bool_()


def check_regex(pattern: str | None) -> None:
    """Raise `InvalidInputError` if RE2 cannot compile the pattern, before any data is read.

    T20: RE2 takes linear time, so no pattern is catastrophic.
    """
    try:
        pc.match_substring_regex(scalar_of(""), pattern or "")
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"{pattern!r} is not a regular expression: {error}") from None


def _regexp_like(text: Datum, pattern: pa.Scalar, flags: pa.Scalar | None = None) -> Datum:
    wanted = _pattern(pattern, flags)
    if wanted is None:
        return pa.nulls(len(text), pa.bool_())
    return pc.match_substring_regex(text, wanted)


def _regexp_count(text: Datum, pattern: pa.Scalar, flags: pa.Scalar | None = None) -> Datum:
    wanted = _pattern(pattern, flags)
    if wanted is None:
        return pa.repeat(pa.scalar(0, pa.int64()), len(text))
    return pc.fill_null(pc.count_substring_regex(text, wanted), 0).cast(pa.int64())


def _bind_regexp_replace(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 3, 4)
    text = as_text(name, arguments[0])
    more = [as_constant_text(name, argument) for argument in arguments[1:]]
    check_regex(more[0].value.as_py())
    return [text, *more], value_type(text.type)


def _regexp_replace(
    text: Datum, pattern: pa.Scalar, replacement: pa.Scalar, flags: pa.Scalar | None = None
) -> Datum:
    letters = "" if flags is None else flags.as_py() or ""
    wanted = _pattern(pattern, pa.scalar(letters.replace("g", "")))
    if wanted is None or not replacement.is_valid:
        return pa.nulls(len(text), text.type)
    most = -1 if "g" in letters else 1
    return pc.replace_substring_regex(text, wanted, replacement.as_py(), max_replacements=most)


def _most_regexp_replaced(
    text: Datum, pattern: pa.Scalar, replacement: pa.Scalar, flags: pa.Scalar | None = None
) -> int:
    letters = "" if flags is None else flags.as_py() or ""
    wanted = _pattern(pattern, pa.scalar(letters.replace("g", "")))
    if wanted is None or not replacement.is_valid:
        return 0
    matches = pc.sum(pc.count_substring_regex(text, wanted)).as_py() if "g" in letters else None
    matches = (
        len(text) if matches is None else matches + len(text)
    )  # and an empty one at the end of each text
    by = replacement.as_py()
    # Matches do not overlap, so that one reference inserts no more than the whole text.
    return int(text.nbytes * (1 + by.count("\\")) + matches * len(by.encode()))


def _bind_replace(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 3)
    text = as_text(name, arguments[0])
    return [text, *(as_constant_text(name, more) for more in arguments[1:])], value_type(text.type)


def _replace(text: Datum, part: pa.Scalar, replacement: pa.Scalar) -> Datum:
    if not part.is_valid or not replacement.is_valid:
        return pa.nulls(len(text), text.type)
    if not part.as_py():  # between all characters
        return pc.replace_substring_regex(text, "", replacement.as_py().replace("\\", r"\\"))
    return _mapped_by(kernels.replace_text, text, part.as_py().encode(), replacement.as_py().encode())


def _mapped_by(
    kernel: Callable[..., tuple[kernels.Block, kernels.Block]], text: pa.Array, *more: object
) -> pa.Array:
    """Return the texts that a kernel makes of texts, with nulls in the same rows."""
    return _made(text.type, len(text), validity_of(text), partial(kernel, *parts_of_texts(text), *more))


def _made(
    kind: pa.DataType,
    length: int,
    validity: pa.Buffer | None,
    kernel: Callable[[], tuple[kernels.Block, kernels.Block]],
) -> pa.Array:
    """Return an array of the offsets and bytes that a kernel makes.

    Raises:
        pyarrow.ArrowCapacityError: the texts have more bytes than their offsets can count.
    """
    try:
        made = kernel()
    except kernels.OffsetOverflow as error:
        raise pa.ArrowCapacityError(str(error)) from None
    return pa.Array.from_buffers(kind, length, [validity, *map(pa.py_buffer, made)])


def _most_replaced(text: Datum, part: pa.Scalar, replacement: pa.Scalar) -> int:
    if not part.is_valid or not replacement.is_valid or not part.as_py():
        return 0
    length = len(part.as_py().encode())
    growth = len(replacement.as_py().encode()) - length
    if growth <= 0:
        return 0
    most = int(text.nbytes + growth * (text.nbytes // length))
    if most <= _LITTLE:
        return most
    return int(text.nbytes + growth * (pc.sum(pc.count_substring(text, part.as_py())).as_py() or 0))


def _bind_substring(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2, 3)
    text = as_text(name, arguments[0])
    return [text, *(as_constant_integer(name, more) for more in arguments[1:])], value_type(text.type)


def _substring(text: Datum, start: pa.Scalar, length: pa.Scalar | None = None) -> Datum:
    first = start.as_py() - 1
    if length is None:
        return pc.utf8_slice_codeunits(text, max(first, 0))
    if length.as_py() < 0:
        raise pa.ArrowInvalid("the length of a substring is negative")
    end = min(max(first + length.as_py(), 0), (1 << 63) - 1)
    return pc.utf8_slice_codeunits(text, min(max(first, 0), end), end)


def _bind_sized(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2)
    text = as_text(name, arguments[0])
    count = as_constant_integer(name, arguments[1])
    if name == "repeat" and count.value.as_py() > _MOST_PADDING:
        raise InvalidInputError(f"repeat makes at most {_MOST_PADDING} copies")
    return [text, count], value_type(text.type)


def _left(text: Datum, count: pa.Scalar) -> Datum:
    return pc.utf8_slice_codeunits(text, 0, count.as_py())


def _right(text: Datum, count: pa.Scalar) -> Datum:
    wanted = count.as_py()
    if wanted == 0:
        return pc.utf8_slice_codeunits(text, 0, 0)
    return pc.utf8_slice_codeunits(text, -wanted)


def _repeat(text: Datum, count: pa.Scalar) -> Datum:
    return pc.binary_repeat(text, max(count.as_py(), 0))


def _most_repeated(text: Datum, count: pa.Scalar) -> int:
    return int(text.nbytes) * max(int(count.as_py()), 0)


def _padded(kernel: Callable[..., Datum]) -> Function:
    """Return the function `lpad(text, length [, filling])` or `rpad`. Longer texts are cut at the end."""

    def bind(name: str, arguments: Sequence[Expression]) -> Bound:
        expect(name, arguments, 2, 3)
        text, length = as_text(name, arguments[0]), as_constant_integer(name, arguments[1])
        filling = [as_constant_text(name, more) for more in arguments[2:]]
        if any(len(text.value.as_py() or "") != 1 for text in filling):
            raise unfit(name, filling[0], "one character to fill with")
        if length.value.as_py() > _MOST_PADDING:
            raise InvalidInputError(f"{name} pads to at most {_MOST_PADDING} characters")
        return [text, length, *filling], value_type(text.type)

    def compute(text: Datum, length: pa.Scalar, filling: pa.Scalar | None = None) -> Datum:
        width = max(length.as_py(), 0)
        padded = kernel(text, width=width, padding=" " if filling is None else filling.as_py())
        return pc.utf8_slice_codeunits(padded, 0, width)

    def most_bytes(text: Datum, length: pa.Scalar, filling: pa.Scalar | None = None) -> int:
        return int(text.nbytes) + len(text) * max(int(length.as_py()), 0) * (1 if filling is None else 4)

    return Function(bind, compute, most_bytes=most_bytes)


def _bind_position(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2)
    text = as_text(name, arguments[0])
    return [text, as_constant_text(name, arguments[1])], _counted(value_type(text.type))


def _position(text: Datum, part: pa.Scalar) -> Datum:
    """Return the position of a part, counted in characters from 1; 0 if the text does not contain it."""
    result = _counted(text.type)
    if not part.is_valid:
        return pa.nulls(len(text), result)
    wanted = part.as_py()
    if not wanted:
        return pc.if_else(pc.is_valid(text), pa.scalar(1, result), pa.scalar(None, result))
    before = pc.list_element(pc.split_pattern(text, wanted, max_splits=1), 0)
    position = pc.add(pc.utf8_length(before), 1).cast(result)
    return pc.if_else(contains(text, wanted), position, pa.scalar(0, result))


def _bind_split_part(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 3)
    text = as_text(name, arguments[0])
    separator, index = as_constant_text(name, arguments[1]), as_constant_integer(name, arguments[2])
    if not index.value.as_py():
        raise InvalidInputError(f"{name} takes an index from 1 on, or from -1 backwards")
    return [text, separator, index], value_type(text.type)


def _split_part(text: Datum, separator: pa.Scalar, index: pa.Scalar) -> Datum:
    if not separator.is_valid:
        return pa.nulls(len(text), text.type)
    wanted = index.as_py()
    if not separator.as_py():  # the whole text is the only part
        if wanted in (1, -1):
            return text
        return pc.if_else(pc.is_valid(text), pa.scalar("", text.type), pa.scalar(None, text.type))
    return _mapped_by(kernels.split_part, text, separator.as_py().encode(), wanted)


def _bind_concat(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 1, 100)
    result = pa.string()
    for argument in arguments:
        if types.is_nested(argument.type) or is_binary(value_type(argument.type)):
            raise unfit(name, argument, "texts and numbers")
        if types.is_large_string(value_type(argument.type)):
            result = pa.large_string()
    return [cast(argument, result) for argument in arguments], result


def _concat(*texts: Datum) -> Datum:
    """Join texts row by row; a null counts as an empty text."""
    empty = scalar_of("", texts[0].type)
    filled = [
        text.fill_null(empty) if isinstance(text, pa.Array) and text.null_count else text for text in texts
    ]
    return _joined([empty if isinstance(text, pa.Scalar) and not text.is_valid else text for text in filled])


def _joined(texts: Sequence[Datum], validity: pa.Buffer | None = None) -> pa.Array:
    """Return arrays of texts, and constants, joined row by row. At least one of them is an array."""
    operands: list[tuple[pa.Buffer | None, pa.Buffer | bytes]] = []
    for text in texts:
        if isinstance(text, pa.Array):
            offsets, data, length, bits = parts_of_texts(text)
            operands.append((offsets, data))
        else:
            operands.append((None, text.as_buffer()))
    return _made(texts[0].type, length, validity, partial(kernels.join_texts, operands, length, bits))


def _most_joined(*texts: Datum) -> int:
    """Return the bytes of texts that are joined row by row. At least one of them is an array."""
    num_rows = max(len(text) for text in texts if isinstance(text, pa.Array))
    return sum(
        int(text.nbytes)
        if isinstance(text, pa.Array)
        else num_rows * (len(text.as_buffer()) if text.is_valid else 0)
        for text in texts
    )


def _bind_join(name: str, arguments: Sequence[Expression]) -> Bound:
    """Bind `left || right`: two binaries, or two operands of which one is text and the other is
    cast to text.
    """
    expect(name, arguments, 2)
    kinds = [value_type(argument.type) for argument in arguments]
    if all(is_binary(kind) for kind in kinds):
        large = any(types.is_large_binary(kind) for kind in kinds)
        result = pa.large_binary() if large else pa.binary()
        return [cast(argument, result) for argument in arguments], result
    if not any(is_string(kind) for kind in kinds):
        raise InvalidInputError(
            f"{describe(arguments[0])} || {describe(arguments[1])} is not defined for these types"
        )
    return _bind_concat(name, arguments)


def _join(left: Datum, right: Datum) -> Datum:
    """Join two texts row by row; the result is null if one of them is null."""
    if isinstance(right, pa.Scalar):
        return _joined([left, right], validity_of(left)) if right.is_valid else pa.nulls(len(left), left.type)
    has_null = left.null_count or right.null_count
    return _joined(
        [left, right], pc.and_(left.is_valid(), right.is_valid()).buffers()[1] if has_null else None
    )


def _bind_levenshtein(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2)
    texts = [as_text(name, argument) for argument in arguments]
    large = any(types.is_large_string(value_type(text.type)) for text in texts)
    kind = pa.large_string() if large else pa.string()
    return [cast(text, kind) for text in texts], _counted(kind)


def _levenshtein(left: Datum, right: Datum) -> Datum:
    left, right, known = pair_of(left, right)
    sides = [offsets_and_bytes(pc.fill_null(side, "").cast(pa.large_string())) for side in (left, right)]
    try:
        block = kernels.edit_distances(*sides[0], *sides[1], len(left))
    except kernels.NoResult as error:
        raise pa.ArrowInvalid(str(error)) from None
    distances = pa.Array.from_buffers(pa.int32(), len(left), [None, pa.py_buffer(block)])
    return pc.if_else(known, distances, pa.scalar(None, pa.int32())).cast(_counted(left.type))


def _bind_ascii(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 1)
    return [as_text(name, arguments[0])], pa.int32()


def _ascii(text: Datum) -> Datum:
    """Return the number of the first character, 0 for an empty text."""
    first = pc.utf8_slice_codeunits(text, 0, 1).dictionary_encode()
    numbers = [ord(character) if character else 0 for character in first.dictionary.to_pylist()]
    return pa.array(numbers, pa.int32()).take(first.indices)


def _bind_chr(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 1)
    return [as_integer(name, arguments[0])], pa.string()


def _chr(number: Datum) -> Datum:
    distinct = number.dictionary_encode()
    values = distinct.dictionary.to_pylist()
    wrong = [value for value in values if not 0 <= value <= 0x10FFFF or 0xD800 <= value < 0xE000]
    if wrong:
        raise pa.ArrowInvalid(f"there is no character {wrong[0]}")
    return pa.array([chr(value) for value in values], pa.string()).take(distinct.indices)


def _bind_substring_index(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 3)
    text, separator = as_text(name, arguments[0]), as_constant_text(name, arguments[1])
    return [text, separator, as_constant_integer(name, arguments[2])], value_type(text.type)


def _substring_index(text: Datum, separator: pa.Scalar, count: pa.Scalar) -> Datum:
    """Return the part of a text before the separator of a number, counted from its end if it is negative."""
    between, number = separator.as_py(), count.as_py()
    if between is None:
        return pa.nulls(len(text), text.type)
    if not between or not number:
        return pc.if_else(pc.is_valid(text), pa.scalar("", text.type), pa.scalar(None, text.type))
    most = min(abs(number), _MOST_PADDING)
    parts = pc.split_pattern(text, between, max_splits=most, reverse=number < 0)
    found = pc.greater(pc.list_value_length(parts), most)
    chosen = pc.list_slice(parts, 0, most) if number > 0 else pc.list_slice(parts, 1)
    return pc.if_else(found, pc.binary_join(chosen, between), text)


def _bind_concat_ws(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2, 100)
    texts, result = _bind_concat(name, arguments)
    return [*texts[1:], texts[0]], result


def _concat_ws(*parts: Datum) -> Datum:
    *texts, separator = parts
    # Arrow leaves out rows in which all texts are null.
    texts[0] = pc.coalesce(texts[0], pc.if_else(pc.is_valid(pc.coalesce(*texts)), texts[0], ""))
    return pc.binary_join_element_wise(*texts, separator, null_handling="skip")


def _most_separated(*parts: Datum) -> int:
    *texts, separator = parts
    return _most_joined(*texts) + (len(texts) - 1) * _most_joined(texts[0], separator)


_LENGTH = _measured(_characters, of_bytes=False)
_SUBSTRING = Function(_bind_substring, _substring)
_SUBSTRING_INDEX = Function(_bind_substring_index, _substring_index)
_TRIM = _trimmed(pc.utf8_trim)
_POSITION = Function(_bind_position, _position, keeps_nulls=True)

FUNCTIONS = {
    "lower": _mapped(lower),
    "upper": _mapped(upper),
    "initcap": _mapped(initcap),
    "reverse": _mapped(pc.utf8_reverse),
    "trim": _TRIM,
    "btrim": _TRIM,
    "ltrim": _trimmed(pc.utf8_ltrim),
    "rtrim": _trimmed(pc.utf8_rtrim),
    "length": _LENGTH,
    "char_length": _LENGTH,
    "character_length": _LENGTH,
    "octet_length": _measured(pc.binary_length, of_bytes=True),
    "bit_length": _measured(lambda operand: pc.multiply(pc.binary_length(operand), 8), of_bytes=True),
    "ends_with": _searched(pc.ends_with),
    "contains": _searched(contains),
    "regexp_like": Function(_bind_regexp_like, _regexp_like, keeps_nulls=True),
    "regexp_count": Function(
        lambda name, arguments: (_bind_regexp_like(name, arguments)[0], pa.int64()), _regexp_count
    ),
    "regexp_replace": Function(_bind_regexp_replace, _regexp_replace, most_bytes=_most_regexp_replaced),
    "replace": Function(_bind_replace, _replace, most_bytes=_most_replaced),
    "substr": _SUBSTRING,
    "substring": _SUBSTRING,
    "left": Function(_bind_sized, _left),
    "right": Function(_bind_sized, _right),
    "repeat": Function(_bind_sized, _repeat, most_bytes=_most_repeated),
    "lpad": _padded(pc.utf8_lpad),
    "rpad": _padded(pc.utf8_rpad),
    "strpos": _POSITION,
    "instr": _POSITION,
    "split_part": Function(_bind_split_part, _split_part),
    "concat": Function(_bind_concat, _concat, most_bytes=_most_joined),
    "concat_ws": Function(_bind_concat_ws, _concat_ws, most_bytes=_most_separated),
    "levenshtein": Function(_bind_levenshtein, _levenshtein),
    "ascii": Function(_bind_ascii, _ascii),
    "chr": Function(_bind_chr, _chr),
    "substr_index": _SUBSTRING_INDEX,
    "substring_index": _SUBSTRING_INDEX,
    "||": Function(_bind_join, _join, keeps_nulls=True, most_bytes=_most_joined),
}
