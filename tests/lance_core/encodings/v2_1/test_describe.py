"""Layouts and encodings in words."""

from __future__ import annotations

import pytest

from lance_core.encodings.v2_1.describe import describe_encoding, describe_page_layout
from lance_core.errors import CorruptFileError
from lance_core.proto import encodings_v2_1_pb2 as pb
from support.twins import pages
from support.twins.pages import flat, general, lists_of, packed, runs, symbols, variable

Encoding = pb.CompressiveEncoding
FIELDS = [pb.VariablePackedStruct.FieldEncoding(value=encoding) for encoding in (flat(32), variable(32))]


def test_every_encoding_has_words() -> None:
    """A new member of the message has to be given some."""
    for field in Encoding.DESCRIPTOR.oneofs_by_name["compression"].fields:
        encoding = Encoding()
        getattr(encoding, field.name).SetInParent()
        assert describe_encoding(encoding)


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        (general(pages.ZSTD, symbols([b"a"])), "general(zstd, fsst(variable(flat(32))))"),
        (packed(16, 3), "out-of-line bitpacking(16, flat(3))"),
        (runs(32), "rle(flat(32), lengths flat(8))"),
        (lists_of(3, flat(1), has_validity=True), "list of 3(flat(1), with nulls)"),
        (
            Encoding(packed_struct=pb.PackedStruct(bits_per_value=[32, 8], values=flat(40))),
            "packed struct(32+8 bits, flat(40))",
        ),
        (
            Encoding(variable_packed_struct=pb.VariablePackedStruct(fields=FIELDS)),
            "packed struct(flat(32), variable(flat(32)))",
        ),
        (Encoding(), "none"),
        (Encoding.FromString(bytes([14 << 3 | 2, 0])), "unknown(field 14)"),
    ],
)
def test_chains_read_from_the_outside_in(encoding: pb.CompressiveEncoding, words: str) -> None:
    assert describe_encoding(encoding) == words


def test_a_page_is_described_with_its_layers() -> None:
    layout = pb.MiniBlockLayout(layers=[3, 6, 77], def_compression=flat(16), value_compression=flat(32))
    description = describe_page_layout(pb.PageLayout(mini_block_layout=layout).SerializeToString())
    assert str(description) == "mini-block: flat(32); definition flat(16)"
    assert description.layers == ("nullable item", "null and empty list", "unknown layer 77")


def test_what_is_no_layout() -> None:
    with pytest.raises(CorruptFileError):
        describe_page_layout(b"\xff")
    assert describe_page_layout(bytes([5 << 3 | 2, 0])).layout == "unknown(field 5)"
