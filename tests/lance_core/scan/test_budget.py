"""The memory that streams share."""

from lance_core.scan.run.budget import MemoryBudget


def test_reading_ahead_stays_below_the_limit_and_what_is_required_does_not_wait():
    """T33: a stream that holds nothing always gets its window, others read ahead only while there is room."""
    budget = MemoryBudget(100)
    assert budget.take(60, required=False)
    assert not budget.take(60, required=False)
    assert budget.take(60, required=True)
    assert budget.used_bytes == 120
    budget.give_back(120)
    assert budget.used_bytes == 0
    assert budget.peak_bytes == 120
