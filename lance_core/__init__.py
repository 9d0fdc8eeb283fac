"""The Lance columnar format: datasets read and written, with the names of the reference library.

All names come from `lance_core.api`, which lists them and is imported at the first use of one. A program that
only needs an error class does without.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance_core.api import *  # noqa: F403
    from lance_core.api import __all__ as __all__


def __getattr__(name: str) -> object:
    # Python asks here before it imports a module, as in `from lance_core import kernels`.
    if find_spec(f"{__name__}.{name}") is not None:
        raise AttributeError(f"module {name!r} of {__name__!r} is not imported", name=name)
    api = import_module("lance_core.api")
    if name == "__all__":
        return list(api.__all__)
    if name not in api.__all__:
        raise import_module("lance_core.api.names.late").absent_from(__name__, name)
    found = globals()[name] = getattr(api, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), "__all__", *import_module("lance_core.api").__all__})
