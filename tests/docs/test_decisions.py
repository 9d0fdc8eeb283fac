"""Decision records are one page each: context, options, choice, costs, and a command that checks it again."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from support.runs.each_case import each_case

ROOT = Path(__file__).parents[2]
RECORDS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
MOST_LINES = 60
COMMAND = re.compile(r"`((?:pytest|python|make|lance-flight) [^`]+)`")


def commands(record: Path) -> list[list[str]]:
    """Return the words of each command under "How to check"."""
    section = record.read_text(encoding="utf-8").partition("\n## How to check\n")[2]
    return [shlex.split(command) for command in COMMAND.findall(section.replace("\n", " "))]


def test_numbers_follow_each_other() -> None:
    assert [int(record.name[:4]) for record in RECORDS] == list(range(1, len(RECORDS) + 1))


@each_case("record", RECORDS)
def test_a_record_is_one_page_of_five_sections(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    assert text.startswith(f"# {int(record.name[:4])}. ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
        "Context",
        "Options",
        "Choice",
        "Costs",
        "How to check",
    ]
    assert len(text.splitlines()) <= MOST_LINES


@each_case("record", RECORDS)
def test_the_commands_of_a_record_find_what_they_run(record: Path) -> None:
    found = commands(record)
    assert found
    for words in found:
        if words[0] == "pytest":
            tests = [ROOT / word for word in words if word.startswith("tests/")]
            assert tests
            assert all(test.exists() for test in tests), words
            if "-k" in words:
                chosen = words[words.index("-k") + 1]
                assert any(chosen in test.read_text(encoding="utf-8") for test in tests), words
        elif words[:2] == ["python", "-m"]:
            module = ROOT / words[2].replace(".", "/")
            assert module.with_suffix(".py").exists() or (module / "__main__.py").exists(), words
        elif words[0] == "python":
            assert (ROOT / words[1]).exists(), words
        elif words[0] == "make":
            goals = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
            assert words[1] in goals, words
