"""Lower case and ASCII forms of texts, for n-gram indices."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.index.folding import folded


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("last", ["EFG", "Ég"])
def test_texts_whose_bytes_begin_elsewhere(kind: pa.DataType, last: str) -> None:
    """T22: Arrow keeps such offsets beside bytes from 0 on, and reads behind these."""
    values = pa.array(["Before", "AB", "", last], kind)
    _, offsets, data = values.buffers()
    behind = pa.Array.from_buffers(
        kind, 3, [None, offsets.slice(8 if kind == pa.large_string() else 4), data]
    )
    for texts in (behind, values[1:]):
        found = folded(texts)
        found.validate(full=True)
        assert found.to_pylist() == ["ab", "", "efg" if last == "EFG" else "eg"]
