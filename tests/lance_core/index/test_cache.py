"""The cache of index files is bounded, and gives what was kept."""

from __future__ import annotations

import pytest

from lance_core.index.cache import IndexCache


def test_least_recently_used_entries_leave_first() -> None:
    cache = IndexCache(12_000)
    for number in range(4):
        cache.keep(number, f"value {number}", 2000)
    assert cache.find(0) == "value 0"
    cache.keep(4, "value 4", 2000)
    assert [cache.find(number) is not None for number in range(5)] == [True, False, True, True, True]
    use = cache.use()
    assert (use.entries, use.hits, use.misses) == (4, 5, 1)
    assert 8000 <= use.bytes <= use.max_bytes == 12_000


@pytest.mark.parametrize("max_bytes", [0, 5000])
def test_values_larger_than_the_cache_are_not_kept(max_bytes: int) -> None:
    cache = IndexCache(max_bytes)
    assert cache.get("large", lambda: "value", lambda value: 5000) == "value"
    assert cache.find("large") is None
    assert cache.use().entries == 0


def test_the_first_of_two_values_is_kept() -> None:
    cache = IndexCache()
    first, second = object(), object()
    assert cache.keep("key", first, 0) is first
    assert cache.keep("key", second, 0) is first
    assert cache.get("key", object, lambda value: 0) is first


def test_several_entries_are_found_at_once_as_they_are_one_by_one() -> None:
    cache = IndexCache(8000)
    for number in range(3):
        cache.keep(number, f"value {number}", 2000)
    assert cache.find_each([2, 7, 0]) == ["value 2", None, "value 0"]
    cache.keep(3, "value 3", 2000)
    assert cache.find_each([0, 1, 2, 3]) == ["value 0", None, "value 2", "value 3"]
    assert (cache.use().hits, cache.use().misses) == (5, 2)
    assert cache.find_each([]) == []


def test_errors_of_a_load_are_raised_and_not_kept() -> None:
    cache = IndexCache()

    def fail() -> str:
        raise OSError("storage")

    with pytest.raises(OSError, match="storage"):
        cache.get("key", fail, len)
    assert cache.get("key", lambda: "value", len) == "value"
