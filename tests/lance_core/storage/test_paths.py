"""Paths inside a storage."""

import pytest

from lance_core.errors import InvalidInputError
from lance_core.storage.paths import contained_path
from support.runs.each_case import each_case

HOSTILE = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "../secret",
    "data/../../secret",
    "data/..",
    "./data",
    "data/./x",
    "data//x",
    "data/",
    "data\\..\\secret",
    "data/\0",
    "data/x\n",
    "data/\x1b[2J",
    "data/\u202egnp.lance",
]


@each_case("path", HOSTILE)
def test_a_path_that_leaves_its_root_or_hides_something_is_refused(path: str) -> None:
    """T7, T11"""
    with pytest.raises(InvalidInputError):
        contained_path(path)


@pytest.mark.parametrize(
    "path", ["a", "data/x.lance", "data/..x", "data/x..y", "data/é.lance", "_versions/1.manifest"]
)
def test_an_ordinary_path_is_returned_as_it_is(path: str) -> None:
    assert contained_path(path) == path


def test_nothing_is_decoded() -> None:
    """T7: percent signs are ordinary characters; nobody decodes them later."""
    assert contained_path("data/%2e%2e") == "data/%2e%2e"
