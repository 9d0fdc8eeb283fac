"""Pages that compare names are compared with the code: docs/pylance-names.md and docs/remote-datasets.md."""

from __future__ import annotations

import copy
import pickle
import re
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from flight_client import Client
from lance_core.api.names.missing import MISSING, MISSING_MODULES
from lance_core.errors import MissingNameError

SCRIPT = Path(__file__).parents[2] / "scripts" / "update_names_pages.py"
REFUSING = ("LanceDataset", "LanceFragment", "MergeInsertBuilder", "DatasetOptimizer")
"""Classes that answer to missing names with the alternative."""


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """The names in the script. It imports the whole reference, which takes 5 s of a processor."""
    return runpy.run_path(str(SCRIPT))


def test_the_page_is_up_to_date(
    script: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--check"])
    with warnings.catch_warnings():
        code = script["main"]()
    assert code == 0, (
        "a page of names differs from the code. If the change is intended, run `make names`, review "
        f"the difference and commit it with the code:\n{capsys.readouterr().err}"
    )


@pytest.fixture(scope="module")
def found(script: dict[str, Any]) -> dict[str, set[str]]:
    """The names that each class and module of this package lacks, as the script finds them."""
    lacking = {
        full_name.rpartition(".")[2]: script["lacks"](theirs, ours)
        for full_name, theirs, ours in script["shared_classes"]()
    }
    for module, names in script["reference_modules"]().items():
        if here := script["names_here"](module):
            lacking[module] = names - here
    lacking["lance"] = {name for name in lance.__all__ if not hasattr(lance_core, name)}
    return lacking


def test_what_is_missing_has_an_alternative(found: dict[str, set[str]]) -> None:
    """A name that is added leaves lance_core/api/names/missing.py. A new reference adds names."""
    elsewhere = {name for place, names in MISSING.items() if place != "lance" for name in names}
    found = found | {"lance": found["lance"] - elsewhere}
    listed = {f"{place}.{name}" for place, names in MISSING.items() for name in names}
    missing = {f"{place}.{name}" for place, names in found.items() for name in names}
    assert not listed - missing, "these names exist: remove them from lance_core/api/names/missing.py"
    assert not missing - listed, "these names have no alternative in lance_core/api/names/missing.py"


def test_the_package_offers_what_its_modules_offer(script: dict[str, Any]) -> None:
    for full_name, _, ours in script["shared"]():
        module, _, name = full_name.rpartition(".")
        if module in ("blob", "commit", "dataset", "fragment", "optimize", "progress", "udf"):
            assert getattr(lance_core, name) is ours


def test_missing_modules_have_an_alternative(script: dict[str, Any]) -> None:
    missing = {name for name in script["reference_modules"]() if not script["names_here"](name)}
    assert {name.partition(".")[0] for name in missing} == set(MISSING_MODULES)


@pytest.fixture
def objects(tmp_path: Path) -> dict[str, Any]:
    dataset = lance_core.write_dataset(pa.table({"x": [1]}), tmp_path / "d")
    made = (dataset, dataset.get_fragments()[0], dataset.merge_insert("x"), dataset.optimize)
    return dict(zip(REFUSING, made, strict=True))


@pytest.mark.parametrize("kind", REFUSING)
def test_a_missing_name_says_what_to_use(objects: dict[str, Any], kind: str) -> None:
    for name, instead in MISSING.get(kind, {}).items():
        assert not hasattr(objects[kind], name)
        assert getattr(objects[kind], name, 7) == 7
        with pytest.raises(NotImplementedError) as raised:
            getattr(objects[kind], name)
        assert str(raised.value) == f"{kind} lacks {name!r} of pylance; use instead: {instead}"
    with pytest.raises(AttributeError, match=f"'{kind}' object has no attribute 'nonsense'") as plain:
        _ = objects[kind].nonsense
    assert not isinstance(plain.value, MissingNameError)


def test_operations_that_are_missing_say_what_to_use() -> None:
    for name, instead in MISSING["LanceOperation"].items():
        assert not hasattr(lance_core.LanceOperation, name)
        with pytest.raises(MissingNameError, match=f"LanceOperation lacks '{name}' of pylance") as raised:
            getattr(lance_core.LanceOperation, name)
        assert str(raised.value).endswith(instead)
    with pytest.raises(AttributeError, match="type object 'LanceOperation' has no attribute 'nonsense'"):
        _ = lance_core.LanceOperation.nonsense


def test_the_package_refuses_missing_names() -> None:
    with pytest.raises(MissingNameError, match="lance_core lacks 'tokenize' of pylance"):
        _ = lance_core.tokenize
    with pytest.raises(MissingNameError, match="lance_core lacks 'FtsToken' of pylance"):
        _ = lance_core.FtsToken
    with pytest.raises(MissingNameError, match="lance_core lacks 'mem_wal' of pylance"):
        _ = lance_core.mem_wal
    with pytest.raises(AttributeError, match="module 'lance_core' has no attribute 'nonsense'"):
        _ = lance_core.nonsense
    with pytest.raises(AttributeError, match=r"module 'lance_core\.api' has no attribute 'nonsense'"):
        _ = lance_core.api.nonsense


def test_datasets_are_still_copied_and_pickled(objects: dict[str, Any]) -> None:
    """Python asks objects for special methods, which are no missing names."""
    for copied in (copy.copy(objects["LanceDataset"]), pickle.loads(pickle.dumps(objects["LanceDataset"]))):
        assert copied.to_table() == objects["LanceDataset"].to_table()


def test_names_that_remote_datasets_lack_have_an_alternative(script: dict[str, Any]) -> None:
    assert set(script["ELSEWHERE"]) == script["local_names"]() - script["remote_names"]()
    for instead in script["ELSEWHERE"].values():
        for method in re.findall(r"`Client\.(\w+)`", instead):
            assert hasattr(Client, method)
