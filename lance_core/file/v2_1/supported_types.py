"""Check of the types of 2.1 and 2.2 files. It refuses unsupported types before anything is written."""

import pyarrow as pa

from lance_core.encodings.v2_1.encoders.shredding import Kind, steps_of
from lance_core.encodings.values import fixed_bits, is_empty_binary, offset_bits
from lance_core.errors import UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.file.prepared_blobs import is_prepared
from lance_core.schema import Field


def check_field(top: Field, version: FileVersion, *, any_blobs: bool = False) -> None:
    """Refuse types that a file of this version cannot hold, in a top-level field or below it.

    `any_blobs` allows blobs of the first form in 2.2 files, and blobs that are stored already.

    Raises:
        UnsupportedFeatureError: the message names the column, its type, and the version that supports it, if
            there is one.
    """
    for leaf, steps in steps_of(top):
        _check_leaf(leaf, version, any_blobs)
        kinds = {step.kind for step in steps}
        if (leaf.is_blob and kinds != {Kind.ITEM}) or (leaf.is_blob_v2 and Kind.FIXED_SIZE_LIST in kinds):
            raise UnsupportedFeatureError(
                f"blobs in lists of this kind, in a file of version {version}", column=leaf.name
            )
    for field in top.walk():
        if field.logical_type == "map" and any(below.is_blob_v2 for below in field.walk()):
            raise UnsupportedFeatureError("blobs in maps", column=field.name)
        in_2_2 = field.logical_type == "map" or (
            field.logical_type.startswith("fixed_size_list:struct:") and field.children
        )
        if in_2_2 and version < FileVersion.V2_2:
            raise UnsupportedFeatureError(
                f"type {field.logical_type} in a data file of version {version}",
                column=field.name,
                expected="2.2",
            )


def _check_leaf(leaf: Field, version: FileVersion, any_blobs: bool) -> None:
    if leaf.is_blob_v2:
        if version < FileVersion.V2_2:
            raise UnsupportedFeatureError(
                f"blobs of version 2 in a data file of version {version}", column=leaf.name, expected="2.2"
            )
        if is_prepared(leaf) and not any_blobs:
            raise UnsupportedFeatureError(
                "descriptors of stored blobs in rows of a dataset",
                column=leaf.name,
                expected="a data file of `LanceFileSession`",
            )
        return
    if leaf.is_blob:
        if version >= FileVersion.V2_2 and not any_blobs:
            raise UnsupportedFeatureError(
                f"blobs of the first form in a file of version {version}", column=leaf.name
            )
        return
    arrow_type = leaf.arrow_type
    if pa.types.is_struct(arrow_type):
        _check_packed(leaf, version)
    elif pa.types.is_dictionary(arrow_type):
        if not (fixed_bits(arrow_type.value_type) or offset_bits(arrow_type.value_type)):
            raise UnsupportedFeatureError("dictionary of such values", column=leaf.name, found=arrow_type)
    elif pa.types.is_fixed_size_list(arrow_type):
        if not _holds_vectors(arrow_type):
            raise UnsupportedFeatureError("fixed-size list of such items", column=leaf.name, found=arrow_type)
    elif is_empty_binary(arrow_type):
        if version < FileVersion.V2_2:
            raise UnsupportedFeatureError(
                f"type {leaf.logical_type} in a data file of version {version}",
                column=leaf.name,
                expected="2.2",
            )
    elif not (pa.types.is_null(arrow_type) or fixed_bits(arrow_type) or offset_bits(arrow_type)):
        raise UnsupportedFeatureError("type of a column", column=leaf.name, found=arrow_type)


def _check_packed(leaf: Field, version: FileVersion) -> None:
    for member in leaf.arrow_type:
        is_struct = pa.types.is_struct(member.type)
        if not (_is_packable(member.type) and (not is_struct or _has_text(member.type))):
            raise UnsupportedFeatureError(
                f"packed struct with the member {member.name!r}", column=leaf.name, found=member.type
            )
        is_fixed = bool(fixed_bits(member.type))
        if not is_fixed and version < FileVersion.V2_2:
            raise UnsupportedFeatureError(
                f"packed struct with the member {member.name!r} in a data file of version {version}",
                column=leaf.name,
                expected="2.2",
                found=member.type,
            )


def _is_packable(member: pa.DataType) -> bool:
    """Return whether a packed struct may have a member of this type."""
    if pa.types.is_struct(member):
        return member.num_fields > 0 and all(_is_packable(field.type) for field in member)
    if pa.types.is_dictionary(member):
        return False
    bits = fixed_bits(member)
    return bool(offset_bits(member)) or _holds_vectors(member) or (bits > 0 and bits % 8 == 0)


def _has_text(struct: pa.StructType) -> bool:
    """Return whether each struct, at any depth, has text, binary or such a struct as a member. The reference
    reads no other structs within packed structs.
    """
    inner = [field.type for field in struct if pa.types.is_struct(field.type)]
    return all(_has_text(each) for each in inner) and bool(
        inner or any(offset_bits(field.type) for field in struct)
    )


def _holds_vectors(arrow_type: pa.DataType) -> bool:
    """Return whether the type is a fixed-size list, at any depth, of bools or of values of whole bytes."""
    item = arrow_type
    while pa.types.is_fixed_size_list(item):
        item = item.value_type
    if item is arrow_type or pa.types.is_dictionary(item):
        return False
    return fixed_bits(item) == 1 or (fixed_bits(item) > 0 and fixed_bits(item) % 8 == 0)
