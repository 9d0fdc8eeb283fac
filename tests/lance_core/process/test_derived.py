"""Values that are derived from objects: once for each object, and no longer than the object lives."""

from __future__ import annotations

from lance_core.process.derived import Derived


class Thing:
    """Object that allows weak references and has no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, number: int) -> None:
        self.number = number


def test_a_value_is_derived_once_for_each_object() -> None:
    seen: list[int] = []

    def derive(thing: Thing) -> int:
        seen.append(thing.number)
        return -thing.number

    derived, things = Derived(derive), [Thing(1), Thing(1), Thing(2)]
    for _ in range(2):
        assert [derived.of(thing) for thing in things] == [-1, -1, -2]
    assert seen == [1, 1, 2]
    del things[:2]
    assert len(derived) == 1
    # A new object at the address of an old one has a value of its own.
    for number in range(3, 100):
        assert derived.of(Thing(number)) == -number
    assert len(derived) == 1


def test_a_value_that_is_kept_is_not_derived() -> None:
    derived, things = Derived(lambda thing: -thing.number), [Thing(1), Thing(2)]
    derived.keep(things[0], 7)
    assert [derived.of(thing) for thing in things] == [7, -2]
    derived.keep(things[0], 8)
    assert derived.of(things[0]) == 8
    things.clear()
    assert len(derived) == 0
