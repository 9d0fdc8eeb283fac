"""docs/commands.md names every verb of the command line, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from typer.main import get_command

from flight_server.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"


def test_every_verb_is_on_the_page() -> None:
    listed = re.findall(r"^\| `lance-flight (\w+)", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(listed) == sorted(get_command(app).commands)  # type: ignore[attr-defined]
