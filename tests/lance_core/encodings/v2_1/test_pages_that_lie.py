"""Pages whose parts contradict each other, and pages with cut or changed bytes."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zstandard

from lance_core.encodings.file_pages import FilePages, TooManyBytes
from lance_core.encodings.v2_1.flat import Flat
from lance_core.encodings.v2_1.layouts.dictionary import decode_dictionaries
from lance_core.encodings.v2_1.layouts.levels import Node
from lance_core.encodings.v2_1.layouts.miniblock import MiniBlockPage
from lance_core.encodings.v2_1.layouts.page import LeafType
from lance_core.encodings.values import FixedValues
from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.kernels import CorruptData, OffsetOverflow
from lance_core.proto import encodings_v2_1_pb2 as pb
from support.twins import nested, pages, values
from support.twins.pages import ITEM, LIST, HandmadePage, flat, variable

REFUSALS = (
    CorruptData,
    CorruptFileError,
    UnsupportedFeatureError,
    OffsetOverflow,
    MemoryError,
    pa.ArrowInvalid,
)
"""Exceptions that the column reader turns into errors which name the page."""


def u16(*levels: int) -> bytes:
    return values.integers(levels, 16)


def i32(*numbers: int) -> bytes:
    return values.integers(numbers, 32)


def page_of(chunks: list[bytes], exponents: list[int], num_rows: int, **layout: Any) -> HandmadePage:
    """Return an int32 page of these chunks."""
    words = [(len(chunk) // 8 - 1) << 4 | k for chunk, k in zip(chunks, exponents, strict=True)]
    fields = {"value_compression": flat(32)} | layout
    nesting = fields.pop("nesting", (ITEM,))
    arrow_type = fields.pop("arrow_type", pa.int32())
    more = fields.pop("buffers", [])
    return pages.mini_block([u16(*words), b"".join(chunks), *more], num_rows, arrow_type, nesting, **fields)


def list_page(
    rep: list[int], def_: list[int] | None, numbers: list[int], num_rows: int, **more: Any
) -> HandmadePage:
    """list<int32> in one chunk."""
    chunk = values.chunk(
        [i32(*numbers)], num_levels=len(rep), rep=u16(*rep), def_=None if def_ is None else u16(*def_)
    )
    fields: dict[str, Any] = {
        "nesting": (ITEM, LIST),
        "layers": [nested.ALL_VALID_ITEM, nested.NULL_AND_EMPTY_LIST],
        "num_items": len(numbers),
        "rep_compression": flat(16),
        "repetition_index_depth": 1,
        "buffers": [values.integers([num_rows, 0], 64)],
    }
    if def_ is not None:
        fields["def_compression"] = flat(16)
    return page_of([chunk], [0], num_rows, **fields | more)


def refused(page: HandmadePage, start: int = 0, end: int | None = None) -> None:
    stop = page.num_rows if end is None else end
    with pytest.raises(CorruptData):
        page.array(start, stop)
    with pytest.raises(CorruptData):
        page.picked(range(start, stop))


def test_levels_that_claim_more_values_than_there_are() -> None:
    """T22: levels say three items, the chunk holds two; a read of a few rows must not reach behind them."""
    page = list_page([1, 0, 1, 1], [0, 0, 0, 1], [10, 20], 3)
    for start, end in ((0, 3), (0, 1), (1, 2), (2, 3), (1, 3)):
        refused(page, start, end)


def test_levels_above_the_highest() -> None:
    """T22: in flat columns, in lists, and as repetition levels."""
    chunk = values.chunk([i32(1, 2)], num_levels=2, def_=u16(0, 2))
    refused(page_of([chunk], [0], 2, layers=[nested.NULLABLE_ITEM], def_compression=flat(16)))
    refused(list_page([1, 1], [0, 3], [10], 2))
    refused(list_page([1, 2], None, [10, 20], 2))
    refused(list_page([2, 2], None, [10, 20], 2))


def test_rows_that_are_not_in_the_levels() -> None:
    """T22: the repetition index and the levels disagree."""
    refused(list_page([1, 0, 0], None, [1, 2, 3], 2))
    refused(list_page([1, 1, 1], None, [1, 2, 3], 2))
    with pytest.raises(CorruptData):  # where single rows are picked, what is before them is skipped
        list_page([0, 1, 1], None, [1, 2, 3], 2).array()
    refused(list_page([1, 1], None, [1, 2], 2, buffers=[values.integers([1, 0], 64)]))
    refused(list_page([1, 1], None, [1, 2], 2, buffers=[values.integers([3, 0], 64)]))
    refused(list_page([1, 1], None, [1, 2], 2, buffers=[values.integers([2, 0, 0], 64)]))
    refused(list_page([1, 1], None, [1, 2], 2, buffers=[]))
    refused(list_page([1, 1], None, [1, 2], 2, repetition_index_depth=0))


@pytest.mark.parametrize("num_items", [5, (1 << 48) + 1, 1 << 63, (1 << 64) - 1])
def test_counts_that_no_page_has(num_items: int) -> None:
    """T24: refused without an attempt to take the memory, also beyond what 64 signed bits hold."""
    refused(list_page([1, 1], None, [1, 2], 2, num_items=num_items))
    huge = 1 << 47
    index = values.integers([huge, 0], 64)
    refused(replace(list_page([1, 1], None, [1, 2], 2, buffers=[index]), num_rows=huge), 0, 5)


@pytest.mark.parametrize("num_levels", [4, (1 << 48) + 1, 1 << 63, (1 << 64) - 1])
def test_constant_pages_with_a_lie_about_their_levels(num_levels: int) -> None:
    """T24: levels that a constant page stores packed may lie about their number."""
    packed = {"rep_compression": pages.packed(16, 1), "def_compression": pages.packed(16, 2)}
    layers = [nested.NULLABLE_ITEM, nested.NULL_AND_EMPTY_LIST]
    for claim in ((num_levels, 3), (3, num_levels), (num_levels, num_levels)):
        refused(
            pages.constant(
                [u16(1, 0, 1), u16(1, 1, 2)],
                2,
                pa.int8(),
                (ITEM, LIST),
                layers=layers,
                num_rep_values=claim[0],
                num_def_values=claim[1],
                **packed,
            )
        )
    nothing = {"def_compression": pages.packed(16, 0), "num_def_values": num_levels}
    page = pages.constant([b"", u16(0)], 3, pa.int8(), layers=[nested.NULLABLE_ITEM], **nothing)
    assert page.array().to_pylist() == [None] * 3


def test_constant_pages_that_lie() -> None:
    """T22: two values, too many buffers, values of a wrong width, scalars that leave their buffer."""
    one = [nested.ALL_VALID_ITEM]
    refused(pages.constant([b""] * 4, 2, pa.int32()))
    refused(pages.constant([i32(1, 4, 7)], 2, pa.int32(), layers=one, inline_value=i32(7)))
    refused(pages.constant([], 2, pa.int32(), layers=one, inline_value=b"123"))
    refused(pages.constant([], 2, pa.struct([("a", pa.int32())]), layers=one, inline_value=b"1234"))
    refused(pages.constant([b"", u16(0, 1, 0)], 2, pa.int32(), inline_value=i32(7)))
    refused(pages.constant([b"", b"\0"], 2, pa.int32()))
    refused(pages.constant([u16(0, 0), b""], 2, pa.int32()))
    refused(pages.constant([], 2, pa.int8(), (ITEM, LIST), layers=[1, 2]))
    for scalar in (b"", i32(1), i32(2, 4, 4), i32(1, 5, 7), i32(1, 4), i32(1, 1 << 31), i32(1, 3) + b"abc"):
        refused(pages.constant([scalar], 2, pa.int32(), layers=one))
    for scalar in (
        i32(2, 8, 3, 0, 4) + b"hey",
        i32(2, 8, 3, 2, 1) + b"hey",
        i32(2, 4, 3, 0) + b"hey",
        i32(1, 3) + b"hey",
    ):
        refused(pages.constant([scalar], 2, pa.string(), layers=one))


@pytest.mark.parametrize(
    "arrow_type",
    [
        pa.int64(),
        pa.string(),
        pa.list_(pa.int32(), 2),
        pa.list_(pa.int16(), 2),
        pa.struct([("a", pa.int32())]),
        pa.struct([]),
        pa.dictionary(pa.int32(), pa.string()),
        pa.null(),
        pa.bool_(),
    ],
    ids=str,
)
def test_values_of_another_type_than_the_column(arrow_type: pa.DataType) -> None:
    """T22: Arrow would abort the process over a dictionary column without its items."""
    flat_page = page_of([values.chunk([i32(1, 2)])], [0], 2, arrow_type=arrow_type)
    refused(flat_page)
    refused(pages.full_zip([i32(1, 2)], 2, arrow_type, bits_per_value=32, value_compression=flat(32)))
    if not pa.types.is_string(arrow_type):
        one = [nested.ALL_VALID_ITEM]
        refused(pages.constant([], 2, arrow_type, layers=one, inline_value=i32(7)))


def dictionary_page(indices: bytes, bits: int, items: list[bytes], arrow_type: pa.DataType) -> HandmadePage:
    return page_of(
        [values.chunk([indices])],
        [0],
        len(indices) * 8 // bits,
        arrow_type=arrow_type,
        value_compression=flat(bits),
        buffers=[values.variable_block(items, 32)],
        dictionary=variable(32),
        num_dictionary_items=len(items),
    )


def test_indices_that_arrow_would_read_as_negative() -> None:
    """T22: 200 of 250 items is in range as a byte, and -56 as the index type of the column."""
    items = [b"%d" % i for i in range(250)]
    signed, unsigned = pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint8(), pa.string())
    assert dictionary_page(b"\x7f\0", 8, items, signed).array().to_pylist() == ["127", "0"]
    assert dictionary_page(b"\xc8\0", 8, items, unsigned).array().to_pylist() == ["200", "0"]
    refused(dictionary_page(b"\xc8\0", 8, items, signed))
    refused(dictionary_page(b"\xfa\0", 8, items, unsigned))
    refused(dictionary_page(b"\xfa\0", 8, items, pa.string()))


def test_dictionaries_that_lie() -> None:
    """T22, T24: more items than the block has, and indices of another width than the column's."""
    page = dictionary_page(b"\1\0", 8, [b"a", b"b"], pa.string())
    for claim in (3, 1 << 40, 1 << 63, (1 << 64) - 1):
        layout = pb.PageLayout()
        layout.CopyFrom(page.layout)
        layout.mini_block_layout.num_dictionary_items = claim
        refused(replace(page, layout=layout))
    refused(dictionary_page(b"\1\0", 8, [b"a", b"b"], pa.dictionary(pa.int16(), pa.string())))
    refused(dictionary_page(b"\1\0", 8, [b"a", b"b"], pa.large_string()))


