"""docs/reliability.md lists every threat and, in its last column, the tests that name it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"


def test_every_threat_is_listed_once_in_order() -> None:
    rows = re.findall(r"^\| T(\d+) \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [int(number) for number in rows] == list(range(1, 48))


def test_the_tests_on_the_page_are_those_that_name_the_threats() -> None:
    script = ROOT / "scripts" / "update_reliability_page.py"
    run = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
