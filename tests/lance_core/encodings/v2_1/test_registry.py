"""Every encoding and layout that a page can name is read, or refused by its name."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from lance_core.encodings.v2_1.registry import ENCODINGS, UNSUPPORTED, parse_encoding
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_1_pb2 as pb
from support.runs.each_case import each_case
from support.twins import fsst, nested, pages, values
from support.twins.pages import ITEM, LIST, HandmadePage, flat, general, lists_of, packed, variable

Encoding = pb.CompressiveEncoding
CHUNK = values.chunk([values.integers([1, 2], 32)])
PAGE = pages.mini_block([values.integers([(len(CHUNK) // 8 - 1) << 4], 16), CHUNK], 2, pa.int32())


def with_values(encoding: Encoding, **layout: object) -> HandmadePage:
    """Return a mini-block page whose values are said to be encoded so."""
    return pages.mini_block(PAGE.buffers, 2, pa.int32(), value_compression=encoding, **layout)


def test_every_encoding_is_read_or_listed_as_unsupported() -> None:
    """A new member of the message has to be put into one of the two lists."""
    known = {field.name for field in Encoding.DESCRIPTOR.oneofs_by_name["compression"].fields}
    assert set(ENCODINGS) | set(UNSUPPORTED) == known
    assert not set(ENCODINGS) & set(UNSUPPORTED)
    assert all(UNSUPPORTED.values())


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_encodings_are_refused_by_name(name: str) -> None:
    encoding = Encoding()
    getattr(encoding, name).SetInParent()
    with pytest.raises(UnsupportedFeatureError, match=name):
        parse_encoding(encoding)
    with pytest.raises(UnsupportedFeatureError, match=name):
        with_values(encoding).read()


def test_unknown_encodings_are_refused() -> None:
    """Members 14 and 15 belong to later file versions."""
    with pytest.raises(UnsupportedFeatureError, match="unknown"):
        parse_encoding(Encoding())
    later = Encoding.FromString(bytes([14 << 3 | 2, 0]))
    with pytest.raises(UnsupportedFeatureError, match="unknown"):
        parse_encoding(general(pages.LZ4, later))


def test_unknown_layouts_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="unknown"):
        replace(PAGE, layout=pb.PageLayout()).read()
    with pytest.raises(UnsupportedFeatureError, match="unknown"):
        replace(PAGE, encoding_bytes=bytes([5 << 3 | 2, 0])).read()
    with pytest.raises(UnsupportedFeatureError, match="PlanarLayout"):
        replace(PAGE, encoding_type="lance.encodings23.PlanarLayout").read()
    with pytest.raises(CorruptData, match="cannot be parsed"):
        replace(PAGE, encoding_bytes=b"\xff").read()


def test_a_constant_with_a_value_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeatureError, match="constant"):
        with_values(Encoding(constant=pb.Constant(value=b"1"))).read()


SYMBOLS = Encoding(fsst=pb.Fsst(symbol_table=fsst.symbol_table([b"a"]), values=variable(32)))


@pytest.mark.parametrize(
    ("encoding", "place"),
    [
        (packed(32, 3), "mini-block chunks"),
        (Encoding(variable_packed_struct=pb.VariablePackedStruct()), "mini-block chunks"),
    ],
)
def test_encodings_are_refused_where_they_have_no_form(encoding: Encoding, place: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=place):
        with_values(encoding).read()


@pytest.mark.parametrize(
    "encoding", [pages.inline(32), pages.runs(32), general(pages.LZ4, flat(32)), variable(32), SYMBOLS]
)
def test_encodings_without_a_fixed_width_are_refused_in_rows(encoding: Encoding) -> None:
    page = pages.full_zip([bytes(8)], 2, pa.int32(), bits_per_value=32, value_compression=encoding)
    with pytest.raises(UnsupportedFeatureError, match="fixed-width full-zip"):
        page.read()


@pytest.mark.parametrize("encoding", [pages.inline(32), flat(32), lists_of(2, flat(32))])
def test_encodings_of_a_fixed_width_are_refused_in_payloads(encoding: Encoding) -> None:
    page = pages.full_zip(
        [bytes(4), bytes(2)], 1, pa.string(), bits_per_offset=32, value_compression=encoding
    )
    with pytest.raises(UnsupportedFeatureError, match="variable-width full-zip"):
        page.read()


@pytest.mark.parametrize("encoding", [SYMBOLS, lists_of(2, flat(32))])
def test_encodings_that_are_no_block_are_refused_as_dictionary(encoding: Encoding) -> None:
    page = pages.mini_block(
        [*PAGE.buffers, bytes(64)],
        2,
        pa.string(),
        value_compression=flat(32),
        dictionary=encoding,
        num_dictionary_items=2,
    )
    with pytest.raises(UnsupportedFeatureError, match="in a block"):
        page.read()


@pytest.mark.parametrize(
    "encoding", [variable(32), flat(8), flat(32), pages.runs(32), packed(32, 3), pages.inline(8)]
)
def test_levels_of_another_width_are_refused(encoding: Encoding) -> None:
    with pytest.raises(UnsupportedFeatureError, match="levels encoded as"):
        with_values(flat(32), def_compression=encoding, layers=[nested.NULLABLE_ITEM]).read()


def compressed_flat(bits: int) -> Encoding:
    return Encoding(flat=pb.Flat(bits_per_value=bits, data=pb.BufferCompression(scheme=pages.LZ4)))


BUFFER = pb.BufferCompression(scheme=pages.ZSTD)


@each_case(
    "encoding",
    [
        compressed_flat(32),
        flat(0),
        flat(3),
        flat(12),
        flat(1 << 40),
        Encoding(variable=pb.Variable(offsets=flat(32), values=BUFFER)),
        Encoding(variable=pb.Variable(offsets=pages.inline(32))),
        variable(16),
        Encoding(inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=32, values=BUFFER)),
        pages.inline(24),
        packed(32, 32),
        packed(12, 3),
        Encoding(
            out_of_line_bitpacking=pb.OutOfLineBitpacking(uncompressed_bits_per_value=32, values=variable(32))
        ),
        Encoding(fsst=pb.Fsst(symbol_table=fsst.symbol_table([b"a"]), values=flat(32))),
        Encoding(fsst=pb.Fsst(symbol_table=b"short", values=variable(32))),
        Encoding(rle=pb.Rle(values=flat(32), run_lengths=flat(16))),
        Encoding(rle=pb.Rle(values=flat(24), run_lengths=flat(8))),
        Encoding(rle=pb.Rle(values=variable(32), run_lengths=flat(8))),
        Encoding(byte_stream_split=pb.ByteStreamSplit(values=flat(16))),
        Encoding(byte_stream_split=pb.ByteStreamSplit(values=pages.inline(32))),
        general(0, flat(32)),
        general(7, flat(32)),
        general(pages.LZ4, Encoding(constant=pb.Constant())),
        lists_of(0, flat(32)),
        lists_of(1 << 40, flat(32)),
        lists_of(1 << 20, lists_of(1 << 20, flat(32))),
        lists_of(2, variable(32)),
        Encoding(packed_struct=pb.PackedStruct(bits_per_value=[32, 1], values=flat(33))),
        Encoding(packed_struct=pb.PackedStruct(bits_per_value=[32, 0], values=flat(32))),
        Encoding(packed_struct=pb.PackedStruct(bits_per_value=[32, 32], values=flat(32))),
        Encoding(packed_struct=pb.PackedStruct(bits_per_value=[], values=flat(0))),
        Encoding(
            variable_packed_struct=pb.VariablePackedStruct(
                fields=[pb.VariablePackedStruct.FieldEncoding(value=flat(32))]
            )
        ),
        Encoding(
            variable_packed_struct=pb.VariablePackedStruct(
                fields=[pb.VariablePackedStruct.FieldEncoding(value=flat(32), bits_per_value=64)]
            )
        ),
        Encoding(
            variable_packed_struct=pb.VariablePackedStruct(
                fields=[pb.VariablePackedStruct.FieldEncoding(value=variable(32), bits_per_length=16)]
            )
        ),
    ],
)
def test_descriptions_that_contradict_themselves(encoding: Encoding) -> None:
    """T22: refused when the page is opened, before any byte of it is read."""
    with pytest.raises(CorruptData):
        parse_encoding(encoding)


@each_case(
    ("layers", "nesting"),
    [
        ([], (ITEM,)),
        ([nested.ALL_VALID_ITEM] * 2, (ITEM,)),
        ([0], (ITEM,)),
        ([nested.NULLABLE_LIST], (ITEM,)),
        ([nested.ALL_VALID_ITEM] * 2, (ITEM, LIST)),
        ([nested.ALL_VALID_LIST, nested.ALL_VALID_ITEM], (ITEM, LIST)),
        ([9], (ITEM,)),
    ],
)
@each_case("kind", [pages.mini_block, pages.full_zip, pages.constant])
def test_layers_that_do_not_fit_the_column(kind: object, layers: list[int], nesting: object) -> None:
    """T22: unspecified, unknown, too few, too many, or lists where the type has none."""
    assert callable(kind)
    fields = {} if kind is pages.constant else {"value_compression": flat(32)}
    with pytest.raises(CorruptData):
        kind([bytes(8), bytes(8), bytes(16)], 2, pa.int32(), nesting, layers=layers, **fields).read()
