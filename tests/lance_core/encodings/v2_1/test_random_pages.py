"""Random nested rows, shredded and laid out by the twin, read whole and by row ranges."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.runs.draws import draws
from support.twins import nested, pages
from support.twins.pages import HandmadePage

nestings = st.lists(st.sampled_from((nested.LIST, nested.STRUCT)), max_size=6).filter(
    lambda nodes: nodes.count(nested.LIST) <= 4
)


def check(page: HandmadePage, rows: list[Any], rng: random.Random) -> None:
    """The whole page and some ranges of it."""
    assert page.array().to_pylist() == rows
    for _ in range(4):
        start = rng.randrange(len(rows))
        end = rng.randint(start + 1, len(rows))
        assert page.array(start, end).to_pylist() == rows[start:end], (start, end)
        chosen = sorted(rng.sample(range(len(rows)), rng.randint(1, len(rows))))
        assert page.picked(chosen).to_pylist() == [rows[row] for row in chosen], chosen


def text_of(value: Any) -> Any:
    """Return the row with text instead of numbers."""
    if isinstance(value, list):
        return [text_of(item) for item in value]
    if isinstance(value, tuple):
        return (text_of(value[0]),)
    return None if value is None else str(value)


@settings(max_examples=draws(150), deadline=None)
@given(nestings, st.integers(1, 25), st.integers(0, 1 << 30), st.booleans())
def test_mini_block_pages(nodes: list[str], num_rows: int, seed: int, large: bool) -> None:
    """Chunks that begin in the middle of rows, and rows that run over many chunks."""
    rng = random.Random(seed)
    column = nested.random_column(rng, nodes, num_rows)
    exponents = [rng.choice((1, 1, 2, 3)) for _ in range(60)]
    page = pages.mini_block_page(column, exponents, large=large)
    check(page, [pages.as_arrow(row) for row in column.rows], rng)


@settings(max_examples=draws(150), deadline=None)
@given(nestings, st.integers(1, 25), st.integers(0, 1 << 30), st.sampled_from((2, 4, 8)))
def test_full_zip_pages(nodes: list[str], num_rows: int, seed: int, index_width: int) -> None:
    rng = random.Random(seed)
    column = nested.random_column(rng, nodes, num_rows)
    numbers = pages.full_zip_page(column, as_text=False, index_width=index_width)
    check(numbers, [pages.as_arrow(row) for row in column.rows], rng)
    texts = pages.full_zip_page(column, as_text=True, index_width=index_width)
    check(texts, [pages.as_arrow(text_of(row)) for row in column.rows], rng)


@pytest.mark.parametrize("num_lists", [1, 4, 8])
def test_deep_lists(num_lists: int) -> None:
    rng = random.Random(num_lists)
    column = nested.random_column(rng, [nested.LIST] * num_lists, 6)
    rows = [pages.as_arrow(row) for row in column.rows]
    check(pages.mini_block_page(column, [1] * 500), rows, rng)
    check(pages.full_zip_page(column, as_text=False), rows, rng)
