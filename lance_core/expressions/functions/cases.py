"""Upper case, lower case and capital initials by the full mappings of Unicode, as in the reference.

Arrow's kernels map a character to one character. The full mappings also have characters that become several
("ß" becomes "SS"), and a sigma that is written differently at the end of a word. Text without such characters
goes to Arrow's kernels alone.
Source: The Unicode Standard, section 3.13, "Default Case Conversion"; SpecialCasing.txt.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_core.schema.arrow_values import from_zero, offsets_of

Points = npt.NDArray[np.uint32]
"""Code points of characters."""

_ALL = 0x110000
_DOTTED_I, _LOWER_DOTTED_I = "İ", "i\u0307"
# Letters with a case. Marks and modifiers with a case are among the ignored characters.
_CASED = r"\p{Lu}\p{Ll}\p{Lt}ªºⅠ-ⅿⓐ-ⓩⒶ-Ⓩ🄰-🅉🅐-🅩🅰-🆉"
_IGNORED = (
    r"\p{Mn}\p{Me}\p{Cf}\p{Lm}\p{Sk}'.:\x{b7}\x{387}\x{55f}\x{5f4}\x{2018}\x{2019}\x{2024}\x{2027}"
    r"\x{fe13}\x{fe52}\x{fe55}\x{ff07}\x{ff0e}\x{ff1a}"
)
# A sigma is final after a cased letter and before none; ignored characters between them do not count.
_FINAL_SIGMA = f"([{_CASED}][{_IGNORED}]*)Σ([{_IGNORED}]*)(\\z|[^{_CASED}{_IGNORED}])"

_ALPHABETIC_MARKS = """
345 363-36f 5b0-5bd 5bf 5c1-5c2 5c4-5c5 5c7 610-61a 64b-657 659-65f 670 6d6-6dc 6e1-6e4 6e7-6e8 6ed
711 730-73f 7a6-7b0 816-817 81b-823 825-827 829-82c 897 8d4-8df 8e3-8e9 8f0-903 93a-93b 93e-94c
94e-94f 955-957 962-963 981-983 9be-9c4 9c7-9c8 9cb-9cc 9d7 9e2-9e3 a01-a03 a3e-a42 a47-a48 a4b-a4c
a51 a70-a71 a75 a81-a83 abe-ac5 ac7-ac9 acb-acc ae2-ae3 afa-afc b01-b03 b3e-b44 b47-b48 b4b-b4c
b56-b57 b62-b63 b82 bbe-bc2 bc6-bc8 bca-bcc bd7 c00-c04 c3e-c44 c46-c48 c4a-c4c c55-c56 c62-c63
c81-c83 cbe-cc4 cc6-cc8 cca-ccc cd5-cd6 ce2-ce3 cf3 d00-d03 d3e-d44 d46-d48 d4a-d4c d57 d62-d63
d81-d83 dcf-dd4 dd6 dd8-ddf df2-df3 e31 e34-e3a e4d eb1 eb4-eb9 ebb-ebc ecd f71-f83 f8d-f97 f99-fbc
102b-1036 1038 103b-103e 1056-1059 105e-1060 1062-1064 1067-106d 1071-1074 1082-108d 108f 109a-109d
1712-1713 1732-1733 1752-1753 1772-1773 17b6-17c8 1885-1886 18a9 1920-192b 1930-1938 1a17-1a1b
1a55-1a5e 1a61-1a74 1abf-1ac0 1acc-1ace 1b00-1b04 1b35-1b43 1b80-1b82 1ba1-1ba9 1bac-1bad 1be7-1bf1
1c24-1c36 1dd3-1df4 24b6-24e9 2de0-2dff a674-a67b a69e-a69f a802 a80b a823-a827 a880-a881 a8b4-a8c3
a8c5 a8ff a926-a92a a947-a952 a980-a983 a9b4-a9bf a9e5 aa29-aa36 aa43 aa4c-aa4d aa7b-aa7d aab0
aab2-aab4 aab7-aab8 aabe aaeb-aaef aaf5 abe3-abea fb1e 10376-1037a 10a01-10a03 10a05-10a06
10a0c-10a0f 10d24-10d27 10d69 10eab-10eac 10efa-10efc 11000-11002 11038-11045 11073-11074
11080-11082 110b0-110b8 110c2 11100-11102 11127-11132 11145-11146 11180-11182 111b3-111bf
111ce-111cf 1122c-11234 11237 1123e 11241 112df-112e8 11300-11303 1133e-11344 11347-11348
1134b-1134c 11357 11362-11363 113b8-113c0 113c2 113c5 113c7-113ca 113cc-113cd 11435-11441
11443-11445 114b0-114c1 115af-115b5 115b8-115be 115dc-115dd 11630-1163e 11640 116ab-116b5
1171d-1172a 1182c-11838 11930-11935 11937-11938 1193b-1193c 11940 11942 119d1-119d7 119da-119df
119e4 11a01-11a0a 11a35-11a39 11a3b-11a3e 11a51-11a5b 11a8a-11a97 11b60-11b67 11c2f-11c36
11c38-11c3e 11c92-11ca7 11ca9-11cb6 11d31-11d36 11d3a 11d3c-11d3d 11d3f-11d41 11d43 11d47
11d8a-11d8e 11d90-11d91 11d93-11d96 11ef3-11ef6 11f00-11f01 11f03 11f34-11f3a 11f3e-11f40
1611e-1612e 16f4f 16f51-16f87 16f8f-16f92 16ff0-16ff1 1bc9e 1e000-1e006 1e008-1e018 1e01b-1e021
1e023-1e024 1e026-1e02a 1e08f 1e6e3 1e6e6 1e6ee-1e6ef 1e6f5 1e947 1f130-1f149 1f150-1f169
1f170-1f189
"""
"""Characters, and first and last ones of ranges, that count as letters and are marks or symbols
(DerivedCoreProperties.txt, Alphabetic, without the general categories L and N)."""


def upper(text: pa.Array) -> pa.Array:
    """Return the upper case of texts."""
    if _is_ascii(text):
        return pc.ascii_upper(from_zero(text))
    for char in _characters(text) & _expansions().keys():
        text = pc.replace_substring(text, char, _expansions()[char])
    return pc.utf8_upper(text)


def lower(text: pa.Array) -> pa.Array:
    """Return the lower case of texts."""
    if _is_ascii(text):
        return pc.ascii_lower(from_zero(text))
    characters = _characters(text)
    if _DOTTED_I in characters:
        text = pc.replace_substring(text, _DOTTED_I, _LOWER_DOTTED_I)
    if "Σ" in characters:
        text = pc.replace_substring_regex(text, _FINAL_SIGMA, r"\1ς\2\3")
    return pc.utf8_lower(text)


def initcap(text: pa.Array) -> pa.Array:
    """Return texts with each word's first character in upper case and the others in lower case.

    A word is a run of letters and digits.
    """
    if not pc.any(pc.match_substring_regex(text, r"[0-9]|[^\x00-\x7f]")).as_py():
        return pc.utf8_title(text)
    filled = pc.fill_null(text, "")
    points = _points(filled)
    ends = np.cumsum(np.asarray(pc.utf8_length(filled), np.int64))
    is_inside = np.zeros(len(points) + 1, np.bool_)
    is_inside[1:] = _word_characters()[points]
    is_inside[ends[:-1]] = False  # each text begins with a word
    is_inside = is_inside[:-1]
    mapped = np.where(is_inside, _points(pc.utf8_lower(filled)), _points(pc.utf8_upper(filled)))
    several = _Expansions.made()
    places = np.where(is_inside, 0, several.place[points])
    places[is_inside & (points == ord(_DOTTED_I))] = several.dotted_i
    counts = several.count[places]
    first = np.cumsum(counts) - counts
    output = np.repeat(mapped, counts)
    for step in range(int(counts.max(initial=1))):
        longer = np.flatnonzero((places > 0) & (counts > step))
        output[first[longer] + step] = several.points[places[longer], step]
    made = _texts(output, np.append(0, np.cumsum(counts))[np.append(0, ends)], text.type)
    return pc.if_else(pc.is_valid(text), made, pa.scalar(None, text.type)) if text.null_count else made


class _Expansions:
    """Characters that become several: where the expansion of each stands in a table, 0 for none.

    Attributes:
        place: By character, the row of the table that has its upper case.
        dotted_i: The row that has the lower case of a dotted I.
        count: By row, the number of characters.
        points: The table, a row per expansion, up to three characters in each.
    """

    def __init__(self) -> None:
        rows = ["-", *_expansions().values(), _LOWER_DOTTED_I]
        self.place = np.zeros(_ALL, np.int64)
        self.place[[ord(char) for char in _expansions()]] = range(1, len(rows) - 1)
        self.dotted_i = len(rows) - 1
        self.count = np.array([len(row) for row in rows])
        self.points = np.array([[ord(char) for char in row.ljust(3)] for row in rows], np.uint32)

    @staticmethod
    @lru_cache(maxsize=1)
    def made() -> _Expansions:
        return _Expansions()


@lru_cache(maxsize=1)
def _expansions() -> Mapping[str, str]:
    """Return the characters whose upper case is several characters."""
    every = map(chr, [*range(0x80, 0xD800), *range(0xE000, 0x10000)])
    return {char: several for char in every if len(several := char.upper()) > 1}


@lru_cache(maxsize=1)
def _word_characters() -> npt.NDArray[np.bool_]:
    """Return for each code point whether it is a letter or digit."""
    numbers = np.delete(np.arange(_ALL, dtype=np.uint32), slice(0xD800, 0xE000))
    every = _texts(numbers, np.arange(len(numbers) + 1), pa.string())
    found = np.zeros(_ALL, np.bool_)
    found[numbers] = np.asarray(pc.utf8_is_alnum(every))
    for span in _ALPHABETIC_MARKS.split():
        first, _, last = span.partition("-")
        found[int(first, 16) : int(last or first, 16) + 1] = True
    return found


def _is_ascii(text: pa.Array) -> bool:
    """Return whether all bytes of texts are ASCII, those of nulls included."""
    if not (types.is_string(text.type) or types.is_large_string(text.type)):
        return False
    offsets, data = offsets_of(text), text.buffers()[2]
    content = np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]]
    return bool(content.max(initial=0) < 0x80)


def _characters(text: pa.Array) -> set[str]:
    """Return the different characters of texts."""
    return set(_content(text))


def _content(text: pa.Array) -> str:
    """Return all texts, concatenated."""
    values = pa.concat_arrays([text.drop_null()])  # copied, so that it has no offset
    _, ends, data = values.buffers()
    ends = np.frombuffer(ends, np.int64 if types.is_large_string(text.type) else np.int32)
    return str(memoryview(data or b"")[ends[0] : ends[len(values)]], "utf-8") if len(values) else ""


def _points(text: pa.Array) -> Points:
    """Return the code points of all texts, which must not be null, concatenated."""
    return np.frombuffer(_content(text).encode("utf-32-le"), "<u4")


def _texts(points: Points, edges: npt.NDArray[np.int64], data_type: pa.DataType) -> pa.Array:
    """Return an array of texts without nulls. Text k has the code points `points[edges[k]:edges[k + 1]]`."""
    sizes = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    ends = np.append(0, np.cumsum(sizes))[edges]
    large = pa.py_buffer(points.astype("<u4").tobytes().decode("utf-32-le").encode())
    made = pa.LargeStringArray.from_buffers(len(edges) - 1, pa.py_buffer(ends.astype(np.int64)), large)
    return made.cast(data_type)
