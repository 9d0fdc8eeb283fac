"""Columns of many small files that are decoded together: the values of files that are read one by one."""

from __future__ import annotations

import random
import shutil
import struct
from collections import Counter
from itertools import accumulate
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lance_core
from lance_core.encodings.v2_1.layouts.page import LeafSlice
from lance_core.file.joined_files import JoinedFiles
from lance_core.file.v2_1 import joined_files
from lance_core.scan.run import fragment_groups, small_fragments
from support.files.damage import MUTATIONS
from support.oracles.checks import PANICS
from support.oracles.comparison import assert_tables_equal
from support.runs.draws import draws
from support.tables.cases import Case
from support.tables.cases_2_0 import cases_2_0
from support.tables.strategies import cases

GENERATED = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
WORDS = ("a symbol", "another longer symbol", "some words", "https://example.com/")
VERSIONS = ("2.0", "2.1", "2.2")
SMALL_BYTES = 1 << 20
"""Tables of which every 50 rows fit into a batch."""


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count columns of groups that were decoded together ("together"), and others by their error."""
    found: Counter[str] = Counter()
    read = JoinedFiles.read

    def noted(files: JoinedFiles, *arguments: object) -> pa.Array:
        try:
            array = read(files, *arguments)
        except Exception as error:
            found[f"{type(error).__name__}: {error}"] += 1
            raise
        found["together"] += 1
        return array

    monkeypatch.setattr(JoinedFiles, "read", noted)
    return found


def read_one_by_one(path: Path, **scan: object) -> pa.Table:
    """Return the rows that files give that are opened one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_fragments, "has_small", lambda *_: False)
        return lance_core.dataset(path, session=lance_core.Session()).to_table(**scan)


def write_small(table: pa.Table, path: Path, version: str, chance: random.Random) -> bool:
    """Write fragments of few rows with the reference. Returns whether there are rows that it writes."""
    shutil.rmtree(path, ignore_errors=True)
    start = 0
    try:
        while start < table.num_rows:
            rows = chance.choice((1, 2, 7, 30, 64))
            part = pa.Table.from_batches(table.slice(start, rows).to_batches(), table.schema)
            lance.write_dataset(part, path, mode="append", data_storage_version=version)
            start += rows
    except (OSError, pa.ArrowInvalid, *PANICS):
        return False
    return start > 0


def check(case: Case, version: str, path: Path, chance: random.Random) -> None:
    table = pa.Table.from_batches(case.batches()).slice(0, 300)
    if not write_small(table, path, version, chance):
        return
    expected = read_one_by_one(path)
    assert_tables_equal(expected, lance_core.dataset(path).to_table(), label=case.name)
    batches = list(lance_core.dataset(path).to_batches(batch_size=50))
    assert_tables_equal(expected, pa.Table.from_batches(batches, expected.schema), label=case.name)
    rows = [fragment.count_rows() for fragment in lance_core.dataset(path).get_fragments()]
    sizes = [batch.num_rows for batch in batches]
    assert max(sizes, default=0) <= 50
    assert set(accumulate(sizes)) >= set(accumulate(rows)), "batches of one fragment each"
    if expected.nbytes <= SMALL_BYTES:  # batches of large rows have fewer of them
        assert sizes == [min(50, count - start) for count in rows for start in range(0, count, 50)]
    if expected.num_rows > 20:
        cut = lance_core.dataset(path).to_table(limit=expected.num_rows - 12, offset=5)
        assert_tables_equal(expected.slice(5, expected.num_rows - 12), cut, label=case.name)


@pytest.mark.parametrize("version", VERSIONS)
def test_generated_tables(version: str, tmp_path: Path, joined: Counter[str]) -> None:
    chance = random.Random(version)

    @settings(GENERATED, max_examples=draws(80))
    @given(st.data())
    def run(data: st.DataObject) -> None:
        check(data.draw(cases(version, depth=2)), version, tmp_path / "t", chance)

    run()
    assert joined["together"], joined


@pytest.mark.parametrize("shard", range(4))
def test_every_kind_of_column_of_2_0(shard: int, tmp_path: Path, joined: Counter[str]) -> None:
    """All types, nestings, compressions and packed structs. A usual run takes some of them."""
    chance = random.Random(shard)
    cases = [case for case in cases_2_0() if case.rows and not case.name.startswith("huge")][shard::4]
    for case in chance.sample(cases, draws(80)):
        check(case, "2.0", tmp_path / "t", chance)
    assert joined["together"] > 20, joined
    refused = {reason for reason in joined if "dictionaries of several pages" not in reason} - {"together"}
    assert not refused


@pytest.mark.long("draws hundreds of tables")
@pytest.mark.parametrize("version", VERSIONS)
def test_many_generated_tables(version: str, tmp_path: Path) -> None:
    chance = random.Random(version)

    @settings(GENERATED, max_examples=draws(800))
    @given(st.data())
    def run(data: st.DataObject) -> None:
        check(data.draw(cases(version)), version, tmp_path / "t", chance)

    run()


