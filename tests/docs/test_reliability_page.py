"""docs/reliability.md says which tests hold which threat; that is compared with the tests' docstrings."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
THREATS = range(1, 48)


def listed_tests() -> dict[int, list[str]]:
    """The last column of the page: test ids (``tests/x.py::test_y``) or test files by threat."""
    rows = re.findall(r"^\| T(\d+) \|.*\| ([^|]*) \|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(THREATS)
    return {int(number): re.findall(r"`(tests/[^`]+)`", held_by) for number, held_by in rows}


def claimed_threats() -> dict[str, dict[str, set[int]]]:
    """Threat numbers in docstrings: file -> qualified test name -> numbers."""
    claims: dict[str, dict[str, set[int]]] = defaultdict(dict)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        scopes = [("", module), *((f"{c.name}::", c) for c in module.body if isinstance(c, ast.ClassDef))]
        for prefix, scope in scopes:
            for test in scope.body:
                if isinstance(test, ast.FunctionDef) and test.name.startswith("test"):
                    numbers = re.findall(r"\bT(\d+)\b", ast.get_docstring(test) or "")
                    claims[path.relative_to(ROOT).as_posix()][prefix + test.name] = set(map(int, numbers))
    return claims


def test_every_listed_test_exists_and_names_its_threat() -> None:
    claims = claimed_threats()
    wrong = []
    for number, tests in listed_tests().items():
        for test in tests:
            path, _, name = test.partition("::")
            candidates = {name: claims[path].get(name)} if name else claims[path]
            if not any(number in (numbers or ()) for numbers in candidates.values()):
                wrong.append(f"T{number}: {test}")
    assert not wrong, f"listed on the page, but no such test names the threat: {wrong}"


def test_every_threat_a_test_names_is_on_the_page() -> None:
    listed = listed_tests()
    missing = [
        f"T{number}: {path}::{name}"
        for path, tests in claimed_threats().items()
        for name, numbers in tests.items()
        for number in sorted(numbers)
        if path not in listed.get(number, []) and f"{path}::{name}" not in listed.get(number, [])
    ]
    assert not missing, f"add these to the last column of docs/reliability.md: {missing}"
