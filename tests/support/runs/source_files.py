"""Source files of the packages, and what they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]


@cache
def imported_modules(path: Path) -> tuple[str, ...]:
    """Return full names of what the file imports, wherever in it; relative imports are resolved."""
    return tuple(_imported_modules(path))


def _imported_modules(path: Path) -> Iterator[str]:
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            source = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{source}.{name.name}" for name in node.names)


def modules(package: str) -> list[Path]:
    """Return the hand-written files of a package, or of a folder in one (`flight_server/cli`)."""
    return [path for path in sorted((ROOT / package).rglob("*.py")) if not path.stem.endswith("_pb2")]


def import_graph(*packages: str) -> dict[str, set[str]]:
    """Return the modules of our packages that each module imports, wherever in it: in functions and for type
    checkers, too.
    """
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in packages
        for path in modules(package)
    }
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        graph[name] = set()
        for imported in imported_modules(path):
            while imported and imported not in paths:  # the name of something in a module
                imported = imported.rpartition(".")[0]
            graph[name] |= {imported} - {"", name}
    return graph


def modules_in_circles(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the modules that lie on circles or between them, with what they import of each other."""
    left = graph
    while True:
        imported = set().union(*left.values())
        kept = {name for name, others in left.items() if others and name in imported}
        if len(kept) == len(left):
            return left
        left = {name: left[name] & kept for name in kept}
