"""Readers of reads: what they end, on which threads, and what they refuse."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from lance_core.errors import InvalidInputError
from lance_core.process.readers import (
    Reader,
    ReaderLeftError,
    check_fits_reader,
    for_reader,
    look_at_reader,
)


class LeftError(Exception):
    """The caller has left."""


def test_who_waits_for_nothing_ends_nothing() -> None:
    """T30: outside of a block, and after it, there is no reader."""
    left: list[int] = []
    reader = Reader(lambda: left.append(1), 10)
    look_at_reader()
    with reader.waiting():
        look_at_reader()
    look_at_reader()
    check_fits_reader(11)
    assert len(left) == 1


def test_work_of_other_threads_ends_when_its_reader_has_left() -> None:
    """T30: only the thread of the reader asks whether it has left; others learn it from that."""
    is_left = False

    def check() -> None:
        if is_left:
            raise LeftError

    with ThreadPoolExecutor(1) as pool:
        reader = Reader(check, 10)
        with reader.waiting():
            run = for_reader(look_at_reader)
            pool.submit(run).result()
            is_left = True
            pool.submit(run).result()
            with pytest.raises(LeftError):
                look_at_reader()
            with pytest.raises(ReaderLeftError):
                pool.submit(run).result()
        pool.submit(look_at_reader).result()


def test_rows_that_a_reader_cannot_take() -> None:
    """T29: the limit is that of the reader of this thread."""
    with Reader(lambda: None, 10).waiting():
        check_fits_reader(10)
        with pytest.raises(
            InvalidInputError, match=r"fewer columns \(expected at most 10 bytes, found about 11\)"
        ):
            check_fits_reader(11.4)
