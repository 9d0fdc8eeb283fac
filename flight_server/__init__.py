"""Arrow Flight server over Lance datasets: requests in, streams of record batches out.

The command `lance-flight` is the main door. A program that starts the server itself uses two names:

    from flight_server import Settings, run_server

    run_server(Settings.resolve("/data/lance", {"port": "8815"}))
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flight_server.process import run_server
    from flight_server.settings import Settings

__all__ = ["Settings", "run_server"]

# Commands that need no server start sooner without it: these names are imported when they are asked for.
_LATE = {"Settings": "flight_server.settings", "run_server": "flight_server.process"}


def __getattr__(name: str) -> object:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