def test_full_zip_pages_that_lie() -> None:
    """T22: sizes, widths of levels, indices."""

    def zipped(buffers: list[bytes], **layout: Any) -> HandmadePage:
        fields = {"bits_per_value": 32, "value_compression": flat(32)} | layout
        nesting = fields.pop("nesting", (ITEM,))
        return pages.full_zip(buffers, 2, fields.pop("arrow_type", pa.int32()), nesting, **fields)

    one_list = {"nesting": (ITEM, LIST), "layers": [1, nested.ALL_VALID_LIST]}
    refused(zipped([bytes(9)]))
    refused(zipped([]))
    refused(zipped([bytes(10)], bits_def=1))
    refused(zipped([bytes(10)], bits_def=2, layers=[nested.NULLABLE_ITEM]))
    refused(zipped([bytes(10)], bits_rep=4294967295))
    refused(zipped([b"\1" + bytes(4) + b"\1" + bytes(4)], bits_rep=1, **one_list))
    refused(zipped([bytes(10), bytes(3)], bits_rep=1, **one_list))
    refused(zipped([bytes(8), bytes(3)], **one_list))
    good = [i32(1) + b"a" + i32(1) + b"b", bytes([0, 5, 10])]
    page = pages.full_zip(good, 2, pa.string(), bits_per_offset=32, value_compression=variable(32))
    assert page.array().to_pylist() == ["a", "b"]
    for bits in (8, 16, 24):
        refused(pages.full_zip(good, 2, pa.string(), bits_per_offset=bits, value_compression=variable(32)))
    for index in (bytes([0, 4, 10]), bytes([5, 0, 10]), bytes([0, 11, 10]), bytes(4), b""):
        refused(replace(page, buffers=(good[0], index)), 0, 1)
    refused(replace(page, arrow_type=pa.large_string()))


