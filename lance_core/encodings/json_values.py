"""Functions of arrays of binary JSON: values at paths, members, and conversions to other types.

All take a large_binary array and give an array of the same length; the result of null is null. Paths are
those of docs/filters.md, "JSON".
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lance_core import kernels
from lance_core.encodings.json_binary import column_buffers, show_text
from lance_core.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError


def check_path(path: str) -> None:
    """Raise `InvalidInputError` if a text is no path of JSON; the message has the position."""
    try:
        kernels.check_json_path(path)
    except kernels.InvalidPath as error:
        place = path.encode()[int(str(error)) :].decode(errors="ignore")
        at = f"at {place!r}" if place else "at its end"
        raise InvalidInputError(f"{path!r} is no path of JSON: it makes no sense {at}") from None


def values_at(array: pa.Array, path: str) -> pa.Array:
    """Return the values at a path as binary JSON (large_binary): arrays of them where there are several.

    Raises:
        InvalidInputError: the text is no path.
        NoResult: a path selects too many values.
        CorruptFileError: a value is no binary JSON.
    """
    return _called(kernels.json_values_at, array, pa.large_binary(), path)


def member(array: pa.Array, name: str) -> pa.Array:
    """Return the member `name` of each object, or the item of each array whose index is the text `name`, as
    binary JSON (large_binary).
    """
    return _called(kernels.json_member, array, pa.large_binary(), name)


def exists(array: pa.Array, path: str) -> pa.Array:
    """Return whether there is a value at a path, as bool. Errors are those of `values_at`."""
    return _called(kernels.json_exists, array, pa.bool_(), path)


def array_length(array: pa.Array, path: str) -> pa.Array:
    """Return the number of items of the first value at a path, as int64: 0 if it is no array, null if there
    is none. Errors are those of `values_at`.
    """
    return _called(kernels.json_array_length, array, pa.int64(), path)


def array_contains(array: pa.Array, path: str, text: str) -> pa.Array:
    """Return whether an array at a path has an item whose JSON text is `text`, or the string `text`, as bool.
    Errors are those of `values_at`.
    """
    return _called(kernels.json_array_contains, array, pa.bool_(), path, text)


def converted(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return documents as `string`, `int64`, `double` or `bool`. JSON null becomes null.

    Texts of numbers become numbers, floats are rounded to integers, `yes` and `no` are truth values as `true`
    and `false` are, and everything but arrays and objects becomes text.

    Raises:
        NoResult: a value does not fit; the message has its number in the array.
        CorruptFileError: a value is no binary JSON, or its text is not UTF-8.
    """
    kernel = {
        pa.string(): kernels.json_strings,
        pa.int64(): kernels.json_integers,
        pa.float64(): kernels.json_floats,
        pa.bool_(): kernels.json_booleans,
    }[data_type]
    return _called(kernel, array, data_type)


def extract(array: pa.Array, path: str, data_type: pa.DataType) -> pa.Array:
    """Return the values at a path in the type of an index of them: those of `converted`, or `large_binary`
    for binary JSON.

    In a `string`, arrays and objects are JSON text. JSON null and no value are null.

    Raises:
        InvalidInputError: the text is no path, or a value does not fit.
        CorruptFileError: a value is no binary JSON.
    """
    found = values_at(array, path)
    if pa.types.is_large_binary(data_type):
        return pc.replace_with_mask(found, _are_null(found), pa.scalar(None, found.type))
    try:
        if not pa.types.is_string(data_type):
            return converted(found, data_type)
        nested = pc.fill_null(pc.and_not(pc.is_valid(found), pc.starts_with(found, _SCALAR)), False)
        scalars = converted(pc.replace_with_mask(found, nested, pa.scalar(None, found.type)), data_type)
        return pc.if_else(nested, show_text(found), scalars) if pc.any(nested).as_py() else scalars
    except kernels.NoResult as error:
        raise InvalidInputError(f"values at {path!r} of type {data_type}: {error}") from None


def type_at(array: pa.Array, path: str) -> pa.DataType | None:
    """Return the type in which an index holds the values at a path, by the first value that is not null.

    It is `bool`, `int64`, `double`, `string`, or `large_binary` for arrays and objects. None: there is none.
    """
    found = values_at(array, path)
    first = pc.index(pc.or_kleene(pc.is_null(found), _are_null(found)), False).as_py()
    if first < 0:
        return None
    value: bytes = found[first].as_py()
    if not value.startswith(_SCALAR):
        return pa.large_binary()
    kind, number = value[4] >> 4 & 7, value[8:9]
    if kind == 2:  # a number
        is_whole = number != b"\x60" and len(number) and number[0] not in (0x10, 0x20, 0x30)
        fits = is_whole and not (value[8] == 0x50 and len(value) == 17 and value[9] >= 128)
        return pa.int64() if fits else pa.float64()
    return pa.string() if kind == 1 else pa.bool_()


_SCALAR = b"\x20\0\0\0"
_NULL = _SCALAR + bytes(4)


def _are_null(documents: pa.Array) -> pa.Array:
    """Return which documents are JSON null; null where there is no document."""
    return pc.equal(documents, pa.scalar(_NULL, documents.type))


_KEY = r"""[^ ,.:{}\[\]()?@$|<>!=+\-*/%"'\\]+"""
_MEMBERS = re.compile(rf"""(?P<single>{_KEY})|\$\.(?P<keys>{_KEY}(?:\.{_KEY})*)|\$\["(?P<quoted>{_KEY})"\]""")


def member_path(path: str) -> tuple[str, ...] | None:
    """Return the keys that lead to the value at a path, one inside the other. They select exactly what
    `member` gives for each of them, in every document.

    None: the path may select several values or an item of an array, or it has a key that is a number, which
    for `member` is also the number of an item.
    """
    match = _MEMBERS.fullmatch(path)
    if match is None:
        return None
    keys = (match["quoted"],) if match["quoted"] else tuple((match["single"] or match["keys"]).split("."))
    return None if any(key.isdecimal() for key in keys) else keys


def _called(
    kernel: Callable[..., tuple[kernels.Block, ...]], array: pa.Array, data_type: pa.DataType, *texts: str
) -> pa.Array:
    for text in texts[:1] if kernel is not kernels.json_member else ():
        check_path(text)
    try:
        blocks = kernel(*column_buffers(array), *texts)
    except kernels.CorruptData as error:
        raise CorruptFileError(str(error)) from None
    except kernels.OffsetOverflow:
        raise UnsupportedFeatureError("more than 2 GiB of text from JSON in one array") from None
    found = pa.Array.from_buffers(data_type, len(array), [pa.py_buffer(block) for block in blocks])
    if pa.types.is_string(data_type):
        try:
            found.validate(full=True)
        except pa.ArrowInvalid:
            raise CorruptFileError("text of JSON is not UTF-8") from None
    return found
