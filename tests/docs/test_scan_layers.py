"""The rooms of `lance_core.scan` import each other in one direction, as docs/architecture.md says."""

from __future__ import annotations

from support.runs.source_files import ROOT, imported_modules, modules

ROOMS = ("files", "plan", "read", "run", "take", "nearest", "text_search", "hybrid")
"""The rooms in their order: each imports only rooms before it. The modules beside the rooms import all."""


def test_rooms_of_the_scan_import_only_rooms_before_them() -> None:
    """Planning reads no rows, columns of a fragment know no streams, and no room knows the scanner."""
    wrong = []
    for path in modules("lance_core/scan"):
        room = path.parent.name
        if room not in ROOMS:
            continue
        for module in imported_modules(path):
            if not module.startswith("lance_core.scan."):
                continue
            other = module.split(".")[2]
            if other not in ROOMS[: ROOMS.index(room) + 1]:
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong, wrong


def test_every_room_of_the_scan_has_its_place() -> None:
    """A new folder needs a place in `ROOMS`, and a line in the map of `lance_core.scan`."""
    scan = ROOT / "lance_core" / "scan"
    assert {path.parent.name for path in scan.glob("*/__init__.py")} == set(ROOMS)
    text = (scan / "__init__.py").read_text(encoding="utf-8")
    missing = [
        path.relative_to(scan).as_posix()
        for path in modules("lance_core/scan")
        if path.name != "__init__.py" and f"`{path.stem}`" not in text
    ]
    assert not missing, missing
