"""docs/architecture.md says that imports point down only, and has a picture of the folders.
docs/development.md has tables of the folders of the interface, of kernels and of test support.

Here the imports are read, and the folders are compared with the picture and the tables.
"""

from __future__ import annotations

import ast
import re

import pytest

from support.runs.source_files import ROOT, import_graph, imported_modules, modules, modules_in_circles

PACKAGES = ("lance_core", "flight_server", "flight_client", "spark_pipeline")
LAYERS = [
    {"errors", "kernels", "proto", "version"},
    {"arguments", "hints", "number_sets", "process"},
    {"pool"},
    {"schema", "storage"},
    {"encodings"},
    {"file"},
    {"expressions"},
    {"statistics"},
    {"table"},
    {"index", "maintenance"},
    {"commit"},
    {"scan", "write"},
    {"changes"},
    {"api"},
]
"""The rooms of lance_core, ground first. Rooms of one line do not import each other."""
JOBS = ROOT / "flight_server" / "cli" / "commands" / "pipeline.py"
MAY_IMPORT = {JOBS, *(ROOT / "flight_server" / "cli" / name for name in ("errors.py", "rendering.py"))}
"""The command line belongs to all packages: it hands the jobs on Spark their arguments, and says in the words
of the client what a server answered.
"""
HEIGHT = {room: height for height, rooms in enumerate(LAYERS) for room in rooms}


def room_of(module: str) -> str:
    """Return the room of lance_core that one of its modules, or a name in it, belongs to."""
    return module.split(".")[1]


def test_every_room_has_its_layer() -> None:
    found = {path.relative_to(ROOT / "lance_core").parts[0] for path in modules("lance_core")}
    assert {name.removesuffix(".py") for name in found} - {"__init__"} == set(HEIGHT)


def test_rooms_of_lance_core_import_only_what_lies_below() -> None:
    upwards = []
    for path in modules("lance_core"):
        room = room_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for module in imported_modules(path):
            if room == "__init__" or not module.startswith("lance_core."):
                continue
            other = room_of(module)
            if other != room and HEIGHT[other] >= HEIGHT[room]:
                upwards.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not upwards, upwards


def test_the_root_offers_what_the_interface_lists() -> None:
    imported = [
        name for name in imported_modules(ROOT / "lance_core" / "__init__.py") if name.startswith("lance")
    ]
    assert {room_of(name) for name in imported} == {"api"}


def test_no_modules_import_each_other_in_circles() -> None:
    """Imports in functions and for type checkers count: they only hide a circle."""
    circles = modules_in_circles(import_graph(*PACKAGES))
    assert not circles, circles


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set[str]()}
    assert modules_in_circles(graph) == {"b": {"c"}, "c": {"b"}}


@pytest.mark.parametrize("package", ["lance_core", "flight_server"])
def test_few_modules_lie_beside_the_rooms(package: str) -> None:
    loose = {path.stem for path in (ROOT / package).glob("*.py")} - {"__init__"}
    assert len(loose) < 8, loose


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("lance_core", {"lance", "flight_server", "flight_client", "pyarrow.flight"}),
        ("flight_server", {"lance", "flight_client", "spark_pipeline"}),
        ("flight_client", {"lance", "lance_core", "flight_server", "spark_pipeline"}),
        ("spark_pipeline", {"lance", "lance_core", "flight_server"}),
    ],
)
def test_packages_do_without(package: str, forbidden: set[str]) -> None:
    """The format knows no network, and nothing leans on the reference library."""
    files = [path for path in modules(package) if path not in MAY_IMPORT]
    assert files
    found = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in files
        for module in imported_modules(path)
        if any(module == name or module.startswith(f"{name}.") for name in forbidden)
    ]
    assert not found, found


@pytest.mark.parametrize("package", ["flight_server", "lance_core"])
def test_the_picture_has_the_folders(package: str) -> None:
    """Every folder in the box of a package exists, and the box has every folder but the generated code."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    box = page.split(f"| {package} ", 1)[1].split("\n  +---", 1)[0]
    drawn = {name for line in box.splitlines() for name in re.findall(r"(\w+)/", line[:50])}
    folders = {path.parent for path in modules(package)} - {ROOT / package}
    assert drawn <= {folder.name for folder in folders}
    assert {folder.name for folder in folders if folder.parent == ROOT / package} - {"proto"} <= drawn


def test_the_picture_has_the_layers_in_order() -> None:
    """A folder is drawn below the folders that import it, or to the right of them in the same line."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    box = page.split("| lance_core ", 1)[1].split("\n  +---", 1)[0]
    drawn = [name for line in box.splitlines() for name in re.findall(r"(\w+)/", line[:50])]
    heights = [HEIGHT[name] for name in drawn if name in HEIGHT]
    assert heights == sorted(heights, reverse=True)


def folders_of_table(title: str) -> list[str]:
    """Return the folders that the first column of a table of docs/development.md lists, in order."""
    page = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    table = page.split(f"| folder of `{title}` |", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


@pytest.mark.parametrize("place", ["lance_core/api", "lance_core/kernels", "tests/support"])
def test_a_table_says_what_each_folder_is_for(place: str) -> None:
    """A folder has at most 20 files, so that a newcomer finds one by looking through the names."""
    sizes = {
        folder.name: sum(file.suffix in {".py", ".hpp", ".cpp"} for file in folder.iterdir())
        for folder in (ROOT / place).iterdir()
        if folder.is_dir()
    }
    sizes = {name: size for name, size in sizes.items() if size}
    assert sorted(folders_of_table(place)) == sorted(sizes)
    assert max(sizes.values()) <= 20, sizes


def test_kernels_include_only_folders_above_them() -> None:
    rooms = folders_of_table("lance_core/kernels")
    wrong = [
        f"{path.relative_to(ROOT)} includes {other}"
        for path in (ROOT / "lance_core" / "kernels").glob("*/*.[ch]pp")
        for other in re.findall(r'#include "(\w+)/', path.read_text(encoding="utf-8"))
        if rooms.index(other) > rooms.index(path.parent.name)
    ]
    assert not wrong, wrong


def test_the_jobs_are_imported_when_they_are_asked_for() -> None:
    """The command line has the jobs among its verbs; who serves needs neither them nor Spark."""
    at_once = ast.parse(JOBS.read_text(encoding="utf-8")).body
    names = [ast.unparse(node) for node in at_once if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [name for name in names if "spark_pipeline" in name]
    assert [module for module in imported_modules(JOBS) if module.startswith("spark_pipeline.")]
