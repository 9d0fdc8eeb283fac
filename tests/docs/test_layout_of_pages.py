"""Pages fit a terminal: lines of at most 120 columns, tables with short cells."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from support.runs.each_case import each_case

ROOT = Path(__file__).parents[2]
MOST_COLUMNS = 120
MOST_IN_A_CELL = 100
ONE_WORD = re.compile(r"\s*(?:[-*>] |\d+\. )*\S+")
"""A line that cannot be wrapped: a link or a URL, perhaps as the item of a list."""


def pages() -> list[str]:
    """Return the paths of the documents, relative to the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in sorted(listed.stdout.split()) if (ROOT / name).is_file()]


def lines_outside_code(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a document with their numbers, without those of fenced blocks."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, line


def faults(text: str) -> list[str]:
    """Return what does not fit a terminal, as `line: fault`."""
    found = []
    for number, line in lines_outside_code(text):
        if len(line) > MOST_COLUMNS and not ONE_WORD.fullmatch(line):
            found.append(f"{number}: {len(line)} columns")
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line.strip("|"))
            found += [f"{number}: a cell of {len(cell)}" for cell in cells if len(cell) > MOST_IN_A_CELL]
    return found


@each_case("page", pages())
def test_a_page_fits_a_terminal(page: str) -> None:
    assert not faults((ROOT / page).read_text(encoding="utf-8"))


def test_faults_are_found() -> None:
    sentence = "word " * 30
    assert faults(sentence) == ["1: 150 columns"]
    assert faults(f"- [{'x' * 80}]({'y' * 80})\n") == []
    assert faults(f"```\n{sentence}\n```\n") == []
    assert faults(f"| a | {'b' * 105} |\n") == ["1: a cell of 107"]
    assert faults("| a \\| b | c |") == []
