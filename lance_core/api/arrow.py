"""Arrow types of the reference library: bfloat16 and images.

Importing this module registers them, and columns of datasets have them from then on. A process that has
imported `lance.arrow` of the reference before keeps the classes of the reference.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.api.arrow_types import images
from lance_core.api.arrow_types.bfloat16 import (
    BFloat16Array,
    BFloat16Type,
    PandasBFloat16Array,
    bfloat16_array,
    from_floats,
    is_bfloat16,
    to_floats,
)
from lance_core.api.arrow_types.bfloat16_values import BFloat16
from lance_core.api.arrow_types.images import *  # noqa: F403  # the list of their names is in one place
from lance_core.errors import InvalidInputError

__all__ = [
    "BFloat16",
    "BFloat16Array",
    "BFloat16Type",
    "PandasBFloat16Array",
    "bfloat16_array",
    "cast",
    "register_types",
]
__all__ += images.__all__


def register_types() -> None:
    """Register the types with Arrow. Names that another library has registered are left to it."""
    kinds = (
        BFloat16Type(),
        images.ImageURIType(),
        images.EncodedImageType(),
        images.FixedShapeImageTensorType(pa.uint8(), (0,)),
    )
    for kind in kinds:
        try:
            pa.register_extension_type(kind)
        except pa.ArrowKeyError:
            continue


def cast(arr: pa.Array | pa.ChunkedArray, target_type: pa.DataType | str, *args: Any, **kwargs: Any) -> Any:
    """Cast an array to another type, also from and to bfloat16, and such fixed-size lists.

    Args:
        arr: The array. Nulls stay null.
        target_type: A type or its name, also "bfloat16" or "bf16".
        args: Arguments of `pyarrow.compute.cast`.
        kwargs: Arguments of `pyarrow.compute.cast`.

    Raises:
        InvalidInputError: bfloat16 from or to a type that is not floating; fixed-size lists of another size.
        pyarrow.ArrowInvalid: The error of `pyarrow.compute.cast`.
    """
    target = _type_of(target_type)
    if isinstance(arr, pa.ChunkedArray):
        return pa.chunked_array([cast(chunk, target, *args, **kwargs) for chunk in arr.chunks], target)
    if is_bfloat16(arr.type) and is_bfloat16(target):
        return arr
    if is_bfloat16(arr.type) or is_bfloat16(target):
        other = target if is_bfloat16(arr.type) else arr.type
        if not pa.types.is_floating(other):
            raise InvalidInputError("bfloat16 is cast from and to floating types only", found=other)
        return to_floats(arr, target) if is_bfloat16(arr.type) else from_floats(arr)
    if pa.types.is_fixed_size_list(arr.type) and pa.types.is_fixed_size_list(target):
        size = target.list_size
        if arr.type.list_size != size:
            raise InvalidInputError(
                "fixed-size lists are cast to the same size", expected=arr.type, found=target
            )
        items = arr.values.slice(arr.offset * size, len(arr) * size)
        nulls = arr.is_null() if arr.null_count else None
        items = cast(items, target.value_type, *args, **kwargs)
        return pa.FixedSizeListArray.from_arrays(items, type=target, mask=nulls)
    return pc.cast(arr, target, *args, **kwargs)


def _type_of(given: pa.DataType | str) -> pa.DataType:
    if not isinstance(given, str):
        return given
    return BFloat16Type() if given in ("bfloat16", "bf16") else pa.type_for_alias(given)


register_types()
