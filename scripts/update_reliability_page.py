"""Write into docs/reliability.md which tests work against which threat, as the docstrings of the tests say.

With `--check` nothing is written; the exit code is 1 when the page is out of date.
"""

import argparse
import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reliability.md"
ROW = re.compile(r"^(\| T(\d+) \|.*\| )[^|]*( \|)$", re.MULTILINE)
MOST_NAMES_PER_FILE = 3


def tests_by_threat() -> dict[int, dict[str, list[str]]]:
    """Threat number -> test file -> names of the tests whose docstrings name it."""
    named: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                for number in set(re.findall(r"\bT(\d+)\b", ast.get_docstring(node) or "")):
                    named[int(number)][name].append(node.name)
    return named


def cell(tests: dict[str, list[str]]) -> str:
    """The last column of one threat: `file::test`, or the file alone where many of its tests name it."""
    ids = [
        f"`{path}`" if len(names) > MOST_NAMES_PER_FILE else ", ".join(f"`{path}::{name}`" for name in names)
        for path, names in tests.items()
    ]
    return ", ".join(ids) or "open"


def main() -> int:
    """Bring the page up to date, or say that it is not."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail when out of date")
    check = parser.parse_args().check
    named = tests_by_threat()
    text = PAGE.read_text(encoding="utf-8")
    listed = {int(row[2]) for row in ROW.finditer(text)}
    if unknown := sorted(named.keys() - listed):
        print(f"docstrings name threats that the page does not list: {unknown}", file=sys.stderr)
        return 1
    current = ROW.sub(lambda row: row[1] + cell(named.get(int(row[2]), {})) + row[3], text)
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
