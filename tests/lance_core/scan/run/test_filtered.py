"""Filtered scans: every way of running them gives what the reference gives, in the same batches."""

from __future__ import annotations

import tempfile
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.file import LanceFileReader

import lance_core
from lance_core.errors import CorruptFileError, InvalidInputError
from lance_core.scan.files.cache import FileCache
from lance_core.scan.plan.bind import bind_columns, bind_filter
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.scan_plan import plan_scan
from lance_core.scan.read import row_selection
from lance_core.scan.read.page_trace import Trace
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.execute import count_matching, scan_batches, scan_table
from lance_core.scan.run.filtering import filtered_scan, matching_rows, row_filter
from lance_core.scan.run.filtering.matching_rows import MatchingRead, MatchingWindow
from lance_core.scan.run.readahead import Job
from lance_core.scan.run.strategy import Strategy
from lance_core.statistics import zone_statistics
from support.oracles.comparison import assert_tables_equal
from support.runs.draws import draws
from support.runs.each_case import each_case
from support.searches.filters import conditions, random_table

VERSIONS = ["legacy", "2.0", "2.1", "2.2"]
STRATEGIES = {
    "plain": Strategy(prune=False, dense_share=0, on_pages=False),
    "on pages": Strategy(prune=False),
    "late": Strategy(prune=False, dense_share=2),
    "pruned": Strategy(),
    "pruned, whole": Strategy(dense_share=0),
    "pruned, late": Strategy(dense_share=2),
}


