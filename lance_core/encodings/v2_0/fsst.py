"""FSST: strings as one-byte codes for symbols of up to eight bytes. The symbol table is in the description of
the page.

    symbols "foo", "xbar"     codes 00 01 -> "fooxbar", ff 5a -> "Z"

The table has a switch. If it is off, which is usual in pages with little text, the values are plain text.
"""

from dataclasses import dataclass

from lance_core import kernels
from lance_core.encodings.picking import Int64s, Picking
from lance_core.encodings.v2_0.binary import Binary
from lance_core.encodings.v2_0.encoding import Decoded, Encoding
from lance_core.encodings.v2_0.range_requests import Steps
from lance_core.encodings.values import VariableValues, as_buffer
from lance_core.kernels import CorruptData, SymbolTable

EXPANSION = 3
"""Guess of the number of bytes that a code becomes."""


@dataclass(frozen=True, slots=True)
class Fsst(Encoding):
    """Strings as codes of a symbol table."""

    name = "fsst"
    codes: Binary
    table: SymbolTable

    @classmethod
    def parse(cls, codes: Encoding, table: bytes) -> "Fsst":
        """Make the encoding from the encoding of the codes and the serialized table."""
        if not isinstance(codes, Binary):
            raise CorruptData(f"FSST over {codes.name!r}")
        return cls(codes, SymbolTable(table))

    def read(self, start: int, end: int) -> Steps[Decoded]:
        decoded = yield from self.codes.read(start, end)
        return expand(self.table, decoded, end - start)

    @property
    def can_pick(self) -> bool:
        return self.codes.can_pick

    def pick(self, values: Int64s) -> Picking[Decoded]:
        decoded = yield from self.codes.pick(values)
        return expand(self.table, decoded, len(values))

    @property
    def decoded_bytes(self) -> int:
        return self.codes.decoded_bytes * (EXPANSION if self.table.codes else 1)


def expand(table: SymbolTable, decoded: Decoded, num_values: int) -> Decoded:
    """Return the strings whose codes were decoded.

    Raises:
        CorruptData: a code that names no symbol.
    """
    codes = decoded.values
    if not table.codes or not isinstance(codes, VariableValues):
        return decoded
    offsets, data = kernels.expand_symbol_values(
        table, codes.offsets, codes.data, num_values, codes.offset_bits
    )
    return Decoded(VariableValues(as_buffer(offsets), as_buffer(data), codes.offset_bits), decoded.validity)
