"""tests/docs/public_names lists what each package offers; packages use no more of each other than that."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from support.runs.source_files import ROOT, imported_modules, modules

SCRIPT = ROOT / "scripts" / "update_public_names.py"
COMMANDS = "spark_pipeline.__main__.app"
"""The commands of `lance-flight pipeline`, which the command line runs as a program of its own."""


def test_the_lists_are_the_offer() -> None:
    run = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, (
        "the public names differ from the lists in tests/docs/public_names. If the change is intended, run "
        f"`make names`, review the difference and commit it with the code:\n{run.stderr}"
    )


def test_every_package_has_a_list() -> None:
    names = {path.stem for path in (ROOT / "tests" / "docs" / "public_names").glob("*.txt")}
    assert {"lance_core", "flight_server", "flight_client", "spark_pipeline"} <= names


def offered() -> set[str]:
    """Return the full names that the doors offer, and the doors themselves."""
    doors = [door for door in runpy.run_path(str(SCRIPT))["DOORS"] if door.startswith(("flight_c", "spark_"))]
    return {COMMANDS, *doors} | {f"{door}.{name}" for door in doors for name in import_module(door).__all__}


def used_names(path: Path, package: str) -> Iterator[str]:
    """Yield the full names of what a file imports of a package, or uses as `package.name`."""
    for name in imported_modules(path):
        if name == package or name.startswith(f"{package}."):
            yield name
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == package:
                yield f"{package}.{attribute}"


@pytest.mark.parametrize(
    ("user", "package"),
    [
        ("spark_pipeline", "flight_client"),
        ("flight_server/cli", "flight_client"),
        ("flight_server/cli", "spark_pipeline"),
    ],
)
def test_packages_use_public_names_of_each_other(user: str, package: str) -> None:
    public = offered()
    used = {(name, path) for path in modules(user) for name in used_names(path, package)}
    assert used
    found = [f"{path.relative_to(ROOT)}: {name}" for name, path in sorted(used) if name not in public]
    assert not found, found


def test_late_names_are_typed() -> None:
    """Type checkers see every name that is imported at its first use."""
    for path in (ROOT / "lance_core" / "api").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        late = {
            ((parts := str(source.value).partition(":"))[0], parts[2] or str(ast.literal_eval(name)))
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
