"""The lists of docs/pylance.md are compared with the reference."""

from __future__ import annotations

import inspect
import re
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.fragment import LanceFragment

import lance_core
from lance_core.api.merge_insert import MergeInsertBuilder
from lance_core.api.optimize import DatasetOptimizer

REFERENCE = import_module("lance.dataset")  # `lance.dataset` is a function
TEXT = (Path(__file__).parents[2] / "docs" / "pylance.md").read_text(encoding="utf-8")


def missing_on_the_page(start: str) -> set[str]:
    """Return the names that the page lists as missing, in the items whose title begins with `start`."""
    items = re.findall(r"^- \*\*`?(.+?):\*\*(.*?)(?=^- |^$)", TEXT, flags=re.MULTILINE | re.DOTALL)
    listed = [names.partition("Instead:")[0] for title, names in items if title.startswith(start)]
    return {name for names in listed for name in re.findall(r"`(\w+)`", names)}


@pytest.mark.parametrize(
    ("start", "theirs", "ours"),
    [
        ("dataset", lance.LanceDataset, lance_core.LanceDataset),
        ("LanceFragment", LanceFragment, lance_core.LanceFragment),
        ("LanceOperation", lance.LanceOperation, lance_core.LanceOperation),
        ("merge_insert", REFERENCE.MergeInsertBuilder, MergeInsertBuilder),
        ("optimize", REFERENCE.DatasetOptimizer, DatasetOptimizer),
    ],
)
def test_missing_names_are_listed(start: str, theirs: Any, ours: Any) -> None:
    missing = {name for name in dir(theirs) if not name.startswith("_") and not hasattr(ours, name)}
    assert missing_on_the_page(start) == missing


def test_missing_modules_are_listed() -> None:
    listed = missing_on_the_page("modules")
    assert listed
    for name in listed:
        assert find_spec(f"lance.{name}"), name
        assert not find_spec(f"lance_core.{name}"), name


def test_refused_arguments_of_scans_are_listed(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(pa.table({"x": [1]}), tmp_path / "d")
    refused = set()
    for name in inspect.signature(lance.LanceDataset.scanner).parameters:
        with suppress(TypeError, ValueError):  # 1 is no value of some arguments
            try:
                dataset.scanner(**{name: 1})
            except lance_core.UnsupportedFeatureError:
                refused.add(name)
    listed = TEXT.partition("## Arguments")[2].partition(" raise\n")[0]
    assert refused == set(re.findall(r"`(\w+)`", listed))
