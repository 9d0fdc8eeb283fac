"""Every case of a shared test runs, and a failure names its case."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from support.runs.each_case import each_case


def test_all_cases_run_with_their_fixtures_and_directories(tmp_path: Path) -> None:
    seen: list[tuple[str, int, str, str]] = []

    @each_case(("left", "right"), [("a", 1), ("b", 2)])
    @each_case("word", ["x", "y"])
    def check(left: str, right: int, word: str, fixture: str, tmp_path: Path) -> None:
        (tmp_path / "file").touch(exist_ok=False)
        seen.append((left, right, word, fixture))

    assert list(inspect.signature(check).parameters) == ["fixture", "tmp_path"]
    check(fixture="f", tmp_path=tmp_path)
    assert seen == [(left, right, word, "f") for left, right in (("a", 1), ("b", 2)) for word in "xy"]


@pytest.mark.parametrize(("ids", "name"), [((), "number=2"), (("one", "two"), "two")])
def test_a_failure_names_its_case(ids: tuple[str, ...], name: str) -> None:
    @each_case("number", [1, 2], ids=ids)
    def check(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            _ = 1 / (number - 1)

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE") as failure:
        check()
    assert failure.value.__notes__ == [f"case: {name}"]


def test_shared_tests_without_cases_and_wrong_names_are_refused() -> None:
    with pytest.raises(AssertionError, match="no cases of number"):
        each_case("number", [])
    with pytest.raises(AssertionError, match="2 cases and 1 ids"):
        each_case("number", [1, 2], ids=["one"])
    with pytest.raises(AssertionError, match="takes no"):
        each_case("number", [1])(lambda word: None)
