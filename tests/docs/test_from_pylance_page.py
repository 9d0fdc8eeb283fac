"""The lists of docs/from-pylance.md are compared with the reference."""

from __future__ import annotations

import ast
import inspect
import re
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.fragment import LanceFragment

import lance_core
from lance_core.api.merge_insert import MergeInsertBuilder
from lance_core.api.optimize import DatasetOptimizer

REFERENCE = import_module("lance.dataset")  # `lance.dataset` is a function
ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "from-pylance.md").read_text(encoding="utf-8")


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


INTERNAL = {"conftest", "debug", "dependencies", "download", "lance", "types", "util"}
"""Modules of the reference that are no part of its interface."""


def test_missing_modules_are_listed() -> None:
    public = {each.name for each in iter_modules(lance.__path__) if each.name[0] != "_"} - INTERNAL
    assert missing_on_the_page("missing modules") == {
        name for name in public if not find_spec(f"lance_core.api.{name}")
    }


@pytest.mark.parametrize("module", ["blob", "commit", "dataset", "fragment", "optimize", "progress", "udf"])
def test_missing_names_of_modules_are_listed(module: str) -> None:
    """A module offers what the module of that name in the reference defines, and the root offers it, too."""
    reference, ours = import_module(f"lance.{module}"), import_module(f"lance_core.api.{module}")
    defined = {
        name
        for name, value in vars(reference).items()
        if name[0] != "_" and getattr(value, "__module__", None) == reference.__name__
    }
    offered = set(ours.__all__) & defined
    assert missing_on_the_page(f"module `{module}`") == defined - offered
    for name in offered:
        assert getattr(lance_core, name) is getattr(ours, name)


def test_late_names_are_typed() -> None:
    """Type checkers see every name that is imported at its first use."""
    for path in (ROOT / "lance_core" / "api").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        late = {
            (str(ast.literal_eval(source)), str(ast.literal_eval(name)))
            for node in ast.walk(tree)
            if isinstance(node, ast.Dict)
            for name, source in zip(node.keys, node.values, strict=True)
            if name and isinstance(source, ast.Constant) and str(source.value).startswith("lance_core.")
        }
        for_types = {
            (str(node.module), name.name)
            for branch in tree.body
            if isinstance(branch, ast.If)
            for node in branch.body
            if isinstance(node, ast.ImportFrom)
            for name in node.names
        }
        assert late <= for_types, path


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
