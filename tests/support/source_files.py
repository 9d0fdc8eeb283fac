"""Source files of the packages, and what they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def imported_modules(path: Path) -> Iterator[str]:
    """Full names of what the file imports, wherever in it; relative imports are resolved."""
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
