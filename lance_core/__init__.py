"""The Lance columnar format: datasets read and written, with the names of the reference library.

All names come from `lance_core.api`, which lists them.
"""

from typing import TYPE_CHECKING

from lance_core import api
from lance_core.api.late import absent_from

if TYPE_CHECKING:
    from lance_core.api import *  # noqa: F403

__all__ = list(api.__all__)


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise absent_from(__name__, name)
    found = globals()[name] = getattr(api, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
