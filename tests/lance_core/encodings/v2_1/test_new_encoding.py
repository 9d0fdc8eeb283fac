"""The encoding that docs/development.md adds: one class and one line of the table, and pages hold it."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from lance_core.encodings.v2_1.describe import describe_page_layout
from lance_core.encodings.v2_1.encoding import Encoding
from lance_core.encodings.v2_1.registry import ENCODINGS
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_1_pb2 as pb
from support.twins import nested, pages, values
from support.twins.pages import flat

PAGE = Path(__file__).parents[4] / "docs" / "development.md"


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> type[Encoding]:
    """The class of the page, put into the table for one test."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (source,) = (block for block in blocks if "class BigEndian" in block)
    names: dict[str, object] = {"__name__": __name__}
    exec(compile(source, str(PAGE), "exec", dont_inherit=True), names)
    added = names["BigEndian"]
    assert isinstance(added, type)
    assert issubclass(added, Encoding)
    monkeypatch.setitem(ENCODINGS, added.name, added)
    return added


def big_endian(inner: pb.CompressiveEncoding) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(dictionary=pb.Dictionary(items=inner))


def page_of(encoding: pb.CompressiveEncoding) -> pages.HandmadePage:
    """Three int32 values, one of them null, with their bytes reversed."""
    swapped = b"".join(number.to_bytes(4, "big") for number in (7, 0, 1 << 24))
    chunk = values.chunk([swapped], num_levels=3, def_=values.integers([0, 1, 0], 16))
    word = values.integers([(len(chunk) // 8 - 1) << 4], 16)
    return pages.mini_block(
        [word, chunk],
        3,
        pa.int32(),
        layers=[nested.NULLABLE_ITEM],
        def_compression=flat(16),
        value_compression=encoding,
    )


def test_pages_of_the_new_encoding_are_read_picked_and_described(added: type[Encoding]) -> None:
    page = page_of(big_endian(flat(32)))
    assert page.array().to_pylist() == [7, None, 1 << 24]
    assert page.array(2, 3).to_pylist() == [1 << 24]
    assert page.picked([0, 2]).to_pylist() == [7, 1 << 24]
    described = str(describe_page_layout(page.layout.SerializeToString()))
    assert "big endian(flat(32))" in described


def test_the_new_encoding_refuses_what_it_has_no_form_for(added: type[Encoding]) -> None:
    with pytest.raises(CorruptData, match="big-endian"):
        page_of(big_endian(flat(8))).read()
    with pytest.raises(UnsupportedFeatureError, match="in a block"):
        pages.mini_block(
            [*page_of(flat(32)).buffers, bytes(8)],
            3,
            pa.string(),
            layers=[nested.NULLABLE_ITEM],
            def_compression=flat(16),
            value_compression=flat(32),
            dictionary=big_endian(flat(32)),
            num_dictionary_items=2,
        ).read()


def test_without_its_line_in_the_table_it_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeatureError, match="dictionary"):
        page_of(big_endian(flat(32))).read()