def mixed(num_rows: int, version: str = "2.1") -> pa.Table:
    """Columns whose pages differ from file to file: with and without nulls, constant, of many lengths.

    Files of 2.0 cannot hold structs that are null.
    """
    numbers = range(num_rows)
    struct = [
        None if k % 70 > 60 and version != "2.0" else {"x": k, "y": [str(k)] * (k % 3)} for k in numbers
    ]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "maybe": [None if k % 100 > 50 else k / 3 for k in numbers],
            "constant": pa.array([k // 80 for k in numbers], pa.int32()),
            "word": [("red", "green", "blue")[k % 3] + "x" * 20 for k in numbers],
            "text": [None if k % 90 > 70 else f"some words {k}" for k in numbers],
            "list": [None if k % 80 > 75 else list(range(k % 4)) for k in numbers],
            "struct": struct,
            "vector": pa.array([[float(k)] * 64 for k in numbers], pa.list_(pa.float32(), 64)),
            "flag": [k % 200 > 100 for k in numbers],
            "null": pa.nulls(num_rows),
            "bytes": [bytes([k % 256]) * 300 for k in numbers],
        }
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_tables_with_a_past(version: str, tmp_path: Path, joined: Counter[str]) -> None:
    """Deleted rows, added columns, fragments of other shapes, row columns and computed columns."""
    path = tmp_path / "t"
    assert write_small(mixed(900, version), path, version, random.Random(3))
    dataset = lance.dataset(path)
    dataset.add_columns({"twice": "id * 2"})
    dataset.delete("id % 7 = 3 or id between 300 and 420")
    dataset.add_columns(pa.field("absent", pa.string()))
    for start in range(900, 960, 10):
        rows = mixed(960, version).slice(start, 10).append_column("twice", pa.array(range(start, start + 10)))
        lance.write_dataset(rows, path, mode="append")
    for scan in (
        {},
        {"columns": ["struct.y", "twice", "absent"]},
        {"columns": ["struct.x", "id"], "with_row_id": True, "with_row_address": True},
        {"columns": ["_rowoffset", "word"]},
        {"columns": {"sum": "twice + id", "word": "upper(word)"}},
        {"columns": ["text", "vector"], "filter": "constant % 2 = 1 and maybe is not null"},
        {"columns": ["list"], "filter": "text like '%7%'", "with_row_id": True, "limit": 30, "offset": 2},
    ):
        expected = read_one_by_one(path, **scan)
        assert lance_core.dataset(path).to_table(**scan) == expected, scan
        reader = lance_core.dataset(path).scanner(**scan).to_reader()
        assert reader.read_all() == expected, scan
    assert joined["together"] > 100
    refused = {reason.split(": ")[0] for reason in joined} - {"together"}
    assert refused <= {"UnsupportedFeatureError"}, joined


def test_stable_row_ids(tmp_path: Path) -> None:
    lance.write_dataset(
        mixed(300),
        tmp_path / "t",
        max_rows_per_file=25,
        enable_stable_row_ids=True,
        data_storage_version="2.1",
    )
    lance.dataset(tmp_path / "t").update({"constant": "77"}, where="id % 50 = 1")
    scan = {"columns": ["id", "constant"], "with_row_id": True}
    expected = read_one_by_one(tmp_path / "t", **scan)
    assert lance_core.dataset(tmp_path / "t").to_table(**scan) == expected


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("columns", [None, ["id", "maybe", "text", "word", "flag"]], ids=["all", "joined"])
@pytest.mark.parametrize("mutants", [40, pytest.param(500, marks=pytest.mark.long)])
def test_damage_is_that_of_files_read_one_by_one(
    version: str, mutants: int, columns: list[str] | None, tmp_path: Path
) -> None:
    """T22: a damaged file among others gives the rows or the error that it gives alone.

    All of the named columns are joined in each version. So nothing but joining opens the files.
    """
    path = tmp_path / "t"
    table = mixed(240, version)
    assert write_small(table.select(columns or table.column_names), path, version, random.Random(5))
    files = sorted((path / "data").iterdir())
    for number in range(mutants):
        source = random.Random(f"{version} {number}")
        file = source.choice(files)
        intact = file.read_bytes()
        damaged = bytearray(intact)
        source.choice(MUTATIONS)(damaged, source)
        file.write_bytes(damaged)
        results = []
        for read in (read_one_by_one, lambda at: lance_core.dataset(at).to_table()):
            try:
                results.append(read(path))
            except lance_core.LanceError as error:
                results.append(str(error))
        file.write_bytes(intact)
        one_by_one, together = results
        if isinstance(one_by_one, pa.Table) and isinstance(together, pa.Table):
            assert together.schema == one_by_one.schema
            assert _bits(together) == _bits(one_by_one), number
        else:
            assert one_by_one == together, number


def _bits(table: pa.Table) -> str:
    """Return the values as text, in which a NaN equals itself; damaged text may not be UTF-8."""
    shown = []
    for column in table.columns:
        kind = {pa.string(): pa.binary()}.get(column.type)
        values = column.combine_chunks() if kind is None else column.combine_chunks().view(kind)
        try:
            shown.append(repr(values.to_pylist()))
        except UnicodeDecodeError:
            shown.append("a text inside that is no text")
    return "\n".join(shown)


@pytest.mark.parametrize("kind", [pa.list_(pa.int32()), pa.list_(pa.list_(pa.int32()))])
def test_an_item_does_not_move_to_a_row_of_the_file_before(kind: pa.DataType, tmp_path: Path) -> None:
    """T22: the first repetition level of a file continues a list, and a later one begins the missing row."""
    path = tmp_path / "t"
    is_nested = pa.types.is_list(kind.value_type)
    for k in range(6):
        lists = [[[k]], [[k], [k + 1]]] if is_nested else [[k], [k, k + 1]]
        rows = pa.table({"list": pa.array(lists, kind)})
        lance.write_dataset(rows, path, mode="append", data_storage_version="2.1")
    third = path / lance_core.dataset(path).snapshot.manifest.fragments[2].files[0].path
    intact = third.read_bytes()
    inner, row = int(is_nested), int(is_nested) + 1
    levels, moved = (struct.pack("<3H", *numbers) for numbers in ((row, row, inner), (inner, row, row)))
    assert intact.count(levels) == 1
    third.write_bytes(intact.replace(levels, moved))
    messages = []
    for read in (read_one_by_one, lambda at: lance_core.dataset(at).to_table()):
        with pytest.raises(lance_core.LanceError) as raised:
            read(path)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_symbol_tables_of_many_files(version: str, tmp_path: Path, joined: Counter[str]) -> None:
    """Text of more than 32 KiB has symbols that each file chooses, and little text stays as it is."""
    path = tmp_path / "t"
    chance = random.Random(version)
    field = pa.field("text", pa.string(), metadata={"lance-encoding:compression": "fsst"})
    for number in range(8):
        rows = 20 if number in (2, 5) else 2000
        text = [
            None if chance.random() < 0.1 else f"{chance.choice(WORDS)} {number} {chance.random()}"
            for _ in range(rows)
        ]
        lists = [text[k : k + k % 3] for k in range(rows)]
        table = pa.table(
            [text, lists], schema=pa.schema([field, ("list", pa.list_(field.with_name("item")))])
        )
        lance.write_dataset(table, path, mode="append", data_storage_version=version)
    marks = [file.read_bytes().count(b"TSSF") for file in (path / "data").iterdir()]
    assert sum(map(bool, marks)) >= 6, "files with symbol tables"
    assert lance_core.dataset(path).to_table() == read_one_by_one(path)
    assert joined == {"together": 2}


@pytest.mark.parametrize("is_struct", [True, False])
def test_the_leaves_and_layouts_of_a_column_share_its_limit(
    is_struct: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T33: ten leaves, or eight files with a layout each, of which each alone keeps to the limit."""
    path = tmp_path / "t"
    for k in range(8):
        column = pa.array([k] * 1000)
        if is_struct:
            column = pa.StructArray.from_arrays([pa.array([7] * 1000)] * 10, list("abcdefghij"))
        rows = pa.table({"column": column})
        lance_core.write_dataset(rows, path, mode="append" if k else "create", data_storage_version="2.2")
    limit = 80_000 if is_struct else 20_000
    monkeypatch.setattr(small_fragments, "_STREAM_BYTES", limit // 2)
    monkeypatch.setattr(fragment_groups.GroupReader, "fit", lambda _, scans: len(scans))
    decoded: list[int] = []
    read, decode = JoinedFiles.read, joined_files.decode_file_pages

    def noted_read(files: JoinedFiles, *arguments: object) -> pa.Array:
        decoded.append(0)
        return read(files, *arguments)

    def noted_decode(*arguments: object) -> LeafSlice:
        slice_ = decode(*arguments)
        decoded[-1] += slice_.array.nbytes
        return slice_

    monkeypatch.setattr(JoinedFiles, "read", noted_read)
    monkeypatch.setattr(joined_files, "decode_file_pages", noted_decode)
    batches = list(lance_core.dataset(path).to_batches())
    assert sum(batch.num_rows for batch in batches) == 8000
    assert limit // 2 < max(decoded) <= limit


def test_files_of_another_size_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert write_small(mixed(200), path, "2.1", random.Random(1))
    third = lance_core.dataset(path).snapshot.manifest.fragments[2].files[0].path
    (path / third).unlink()
    with pytest.raises(lance_core.LanceError, match=third.rpartition("/")[2]):
        lance_core.dataset(path, session=lance_core.Session()).to_table()
