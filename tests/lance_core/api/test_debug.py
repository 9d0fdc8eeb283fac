"""Metadata as text, for the functions of `lance.debug`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.api.debug import format_fragment, format_manifest, format_schema, list_transactions
from lance_core.errors import InvalidInputError


@pytest.fixture
def dataset(tmp_path: Path) -> lance_core.LanceDataset:
    """Three versions; the column `b` is in a second file of the first fragment."""
    rows = pa.table({"a": [1, 2], "s": [{"x": "é"}, None]})
    dataset = lance_core.write_dataset(rows, tmp_path / "d", data_storage_version="2.1")
    dataset.add_columns({"b": "a + 1"})
    dataset.delete("a = 1")
    return dataset


def test_fragments_with_the_fields_that_they_have(dataset: lance_core.LanceDataset) -> None:
    metadata = dataset.get_fragments()[0].metadata
    text = format_fragment(metadata, dataset)
    assert "major_version: 2" in text
    assert [text.count(f"{name} {{") for name in ("Fragment", "Field", "deletion_file")] == [1, 3, 1]
    metadata.files = metadata.files[:1]
    assert '"b"' in text
    assert '"b"' not in format_fragment(metadata, dataset)


def test_schemas_and_manifests_of_a_version(dataset: lance_core.LanceDataset) -> None:
    assert [name in format_schema(dataset) for name in ('"a"', '"x"', '"b"')] == [True, True, True]
    first = dataset.checkout_version(1)
    assert '"b"' not in format_schema(first)
    assert "\n  version: 3\n" in format_manifest(dataset)
    assert "\n  version: 1\n" in format_manifest(first)


def test_transactions_come_newest_first(dataset: lance_core.LanceDataset) -> None:
    texts = list_transactions(dataset)
    assert ["delete {" in texts[0], "merge {" in texts[1], "overwrite {" in texts[2]] == [True, True, True]
    assert len(texts) == 3
    assert list_transactions(dataset, max_transactions=1) == texts[:1]
    assert list_transactions(dataset, max_transactions=0) == []
    with pytest.raises(InvalidInputError, match="max_transactions"):
        list_transactions(dataset, max_transactions=-1)