@pytest.fixture(scope="module", autouse=True)
def _small_steps():
    """Reduce the number of rows between fixed positions, so that small tables reach them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zone_statistics, "ZONE_ROWS", 48)
        patch.setattr(zone_statistics, "_LEAST_ROWS", 1)
        patch.setattr(row_selection, "_BLOCK_ROWS", 64)
        patch.setattr(filtered_scan, "_FEW_ROWS", 0)
        patch.setattr(row_filter, "_LEAST_ROWS", 1)
        patch.setattr(matching_rows, "_FIRST_SCANNED", 100)
        patch.setattr(matching_rows, "_MOST_SCANNED", 1000)
        yield


def run(snapshot, options, strategy=STRATEGIES["pruned"], files=None, budget=1 << 30):
    files = FileCache() if files is None else files
    return list(scan_batches(snapshot, plan_scan(snapshot, options), MemoryBudget(budget), files, strategy))


def options_for(dataset, condition, **options):
    return ScanOptions(filter=bind_filter(dataset.snapshot.manifest.schema, condition), **options)


positions = st.one_of(st.none(), st.integers(0, 400))


@st.composite
def histories(draw: st.DrawFn):
    """A table in a version of the format, in fragments, with rows deleted, and filters on it."""
    num_rows = draw(st.integers(1, 600))
    rows_per_file = draw(st.integers(50, 600))
    deleted = draw(st.sampled_from([None, "id % 7 = 3", "id < 120", "id % 2 = 0 and id > 60"]))
    asked = draw(st.lists(st.tuples(conditions, positions, positions), min_size=3, max_size=6))
    return draw(st.integers(0, 2**32)), num_rows, rows_per_file, deleted, asked


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=draws(6), deadline=None)
@given(history=histories())
def test_every_strategy_gives_what_the_reference_gives(version, history):
    seed, num_rows, rows_per_file, deleted, asked = history
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "d"
        reference = lance.write_dataset(
            random_table(seed, num_rows),
            path,
            max_rows_per_file=rows_per_file,
            max_rows_per_group=64,
            data_storage_version=version,
        )
        if deleted is not None:
            reference.delete(deleted)
        ours = lance_core.dataset(path)
        # Statistics gathered by one filter prune the next.
        warm = FileCache()
        for condition, limit, offset in asked:
            # Statistics mislead the reference where 0.1 files lose nulls.
            expected = reference.to_table(filter=condition, limit=limit, offset=offset, use_stats=False)
            options = options_for(ours, condition, limit=limit, offset=offset, batch_bytes=2000)
            plan = plan_scan(ours.snapshot, options)
            seen = None
            for name, strategy in STRATEGIES.items():
                for budget, few_bytes in ((1, 0), (1, 1 << 20), (1 << 30, 2000)):
                    label = f"{condition}, limit={limit}, offset={offset}: {name}, {few_bytes} bytes are few"
                    with pytest.MonkeyPatch.context() as patch:
                        patch.setattr(filtered_scan, "_FEW_BYTES", few_bytes)
                        batches = run(ours.snapshot, options, strategy, warm, budget)
                    found = pa.Table.from_batches(batches, plan.schema)
                    assert_tables_equal(expected, found, label=label)
                    sizes = [batch.num_rows for batch in batches]
                    assert sizes == (seen := seen or sizes), label
                table = scan_table(ours.snapshot, plan, warm, strategy)
                assert_tables_equal(expected, table, label=f"{label}, table")
                count = count_matching(ours.snapshot, plan, MemoryBudget(1 << 30), warm, strategy)
                assert count == expected.num_rows, label


@pytest.fixture(scope="module", params=VERSIONS)
def reference(request, tmp_path_factory):
    """Three fragments, with rows deleted."""
    path = tmp_path_factory.mktemp("filtered") / "d"
    dataset = lance.write_dataset(
        random_table(1, 3000),
        path,
        max_rows_per_file=1000,
        max_rows_per_group=256,
        data_storage_version=request.param,
    )
    dataset.delete("id % 10 = 3")
    return dataset


@pytest.fixture
def ours(reference):
    return lance_core.dataset(reference.uri)


@pytest.mark.parametrize(
    "columns",
    [
        None,
        [],
        ["word", "id"],
        ["point.x"],
        ["point", "few"],
        ["_rowid", "id", "_rowaddr"],
        {"twice": "id", "number": "_rowid", "x": "point.x", "none": "few is null", "word": "word"},
        {"constant": "7"},
    ],
    ids=str,
)
@pytest.mark.parametrize("condition", ["id >= 1500 and few > 0", "point.x = 7 and point.name >= 'b'", None])
def test_what_is_returned_is_what_the_reference_returns(reference, ours, columns, condition):
    arguments = {"columns": columns, "filter": condition, "with_row_address": True}
    if columns is not None and "_rowaddr" in columns:
        del arguments["with_row_address"]
    expected = reference.to_table(use_stats=False, **arguments)
    found = ours.to_table(**arguments)
    assert_tables_equal(expected, found)
    assert ours.scanner(**arguments).projected_schema.equals(expected.schema, check_metadata=True)
    assert_tables_equal(expected, pa.Table.from_batches(ours.to_batches(**arguments), expected.schema))
    if condition is not None:
        assert ours.count_rows(condition) == expected.num_rows


def test_fragments_heads_and_counts_are_filtered(reference, ours):
    condition = "few = 2 or word = 'ab'"
    assert_tables_equal(reference.head(5, filter=condition, use_stats=False), ours.head(5, filter=condition))
    for theirs, fragment in zip(reference.get_fragments(), ours.get_fragments(), strict=True):
        expected = theirs.to_table(["id"], filter=condition, limit=20, offset=3)
        assert_tables_equal(expected, fragment.to_table(["id"], filter=condition, limit=20, offset=3))
        assert fragment.count_rows(condition) == theirs.count_rows(condition)
    second = ours.get_fragments()[1:2]
    assert ours.count_rows(condition, fragments=second) == second[0].count_rows(condition)
    assert ours.scanner(filter=condition).head(4).num_rows == 4
    assert ours.scanner(filter=condition, limit=2).head(4).num_rows == 2
    assert ours.scanner(filter=condition, limit=7, offset=2).count_rows() == 7


def test_rows_are_taken_with_computed_columns(reference, ours):
    columns = {"id": "id", "known": "few is not null"}
    rows = [5, 0, 2000, 5]
    assert_tables_equal(reference.take(rows, columns=columns), ours.take(rows, columns=columns))
    assert_tables_equal(
        reference._take_rows([4, 1], columns=columns), ours._take_rows([4, 1], columns=columns)
    )


@each_case(
    ("arguments", "words"),
    [
        ({"filter": "idd > 3"}, "idd"),
        ({"filter": "id > "}, "'>'"),
        ({"filter": "id"}, "condition"),
        ({"filter": "true", "substrait_filter": b"x"}, "substrait_filter"),
        ({"columns": {"twice": "idd"}}, "twice.*idd"),
    ],
)
def test_what_cannot_be_used_is_named(ours, arguments, words):
    with pytest.raises(InvalidInputError, match=words):
        ours.scanner(**arguments)


# What is decoded


def traced(ours, condition, files, **options):
    """The pages of each column that are read by a scan of all columns, and its number of rows."""
    trace = Trace()
    options = options_for(ours, condition, **options)
    num_rows = sum(batch.num_rows for batch in run(ours.snapshot, options, Strategy(trace=trace), files))
    return num_rows, {
        name: sum(trace.pages_read(fragment, name) for fragment in range(3)) for name in ours.schema.names
    }


def test_what_statistics_decide_is_not_decoded(ours):
    files = FileCache()
    for condition in ("id is null", "id >= 0", "few is null", "id < 100"):
        run(ours.snapshot, options_for(ours, condition, columns=()), files=files)
    for condition, expected in (("id is null", 0), ("id >= 0", 2700), ("few is null and id < 0", 0)):
        trace = Trace()
        plan = plan_scan(ours.snapshot, options_for(ours, condition))
        strategy = Strategy(trace=trace)
        assert count_matching(ours.snapshot, plan, MemoryBudget(1 << 20), files, strategy) == expected
        assert sum(trace.pages_read(fragment, "id") for fragment in range(3)) == 0, condition
    num_rows, pages = traced(ours, "id < 100", files)
    assert num_rows == 90
    assert all(count <= 1 for count in pages.values())


def test_a_limit_stops_the_scan_and_what_an_offset_skips_is_not_decoded(ours, reference):
    if reference.data_storage_version != "0.1":
        return  # only 0.1 files have several pages of so few rows
    num_rows, pages = traced(ours, "few > -100", FileCache(), limit=3)
    assert num_rows == 3
    assert pages["word"] == 1
    num_rows, pages = traced(ours, "few > -100", FileCache(), offset=1700)
    assert num_rows > 0
    assert pages["word"] <= 6 < pages["few"]


def test_a_table_with_a_limit_is_not_decoded_to_the_end(tmp_path):
    """Pages of a column that nothing is known of: those of the two windows that come first, not of all."""
    table = pa.table({"v": np.random.default_rng(1).random(800_000)})
    lance.write_dataset(table, str(tmp_path / "d"), max_rows_per_file=200_000)
    ours = lance_core.dataset(tmp_path / "d")
    plan = plan_scan(ours.snapshot, options_for(ours, "v > 0.1", limit=5))
    trace = Trace()
    found = scan_table(ours.snapshot, plan, FileCache(), Strategy(trace=trace))
    assert found.num_rows == 5
    assert [trace.pages_read(fragment, "v") > 0 for fragment in (0, 2, 3)] == [True, False, False]


def test_columns_of_the_filter_are_decoded_once(ours):
    reads = []

    class Counting(Trace):
        def note(self, key, pages):
            reads.append((key, tuple(pages.tolist())))

    options = options_for(ours, "id >= 0 and few is not null", columns=("id", "few"))
    run(ours.snapshot, options, Strategy(prune=False, dense_share=0, trace=Counting()))
    assert len(reads) == len(set(reads))


# Streams


def assert_batches_equal(expected, found):
    assert [batch.num_rows for batch in expected] == [batch.num_rows for batch in found]
    for left, right in zip(expected, found, strict=True):
        assert_tables_equal(pa.table(left), pa.table(right))


@pytest.mark.parametrize("condition", ["few = 1", "id > 1234", "word like 'z%' and id < 2000", "id < 0"])
def test_the_same_batches_come_from_a_cold_and_from_a_warm_cache(ours, condition):
    options = options_for(ours, condition, batch_rows=40)
    files = FileCache()
    cold = run(ours.snapshot, options, files=files)
    assert_batches_equal(cold, run(ours.snapshot, options, files=files))
    assert_batches_equal(cold, run(ours.snapshot, options, budget=1))
    assert all(0 < batch.num_rows <= 40 for batch in cold)


def test_batches_stay_small(ours):
    options = options_for(ours, "id >= 0", batch_bytes=5000)
    sizes = [batch.nbytes for batch in run(ours.snapshot, options)]
    assert len(sizes) > 10
    assert max(sizes) <= 2 * 5000 * 1.1


def test_closing_a_stream_gives_back_what_it_held(ours):
    """T30."""
    budget = MemoryBudget(1 << 20)
    plan = plan_scan(ours.snapshot, options_for(ours, "id >= 0", batch_bytes=1000))
    stream = scan_batches(ours.snapshot, plan, budget, FileCache())
    next(stream)
    assert budget.used_bytes > 0
    stream.close()
    assert budget.used_bytes == 0


@pytest.mark.parametrize("few_bytes", [0, 1 << 20])
def test_damage_is_reported_in_its_place(few_bytes, tmp_path, monkeypatch):
    """T22: rows before a damaged page come, then the error, and nothing stays held."""
    monkeypatch.setattr(filtered_scan, "_FEW_BYTES", few_bytes)
    reference = lance.write_dataset(
        pa.table({"id": range(3000), "value": np.random.default_rng(1).random(3000)}),
        tmp_path / "d",
        max_rows_per_file=1000,
        data_storage_version="2.1",
    )
    damaged = tmp_path / "d" / "data" / reference.get_fragments()[2].data_files()[0].path
    content = bytearray(damaged.read_bytes())
    content[:4000] = b"\xff" * 4000
    damaged.write_bytes(content)
    ours = lance_core.dataset(tmp_path / "d")
    budget = MemoryBudget(1 << 30)
    plan = plan_scan(ours.snapshot, options_for(ours, "id >= 0", batch_rows=100))
    rows = []
    with pytest.raises(CorruptFileError):
        rows.extend(batch.num_rows for batch in scan_batches(ours.snapshot, plan, budget, FileCache()))
    assert sum(rows) == 2000
    assert budget.used_bytes == 0


@pytest.mark.parametrize("few_bytes", [0, 1 << 20])
def test_a_condition_that_fails_keeps_no_memory(few_bytes, tmp_path, monkeypatch):
    """T33: batches that are complete come before the error."""
    monkeypatch.setattr(filtered_scan, "_FEW_BYTES", few_bytes)
    lance_core.write_dataset(pa.table({"id": range(900)}), tmp_path / "d", max_rows_per_file=450)
    ours = lance_core.dataset(tmp_path / "d")
    budget = MemoryBudget(1 << 30)
    plan = plan_scan(ours.snapshot, options_for(ours, "1000 / (899 - id) >= 1"))
    rows = []
    with pytest.raises(InvalidInputError):
        rows.extend(batch.num_rows for batch in scan_batches(ours.snapshot, plan, budget, FileCache()))
    assert rows == [100, 200]
    assert budget.used_bytes == 0


# Explanations


def test_an_explanation_counts_pages(ours, reference):
    condition = "id between 1100 and 1150"
    ours.count_rows("id >= 0")
    explained = ours.scanner(["word", "id"], condition).explain(analyze=True)
    assert explained.rows_returned == 46
    assert [bool(fragment.rows_planned) for fragment in explained.fragments] == [False, True, False]
    word, identity = explained.fragments[1].columns
    assert (word.name, word.use, identity.name, identity.use) == ("word", "output", "id", "filter, output")
    assert word.read == identity.read == 1
    assert explained.pages_total - explained.pages_pruned == 2
    assert explained.statistics == ("file" if reference.data_storage_version == "0.1" else "cache")
    data = explained.as_data()
    assert data["fragments"][1]["columns"][0]["planned"] == 1
    text = ours.scanner(["word"], condition).explain_plan(verbose=True)
    assert "fragments pruned=2" in text
    assert "word (output): pages=" in text
    assert "read=1" in ours.scanner(["word"], condition).analyze_plan()


def test_an_explanation_without_a_filter_tells_the_rows(ours):
    explained = ours.scanner(limit=10).explain()
    assert explained.rows_returned == 10
    assert explained.statistics == "none"
    assert explained.pages_pruned == 0


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("is_nested", [False, True])
def test_pages_whose_dictionaries_do_not_go_together(version: str, is_nested: bool, tmp_path: Path) -> None:
    """The values of both pages need larger indices together, and are filtered page by page."""

    def part(number: int) -> pa.Table:
        words = pa.array([f"v{number * 100 + item}" for item in range(100)])
        column = pa.DictionaryArray.from_arrays(pa.array([*range(100), None] * 3, pa.int8()), words)
        if is_nested:
            column = pa.StructArray.from_arrays([column], ["word"])
        return pa.table({"c": column, "id": range(number * 303, number * 303 + 303)})

    table = pa.concat_tables([part(number) for number in range(4)])
    dataset = lance_core.write_dataset(table, tmp_path, data_storage_version=version)
    name = "c.word" if is_nested else "c"
    rows = table.flatten().column("c.word" if is_nested else "c").to_pylist()

    for condition, passes in (
        (f"{name} = 'v150'", [word == "v150" for word in rows]),
        (
            f"{name} LIKE 'v1%' OR id = 3",
            [row == 3 or "v1" in (word or "")[:2] for row, word in enumerate(rows)],
        ),
        (f"{name} IS NULL", [word is None for word in rows]),
    ):
        expected = [row for row, is_passing in enumerate(passes) if is_passing]
        assert dataset.to_table(["id"], filter=condition)["id"].to_pylist() == expected
        assert dataset.count_rows(condition) == len(expected)
    computed = dataset.to_table({"is": f"{name} = 'v150'", "upper": f"upper({name})"})
    assert computed["is"].to_pylist() == [None if word is None else word == "v150" for word in rows]
    assert computed["upper"].to_pylist() == [word and word.upper() for word in rows]
    dataset.delete(f"{name} = 'v150'")
    assert dataset.count_rows() == len(rows) - 3


def test_a_computed_column_has_values_of_matching_rows_only(tmp_path: Path) -> None:
    """A filter may be there to leave out rows that have no value."""
    table = pa.table({"x": pa.array([0, 5] * 500 + list(range(1000))), "y": [1] * 2000})
    dataset = lance_core.write_dataset(table, tmp_path / "t.lance")
    expected = [100 // value for value in table["x"].to_pylist() if value]
    for strategy in STRATEGIES.values():
        computed = bind_columns(dataset.snapshot.manifest.schema, {"z": "100 / x"})
        options = options_for(dataset, "x != 0", computed=computed)
        batches = run(dataset.snapshot, options, strategy)
        assert [value for batch in batches for value in batch["z"].to_pylist()] == expected


def test_few_candidates_wait_for_no_worker_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once statistics are known, the calling thread finds and decodes a small range of a large table."""
    rows = pa.table({"id": pa.array(range(400_000)), "text": [f"text {number}" for number in range(400_000)]})
    ours = lance_core.dataset(lance.write_dataset(rows, tmp_path / "d").uri)
    assert ours.count_rows("id < 100") == 100  # gathers statistics
    begun: list[object] = []
    begin = Job.begin
    monkeypatch.setattr(Job, "begin", lambda job, *given: (begun.append(job), begin(job, *given))[1])
    for start in (5, 200_000, 399_950):
        condition = f"id >= {start} AND id < {start + 1000} AND text != 'text 7'"
        expected = [number for number in range(start, min(start + 1000, 400_000)) if number != 7]
        assert ours.to_table(["id"], filter=condition)["id"].to_pylist() == expected
        batches = list(ours.to_batches(columns=["id"], filter=condition))
        assert [number for batch in batches for number in batch["id"].to_pylist()] == expected
    assert begun == []
    assert ours.to_table(["id"], filter="id >= 5").num_rows == 399_995
    assert begun != []


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("deletes", [False, True])
def test_values_of_many_matching_rows_are_decoded_beside_the_filter(
    version: str, deletes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No second job decodes narrow columns of which the filter keeps many rows. Wide columns, rare rows and
    scans with a limit have second jobs. Without deleted rows, only the kept values are decoded.
    """
    rows = pa.table(
        {
            "id": range(300_000),
            "other": pa.array([None if number % 5 == 0 else -number for number in range(300_000)]),
            "wide": [f"text {number} " + "x" * 100 for number in range(300_000)],
        }
    )
    lance.write_dataset(rows, tmp_path / "d", max_rows_per_file=130_000, data_storage_version=version)
    ours = lance_core.dataset(tmp_path / "d")
    if deletes:
        ours.delete("id % 1000 = 7")
    left = [number for number in range(300_000) if number % 1000 != 7 or not deletes]
    assert ours.count_rows("other < -3") == sum(number > 3 and number % 5 != 0 for number in left)
    masked: list[object] = []
    read_masked = row_filter.read_masked
    monkeypatch.setattr(
        row_filter, "read_masked", lambda *given: (masked.append(given), read_masked(*given))[1]
    )
    decoded: list[object] = []
    run = MatchingRead.run
    page_ranges = MatchingRead.page_ranges
    monkeypatch.setattr(MatchingRead, "run", lambda read: (decoded.append(read), run(read))[1])
    monkeypatch.setattr(
        MatchingRead, "page_ranges", lambda read: (decoded.append(read), page_ranges(read))[1]
    )
    expected = [number for number in left if number % 3 == 0]
    found = ours.to_table(["other", "id"], filter="id % 3 = 0")
    assert found["id"].to_pylist() == expected
    assert found["other"].to_pylist() == [None if number % 5 == 0 else -number for number in expected]
    batches = list(ours.to_batches(columns=["other"], filter="id % 3 = 0 AND id % 2 = 0"))
    assert pa.Table.from_batches(batches)["other"].to_pylist() == [
        None if number % 5 == 0 else -number for number in expected if number % 2 == 0
    ]
    found = ours.to_table(["other"], filter="other < -150000")
    assert found["other"].to_pylist() == [-number for number in left if number > 150_000 and number % 5 != 0]
    assert decoded == []
    assert deletes == (masked == [])
    assert ours.to_table(["wide"], filter="id % 3 = 0")["wide"].to_pylist() == [
        f"text {number} " + "x" * 100 for number in expected
    ]
    assert decoded != []
    for arguments in ({"filter": "id % 3 = 0", "limit": 9}, {"filter": "id % 5000 = 3"}):
        decoded.clear()
        assert ours.to_table(["other"], **arguments).num_rows in (9, 60)
        assert decoded != []


def test_values_that_wait_for_the_reader_are_of_one_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T30: values that are decoded beside the filter cannot be given back. So no job with them runs ahead."""
    rows = pa.table({"id": range(400_000), "other": range(400_000)})
    ours = lance_core.dataset(lance.write_dataset(rows, tmp_path / "d", max_rows_per_file=100_000).uri)
    assert ours.count_rows("id % 3 = 0") == 133_334
    hold = Job.hold
    done: list[object] = []
    monkeypatch.setattr(Job, "hold", lambda job: (done.append(job.work), hold(job))[1])
    stream = ours.to_batches(columns=["other"], filter="id % 3 = 0")
    for number, _ in enumerate(stream, start=1):
        assert 1 <= sum(isinstance(work, MatchingWindow) for work in done) <= number


def test_rows_between_groups_of_matching_rows_are_not_decoded(tmp_path: Path) -> None:
    """Many rows of a window match, but all are at its ends."""
    num_rows = 200_000
    is_wanted = [number < 40_000 or number >= 160_000 for number in range(num_rows)]
    rows = pa.table({"wanted": is_wanted, "other": range(num_rows)})
    ours = lance_core.dataset(lance.write_dataset(rows, tmp_path / "d").uri)
    expected = [number for number in range(num_rows) if is_wanted[number]]
    for _ in range(2):
        assert ours.to_table(["other"], filter="wanted")["other"].to_pylist() == expected
        batches = ours.to_batches(columns=["other"], filter="wanted")
        assert [number for batch in batches for number in batch["other"].to_pylist()] == expected


def test_damage_of_another_column_is_reported_in_its_place(tmp_path: Path) -> None:
    """T22: a column that is decoded beside the filter fails after the windows before, and names itself."""
    reference = lance.write_dataset(
        pa.table({"id": range(120_000), "other": np.random.default_rng(1).integers(0, 1 << 40, 120_000)}),
        tmp_path / "d",
        max_rows_per_file=40_000,
        data_storage_version="2.1",
    )
    damaged = tmp_path / "d" / "data" / reference.get_fragments()[2].data_files()[0].path
    place = LanceFileReader(str(damaged)).metadata().columns[1].pages[0].buffers[0]
    with damaged.open("r+b") as file:
        file.seek(place.position)
        file.write(b"\xff" * place.size)
    ours = lance_core.dataset(tmp_path / "d")
    budget = MemoryBudget(1 << 30)
    plan = plan_scan(ours.snapshot, options_for(ours, "id % 2 = 0", columns=("other",), batch_rows=1000))
    rows: list[int] = []
    with pytest.raises(CorruptFileError, match="other"):
        rows.extend(batch.num_rows for batch in scan_batches(ours.snapshot, plan, budget, FileCache()))
    assert 10_000 < sum(rows) <= 40_000
    assert budget.used_bytes == 0
