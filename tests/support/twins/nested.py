"""Nested data as levels, and as Arrow layers, one value at a time.

A row of a column is a Python value: a list node is None or a list, a struct node None or a tuple of its one
child, the leaf None or an int. Nodes are named from the outside in, layers are numbered from the inside out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

ALL_VALID_ITEM, ALL_VALID_LIST, NULLABLE_ITEM, NULLABLE_LIST, EMPTYABLE_LIST, NULL_AND_EMPTY_LIST = range(
    1, 7
)
LEVELS_OF = {ALL_VALID_ITEM: 0, ALL_VALID_LIST: 0, NULLABLE_ITEM: 1, NULLABLE_LIST: 1, EMPTYABLE_LIST: 1}
LEVELS_OF[NULL_AND_EMPTY_LIST] = 2
LIST, STRUCT, LEAF = "list", "struct", "leaf"


@dataclass
class Column:
    """Random rows of one leaf column and the kinds of their layers."""

    nodes: tuple[str, ...]
    """From the outside in; the last is the leaf."""
    rows: list[Any]
    layers: tuple[int, ...]
    """From the inside out."""

    @property
    def max_rep(self) -> int:
        return self.nodes.count(LIST)


@dataclass
class Levels:
    """Levels and values that a page stores for a column."""

    rep: list[int] = field(default_factory=list)
    def_: list[int] = field(default_factory=list)
    values: list[int | None] = field(default_factory=list)


@dataclass
class ArrowLayer:
    """One node's slots."""

    valid: list[bool]
    offsets: list[int] | None = None


def random_column(rng: random.Random, nodes: Sequence[str], num_rows: int) -> Column:
    """Rows with nulls and empty lists here and there, under the smallest layer kinds or larger ones."""
    nodes = (*nodes, LEAF)
    chances = [(rng.choice((0, 0, 0.2, 0.6)), rng.choice((0, 0.2, 0.5))) for _ in nodes]

    def draw(depth: int) -> Any:
        null, empty = chances[depth]
        if rng.random() < null:
            return None
        if nodes[depth] == LEAF:
            return rng.randrange(1000)
        if nodes[depth] == STRUCT:
            return (draw(depth + 1),)
        return [] if rng.random() < empty else [draw(depth + 1) for _ in range(rng.randint(1, 3))]

    rows = [draw(0) for _ in range(num_rows)]
    found: list[set[str]] = [set() for _ in nodes]

    def look(value: Any, depth: int) -> None:
        if value is None:
            found[depth].add("null")
        elif value == [] and nodes[depth] == LIST:
            found[depth].add("empty")
        elif nodes[depth] != LEAF:
            for child in value:
                look(child, depth + 1)

    for row in rows:
        look(row, 0)
    kinds = []
    for node, what in zip(nodes, found, strict=True):
        what |= {extra for extra in ("null", "empty") if rng.random() < 0.2}
        if node == LIST:
            kinds.append(
                {
                    (False, False): ALL_VALID_LIST,
                    (True, False): NULLABLE_LIST,
                    (False, True): EMPTYABLE_LIST,
                    (True, True): NULL_AND_EMPTY_LIST,
                }["null" in what, "empty" in what]
            )
        else:
            kinds.append(NULLABLE_ITEM if "null" in what else ALL_VALID_ITEM)
    return Column(nodes, rows, tuple(reversed(kinds)))


def numbering(layers: Sequence[int]) -> list[tuple[int, int]]:
    """Definition levels of null and empty of each layer; -1 where a layer has none."""
    following, numbers = 1, []
    for kind in layers:
        null = following if kind in (NULLABLE_ITEM, NULLABLE_LIST, NULL_AND_EMPTY_LIST) else -1
        following += null > 0
        empty = following if kind in (EMPTYABLE_LIST, NULL_AND_EMPTY_LIST) else -1
        following += empty > 0
        numbers.append((null, empty))
    return numbers


def max_visible(nodes: Sequence[str], layers: Sequence[int]) -> int:
    """Return the highest definition level of an entry with a slot among the leaf's values."""
    inside = 0
    for node, kind in zip(reversed(nodes), layers, strict=True):
        if node == LIST:
            break
        inside += LEVELS_OF[kind]
    return inside


def shred(column: Column) -> Levels:
    """Return the levels and the visible values of a column's rows."""
    levels = Levels()
    numbers = numbering(column.layers)[::-1]
    lists_from = [column.nodes[depth:].count(LIST) for depth in range(len(column.nodes))]

    def put(rep: int, def_: int) -> None:
        levels.rep.append(rep)
        levels.def_.append(def_)

    def emit(value: Any, depth: int, rep: int, mask: int) -> None:
        null, empty = numbers[depth]
        if column.nodes[depth] == LIST:
            rep = rep or lists_from[depth]
            if mask or value is None:
                put(rep, mask or null)
            elif not value:
                put(rep, empty)
            else:
                for i, child in enumerate(value):
                    emit(child, depth + 1, 0 if i else rep, 0)
            return
        if not mask and value is None:
            mask = null
        if column.nodes[depth] == LEAF:
            put(rep, mask)
            levels.values.append(None if mask else value)
        else:
            emit(None if mask else value[0], depth + 1, rep, mask)

    for row in column.rows:
        emit(row, 0, 0, 0)
    return levels


def arrow_layers(column: Column) -> tuple[list[ArrowLayer], list[int | None]]:
    """Slots of each node, innermost first, and the slots of the leaf; a null struct has null children."""
    layers: list[ArrowLayer] = []
    slots = column.rows
    for node in column.nodes:
        valid = [slot is not None for slot in slots]
        if node == LIST:
            offsets = [0]
            for slot in slots:
                offsets.append(offsets[-1] + len(slot or []))
            layers.append(ArrowLayer(valid, offsets))
            slots = [item for slot in slots for item in slot or []]
        else:
            layers.append(ArrowLayer(valid))
            if node == STRUCT:
                slots = [None if slot is None else slot[0] for slot in slots]
    return layers[::-1], slots
