"""Values of options that are more than a word: columns, orders, queries of texts, and SQL by name."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import typer


def parse_text_query(text: str | None, option: str) -> dict[str, Any] | None:
    """Return a full text query that an option gave as words or as a JSON object."""
    if text is None or not text.lstrip().startswith("{"):
        return None if text is None else {"query": text}
    try:
        query: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(f"no JSON: {error}", param_hint=option) from None
    return query


def parse_columns(text: str | None) -> list[str] | dict[str, str] | None:
    """Parse names with commas between them, or a JSON object of SQL expressions by name."""
    if text is None or text == "":
        return None
    if not text.lstrip().startswith("{"):
        return text.split(",")
    try:
        columns = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"not a JSON object: {error}", param_hint="--columns") from None
    if not all(isinstance(value, str) for value in columns.values()):
        raise typer.BadParameter("every value must be SQL in quotes", param_hint="--columns")
    return dict(columns)


_ORDER = re.compile(r"(.+?)(?:\s+(ASC|DESC))?(?:\s+NULLS\s+(FIRST|LAST))?", re.IGNORECASE)


def parse_order(text: str) -> tuple[Mapping[str, Any], ...]:
    """Parse columns to sort by, with commas between them: `population DESC NULLS FIRST, name`."""
    found = []
    for part in text.split(","):
        match = _ORDER.fullmatch(part.strip())
        if match is None:
            raise typer.BadParameter(f"expected names of columns, found {text!r}", param_hint="--order-by")
        name, way, nulls = match.groups()
        descends, nulls_first = (way or "").upper() == "DESC", (nulls or "").upper() == "FIRST"
        found.append({"column": name, "ascending": not descends, "nulls_first": nulls_first})
    return tuple(found)


def parse_pairs(given: Sequence[str], hint: str) -> dict[str, str]:
    """Return texts of the form `name=SQL` as SQL by name; others are wrong usage of the option `hint`."""
    pairs: dict[str, str] = {}
    for text in given:
        name, equals, sql = text.partition("=")
        if not equals or not name.strip() or not sql.strip():
            raise typer.BadParameter(f"expected column=SQL, found {text!r}", param_hint=hint)
        if name.strip() in pairs:
            raise typer.BadParameter(f"column {name.strip()!r} is given twice", param_hint=hint)
        pairs[name.strip()] = sql.strip()
    return pairs
