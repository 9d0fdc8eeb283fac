"""Fields that own a column, compared with the manifests of the reference."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa

from lance_core.schema import nodes
from lance_core.storage.local import LocalStorage
from lance_core.table.snapshot import open_snapshot


def test_nodes_are_the_columns_of_2_0_files(tmp_path: Path) -> None:
    packed = {"lance-encoding:packed": "true"}
    pair = pa.struct([pa.field("x", pa.int8(), False), pa.field("y", pa.int32(), False)])
    point = pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.list_(pa.string()))])
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("pair", pair, False, packed),
            pa.field("point", point, False),
            pa.field("points", pa.list_(pa.field("item", point, False))),
            pa.field("vector", pa.list_(pa.float32(), 2)),
            pa.field("kind", pa.dictionary(pa.int8(), pa.string())),
        ]
    )
    row = {"id": 1, "pair": {"x": 1, "y": 2}, "point": {"a": 1, "b": []}, "points": [], "vector": [1, 2]}
    table = pa.Table.from_pylist([row], schema=schema)
    dataset = lance.write_dataset(table, tmp_path / "d", data_storage_version="2.0")
    file = dataset.get_fragments()[0].metadata.files[0]
    ours = open_snapshot(LocalStorage(str(tmp_path / "d"))).manifest.schema
    owners = [node.id for field in ours.fields for node in nodes(field)]
    assert owners == list(file.fields)
    assert list(file.column_indices) == list(range(len(owners)))
