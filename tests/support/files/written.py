"""Files by our writer, and how they are read back: by us, and by the reference."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from lance.file import LanceFileReader

from lance_core.file.data_file import open_data_file
from lance_core.file.footer import FileVersion
from lance_core.file.writer import WriteOptions, WrittenFile, open_writer
from lance_core.schema import leaves
from lance_core.schema.from_arrow import schema_from_arrow
from lance_core.storage import storage_for
from support.oracles.comparison import assert_values_equal


def write_file(
    path: Path, batches: Iterable[pa.RecordBatch], schema: pa.Schema, version: str, **options: Any
) -> WrittenFile:
    """Return a file of our own."""
    file = storage_for(str(path.parent), None).create_file(path.name, sync=False)
    writer = open_writer(
        file, schema_from_arrow(schema), FileVersion.from_name(version), WriteOptions(**options)
    )
    try:
        for batch in batches:
            writer.write(batch)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def read_file(path: Path) -> pa.Table:
    """All of a file, by our own reader; storage types."""
    file = open_data_file(storage_for(str(path.parent), None).open_file(path.name))
    names, columns, number = [], [], 0
    for top in file.schema.fields:
        places = {}
        for leaf in leaves(top):
            places[leaf.id] = number
            number += 1
        arrays = file.open_column(top, places).read(0, file.num_rows)
        names.append(pa.field(top.name, top.arrow_type, top.nullable))
        columns.append(pa.chunked_array(arrays, top.arrow_type))
    return pa.table(columns, schema=pa.schema(names))


def check_file(path: Path, table: pa.Table, version: str, **options: Any) -> WrittenFile:
    """Write a table; we and the reference have to read it back."""
    written = write_file(path, table.to_batches(), table.schema, version, **options)
    assert written.num_rows == table.num_rows
    assert written.num_bytes == path.stat().st_size
    for reader, found in (
        ("ours", read_file(path)),
        ("reference", LanceFileReader(str(path)).read_all().to_table()),
    ):
        for name in table.schema.names:
            assert_values_equal(table[name], found[name], label=f"{reader}, {version}: {name}")
    return written
