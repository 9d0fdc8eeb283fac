"""LIKE patterns: each is matched by the cheapest search with the same result."""

from __future__ import annotations

import re
from enum import Enum
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_core.expressions.comparisons import Datum
from lance_core.kernels import match_like
from lance_core.schema.arrow_values import scalar_of


def like(text: Datum, pattern: str, escape: str | None, ignore_case: bool) -> Datum:
    """Return whether each text matches the whole pattern; the default of `escape` is a backslash."""
    parts = _parts_of(pattern, escape or "\\")
    if ignore_case:
        regex = "".join(_quoted(part) if isinstance(part, str) else part.value for part in parts)
        return pc.match_substring_regex(text, f"(?is)^{regex}$")
    match parts:
        case []:
            return pc.equal(text, scalar_of("", text.type))
        case [str(part)]:
            return pc.equal(text, scalar_of(part, text.type))
    segments, at_start, at_end = _segments_of(parts)
    return _matching(text, segments, at_start, at_end)


def contains(text: Datum, part: str) -> Datum:
    """Return whether each text has a part."""
    return _matching(text, [[(0, part.encode())]], False, False)


def literal_texts(pattern: str, escape: str | None) -> list[str]:
    """Return the texts between the wildcards of a pattern; every text that matches contains them all."""
    return [part for part in _parts_of(pattern, escape or "\\") if isinstance(part, str)]


def required_texts(pattern: str) -> list[str]:
    """Return texts that every text contains in which a regular expression of RE2 finds a match.

    They are the runs of plain characters of a pattern without groups and alternatives; an empty list says
    nothing about the texts.
    """
    found, run, at = [], "", 0
    while at < len(pattern):
        character, after = pattern[at], pattern[at + 1 : at + 2]
        if character == "\\" and after and not after.isalnum():
            run += after
            at += 2
            continue
        special = _SPECIAL.match(pattern, at)
        if special is None and character in "\\([|":
            return []
        if special is None and character not in ".^$*+?":
            run += character
            at += 1
            continue
        if character in "*?{":
            run = run[:-1]  # the character may be missing
        found.append(run)
        run = ""
        at = at + 1 if special is None else special.end()
    return [text for text in [*found, run] if text]


_SPECIAL = re.compile(r"\\[dDsSwWbBAz]|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\\[])*\]|\{\d+(?:,\d*)?\}", re.DOTALL)
"""Classes of characters and counts of repetitions in a regular expression."""


Segment: TypeAlias = list[tuple[int, bytes]]
"""Part of a pattern without gaps of any length; see `lance_core.kernels.match_like`."""


def _segments_of(parts: list[str | _Wildcard]) -> tuple[list[Segment], bool, bool]:
    """Return the segments between the gaps of a pattern, and whether it begins and ends with one."""
    segments: list[Segment] = [[]]
    skipped = 0
    for part in parts:
        if part is _Wildcard.ONE:
            skipped += 1
            continue
        if isinstance(part, str):
            segments[-1].append((skipped, part.encode()))
        elif skipped:
            segments[-1].append((skipped, b""))
        if part is _Wildcard.ANY:
            segments.append([])
        skipped = 0
    if skipped:
        segments[-1].append((skipped, b""))
    at_start, at_end = bool(segments[0]), bool(segments[-1])
    return [segment for segment in segments if segment], at_start, at_end


def _matching(text: Datum, segments: list[Segment], at_start: bool, at_end: bool) -> Datum:
    """Return whether each text has the segments; null for null."""
    if isinstance(text, pa.Scalar):
        return _matching(pa.array([text.as_py()], text.type), segments, at_start, at_end)[0]
    if not (types.is_string(text.type) or types.is_large_string(text.type)):
        text = text.cast(pa.large_string())
    found = match_like(*parts_of_texts(text), segments, at_start, at_end)
    matching = pa.Array.from_buffers(pa.bool_(), len(text), [None, pa.py_buffer(found)])
    if not text.null_count:
        return matching
    return pc.if_else(text.is_valid(), matching, pa.scalar(None, pa.bool_()))


def parts_of_texts(text: pa.Array) -> tuple[pa.Buffer, pa.Buffer | bytes, int, int]:
    """Return the offsets of texts or binaries, their bytes, their number, and the bits of an offset."""
    bits = 64 if types.is_large_string(text.type) or types.is_large_binary(text.type) else 32
    _, offsets, data = text.buffers()
    offsets = pa.py_buffer(bytes(8)) if offsets is None else offsets.slice(bits // 8 * text.offset)
    return offsets, data or b"", len(text), bits


class _Wildcard(Enum):
    """Wildcards in the syntax of RE2."""

    ANY = ".*"
    ONE = "."


def _parts_of(pattern: str, escape: str) -> list[str | _Wildcard]:
    """Split a pattern into wildcards and the literal texts between them."""
    parts: list[str | _Wildcard] = []
    literal = ""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            # An escape at the end stands for itself. Before an ordinary character it is ignored.
            literal += next(characters, escape)
        elif character in "%_":
            parts += [literal] if literal else []
            literal = ""
            if character == "_":
                parts.append(_Wildcard.ONE)
            elif parts[-1:] != [_Wildcard.ANY]:
                parts.append(_Wildcard.ANY)
        else:
            literal += character
    return [*parts, literal] if literal else parts


def _quoted(text: str) -> str:
    """Escape a text for RE2, which does not know all escapes of Python's `re`."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)
