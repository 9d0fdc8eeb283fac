"""Options of the encoder in the metadata of a field: the keys that begin with `lance-encoding:`.

The layout is an option of the top-level field, all others of the leaf. An option that does not suit a page
(bit widths, versions) is ignored, as in the reference. An invalid value is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lance_core.errors import InvalidInputError
from lance_core.schema import Field

PREFIX = "lance-encoding:"
COMPRESSIONS = ("none", "fsst", "lz4", "zstd")
LEVELS = range(-(1 << 17), 23)
"""Compression levels of ZSTD."""
_COUNTS = range(1 << 63)


@dataclass(frozen=True, slots=True)
class EncodingOptions:
    """The wishes for one leaf column."""

    compression: str | None = None
    """One of COMPRESSIONS; None lets the data decide."""
    level: int | None = None
    """Level of the compressor."""
    layout: str | None = None
    """"miniblock" or "fullzip"; None lets the width of the values decide."""
    byte_stream_split: str = "auto"
    """"off", "on" or "auto"; only before a compressor."""
    run_threshold: float = 1.0
    """Runs per value up to which run lengths are tried."""
    chunk_bytes: int = 4096
    """Size of the mini-blocks of strings and binaries."""
    dictionary_divisor: int = 2
    """A dictionary has at most one item for so many values."""
    dictionary_ratio: float = 0.8
    """Size of a dictionary page in parts of the plain one up to which it is worth while."""
    dictionary_compression: str | None = None
    """Compression of the dictionary items, one of COMPRESSIONS but "fsst"; None for the default of the
    version.
    """
    dictionary_level: int | None = None


_BYTE_STREAM_SPLIT = {"off": "off", "on": "on", "auto": "auto", "never": "off", "always": "on"}
"""Spellings and what they mean; the last two are those of early descriptions of the format."""


def options_of(leaf: Field, top: Field) -> EncodingOptions:
    """Return the options of a leaf below a top-level field.

    Raises:
        InvalidInputError: a value that means nothing; names column and key.
    """
    default = EncodingOptions()
    read = _Reader(leaf.name, leaf.metadata)
    return EncodingOptions(
        read.choice("compression", COMPRESSIONS),
        read.integer("compression-level", LEVELS),
        _Reader(top.name, top.metadata).choice("structural-encoding", ("miniblock", "fullzip")),
        _BYTE_STREAM_SPLIT[read.choice("bss", tuple(_BYTE_STREAM_SPLIT)) or default.byte_stream_split],
        read.number("rle-threshold", default.run_threshold),
        read.integer("minichunk-size", _COUNTS) or default.chunk_bytes,
        read.integer("dict-divisor", _COUNTS) or default.dictionary_divisor,
        read.number("dict-size-ratio", default.dictionary_ratio),
        read.choice("dict-values-compression", ("none", "lz4", "zstd")),
        read.integer("dict-values-compression-level", LEVELS),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    column: str
    metadata: Mapping[str, str]

    def choice(self, key: str, choices: tuple[str, ...]) -> str | None:
        text = self.metadata.get(PREFIX + key)
        if text is None:
            return None
        if text.lower() not in choices:
            raise self._refused(key, "one of " + ", ".join(choices), text)
        return text.lower()

    def integer(self, key: str, allowed: range) -> int | None:
        text = self.metadata.get(PREFIX + key)
        if text is None:
            return None
        try:
            if (number := int(text)) in allowed:
                return number
        except ValueError:
            pass
        raise self._refused(key, f"a whole number from {allowed.start} to {allowed.stop - 1}", text)

    def number(self, key: str, default: float) -> float:
        text = self.metadata.get(PREFIX + key)
        if text is None:
            return default
        try:
            return float(text)
        except ValueError:
            raise self._refused(key, "a number", text) from None

    def _refused(self, key: str, expected: str, text: str) -> InvalidInputError:
        return InvalidInputError(
            f"field metadata {PREFIX + key}", column=self.column, expected=expected, found=repr(text)
        )
