"""The memory that streams share."""

import os

from lance_core.scan.run.budget import MemoryBudget


def test_reading_ahead_stays_below_the_limit_and_what_is_required_does_not_wait():
    """T33: a stream that holds nothing always gets its window, others read ahead only while there is room."""
    budget = MemoryBudget(100)
    first = budget.reserve(60, required=False)
    assert first is not None
    assert budget.reserve(60, required=False) is None
    second = budget.require(60)
    assert budget.used_bytes == 120
    first.release()
    second.release()
    assert budget.used_bytes == 0
    assert budget.peak_bytes == 120


def test_bytes_of_a_part_count_in_the_whole_budget():
    """T33: a part has a limit of its own, and takes no more than the whole budget has left."""
    whole = MemoryBudget(100)
    part = MemoryBudget(60, whole)
    held = part.require(40)
    assert (part.used_bytes, whole.used_bytes) == (40, 40)
    assert part.reserve(30, required=False) is None
    assert part.share_bytes == (60 - 40) // 8
    other = whole.require(55)
    assert part.reserve(10, required=False) is None
    assert part.share_bytes == (100 - 95) // 8
    assert (part.used_bytes, whole.used_bytes) == (40, 95)
    with part.require(10):
        assert (part.used_bytes, whole.used_bytes) == (50, 105)
    held.release()
    other.release()
    assert (part.used_bytes, whole.used_bytes) == (0, 0)


class _Asked:
    """A borrower that counts how often it is asked."""

    times = 0

    def give_back(self) -> None:
        self.times += 1


def test_a_part_asks_borrowers_only_if_the_whole_budget_is_short():
    """T33: builds within a small part leave the rows that other streams decoded ahead."""
    whole = MemoryBudget(100)
    part = MemoryBudget(60, whole)
    borrower = _Asked()
    part.lend(borrower)
    with part.require(50):
        part.take_back()
    assert borrower.times == 0
    with whole.require(90):
        part.take_back()
    assert borrower.times == 1


def test_a_reservation_takes_the_real_size_and_ends_once():
    """T33: the bytes of a reservation return to the budget once, however often it is released."""
    budget = MemoryBudget(100)
    with budget.require(60) as reservation:
        reservation.resize(10)
        assert budget.used_bytes == 10
        reservation.release()
        assert budget.used_bytes == 0
    reservation.release()
    assert budget.used_bytes == 0


def test_a_reservation_of_the_parent_does_not_count_in_a_forked_process():
    """A forked process begins with an empty budget, and closes inherited streams without a debt."""
    budget = MemoryBudget(100)
    with budget.require(60):
        child = os.fork()
        if child == 0:
            used = budget.used_bytes
    if child == 0:
        os._exit(0 if used == budget.used_bytes == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert budget.used_bytes == 0
