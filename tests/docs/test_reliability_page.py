"""docs/reliability.md has a section for every threat, which lists the tests that name the threat."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"


def test_every_threat_is_listed_once_in_order() -> None:
    numbers = re.findall(r"^### T(\d+) ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [int(number) for number in numbers] == list(range(1, 48))


def test_every_section_has_a_threat_a_required_behaviour_and_tests() -> None:
    sections = re.split(r"^### ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    for section in sections:
        labels = re.findall(r"^\*\*(.*?):\*\*", section, flags=re.MULTILINE)
        assert labels == ["Threat", "Required behaviour", "Tests"], section.splitlines()[0]


def test_the_tests_on_the_page_are_those_that_name_the_threats() -> None:
    script = ROOT / "scripts" / "update_reliability_page.py"
    run = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
