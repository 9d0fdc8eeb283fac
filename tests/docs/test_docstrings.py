"""Docstrings begin with the thing or the verb that they are about, not with a pronoun or a bare clause.

"What a page says of its chunks" and "Those that passed" make a reader search for the noun.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "lance_core",
    "flight_server",
    "flight_client",
    "spark_pipeline",
    "benchmarks",
    "scripts",
    "tests",
)
CLAUSE = re.compile(
    r"(?:T\d+(?:, T\d+)*: )?"
    r"(?:what(?:ever)?|who(?:ever|m|se)?|which(?:ever)?|where|how(?:ever)?|when(?:ever)?|why"
    r"|that|those|these|they|them|it|its|their|theirs|ours|he|she|of|as(?! in the reference,)|such|so|others"
    r"|the (?:same|one|ones|other|others|rest)"
    r"|(?:one|ones|all|any|each|some|none)(?: of)? (?:that|who|which|whose|those))\b",
    re.IGNORECASE,
)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of every docstring: of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                match statement:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield statement.lineno, text


def offenders(path: Path) -> list[str]:
    """Return `file:line: beginning` of each docstring that begins with a pronoun or a bare clause."""
    return [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {text.strip().splitlines()[0][:60]}"
        for line, text in docstrings(ast.parse(path.read_text(encoding="utf-8")))
        if CLAUSE.match(text.strip())
    ]


def sources() -> list[Path]:
    """Return the hand-written Python files of the project."""
    found = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [path for path in found if not path.stem.endswith("_pb2")]


def test_no_docstring_begins_with_a_pronoun_or_a_bare_clause() -> None:
    found = [line for path in sources() for line in offenders(path)]
    assert not found, "\n".join(found)


def test_beginnings() -> None:
    for text in ("What passed.", "T22: what lies", "Those of a page", "One that waits", "The same for lists"):
        assert CLAUSE.match(text), text
    for text in (
        "Return the rows that pass.",
        "One column of a file.",
        "T22: sizes that lie",
        "Offsets of rows",
    ):
        assert not CLAUSE.match(text), text
