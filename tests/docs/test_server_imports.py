"""Imports of the server: its rooms know only the rooms below, and the core only through its doors."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lance_core
from lance_core.api import serving
from support.runs.source_files import ROOT, imported_modules, modules

# Rooms of flight_server, ground first; rooms of one line do not know each other. A room is a folder, or a
# module beside the folders. The root is what the package offers, in its `__init__.py`.
LAYERS = [
    {"configuration", "proto", "errors", "logs"},
    {"requests"},
    {"rights"},
    {"settings"},
    {"limits", "telemetry"},
    {"security"},
    {"peers"},
    {"catalog"},
    {"reading", "writing"},
    {"service"},
    {"handlers", "monitoring"},
    {"http", "server"},
    {"listener"},
    {"process"},
    {"workers"},
    {"root"},
    {"cli"},
]
HEIGHT = {room: height for height, rooms in enumerate(LAYERS) for room in rooms}
HANDLERS_MAY_IMPORT = {
    "errors",
    "handlers",
    "limits",
    "logs",
    "proto",
    "reading",
    "requests",
    "rights",
    "security",
    "service",
    "settings",
    "telemetry",
}
"""Handlers parse requests, call the service and render its answers, whose types are in `reading`."""
DOORS = ("lance_core.errors", "lance_core.version", "lance_core.api.serving")
MOST_LOOSE_MODULES = 7


def room_of(module: str) -> str:
    """Return the room that a module of flight_server, or a name in it, belongs to."""
    _, _, rest = module.partition(".")
    room = rest.partition(".")[0]
    return room if room in HEIGHT else "root"


def name_of(path: Path) -> str:
    """Return the full name of a module."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def is_through_a_door(module: str) -> bool:
    """Return whether an import names the core itself, a name it offers, or a name in one of its doors."""
    package, _, name = module.rpartition(".")
    offered = package == "lance_core" and name in lance_core.__all__
    return module in ("lance_core", *DOORS) or offered or package in DOORS


def test_the_server_imports_the_core_through_its_doors() -> None:
    past = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in modules("flight_server")
        for module in imported_modules(path)
        if module.partition(".")[0] == "lance_core" and not is_through_a_door(module)
    ]
    assert not past, past


def test_the_door_lists_its_names_and_the_server_uses_each() -> None:
    imported = {module for path in modules("flight_server") for module in imported_modules(path)}
    used = {module.rpartition(".")[2] for module in imported if module.startswith("lance_core.api.serving.")}
    for path in modules("flight_server"):
        if "lance_core.api.serving" in imported_modules(path):
            used.update(re.findall(r"\bserving\.(\w+)", path.read_text(encoding="utf-8")))
    assert used == set(serving.__all__)


def test_rooms_import_only_rooms_below() -> None:
    upwards = []
    for path in modules("flight_server"):
        inside = room_of(name_of(path))
        for module in imported_modules(path):
            room = room_of(module)
            is_own = module.partition(".")[0] == "flight_server"
            if is_own and room != inside and HEIGHT[room] >= HEIGHT[inside]:
                upwards.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not upwards, upwards


def test_handlers_go_through_the_service() -> None:
    """Handlers import neither the core nor the rooms that do the work, and use no private names."""
    past = []
    for path in (path for path in modules("flight_server") if room_of(name_of(path)) == "handlers"):
        for module in imported_modules(path):
            package, _, rest = module.partition(".")
            is_core = package == "lance_core" and not rest.startswith("errors.")
            if is_core or (package == "flight_server" and room_of(module) not in HANDLERS_MAY_IMPORT):
                past.append(f"{path.relative_to(ROOT)} imports {module}")
        private = re.findall(r"service\.(?:\w+\.)?_\w+", path.read_text(encoding="utf-8"))
        past += [f"{path.relative_to(ROOT)} uses {name}" for name in private]
    assert not past, past


def test_no_modules_import_each_other() -> None:
    known = {name_of(path): path for path in modules("flight_server")}
    del known["flight_server"]  # it imports its names when they are used
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        graph[name] = set()
        for module in imported_modules(path):
            while module and module not in known:
                module = module.rpartition(".")[0]
            if module and module != name:
                graph[name].add(module)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_few_modules_are_loose() -> None:
    loose = [path.name for path in (ROOT / "flight_server").glob("*.py") if path.name != "__init__.py"]
    assert len(loose) <= MOST_LOOSE_MODULES, loose
    assert {path.removesuffix(".py") for path in loose} <= HEIGHT.keys()
