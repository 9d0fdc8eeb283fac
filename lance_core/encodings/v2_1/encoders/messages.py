"""Descriptions of encodings, as pages carry them."""

from collections.abc import Sequence

from lance_core.proto import encodings_v2_1_pb2 as proto

LZ4 = proto.COMPRESSION_ALGORITHM_LZ4
ZSTD = proto.COMPRESSION_ALGORITHM_ZSTD

Encoding = proto.CompressiveEncoding


def flat(bits: int) -> Encoding:
    """Values of `bits` bits each, as they are."""
    return Encoding(flat=proto.Flat(bits_per_value=bits))


def variable(offset_bits: int) -> Encoding:
    """Offsets and bytes."""
    return Encoding(variable=proto.Variable(offsets=flat(offset_bits)))


def inline_bitpacking(word_bits: int) -> Encoding:
    """Groups that carry their own bit width."""
    return Encoding(inline_bitpacking=proto.InlineBitpacking(uncompressed_bits_per_value=word_bits))


def out_of_line_bitpacking(word_bits: int, bits: int) -> Encoding:
    """Groups of one bit width."""
    message = proto.OutOfLineBitpacking(uncompressed_bits_per_value=word_bits, values=flat(bits))
    return Encoding(out_of_line_bitpacking=message)


def runs(word_bits: int) -> Encoding:
    """Run values, and run lengths of one byte."""
    return Encoding(rle=proto.Rle(values=flat(word_bits), run_lengths=flat(8)))


def byte_stream_split(bits: int) -> Encoding:
    """The bytes of each value in streams of their own."""
    return Encoding(byte_stream_split=proto.ByteStreamSplit(values=flat(bits)))


def fsst(symbol_table: bytes, offset_bits: int) -> Encoding:
    """Symbol codes in place of bytes."""
    return Encoding(fsst=proto.Fsst(symbol_table=symbol_table, values=variable(offset_bits)))


def general(scheme: proto.CompressionScheme, level: int | None, values: Encoding) -> Encoding:
    """LZ4 or ZSTD around another encoding."""
    compression = proto.BufferCompression(scheme=scheme, level=level)
    return Encoding(general=proto.General(compression=compression, values=values))


def fixed_size_list(dimension: int, values: Encoding, *, has_validity: bool) -> Encoding:
    """`dimension` items per value; `has_validity` where the items have bitmaps."""
    message = proto.FixedSizeList(items_per_value=dimension, values=values, has_validity=has_validity)
    return Encoding(fixed_size_list=message)


def packed_struct(bits: Sequence[int]) -> Encoding:
    """Members of fixed width, one after the other."""
    return Encoding(packed_struct=proto.PackedStruct(bits_per_value=bits, values=flat(sum(bits))))
