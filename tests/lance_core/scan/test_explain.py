"""Plans as text: which columns are read, what a run read from files, and what indices do instead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core

NUM_ROWS = 400


def vectors(seed: int, num_rows: int) -> pa.Array:
    numbers = np.random.default_rng(seed).random(num_rows * 8, dtype=np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers), 8)


def table(num_rows: int = NUM_ROWS) -> pa.Table:
    return pa.table({"a": range(num_rows), "b": range(num_rows), "v": vectors(1, num_rows)})


@pytest.fixture
def dataset(tmp_path: Path) -> Any:
    return lance_core.write_dataset(table(), tmp_path / "d", max_rows_per_file=NUM_ROWS // 4)


def facts(plan: str, step: str) -> dict[str, str]:
    """Return the facts of the line of a step; none: the plan has no such step."""
    found = re.search(rf"^ *{step}: (.*)$", plan, re.MULTILINE)
    return {} if found is None else dict(re.findall(r"(\w+)=(\[.*?\]|[^,]+)", found.group(1)))


def test_a_plan_names_the_stored_columns_that_the_scan_reads(dataset: Any) -> None:
    theirs = lance.dataset(dataset.uri)
    for arguments in ({"columns": [], "filter": "a < 50", "with_row_id": True}, {"columns": ["b"]}):
        ours, other = (each.scanner(**arguments).explain_plan(True) for each in (dataset, theirs))
        assert facts(ours, "LanceRead")["projection"] == facts(other, "LanceRead")["projection"]
    assert facts(dataset.scanner(["b"], "a < 50").explain_plan(), "LanceRead") == {
        "columns": "[b]",
        "projection": "[b, a]",
        "fragments": "4",
    }


def test_an_analyzed_scan_counts_rows_bytes_and_reads(dataset: Any) -> None:
    scan = lance_core.dataset(dataset.uri, session=lance_core.Session()).scanner(["a"], "a % 2 = 0")
    read = facts(scan.analyze_plan(), "LanceRead")
    assert (read["output_rows"], read["rows_scanned"], read["requests"]) == ("200", "400", "4")
    assert int(read["bytes_read"]) > 400
    assert int(read["iops"]) >= 4
    assert "bytes_read" not in scan.explain_plan(verbose=True)


def test_a_count_that_indices_answer_reads_no_column(dataset: Any) -> None:
    dataset.create_scalar_index("a", "BTREE")
    dataset.delete("a = 7 OR a = 150")
    scan = dataset.scanner([], "a < 250", with_row_id=True)
    plan = scan.analyze_plan(count_rows=True)
    assert facts(plan, "CountFromMask") == {"fragments": "4", "rows": "248"}
    assert "LanceRead" not in plan
    dataset.update({"a": "a + 1000"}, where="a = 10")
    scan = dataset.scanner([], "a < 250", with_row_id=True)
    plan = scan.analyze_plan(count_rows=True)
    assert facts(plan, "CountFromMask")["rows"] == "247"
    assert facts(plan, "LanceRead")["fragments"] == "1"
    assert f"Rows: {scan.count_rows()}" in plan
    assert "CountFromMask" not in scan.analyze_plan()
    assert facts(scan.analyze_plan(), "LanceRead")["output_rows"] == "247"


def test_a_search_tells_which_fragments_have_no_index(dataset: Any) -> None:
    query = {"column": "v", "q": np.zeros(8, np.float32), "k": 5}
    plan = dataset.scanner(nearest=query).explain_plan()
    assert facts(plan, "KNNVectorDistance") == {"metric": "l2", "k": "5", "fragments": "4"}
    assert "Rows" not in plan
    dataset.create_index("v", "IVF_FLAT", num_partitions=2, metric="cosine")
    found = facts(dataset.scanner(nearest=query).explain_plan(), "ANNSubIndex")
    assert found == {"name": "v_idx", "metric": "Cosine", "k": "5", "fragments": "4"}
    dataset.insert(table(10))
    plan = dataset.scanner(nearest=query).explain_plan()
    assert facts(plan, "ANNSubIndex")["fragments"] == "4"
    assert facts(plan, "KNNVectorDistance")["fragments"] == "1"
    assert "KNNVectorDistance" not in dataset.scanner(nearest=query, fast_search=True).explain_plan()
    assert "ANNSubIndex" not in dataset.scanner(nearest={**query, "use_index": False}).explain_plan()


def test_a_search_tells_its_arguments_and_when_the_filter_applies(dataset: Any) -> None:
    query = {"column": "v", "q": np.zeros(8, np.float32), "k": 5}
    dataset.create_index("v", "IVF_FLAT", num_partitions=4)
    asked = {**query, "nprobes": 3, "refine_factor": 2}
    plan = dataset.scanner(nearest=asked, filter="a < 10", prefilter=True).explain_plan()
    found = facts(plan, "ANNSubIndex")
    assert found["refine_factor"] == "2"
    assert "fragments pruned=3" in plan
    scan = dataset.scanner(nearest=query, filter="a < 10")
    assert facts(scan.explain_plan(), "Filter") == {"applied": "after the search"}
    assert scan.explain().pages_pruned == 0


@pytest.mark.parametrize(
    "asked",
    [
        {"nprobes": 3},
        {"minimum_nprobes": 2},
        {"minimum_nprobes": 2, "maximum_nprobes": 3},
        {"maximum_nprobes": 3},
    ],
)
def test_arguments_of_an_index_are_spelled_as_in_the_reference(asked: dict[str, int], dataset: Any) -> None:
    dataset.create_index("v", "IVF_FLAT", num_partitions=4, metric="dot")
    query = {"column": "v", "q": np.zeros(8, np.float32), "k": 5, **asked}
    theirs = lance.dataset(dataset.uri).scanner(nearest=query).explain_plan()
    expected = {**facts(theirs, "ANNSubIndex"), **facts(theirs, "ANNIvfPartition")}
    if "minimum_nprobes" not in asked and "nprobes" not in asked:
        del expected["minimum_nprobes"]  # it is not fixed here: it depends on k
    found = facts(dataset.scanner(nearest=query).explain_plan(), "ANNSubIndex")
    assert found == {"fragments": "4"} | {
        name: value for name, value in expected.items() if name not in ("uuid", "deltas")
    }


def test_a_search_of_texts_tells_its_query(tmp_path: Path) -> None:
    rows = table(10).append_column("text", pa.array(["red stone", "blue"] * 5))
    dataset = lance_core.write_dataset(rows, tmp_path / "texts")
    query = {"column": "v", "q": np.zeros(8, np.float32), "k": 2}
    scan = dataset.scanner(
        nearest=query, full_text_query={"query": "stone", "columns": ["text"]}, hybrid={"depth": 4}
    )
    plan = scan.explain_plan()
    assert '"terms": "stone"' in plan
    assert facts(plan, "Fusion") == {"method": "rrf", "k": "2", "depth": "4"}
    assert scan.explain().as_data()["text_query"]["match"]["column"] == "text"
