"""Encodings of the pages of a dataset."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from lance_core.file.metadata import read_file_metadata
from lance_core.proto import encodings_v2_1_pb2 as proto
from lance_core.storage import storage_for


def choices(dataset: Path) -> dict[str, str]:
    """Return the kinds of pages of each leaf column of a 2.1 or 2.2 dataset, with the number of pages of each
    kind.
    """
    found: dict[str, Counter[str]] = {}
    storage = storage_for(str(dataset), None)
    for path in sorted((dataset / "data").iterdir()):
        metadata = read_file_metadata(storage.open_file(f"data/{path.name}"))
        # Each field has one column: no measured dataset has structs of several members.
        for index, name in enumerate(metadata.schema.to_arrow().names):
            for page in metadata.column(index).pages:
                layout = proto.PageLayout.FromString(page.encoding)
                found.setdefault(name, Counter())[_described(layout)] += 1
    return {name: ", ".join(f"{kind} x{n}" for kind, n in kinds.items()) for name, kinds in found.items()}


def _described(layout: proto.PageLayout) -> str:
    kind = layout.WhichOneof("layout") or "?"
    body = getattr(layout, kind)
    parts = [kind.removesuffix("_layout")]
    if kind == "mini_block_layout" and body.HasField("dictionary"):
        parts.append("dictionary")
    if kind != "constant_layout":
        encoding = body.value_compression
        while (name := encoding.WhichOneof("compression")) is not None:
            parts.append(name)
            inner = getattr(encoding, name)
            if not hasattr(inner, "values") or not isinstance(inner.values, proto.CompressiveEncoding):
                break
            encoding = inner.values
    return "/".join(parts)
