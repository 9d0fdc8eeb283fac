"""Run a script with the reference and with this package, and compare what it returns."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import lance

import lance_core

Library = Any
"""`lance` or `lance_core`: both modules have the names that scripts use."""

Script = Callable[[Library, Path], object]
"""Works with a library in an empty folder, and returns what the user of the script sees."""


def module_of(library: Library, name: str) -> Any:
    """Return the module of a library that the reference calls `lance.<name>`."""
    return import_module(f"lance.{name}" if library is lance else f"lance_core.api.{name}")


def same_in_both(script: Script) -> Callable[[Path], None]:
    """Make a test of a script: both libraries return the same, and something."""

    @wraps(script)
    def test(tmp_path: Path) -> None:
        results = []
        for library in (lance, lance_core):
            folder = tmp_path / library.__name__
            folder.mkdir()
            results.append(script(library, folder))
        expected, found = results
        assert expected
        assert found == expected

    del test.__wrapped__  # type: ignore[attr-defined]  # pytest would take the arguments of the script for fixtures
    return test
