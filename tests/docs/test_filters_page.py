"""docs/filters.md names every function, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from lance_core.expressions.functions import FUNCTIONS

PAGE = Path(__file__).parents[2] / "docs" / "filters.md"
OF_THE_PARSER = {
    "arrow_cast",
    "current_date",
    "today",
    "current_timestamp",
    "now",
    "starts_with",
    "regexp_match",
    "is_valid",
    "pi",
    "make_array",
    "array",
}
OPERATORS = {"||"}


def test_the_table_of_functions_is_complete() -> None:
    table = PAGE.read_text(encoding="utf-8").split("## Functions")[1].split("Regular expressions")[0]
    named = {name for words in re.findall(r"`([a-z0-9_ \n]+)`", table) for name in words.split()}
    assert named == (set(FUNCTIONS) - OPERATORS) | OF_THE_PARSER
