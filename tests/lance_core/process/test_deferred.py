"""Errors of work that runs ahead reach the consumer after the results from before them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lance_core.errors import CorruptFileError
from lance_core.process.deferred import DeferredError, Lookahead, Results


def failing_after(num_items: int) -> Iterator[int]:
    yield from range(num_items)
    raise CorruptFileError("damaged")


def test_results_come_before_the_error() -> None:
    """T25: rows before damage are delivered, then the error."""
    results = Results[int]()
    with results.error:
        results.values.extend([1])
        for number in failing_after(2):
            results.values.append(number)
    seen = []
    with pytest.raises(CorruptFileError, match="damaged"):
        seen.extend(results)
    for_each = iter(results)
    assert [next(for_each) for _ in range(3)] == [1, 0, 1]


def test_the_first_error_stays() -> None:
    error = DeferredError()
    for number in range(3):
        with error:
            raise ValueError(number)
    with pytest.raises(ValueError, match="0"):
        error.raise_kept()


def test_an_interrupt_is_raised_at_once() -> None:
    error = DeferredError()
    with pytest.raises(KeyboardInterrupt), error:
        raise KeyboardInterrupt
    error.raise_kept()
    everything = DeferredError(BaseException)
    with everything:
        raise KeyboardInterrupt
    assert isinstance(everything.error, KeyboardInterrupt)


def test_a_lookahead_tells_of_an_error_in_its_turn() -> None:
    """T25: while a consumer has items from before an error, the items just seem to end."""
    items = Lookahead(failing_after(1))
    assert items.peek(in_turn=False) == 0
    assert items.peek(in_turn=True) == 0
    items.take()
    assert not items.is_known
    assert items.peek(in_turn=False) is None
    assert items.is_known
    for _ in range(2):
        with pytest.raises(CorruptFileError, match="damaged"):
            items.peek(in_turn=True)


def test_a_lookahead_ends() -> None:
    items = Lookahead(iter([7]))
    assert items.peek(in_turn=True) == 7
    items.take()
    assert items.peek(in_turn=True) is None
    assert items.peek(in_turn=True) is None
