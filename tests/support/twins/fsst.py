"""FSST symbol tables and codes, one code at a time."""

from __future__ import annotations

from collections.abc import Sequence

ESCAPE = 255
TABLE_BYTES = 2312


def symbol_table(symbols: Sequence[bytes], *, codes: bool = True, garbage: bytes = b"") -> bytes:
    """Return the table of a page; unused bytes behind short symbols are `garbage`."""
    header = bytes([len(symbols), 0, 0, int(codes)]) + b"TSSF"
    padded = b"".join((symbol + garbage * 8)[:8].ljust(8, b"\0") for symbol in symbols)
    lengths = bytes(len(symbol) for symbol in symbols)
    return (header + padded + lengths).ljust(TABLE_BYTES, b"\0")


def encode(text: bytes, symbols: Sequence[bytes]) -> bytes:
    """Return the longest symbol at each position, an escaped byte where none fits."""
    code = {symbol: number for number, symbol in enumerate(symbols)}
    out = bytearray()
    while text:
        length = next((n for n in range(8, 0, -1) if text[:n] in code and len(text) >= n), 0)
        out += bytes([code[text[:length]]]) if length else bytes([ESCAPE, text[0]])
        text = text[length or 1 :]
    return bytes(out)


def decode(codes: bytes, symbols: Sequence[bytes]) -> bytes:
    """Symbols and escaped bytes; IndexError where an escape has nothing behind it or a symbol is missing."""
    out = bytearray()
    position = 0
    while position < len(codes):
        if codes[position] == ESCAPE:
            out.append(codes[position + 1])
            position += 2
        else:
            out += symbols[codes[position]]
            position += 1
    return bytes(out)
