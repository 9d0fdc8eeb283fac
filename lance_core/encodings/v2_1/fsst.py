"""FSST: strings as one-byte codes for symbols of one to eight bytes.

A page has one symbol table of up to 255 symbols. Code 255 is an escape: the next byte stands for itself.
Every value is coded on its own. The table has a switch; if it is off, which is usual in small pages, the
values are plain text. The codes are stored like the bytes of a `Variable` encoding. Source: docs/format.md,
"FSST".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.picking import Int64s
from lance_core.encodings.v2_1.encoding import DescribeInner, DirectValues, Encoding, ParseInner
from lance_core.encodings.v2_1.variable import variable_message
from lance_core.encodings.values import VariableValues, as_buffer
from lance_core.kernels import CorruptData, Counts, Stream, SymbolTable
from lance_core.proto import encodings_v2_1_pb2 as proto


@dataclass(frozen=True, slots=True)
class Fsst(Encoding):
    """Symbol codes, stored as offsets and bytes."""

    name = "fsst"
    expansion = 3
    table: SymbolTable
    offset_bits: int

    @classmethod
    def parse(cls, message: proto.Fsst, parse_inner: ParseInner) -> Fsst:
        """Make the encoding from the symbol table of the page and the encoding of the codes."""
        codes = parse_inner(message.values)
        if not codes.plain_offset_bits:
            raise CorruptData(f"FSST over {codes.name!r} instead of 'variable'")
        return cls(SymbolTable(message.symbol_table), codes.plain_offset_bits)

    @staticmethod
    def describe(message: proto.Fsst, describe_inner: DescribeInner) -> str:
        return f"fsst({describe_inner(message.values)})"

    def direct(self) -> DirectValues:
        return DirectValues(self.name, self.offset_bits, has_offsets=True, symbols=self.table)

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> VariableValues:
        offsets, data = kernels.expand_symbols(self.table, buffers[0], counts, self.offset_bits)
        return VariableValues(as_buffer(offsets), as_buffer(data), self.offset_bits)

    def pick_chunks(self, buffers: Sequence[Stream], counts: Counts, picks: pa.Buffer) -> VariableValues:
        offsets, codes = kernels.pick_variable(buffers[0], counts, picks, self.offset_bits)
        picked = VariableValues(as_buffer(offsets), as_buffer(codes), self.offset_bits)
        return self.decode_payloads(picked, picks.size // 8)

    def decode_payloads(self, payloads: VariableValues, num_values: int) -> VariableValues:
        if not self.table.codes:
            return payloads
        offsets, data = kernels.expand_symbol_values(
            self.table, payloads.offsets, payloads.data, num_values, payloads.offset_bits
        )
        return VariableValues(as_buffer(offsets), as_buffer(data), payloads.offset_bits)


@dataclass(frozen=True, slots=True)
class FsstOfPages(Fsst):
    """Symbol codes of several pages, each with a table of its own."""

    tables: tuple[SymbolTable, ...]
    num_chunks: Int64s
    """Number of chunks of each page."""

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> VariableValues:
        offsets, data = kernels.expand_page_symbols(
            list(self.tables), self.num_chunks, buffers[0], counts, self.offset_bits
        )
        return VariableValues(as_buffer(offsets), as_buffer(data), self.offset_bits)


def fsst_message(symbol_table: bytes, offset_bits: int) -> proto.CompressiveEncoding:
    """Return the description of symbol codes in place of bytes."""
    message = proto.Fsst(symbol_table=symbol_table, values=variable_message(offset_bits))
    return proto.CompressiveEncoding(fsst=message)
