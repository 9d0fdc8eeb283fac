"""Errors that name the argument of a wrong type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import pyarrow as pa
import pytest

import lance_core
from lance_core.api.query import BoostQuery, MatchQuery
from lance_core.arguments import named, named_arguments, refuse_wrong_types
from lance_core.errors import ArgumentTypeError, IndexNotFoundError, InvalidInputError
from support.runs.each_case import each_case

if TYPE_CHECKING:
    from nowhere import Nothing, nothing  # type: ignore[import-not-found]


class Options(TypedDict, total=False):
    count: int


@named
def fails(
    names: list[str] | None = None,
    by_name: Mapping[str, int] | None = None,
    mode: Literal["a", "b"] = "a",
    wait: timedelta | None = None,
    each: Iterable[str] = (),
    share: float = 0.5,
    options: Options | None = None,
    pair: tuple[str, ...] = (),
    unknown: Nothing | nothing.Kind = None,
    **others: Any,
) -> None:
    raise TypeError("as before")


@each_case(
    "arguments",
    [
        {"names": "text"},
        {"names": [5]},
        {"by_name": {"a": "b"}},
        {"by_name": [1]},
        {"mode": "c"},
        {"wait": 5},
        {"each": "text"},
        {"each": b"bytes"},
        {"share": "half"},
        {"options": {"count": "many"}},
        {"options": 5},
        {"pair": ("a", 5)},
    ],
)
def test_a_failure_names_the_argument_of_a_wrong_type(arguments: dict[str, Any]) -> None:
    (name,) = arguments
    with pytest.raises(ArgumentTypeError, match=rf"^{name} \(expected .*, found ") as raised:
        fails(**arguments)
    assert isinstance(raised.value.__cause__, TypeError)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"names": ["a"], "by_name": {"a": 1}, "mode": "b", "wait": timedelta(), "each": {"a"}},
        {"share": 1, "options": {"count": 3}, "pair": ("a", "b"), "unknown": 5, "other": object()},
    ],
    ids=["nothing", "right types", "similar types"],
)
def test_other_failures_stay_as_they_are(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="as before") as raised:
        fails(**arguments)
    assert type(raised.value) is TypeError


def test_errors_of_code_of_the_caller_stay_as_they_are() -> None:
    """An object with the methods of an abstract class is as good as an instance."""

    class Progress:
        def begin(self, fragment: object) -> None:
            raise KeyError("told to stop")

        def complete(self, fragment: object) -> None:
            """Nothing to tell."""

    with pytest.raises(KeyError, match="told to stop") as raised:
        lance_core.write_dataset(
            pa.table({"n": [1]}),
            "memory://arguments/stopped.lance",
            progress=Progress(),  # type: ignore[arg-type]
        )
    assert type(raised.value) is KeyError


def test_arguments_of_calls_that_succeed_are_not_tested() -> None:
    assert named(str.upper)("a") == "A"

    @named
    def works(number: int) -> int:
        return number

    assert works("text") == "text"  # type: ignore[arg-type,comparison-overlap]


def test_methods_of_every_kind() -> None:
    @named_arguments
    class Offered:
        def __init__(self, number: int) -> None:
            number + 1

        @staticmethod
        def of_nothing(number: int) -> int:
            return number + 1

        @classmethod
        def of_class(cls, number: int) -> int:
            return number + 1

        def method(self, number: int) -> int:
            return number + 1

    assert Offered(1).method(1) == Offered.of_nothing(1) == Offered.of_class(1) == 2
    for call in (Offered, Offered.of_nothing, Offered.of_class, Offered(1).method):
        with pytest.raises(ArgumentTypeError, match=r"number \(expected int, found 'x'\)"):
            call("x")  # type: ignore[operator]


def test_fields_of_a_dataclass() -> None:
    @dataclass
    class Plan:
        number: int

    refuse_wrong_types(Plan, {"number": 3})
    with pytest.raises(ArgumentTypeError, match="number"):
        refuse_wrong_types(Plan, {"number": "3"})


Call = Callable[[lance_core.LanceDataset], object]
MISTAKES: dict[str, Call] = {
    "tag": lambda data: data.tags.create(5, 1),  # type: ignore[arg-type]
    "metadata": lambda data: data.tags.replace_metadata("a", None),  # type: ignore[arg-type]
    "settings": lambda data: data.update_config([5]),  # type: ignore[arg-type]
    "replace": lambda data: data.update_config({"a": "b"}, replace=1.5),  # type: ignore[arg-type]
    "on": lambda data: data.merge_insert(5),  # type: ignore[arg-type]
    "when_matched_condition": lambda data: data.merge_insert("n").when_matched_update_all(5),  # type: ignore[arg-type]
    "conflict_retries": lambda data: data.delete("n = 1", conflict_retries="x"),  # type: ignore[arg-type]
    "retry_timeout": lambda data: data.update({"n": "1"}, retry_timeout=5),  # type: ignore[arg-type]
    "transaction_id": lambda data: data.delete("n = 1", transaction_id=5),  # type: ignore[arg-type]
    "num_rows": lambda data: data.sample("x"),  # type: ignore[arg-type]
    "start": lambda data: data.slice("x", 3),  # type: ignore[arg-type]
    "older_than": lambda data: data.cleanup_old_versions(5),  # type: ignore[arg-type]
    "options": lambda data: data.optimize.enable_auto_cleanup(5),  # type: ignore[arg-type]
    "right_dataset": lambda data: data.join(5, "n"),
    "text": lambda data: data.sql(5),  # type: ignore[arg-type]
    "sorting": lambda data: data.sort_by("nothing"),
    "new_fragments": lambda data: lance_core.LanceDataset.commit(
        data.uri,
        lance_core.LanceOperation.Update(new_fragments=[5]),  # type: ignore[list-item]
        read_version=1,
    ),
    "transaction": lambda data: lance_core.LanceDataset.commit(
        data.uri, lance_core.LanceOperation.Restore(-1), read_version=1
    ),
    "base_uri": lambda data: lance_core.LanceDataset.commit(
        5,  # type: ignore[arg-type]
        lance_core.LanceOperation.Restore(1),
    ),
    "positive": lambda data: BoostQuery(5, MatchQuery("a", "b")),  # type: ignore[arg-type]
    "search_effort": lambda data: data.to_table(nearest={"column": "v", "q": [0.0], "search_effort": "x"}),
    "distance_range": lambda data: data.to_table(nearest={"column": "v", "q": [0.0], "distance_range": 5}),
    "order_by": lambda data: data.to_table(order_by=5),
    "uri": lambda data: lance_core.dataset(5),  # type: ignore[arg-type]
    "path": lambda data: lance_core.set_cache_directory(5),  # type: ignore[arg-type]
    "memory_limit_bytes": lambda data: lance_core.Session(memory_limit_bytes="x"),  # type: ignore[arg-type]
}


@pytest.fixture(scope="module")
def data() -> lance_core.LanceDataset:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([0.0] * 3, pa.float32()), 1)
    dataset = lance_core.write_dataset(pa.table({"n": [1, 2, 3], "v": vectors}), "memory://arguments/t.lance")
    dataset.tags.create("a", 1)
    return dataset


@each_case("name", MISTAKES)
def test_public_calls_name_wrong_arguments(data: lance_core.LanceDataset, name: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        MISTAKES[name](data)


def test_an_index_that_does_not_exist(data: lance_core.LanceDataset) -> None:
    """The reference raises KeyError, and its message is the same."""
    for call in (data.index_statistics, data.stats.index_stats, data.get_ivf_model):
        with pytest.raises(IndexNotFoundError, match=r'^Index "nothing" not found') as raised:
            call("nothing")
        assert isinstance(raised.value, KeyError)