def test_mini_block_pages_that_lie() -> None:
    """T22: chunk words, buffers and counts."""
    chunk = values.chunk([i32(1, 2)])
    good = page_of([chunk], [0], 2)
    assert good.array().to_pylist() == [1, 2]
    refused(replace(good, buffers=(b"", chunk)))
    refused(replace(good, buffers=(b"\0", chunk)))
    refused(replace(good, buffers=(b"\xf0\xff", chunk)))
    refused(replace(good, buffers=(good.buffers[0],)))
    refused(replace(good, num_rows=3))
    refused(page_of([chunk, chunk], [0, 0], 4))
    refused(page_of([chunk, chunk], [2, 0], 3))
    refused(page_of([chunk, chunk], [1, 0], 5))
    refused(page_of([chunk], [0], 2, num_buffers=2))
    refused(page_of([chunk], [0], 2, rep_compression=flat(16)))
    refused(page_of([chunk], [0], 2, has_large_chunk=True))
    refused(replace(good, nesting=(ITEM, ITEM, Node(dimension=3))))


def test_compressed_values_that_add_up_to_too_much() -> None:
    """T24: a page of frames may claim more than 32-bit offsets address; the reader then takes fewer rows."""
    size, block = (1 << 31) - 2, 1 << 17  # blocks of one byte that is repeated
    zeros = b"".join((block << 3 | 2).to_bytes(3, "little") + b"\0" for _ in range(size // block))
    zeros += ((size % block) << 3 | 3).to_bytes(3, "little") + b"\0"
    frames = [
        size.to_bytes(8, "little") + b"\x28\xb5\x2f\xfd\xa0" + size.to_bytes(4, "little") + zeros,
        (3).to_bytes(8, "little") + zstandard.compress(b"def"),
    ]
    data = values.zip_entries([(0, 0, frame) for frame in frames], 0, 0, 32)
    ends = [0, 4 + len(frames[0]), len(data)]
    encoding = pages.general(pages.ZSTD, variable(32))
    page = pages.full_zip(
        [data, values.integers(ends, 32)], 2, pa.string(), bits_per_offset=32, value_compression=encoding
    )
    with pytest.raises(OffsetOverflow):
        page.array()
    assert page.array(1, 2).to_pylist() == ["def"]


WIDE = pa.list_(pa.float32(), 1 << 20)
NULL_ROWS = pb.CompressiveEncoding(
    variable_packed_struct=pb.VariablePackedStruct(
        fields=[pb.VariablePackedStruct.FieldEncoding(value=flat(8 << 20), bits_per_value=8 << 20)]
    )
)


@pytest.mark.parametrize(
    "page",
    [
        pages.constant([], 10, WIDE),
        pages.full_zip(
            [bytes(10 << 17)],
            10,
            WIDE,
            bits_per_value=1 << 20,
            value_compression=pages.lists_of(
                1 << 20, pb.CompressiveEncoding(constant=pb.Constant()), has_validity=True
            ),
        ),
        pages.full_zip(
            [b"\1" * 10, bytes(11)],
            10,
            pa.struct([("a", pa.binary(1 << 20))]),
            bits_def=1,
            bits_per_offset=32,
            layers=[nested.NULLABLE_ITEM],
            value_compression=NULL_ROWS,
        ),
        pages.mini_block([u16(0), bytes(64)], 10, pa.binary(1 << 20), value_compression=flat(8 << 20)),
        pages.constant([], 10, pa.binary(), layers=[nested.ALL_VALID_ITEM], inline_value=b"x" * (1 << 20)),
    ],
    ids=["constant", "null items", "null rows", "fixed", "one value"],
)
def test_estimates_know_what_small_pages_become(page: HandmadePage) -> None:
    """T24: batches are cut by these estimates, so a page of few bytes must not look small."""
    assert page.open().decoded_bytes >= 10 << 20


def examples() -> dict[str, HandmadePage]:
    """Pages of every layout, with most encodings."""
    rng = random.Random(3)
    nodes = [nested.LIST, nested.STRUCT, nested.LIST]
    column = nested.random_column(rng, nodes, 12)
    text = [b"lance", b"", b"flight"] * 4
    frames = [b"\x01\0\0\0\0\0\0\0" + b"\x28\xb5\x2f\xfd\x20\x01\x09\0\0a"] * 2
    lists = [u16(1, 0, 1), u16(1, 1, 2)]
    fields = [
        pb.VariablePackedStruct.FieldEncoding(value=flat(32), bits_per_value=32),
        pb.VariablePackedStruct.FieldEncoding(value=variable(32), bits_per_length=32),
    ]
    return {
        "nested mini-block": pages.mini_block_page(column, [1, 2, 1, 1]),
        "nested full-zip": pages.full_zip_page(column, as_text=False),
        "nested full-zip text": pages.full_zip_page(column, as_text=True),
        "text": page_of(
            [values.chunk([values.variable_chunk(text, 32)])],
            [0],
            12,
            value_compression=variable(32),
            arrow_type=pa.string(),
        ),
        "runs": page_of(
            [values.chunk(list(values.runs([5] * 40, 32)))],
            [0],
            40,
            value_compression=pages.runs(32),
            num_buffers=2,
        ),
        "dictionary column": dictionary_page(
            b"\1\0\1", 8, [b"a", b"b"], pa.dictionary(pa.int8(), pa.string())
        ),
        "dictionary": dictionary_page(b"\1\0\1", 8, [b"a", b"b"], pa.string()),
        "vectors": pages.full_zip(
            [b"\0\1" + i32(1, 0) + b"\1\0" + i32(0, 0)],
            2,
            pa.list_(pa.int32(), 2),
            bits_def=1,
            bits_per_value=72,
            layers=[nested.NULLABLE_ITEM],
            value_compression=pages.lists_of(2, flat(32), has_validity=True),
        ),
        "packed": pages.full_zip(
            [bytes.fromhex("00 0a000000 01000000 02000000 7879 01"), bytes.fromhex("00 0f 10")],
            2,
            pa.struct([("n", pa.int32()), ("s", pa.string())]),
            bits_def=1,
            bits_per_offset=32,
            layers=[nested.NULLABLE_ITEM],
            value_compression=pb.CompressiveEncoding(
                variable_packed_struct=pb.VariablePackedStruct(fields=fields)
            ),
        ),
        "frames": pages.full_zip(
            [values.zip_entries([(0, 0, frame) for frame in frames], 0, 0, 32), bytes([0, 22, 44])],
            2,
            pa.string(),
            bits_per_offset=32,
            value_compression=pages.general(pages.ZSTD, variable(32)),
        ),
        "constant lists": pages.constant(
            lists,
            2,
            pa.int8(),
            (ITEM, LIST),
            layers=[nested.NULLABLE_ITEM, nested.NULL_AND_EMPTY_LIST],
            rep_compression=pages.packed(16, 1),
            def_compression=pages.packed(16, 2),
            num_rep_values=3,
            num_def_values=3,
        ),
        "constant scalar": pages.constant(
            [i32(2, 8, 3, 0, 3) + b"hey", b"", u16(0, 1)], 2, pa.string(), layers=[nested.NULLABLE_ITEM]
        ),
    }


PAGES = examples()


def answer_or_refusal(page: HandmadePage) -> bool:
    """Return whether the page could be read; what is read has to be sound Arrow data."""
    try:
        page.array()
        page.array(1, 2)
        page.picked([0, 1])
    except REFUSALS:
        return False
    return True


def changed(data: bytes, rng: random.Random) -> bytes:
    """One to three bytes replaced, or the end cut off."""
    if not data or rng.random() < 0.2:
        return data[: rng.randrange(len(data) + 1)]
    mutant = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(mutant))
        mutant[at] = rng.choice(
            (0, 1, 127, 128, 255, rng.randrange(256), mutant[at] ^ (1 << rng.randrange(8)))
        )
    return bytes(mutant)


@pytest.mark.parametrize("mutants", [150, pytest.param(6000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", PAGES)
def test_changed_pages(name: str, mutants: int) -> None:
    """T22, T23: buffers and descriptions with changed bytes are read or refused, and nothing else."""
    page = PAGES[name]
    assert answer_or_refusal(page)
    rng = random.Random(f"{name} {mutants}")
    description = page.layout.SerializeToString()
    for i in range(mutants):
        if i % 2:
            answer_or_refusal(replace(page, encoding_bytes=changed(description, rng)))
        else:
            k = rng.randrange(len(page.buffers))
            buffers = [changed(b, rng) if j == k else b for j, b in enumerate(page.buffers)]
            answer_or_refusal(replace(page, buffers=tuple(buffers)))


@pytest.mark.parametrize(
    ("indices", "bits", "match"),
    [
        ((0, 0, 0), 1, "1 bits"),
        ((0, 0, 0), 24, "24 bits"),
        ((0, 0, 0), 128, "128 bits"),
        ((0, 1), 8, "2 bytes"),
        ((0, 0, 4), 8, None),
        ((2, 0, 0), 8, "names no item of its page"),
    ],
)
def test_dictionary_indices_of_several_files(indices: tuple[int, ...], bits: int, match: str | None) -> None:
    """T22: two pages of two and one values, each with two items."""
    records = [[0, n, n, 2, 3, *[0] * 4, 8 * page, 8, *[0] * 4] for page, n in enumerate((2, 1))]
    files = FilePages.parse(i32(5, 6, 7, 8), memoryview(np.array(records, np.int64).tobytes()))
    items = decode_dictionaries(Flat(32), files, pa.int32())
    numbers = FixedValues(
        pa.py_buffer(b"".join(n.to_bytes(max(bits // 8, 1), "little") for n in indices)), bits
    )
    with pytest.raises(CorruptData, match=match):
        items.look_up(numbers, 3, 4)


def test_dictionary_items_of_several_files_count() -> None:
    """T33: few values, and dictionaries of many items in few bytes."""
    layout = pb.MiniBlockLayout(
        value_compression=flat(8), dictionary=flat(32), num_buffers=1, layers=[pb.REPDEF_ALL_VALID_ITEM]
    )
    data = u16(0) + bytes(14)  # the word of a chunk of 8 bytes, and the chunk
    records = np.array([[0, 2, 2, 10_000, 3, 0, 2, 8, 8, 0, 8, *[0] * 4]] * 2, np.int64)
    files = FilePages.parse(data, memoryview(records.tobytes()))
    leaf = LeafType(pa.int32(), (Node(),))
    with pytest.raises(TooManyBytes, match="80000 bytes"):
        MiniBlockPage.decode_files(layout.SerializeToString(), leaf, files, 50_000)
