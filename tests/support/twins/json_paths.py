"""Values at paths of JSON, computed on Python values, straight from docs/filters.md, "JSON".

A path is a list of steps. Steps, positions and conditions are data, and `text` writes them as a path.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Items = list[Any]
LAST = "last"


@dataclass(frozen=True)
class Step:
    """One step: how it is written, and the values that it makes of one value below a root."""

    text: str
    take: Callable[[Any, Any], Items]


def text(steps: list[Step], start: str = "$") -> str:
    """Return the path as users write it."""
    return start + "".join(step.text for step in steps)


def select(root: Any, steps: list[Step], start: Any = ...) -> Items:
    """Return the values at a path, in the order of the document."""
    found = [root if start is ... else start]
    for step in steps:
        found = [each for value in found for each in step.take(value, root)]
    return found


def sorted_items(value: dict[str, Any]) -> Iterator[Any]:
    """Yield the values of an object in the order of its stored keys."""
    return (value[key] for key in sorted(value, key=str.encode))


def member(name: str, form: str = ".{}") -> Step:
    """Return the step to a member of an object."""

    def take(value: Any, root: Any) -> Items:
        return [value[name]] if isinstance(value, dict) and name in value else []

    return Step(form.format(name), take)


ALL_MEMBERS = Step(".*", lambda value, root: list(sorted_items(value)) if isinstance(value, dict) else [])
ALL_ITEMS = Step("[*]", lambda value, root: value if isinstance(value, list) else [value])


def items(ranges: list[tuple[int | str, int | str | None]]) -> Step:
    """Return the step to items of an array. A position is a number, or `last`, `last-1` ...; the end of a
    range may be None.
    """

    def take(value: Any, root: Any) -> Items:
        if not isinstance(value, list):
            return []
        found = []
        for first, last in ranges:
            ends = [_position(end, len(value)) for end in (first, first if last is None else last)]
            found += [value[i] for i in range(max(ends[0], 0), min(ends[1] + 1, len(value)))]
        return found

    written = [f"{first}" if last is None else f"{first} to {last}" for first, last in ranges]
    return Step(f"[{', '.join(written)}]", take)


def _position(at: int | str, count: int) -> int:
    return at if isinstance(at, int) else count - 1 + int(at.removeprefix(LAST) or 0)


def levels(first: int, last: int | None, form: str) -> Step:
    """Return the step to all values between two levels; the value itself is at level 0."""

    def below(value: Any, level: int) -> Items:
        found = [value] if first <= level else []
        children = sorted_items(value) if isinstance(value, dict) else value
        if isinstance(value, dict | list) and (last is None or level < last):
            found += [each for child in children for each in below(child, level + 1)]
        return found

    return Step(form, lambda value, root: below(value, 0) if last is None or first <= last else [])


@dataclass(frozen=True)
class Condition:
    """A condition of a filter: how it is written, and its truth for a value, None if unknown."""

    text: str
    holds: Callable[[Any, Any], bool | None]


def filtered(condition: Condition) -> Step:
    """Return the step that keeps values for which a condition is true."""
    return Step(f"?({condition.text})", lambda value, root: [value] if condition.holds(value, root) else [])


def both(left: Condition, right: Condition, word: str) -> Condition:
    """Return two conditions, joined by `&&` or `||`; unknown if one of them is unknown."""

    def holds(value: Any, root: Any) -> bool | None:
        truths = [left.holds(value, root), right.holds(value, root)]
        if None in truths:
            return None
        return all(truths) if word == "&&" else any(truths)

    return Condition(f"({left.text}) {word} ({right.text})", holds)


def exists(steps: list[Step]) -> Condition:
    """Return whether there are values at a path from the filtered value."""
    return Condition(f"exists({text(steps, '@')})", lambda value, root: bool(select(root, steps, value)))


def compares(steps: list[Step], start: str, operator: str, constant: Any) -> Condition:
    """Return the comparison of the values at a path with a constant."""

    def holds(value: Any, root: Any) -> bool | None:
        found = select(root, steps, value if start == "@" else root)
        for each in (item for one in found for item in (one if isinstance(one, list) else [one])):
            truth = _compare(operator, each, constant)
            if truth is not False:
                return truth
        return False

    return Condition(f"{text(steps, start)} {operator} {json.dumps(constant)}", holds)


def _compare(operator: str, left: Any, right: Any) -> bool | None:
    if isinstance(left, list | dict):
        return None
    if operator == "starts with":
        return left.startswith(right) if isinstance(left, str) and isinstance(right, str) else None
    if _kind(left) != _kind(right):
        return True if operator in ("!=", "<>") else None
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    order = 0 if left is None else (left > right) - (left < right)
    return {
        "==": order == 0,
        "!=": order != 0,
        "<>": order != 0,
        "<": order < 0,
        "<=": order <= 0,
        ">": order > 0,
        ">=": order >= 0,
    }[operator]


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)


WORDS = ["a", "b", "c", "ä", "k y", 'q"']
NUMBERS = [0, 1, 2, -3, 2.5, 1e20, 2**63, 18446744073709551615]
CONSTANTS = [None, True, False, "a", "b", "ab", *NUMBERS]


LEVELS: list[tuple[int, int | None, str]] = [
    (0, None, ".**"),
    (1, 1, ".**{1}"),
    (1, 2, ".**{1 to 2}"),
    (2, None, ".**{ 2 to last }"),
    (2, 1, ".**{2 to 1}"),
]


def random_document(source: random.Random, depth: int = 0) -> Any:
    """Return a JSON value of few keys and values, so that paths and conditions find some."""
    kind = source.random() if depth < 4 else 1
    if kind < 0.35 or depth == 0:
        return {
            word: random_document(source, depth + 1) for word in source.sample(WORDS, source.randint(1, 5))
        }
    if kind < 0.6:
        return [random_document(source, depth + 1) for _ in range(source.randint(0, 4))]
    return source.choice([*CONSTANTS, "1", "abc"])


def random_steps(source: random.Random, depth: int = 0, *, ranges: bool = True) -> list[Step]:
    """Return a random path. Below a depth of 2 it has no filters, and without `ranges` no ranges of items."""
    return [_random_step(source, depth, ranges) for _ in range(source.randint(1, 3))]


def _random_step(source: random.Random, depth: int, ranges: bool) -> Step:
    kind = source.randrange(8 if depth < 2 else 6)
    if kind < 2:
        word = source.choice(WORDS)
        quoted = json.dumps(word, ensure_ascii=source.random() < 0.5)
        plain = [] if not word.isalpha() else [f".{word}", f":{word}"]
        form = source.choice([*plain, f".{quoted}", f":{quoted}", f"[{quoted}]", f"[ {quoted} ]"])
        return Step(form, member(word).take)
    if kind == 2:
        return source.choice([ALL_MEMBERS, ALL_ITEMS, Step("[ * ]", ALL_ITEMS.take)])
    if kind < 5:
        ends: list[int | str] = [0, 1, 2, 5, -1, LAST, "last-1", "last-2", "last+1"]
        lasts = [None, None, *([1, 2, 9, LAST, "last-1", -1] if ranges else [])]
        return items([(source.choice(ends), source.choice(lasts)) for _ in range(source.randint(1, 2))])
    if kind == 5:
        first, last, form = source.choice(LEVELS)
        return levels(first, last, form)
    return filtered(random_condition(source, depth + 1, ranges=ranges))


def random_condition(source: random.Random, depth: int, *, ranges: bool = True) -> Condition:
    """Return a random condition of a filter."""
    if depth < 3 and source.random() < 0.3:
        left, right = (random_condition(source, depth + 1, ranges=ranges) for _ in "ab")
        return both(left, right, source.choice(["&&", "||"]))
    if source.random() < 0.2:
        return exists(random_steps(source, depth, ranges=ranges))
    steps = random_steps(source, 2, ranges=ranges) if source.random() < 0.7 else []
    operator = source.choice(["==", "!=", "<>", "<", "<=", ">", ">=", "starts with"])
    # The reference reads no decimals here.
    constants = [constant for constant in CONSTANTS if not isinstance(constant, float)]
    return compares(steps, source.choice("@@@$"), operator, source.choice(constants))
