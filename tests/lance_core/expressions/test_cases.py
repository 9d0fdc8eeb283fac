# ruff: noqa: RUF001
"""Upper case, lower case and capital initials of every character of Unicode, beside the reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.expressions.functions.cases import initcap, lower, upper

WORDS = [
    *("ΑΣ", "ΑΣ Β", "Σ", "ΑΣΑ", "Σ Σ", "ΣΣ", "a\u0301Σ", "ΑΣ\u0301", "Α.Σ", "ΑΣ.Β", "ΑΣ.Σ", "ΌΣΟΣ"),
    *("AΣ\u00adB", "1Σ", "Σ1Σ", "AΣ\u0345", "ʰΣ", "ⓐΣ", "ΑΣ\nΒ", "ΑΣ:", "ΑΣ:Β"),
    *("ﬀoo ßa", "ß", "İI", "aİ", "ǆabc", "ŉx", "ŉŉ ΐΐ", "élan vital", "e\u0301a", "漢b", "२a", "ⅷb"),
    *("x-yz q_r 1ab", "o'neil", "", None),
]


@pytest.fixture(scope="module")
def assigned() -> pa.Array:
    """Every character that has a meaning in the release of Unicode of RE2, and those for private use."""
    codes = np.arange(1, 0x110000, dtype="<u4")
    codes = codes[(codes < 0xD800) | (codes >= 0xE000)]
    characters = pa.array(codes.view("<U1").tolist())
    return characters.filter(pc.match_substring_regex(characters, r"[\pL\pM\pN\pP\pS\pZ\p{Cc}\p{Cf}\p{Co}]"))


@pytest.fixture(scope="module")
def path(assigned: pa.Array, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cases")
    lance.write_dataset(pa.table({"s": assigned}), str(place / "assigned"), data_storage_version="2.1")
    lance.write_dataset(pa.table({"s": pa.array(WORDS)}), str(place / "words"), data_storage_version="2.1")
    return place


FORMS = ["s", "concat('Α', s, 'Σ')", "concat('ΑΣ', s, 'α')", "concat(s, 'x')", "concat('a ', s, 'q')"]
"""A character alone, between letters whose case depends on it, at the start of a word."""
CHANGED = {*"ɷɼʕꭋꭌ\U0001171e"}
"""Characters whose properties or partners of the other case differ between releases 15 to 18 of Unicode."""


@pytest.mark.parametrize("function", ["upper", "lower", "initcap"])
def test_every_character(path: Path, assigned: pa.Array, function: str) -> None:
    """Only the newest characters differ from the reference: the libraries have other releases of Unicode."""
    columns = {form: f"{function}({form})" for form in FORMS}
    expected = lance.dataset(str(path / "assigned")).to_table(columns=columns)
    found = lance_core.dataset(path / "assigned").to_table(columns=columns)
    for form in FORMS:
        theirs, ours = (table[form].combine_chunks().cast(pa.large_string()) for table in (expected, found))
        differing = assigned.filter(pc.not_equal(theirs, ours))
        assert set(differing.to_pylist()) <= CHANGED, form


def test_words(path: Path) -> None:
    columns = {name: f"{name}(s)" for name in ("upper", "lower", "initcap")}
    expected = lance.dataset(str(path / "words")).to_table(columns=columns)
    found = lance_core.dataset(path / "words").to_table(columns=columns)
    assert found.to_pydict() == expected.to_pydict()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (upper, ["SSA", None, "", "FF", "B"]),
        (lower, ["ßa", None, "", "ﬀ", "b"]),
        (initcap, ["SSa", None, "", "FF", "B"]),
    ],
)
def test_slices_nulls_and_types(
    kind: pa.DataType, function: Callable[[pa.Array], pa.Array], expected: list[str | None]
) -> None:
    values = pa.array(["ignored ß", "ßa", None, "", "ﬀ", "b", "ß"], kind)[1:6]
    assert function(values).equals(pa.array(expected, kind))
    assert function(values[:0]).equals(pa.array([], kind))
    assert function(pa.nulls(2, kind)).equals(pa.nulls(2, kind))


def test_bytes_below_nulls_are_not_read() -> None:
    """T22: a file may have anything there, which need not be text."""
    data = pa.py_buffer(b"\xff\xfe\xc3\x9f")
    values = pa.Array.from_buffers(
        pa.string(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([0, 2, 4], np.int32)), data]
    )
    assert upper(values).to_pylist() == [None, "SS"]
    assert lower(values).to_pylist() == [None, "ß"]
    assert initcap(values).to_pylist() == [None, "SS"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_texts_of_ascii(kind: pa.DataType) -> None:
    """All bytes of ASCII, between texts of other bytes, and no bytes at all."""
    every = "".join(map(chr, range(128)))
    values = pa.array(["ß", every, None, "", "Ab", "ß"], kind)
    _, offsets, data = values.buffers()
    behind = pa.Array.from_buffers(kind, 2, [None, offsets.slice(3 * kind_bytes(kind)), data])
    assert behind.to_pylist() == ["", "Ab"]
    for function, method in ((upper, str.upper), (lower, str.lower)):
        for some in (values[1:5], values[4:5], values[2:4], values[:0], pa.nulls(2, kind), behind):
            found = function(some)
            found.validate(full=True)
            assert found.type == kind
            assert found.to_pylist() == [None if text is None else method(text) for text in some.to_pylist()]


def kind_bytes(kind: pa.DataType) -> int:
    """Return the bytes of an offset."""
    return 8 if pa.types.is_large_string(kind) else 4
