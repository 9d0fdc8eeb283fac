"""Layouts, layers and compressive encodings of the pages of a written data file.

Files are opened with the reference; page descriptions are parsed with our generated protobuf modules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from google.protobuf.message import Message

from lance_core.file.column_readers import ColumnReader, open_column
from lance_core.file.metadata import PageMetadata, read_file_metadata
from lance_core.proto import encodings_v2_1_pb2 as pb
from lance_core.schema.physical_columns import owns_column
from lance_core.storage import LocalStorage, storage_for


def page_layouts(dataset: Path) -> Iterator[pb.PageLayout]:
    """Yield the layout of every page of every data file of a dataset."""
    storage = storage_for(str(dataset), None)
    for path in sorted((dataset / "data").glob("*.lance")):
        metadata = read_file_metadata(storage.open_file(f"data/{path.name}"))
        for index in range(metadata.num_columns):
            for page in metadata.column(index).pages:
                layout = pb.PageLayout()
                layout.ParseFromString(page.encoding)
                yield layout


def features(layout: pb.PageLayout) -> Iterator[str]:
    """Names of everything a page uses, e.g. "mini_block_layout", "fsst", "layer NULLABLE_ITEM"."""
    kind = layout.WhichOneof("layout")
    yield kind
    body = getattr(layout, kind)
    for layer in body.layers:
        yield "layer " + pb.RepDefLayer.Name(layer).removeprefix("REPDEF_")
    if kind == "mini_block_layout":
        if body.HasField("dictionary"):
            yield "dictionary page"
        for name in ("rep_compression", "def_compression", "value_compression", "dictionary"):
            if body.HasField(name):
                yield from (f"{_context(name)} {encoding}" for encoding in _chain(getattr(body, name)))
    elif kind == "full_zip_layout":
        yield from (f"full-zip {encoding}" for encoding in _chain(body.value_compression))
    else:
        yield from _constant_form(body)


def _context(name: str) -> str:
    return {"value_compression": "mini-block", "dictionary": "dictionary values"}.get(name, "levels")


def _chain(encoding: Message) -> Iterator[str]:
    """Every compressive encoding from the outermost to the innermost."""
    kind = encoding.WhichOneof("compression")
    body = getattr(encoding, kind)
    yield kind if kind != "general" else f"general {_scheme(body)}"
    if kind == "fixed_size_list" and body.has_validity:
        yield "fixed_size_list with validity"
    if kind == "flat" and body.bits_per_value == 1:
        yield "flat bits"
    for descriptor, value in body.ListFields():
        if descriptor.message_type is pb.CompressiveEncoding.DESCRIPTOR:
            yield from _chain(value)
    if kind == "variable_packed_struct":
        for field in body.fields:
            yield from (f"packed {name}" for name in _chain(field.value))


def _constant_form(body: Message) -> Iterator[str]:
    levels = (
        "compressed levels" if body.HasField("rep_compression") or body.HasField("def_compression") else ""
    )
    if levels:
        yield f"constant with {levels}"
    yield "constant inline value" if body.HasField("inline_value") else "constant without inline value"


def _scheme(general: Message) -> str:
    return pb.CompressionScheme.Name(general.compression.scheme).removeprefix("COMPRESSION_ALGORITHM_")


class Columns:
    """The columns of a file, opened anew or all known."""

    def __init__(self, path: Path) -> None:
        self._file = LocalStorage(str(path.parent)).open_file(path.name)
        self._metadata = read_file_metadata(self._file)
        self._places: dict[str, dict[int, int]] = {}
        place = 0
        for field in self._metadata.schema.fields:
            owned = [node.id for node in field.walk() if owns_column(node)]
            self._places[field.name] = {field_id: place + k for k, field_id in enumerate(owned)}
            place += len(owned)

    def open(self, name: str) -> ColumnReader:
        (field,) = [field for field in self._metadata.schema.fields if field.name == name]
        return open_column(self._file, self._metadata, field, self._places[name])

    def pages(self, name: str) -> Sequence[PageMetadata]:
        """Return the pages of a leaf of a column."""
        return self._metadata.column(next(iter(self._places[name].values()))).pages
