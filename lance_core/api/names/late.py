"""Names that a module offers and imports when they are first used, and the errors of names that are missing.

Most processes only read. They start sooner if what writes and changes datasets is not imported with the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def import_late(module: str, sources: Mapping[str, str]) -> Callable[[str], object]:
    """Return the function `__getattr__` of a module, which imports names when they are first used.

    Args:
        module: Full name of the module.
        sources: Full names of the modules that define the late names, by name. A name that is another one in
            its module has that one behind a colon: `lance_core.changes.rows.delete:delete`.
    """

    def attribute(name: str) -> object:
        source = sources.get(name)
        if source is None:
            raise absent_from(module, name)
        source, _, defined = source.partition(":")
        found = getattr(import_module(source), defined or name)
        setattr(sys.modules[module], name, found)  # the next use finds it at once
        return found

    return attribute


def absent_from(module: str, name: str) -> AttributeError:
    """Return the error of a name that a module does not offer."""
    place = "lance" if module in ("lance_core", "lance_core.api") else module.removeprefix("lance_core.api.")
    return _missing(place, name) or AttributeError(f"module {module!r} has no attribute {name!r}")


def refuse_missing(class_name: str) -> Callable[[object, str], object]:
    """Return a function for `__getattr__` of a class, or of the type of a class, whose errors say what to use
    instead of a name.
    """

    def attribute(self: object, name: str) -> object:
        owner = (
            f"type object {self.__name__!r}" if isinstance(self, type) else f"{type(self).__name__!r} object"
        )
        text = f"{owner} has no attribute {name!r}"
        raise _missing(class_name, name) or AttributeError(text, name=name, obj=self)

    return attribute


def _missing(place: str, name: str) -> AttributeError | None:
    if name.startswith("_"):
        return None  # Python itself asks for many such names
    from lance_core.api.names.missing import missing_name  # late: few processes use a name that is missing

    return missing_name(place, name)
