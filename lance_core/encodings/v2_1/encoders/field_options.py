"""Options of the encoders in the metadata of a field: the keys that begin with `lance-encoding:`.

The layout is an option of the top-level field, all others are options of the leaf. As in the reference, an
option that does not suit a page (bit widths, versions) is ignored. An invalid value is refused. Source:
docs/format.md, "Writing pages".
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
    """Options of one leaf column."""

    compression: str | None = None
    """One of COMPRESSIONS; None if the encoder chooses."""
    level: int | None = None
    """Compression level; None for the default of the compressor."""
    layout: str | None = None
    """"miniblock" or "fullzip"; None if the encoder chooses by the size of the values."""
    byte_stream_split: str = "auto"
    """"off", "on" or "auto". It is used only inside a compressor."""
    run_threshold: float = 1.0
    """Largest number of runs per value for which run length encoding is tried."""
    chunk_bytes: int = 4096
    """Target size of the chunks of strings and binaries, in bytes."""
    dictionary_divisor: int = 2
    """Least number of values per dictionary item."""
    dictionary_ratio: float = 0.8
    """Largest size of a dictionary page as a share of the plain page."""
    dictionary_compression: str | None = None
    """Compression of the dictionary items: one of COMPRESSIONS except "fsst"; None for the default of the
    file version.
    """
    dictionary_level: int | None = None


_BYTE_STREAM_SPLIT = {"off": "off", "on": "on", "auto": "auto", "never": "off", "always": "on"}
"""Accepted spellings. "never" and "always" come from early descriptions of the format."""


def options_of(leaf: Field, top: Field) -> EncodingOptions:
    """Return the options of a leaf below a top-level field.

    Raises:
        InvalidInputError: an invalid value; the message names column and key.
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
