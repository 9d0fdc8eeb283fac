"""Packed structs: fields side by side in one column."""

from __future__ import annotations

from pathlib import Path

import pytest

from lance_core.errors import CorruptFileError
from lance_core.proto import encodings_v2_0_pb2 as pb
from lance_core.proto import file_pb2
from support.files.files_2_0 import ColumnPages, HandWritten, Page, leaf, write_file

ROWS = bytes.fromhex("0100000000000000 0200 0300000000000000 fcff")


def _write(folder: Path, *types: str, rows: bytes = ROWS, num_rows: int = 2, inner: int = 2) -> HandWritten:
    page = Page(num_rows)
    nothing = pb.ArrayEncoding(flat=pb.Flat(bits_per_value=64, buffer=pb.Buffer()))
    page.of(
        pb.ArrayEncoding(packed_struct=pb.PackedStruct(inner=[nothing] * inner, buffer=page.buffer(rows)))
    )
    struct = file_pb2.Field(
        name="c", id=0, parent_id=-1, logical_type="struct", metadata={"lance-encoding:packed": b"true"}
    )
    fields = [struct, *(leaf("xyz"[i], kind, i + 1, 0) for i, kind in enumerate(types))]
    return write_file(folder, fields, [ColumnPages([page])], num_rows)


def test_the_example_of_the_format(tmp_path: Path) -> None:
    file = _write(tmp_path, "uint64", "int16")
    expected = [{"x": 1, "y": 2}, {"x": 3, "y": -4}]
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == expected
    assert file.ours(1, 2)["c"].to_pylist() == expected[1:]


def test_fields_that_are_lists(tmp_path: Path) -> None:
    file = _write(tmp_path, "fixed_size_list:fixed_size_list:uint8:2:2", "fixed_size_binary:6")
    first, second = ROWS[:10], ROWS[10:]
    expected = [{"x": [[*row[:2]], [*row[2:4]]], "y": row[4:]} for row in (first, second)]
    assert file.ours()["c"].to_pylist() == expected


@pytest.mark.parametrize(
    ("types", "arguments", "words"),
    [
        (("uint64", "int32"), {}, "20 bytes for 2 rows of 12"),
        (("uint64", "int16", "int8"), {}, "2 fields"),
        (("uint64",), {}, "2 fields"),
        (("uint64", "bool"), {}, "type bool"),
        (("uint64", "string"), {}, "type string"),
        (("uint64", "dict:string:int16:false"), {}, "type dictionary"),
        (("uint64", "int16"), {"num_rows": 3}, "20 bytes for 3 rows"),
    ],
)
def test_rows_of_another_shape_are_refused(
    types: tuple[str, ...], arguments: dict[str, int], words: str, tmp_path: Path
) -> None:
    """T22."""
    with pytest.raises(CorruptFileError, match=rf"{words}.*column c.*page 0"):
        _write(tmp_path, *types, **arguments).ours()
