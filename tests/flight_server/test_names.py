"""Names: what is allowed, and that nothing else ever becomes a path."""

from __future__ import annotations

import pytest

from flight_server.names import DatasetReference, parse_name, parse_path
from lance_core.errors import InvalidInputError, UnsupportedFeatureError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("trips", DatasetReference("trips")),
        ("trips.lance", DatasetReference("trips")),
        ("ns/trips", DatasetReference("ns/trips")),
        ("ns.lance/trips", DatasetReference("ns.lance/trips")),
        ("trips@12", DatasetReference("trips", 12)),
        ("ns/trips.lance@0", DatasetReference("ns/trips", 0)),
        ("A-1_b.c", DatasetReference("A-1_b.c")),
        ("a..b", DatasetReference("a..b")),
        ("x" * 128, DatasetReference("x" * 128)),
    ],
)
def test_allowed_names(text: str, expected: DatasetReference) -> None:
    assert parse_name(text) == expected


@pytest.mark.parametrize("path", [["ns", "trips"], ["ns/trips"], ["ns", "trips.lance"]])
def test_paths_are_names_cut_in_parts(path: list[str]) -> None:
    assert parse_path(path) == DatasetReference("ns/trips")


@pytest.mark.parametrize("text", ["trips@gold", "trips@dev:12", "trips@dev:", "trips@team/dev:3"])
def test_tags_and_branches_are_refused_by_name(text: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"(gold|dev)"):
        parse_name(text)


@pytest.mark.parametrize(
    "text",
    ["trips@", "trips@-1", "trips@1x:", "trips@a/b", "trips@v:x", "trips@@1", f"trips@{2**63}", "trips@..:1"],
)
def test_malformed_references_are_refused(text: str) -> None:
    with pytest.raises((InvalidInputError, UnsupportedFeatureError)) as caught:
        parse_name(text)
    # "1x" is a name a branch may have; everything else here can never mean anything.
    assert isinstance(caught.value, InvalidInputError) or text == "trips@1x:"


def test_hostile_names_are_refused(hostile_names: list[str]) -> None:
    """T7: none of the names that try to leave the root parses, and messages stay short and printable."""
    for text in hostile_names:
        with pytest.raises(InvalidInputError) as caught:
            parse_name(text)
        assert len(str(caught.value)) < 1000
        assert str(caught.value).isprintable()
    assert len(hostile_names) >= 500
