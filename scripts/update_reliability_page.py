"""Write the lists of tests in docs/reliability.md, from the threat numbers in the docstrings of the tests.

With `--check` the script writes nothing. Its exit code is 1 when the page is out of date.
"""

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reliability.md"
SECTION = re.compile(r"^(### T(\d+) (?:(?!^#).)*?^\*\*Tests:\*\*)(?:(?!^#).)*", re.MULTILINE | re.DOTALL)
"""A threat: heading, text up to the word "Tests:", and the list of tests, which ends at the next heading."""

THREAT = re.compile(r"\bT(\d+)\b")
"""A threat in the docstring of a test."""


def tests_by_threat() -> dict[int, dict[str, list[str]]]:
    """Return threat number -> test file -> names of the tests whose docstrings name the threat."""
    named: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        if not THREAT.search(text):
            continue
        for node in _statements(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                for number in set(THREAT.findall(ast.get_docstring(node) or "")):
                    named[int(number)][name].append(node.name)
    return named


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a file and of its classes, where tests are."""
    for statement in tree.body:
        yield statement
        if isinstance(statement, ast.ClassDef):
            yield from statement.body


def list_of_tests(tests: dict[str, list[str]]) -> str:
    """Return what follows "Tests:" in a section: a link per test file, and below it one line per test."""
    if not tests:
        return " none yet\n\n"
    lines = [
        line
        for path, names in tests.items()
        for line in (f"- [{path}](../{path})", *(f"  - `{name}`" for name in names))
    ]
    return "\n\n" + "\n".join(lines) + "\n\n"


def main() -> int:
    """Bring the page up to date, or report that it is out of date; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail when out of date")
    check = parser.parse_args().check
    named = tests_by_threat()
    text = PAGE.read_text(encoding="utf-8")
    listed = {int(section[2]) for section in SECTION.finditer(text)}
    if unknown := sorted(named.keys() - listed):
        print(f"docstrings name threats that the page does not list: {unknown}", file=sys.stderr)
        return 1
    current = SECTION.sub(lambda section: section[1] + list_of_tests(named.get(int(section[2]), {})), text)
    current = current.rstrip() + "\n"
    if current == text:
        return 0
    if check:
        print("docs/reliability.md is out of date: run scripts/update_reliability_page.py", file=sys.stderr)
        return 1
    PAGE.write_text(current, encoding="utf-8")
    print(f"wrote docs/reliability.md: {len(named)} of {len(listed)} threats have tests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
