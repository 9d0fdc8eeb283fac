"""Structs with lists in small pages, whose nulls the reference miscounts in its own files. It reads ours."""

from itertools import product
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import lance_core
from lance_core.api.file import LanceFileWriter
from support.oracles.checks import check_local, expected_table, write_case
from support.oracles.comparison import assert_tables_equal
from support.tables.arrays import Spec
from support.tables.cases import Case, Column
from support.tables.null_structs import miscount
from support.tables.reference import FILE_VERSIONS, write_reference_pages

TYPE = pa.struct([pa.field("l", pa.list_(pa.int32()))])
REQUIRED = pa.list_(pa.field("item", TYPE, nullable=False))
STRUCTS = [None, {"l": None}, {"l": []}, {"l": [1]}, {"l": [None, 2]}]
LISTS = [None, [], *([row] for row in STRUCTS), [None, {"l": [1]}], [{"l": []}, None]]
KINDS: dict[str, tuple[pa.DataType, list[object]]] = {
    "structs": (TYPE, [*STRUCTS]),
    "lists": (pa.list_(TYPE), [*LISTS]),
    "lists of required structs": (REQUIRED, [row for row in LISTS if row is None or None not in row]),
    "lists of lists": (pa.list_(pa.list_(TYPE)), [None, [], *([row] for row in LISTS[:6])]),
    "structs in structs": (pa.struct([("s", TYPE)]), [None, *({"s": row} for row in STRUCTS)]),
    "lists of nulls": (pa.struct([("l", pa.list_(pa.null()))]), [*STRUCTS[:3], {"l": [None]}]),
}


@pytest.mark.parametrize("version", FILE_VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_reads_every_pair_of_rows(kind: str, version: str, tmp_path: Path) -> None:
    data_type, rows = KINDS[kind]
    path = str(tmp_path / "rows.lance")
    for pair, max_page_bytes in product(product(rows, repeat=2), (1, None)):
        table = pa.table({"s": pa.array(pair, data_type)})
        with LanceFileWriter(
            path, table.schema, version=version, max_page_bytes=max_page_bytes, sync=False
        ) as writer:
            for batch in table.to_batches(max_chunksize=1):
                writer.write_batch(batch)
        found = LanceFileReader(path).read_all().to_table().replace_schema_metadata()
        assert_tables_equal(table, found, label=str(pair))


@pytest.mark.parametrize("version", FILE_VERSIONS)
def test_we_read_what_the_reference_does_not(version: str, tmp_path: Path) -> None:
    source = pa.table({"s": pa.array([{"l": None}, {"l": [1]}, None], TYPE)})
    path = tmp_path / "theirs.lance"
    write_reference_pages([source.slice(row, 1).to_batches()[0] for row in range(3)], path, version)
    with pytest.raises(pa.ArrowInvalid, match="expected 3 got 2"):
        lance.dataset(str(path)).to_table()
    assert_tables_equal(source, lance_core.dataset(path).to_table())


def test_children_of_structs_that_the_reference_reads_only_together(tmp_path: Path) -> None:
    below = pa.struct(
        [
            pa.field("f0", pa.null()),
            pa.field("f1", pa.list_(pa.null()), nullable=False),
            pa.field("f2", pa.null()),
        ]
    )
    single = pa.struct([pa.field("f0", pa.null())])
    columns = (
        Column(pa.field("c0", single, nullable=False), Spec("random", "none")),
        Column(pa.field("c1", pa.null()), Spec("random", "none")),
        Column(pa.field("c2", below), Spec("random", "half")),
    )
    case = Case("generated-78", columns, 1, 2, ("2.2",))
    path = tmp_path / "generated.lance"
    expected = expected_table(case, path, write_case(case, "2.2", path))
    with pytest.raises(pa.ArrowInvalid) as failure:
        lance.dataset(str(path)).to_table(columns=["c0.f0", "c2.f1", "c2.f2"])
    assert miscount(failure.value).endswith("expected 13 got 15")
    check_local(case, path, expected, of_reference=True)
