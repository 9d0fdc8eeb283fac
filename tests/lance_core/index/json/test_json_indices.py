"""Indices on values inside JSON: the same rows with them, without them, and by the reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import lance.indices
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.indices import IndexConfig
from lance_core.errors import InvalidInputError, UnsupportedFeatureError

FILTERS = [
    "json_get_int(j, 'i') = 3",
    "json_get_int(j, 'i') != 3",
    "json_get_int(j, 'i') IN (1, 5)",
    "json_get_int(j, 'i') >= 2 AND json_get_int(j, 'i') < 4 AND id > 10",
    "json_get_int(j, 'i') IS NULL",
    "json_get_int(j, 'i') IS NOT NULL",
    "json_get_string(j, 's') = 'beta'",
    "json_get_string(j, 's') LIKE 'al%'",
    "NOT json_get_string(j, 's') IN ('beta', 'x y')",
    "json_get_bool(j, 'b')",
    "json_get_bool(j, 'b') = false",
    "json_get_float(j, 'f') > 1.5",
]
"""Filters that indices answer exactly, by the reference as well."""
CANDIDATES = [
    "json_extract(j, '$.i') = '3'",
    "json_extract(j, '$.s') = '\"beta\"'",
    "json_extract(j, '$.s') IN ('\"x y\"', '\"alpha\"')",
    "json_extract(j, '$.b') = 'true'",
    "json_extract(j, '$.f') = '1.25'",
    "json_get_string(json_get(j, 'n'), 's') = 'deep'",
]
"""Filters for which the reference uses no index."""
OTHERS = [
    "json_get_string(j, 'i') = '3'",
    "json_get_float(j, 'i') = 3.0",
    "json_extract(j, '$.i') != '3'",
    "json_extract(j, '$.i') IS NULL",
    "json_extract(j, '$.s') = 'null'",
    "json_get_int(json_get(j, 'n'), 'i') = 3",
]
"""Filters about values of other types, or elsewhere, or whose rows no index tells."""


def rows(first: int, count: int, seed: int) -> pa.Table:
    chance = np.random.default_rng([seed, first])

    def document() -> str | None:
        if chance.random() < 0.1:
            return None
        found: dict[str, Any] = {}
        for key, values in {
            "i": [*range(6), None],
            "s": ["alpha", "beta", "x y", "", None],
            "b": [True, False, None],
            "f": [1.25, 2.5, 3, None],
            "n": [{"s": "deep"}, {"s": "flat", "i": 3}, [{"s": "deep"}], None],
        }.items():
            if chance.random() < 0.8:
                found[key] = values[chance.integers(len(values))]
        return json.dumps(found)

    documents = [document() for _ in range(count)]
    return pa.table({"id": range(first, first + count), "j": pa.array(documents, pa.json_())})


def build(dataset: Any, config: Any, kind: str) -> None:
    for name, path in {"i": "i", "s": "$.s", "b": '$["b"]', "f": "$.f", "n": "$.n.s"}.items():
        options = {"path": path, "target_index_type": kind}
        dataset.create_scalar_index("j", config(index_type="json", parameters=options), name=name)


def check(uri: str, *, by_reference: bool) -> int:
    """Compare all filters; return how many of them our indices answered."""
    ours, reference = lance_core.dataset(uri), lance.dataset(uri)
    num_used = 0
    for number, query in enumerate((*FILTERS, *CANDIDATES, *OTHERS)):
        wanted = ours.to_table(["id"], filter=query, use_scalar_index=False)
        assert ours.to_table(["id"], filter=query) == wanted, query
        if number % 4 == 0:
            assert ours.count_rows(query) == wanted.num_rows, query
        if by_reference and query not in OTHERS:
            found = reference.to_table(["id"], filter=query)["id"].to_pylist()
            assert sorted(found) == sorted(wanted["id"].to_pylist()), query
        used = ours.scanner(filter=query).explain().indices
        assert not (used and query in OTHERS), query
        num_used += bool(used)
    return num_used


@pytest.mark.parametrize(
    ("builder", "kind", "stable"),
    [
        ("reference", "btree", False),
        ("ours", "bitmap", True),
        pytest.param("reference", "bitmap", True, marks=pytest.mark.long),
        pytest.param("ours", "btree", False, marks=pytest.mark.long),
        pytest.param("ours", "btree", True, marks=pytest.mark.long),
    ],
)
def test_rows_after_changes(builder: str, kind: str, stable: bool, tmp_path: Path) -> None:
    """JSON indices of both libraries find the rows that a scan finds, after changes too. With stable row
    ids the reference builds no B-tree inside a JSON index, but reads ours.
    """
    uri = str(tmp_path / "table")
    options = {"max_rows_per_file": 100, "enable_stable_row_ids": stable}
    lance.write_dataset(rows(0, 250, 1), uri, **options)
    if builder == "ours":
        build(lance_core.dataset(uri), IndexConfig, kind)
    else:
        build(lance.dataset(uri), lance.indices.IndexConfig, kind)
    assert check(uri, by_reference=True) == len(FILTERS) + len(CANDIDATES)
    plan = lance.dataset(uri).scanner(filter=FILTERS[0]).explain_plan()
    assert "ScalarIndexQuery: query=[Json(" in plan
    lance_core.dataset(uri).insert(rows(250, 60, 2))
    lance_core.dataset(uri).delete("id % 7 = 3")
    check(uri, by_reference=False)
    lance_core.dataset(uri).optimize.optimize_indices()
    lance.dataset(uri).update({"j": "NULL"}, where="id % 11 = 2")
    check(uri, by_reference=False)
    lance_core.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000)
    assert check(uri, by_reference=True) == len(FILTERS) + len(CANDIDATES)


def test_a_condition_on_grams_inside_json(tmp_path: Path) -> None:
    documents = [json.dumps({"u": {"name": f"user {number}"}}) for number in range(2000)]
    dataset = lance_core.write_dataset(pa.table({"j": pa.array(documents, pa.json_())}), tmp_path / "t")
    config = IndexConfig(
        "JSON", {"path": "$.u.name", "target_index_type": "ngram", "target_index_parameters": "{}"}
    )
    dataset.create_scalar_index("j", config)
    query = "contains(json_get_string(json_get(j, 'u'), 'name'), '1777')"
    (use,) = dataset.scanner(filter=query).explain().indices
    assert (use.index, use.kind, use.is_exact) == ("j_idx", "Json", False)
    assert 0 < use.rows < 20
    assert dataset.count_rows(query) == 1
    facts = dataset.index_statistics("j_idx")["segments"]
    assert isinstance(facts, list)
    assert facts[0]["path"] == "$.u.name"


def test_values_that_an_index_cannot_have(tmp_path: Path) -> None:
    documents = pa.array(['{"a": 1}', '{"a": "x"}'], pa.json_())
    dataset = lance_core.write_dataset(pa.table({"j": documents, "k": [1, 2]}), tmp_path / "t")

    def create(column: str, **parameters: object) -> None:
        dataset.create_scalar_index(column, IndexConfig("json", parameters))

    with pytest.raises(InvalidInputError, match=r"values at 'a' of type int64: JSON value 1, \"x\", cannot"):
        create("j", path="a", target_index_type="btree")
    with pytest.raises(TypeError, match="must be JSON"):
        create("k", path="a", target_index_type="btree")
    with pytest.raises(InvalidInputError, match="no path of JSON"):
        create("j", path="a[", target_index_type="btree")
    with pytest.raises(InvalidInputError, match="path of a JSON index"):
        create("j", target_index_type="btree")
    with pytest.raises(InvalidInputError, match="target_index_parameters"):
        create("j", path="a", target_index_type="btree", target_index_parameters="[")
    with pytest.raises(UnsupportedFeatureError, match="BTREE, BITMAP, NGRAM"):
        create("j", path="a", target_index_type="inverted")
    assert not dataset.describe_indices()
