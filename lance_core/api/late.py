"""Names that a module offers and imports when they are first used.

Most processes only read. They start sooner if what writes and changes datasets is not imported with the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def import_late(module: str, sources: Mapping[str, str]) -> Callable[[str], object]:
    """Return a function for `__getattr__` of a module.

    Args:
        module: Full name of the module.
        sources: Full names of the modules that define the late names, by name.
    """

    def attribute(name: str) -> object:
        source = sources.get(name)
        if source is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = getattr(import_module(source), name)
        setattr(sys.modules[module], name, found)  # the next use finds it at once
        return found

    return attribute
