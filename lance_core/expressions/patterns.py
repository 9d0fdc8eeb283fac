"""LIKE patterns: each is matched by the cheapest search with the same result."""

from __future__ import annotations

import re
from enum import Enum

import pyarrow.compute as pc

from lance_core.expressions.comparisons import Datum
from lance_core.schema.arrow_values import scalar_of


def like(text: Datum, pattern: str, escape: str | None, ignore_case: bool) -> Datum:
    """Return whether each text matches the whole pattern; the default of `escape` is a backslash."""
    parts = _parts_of(pattern, escape or "\\")
    if not ignore_case:
        match parts:
            case []:
                return pc.equal(text, scalar_of("", text.type))
            case [str(part)]:
                return pc.equal(text, scalar_of(part, text.type))
            case [_Wildcard.ANY, str(part)]:
                return pc.ends_with(text, part)
            case [str(part), _Wildcard.ANY]:
                return pc.starts_with(text, part)
            case [_Wildcard.ANY, str(part), _Wildcard.ANY]:
                return pc.match_substring(text, part)
    flags = "(?is)" if ignore_case else "(?s)"
    regex = "".join(_quoted(part) if isinstance(part, str) else part.value for part in parts)
    return pc.match_substring_regex(text, f"{flags}^{regex}$")


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
