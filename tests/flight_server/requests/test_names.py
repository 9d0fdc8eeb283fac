"""Names: what is allowed, and that nothing else ever becomes a path."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from flight_server.requests.names import DatasetReference, parse_name, parse_path
from lance_core.errors import InvalidInputError
from support.runs.each_case import each_case


@each_case(
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("trips@gold", DatasetReference("trips", ref="gold")),
        ("ns/trips.lance@v1.0", DatasetReference("ns/trips", ref="v1.0")),
        ("trips@dev:12", DatasetReference("trips", 12, branch="dev")),
        ("trips@dev:", DatasetReference("trips", branch="dev")),
        ("trips@12:", DatasetReference("trips", branch="12")),
        ("trips@team/dev:3", DatasetReference("trips", 3, branch="team/dev")),
        ("trips@team/dev", DatasetReference("trips", branch="team/dev")),
    ],
)
def test_tags_and_branches(text: str, expected: DatasetReference) -> None:
    assert parse_name(text) == expected


@each_case(
    "text",
    [
        "trips@",
        "trips@-1",
        "trips@v:x",
        "trips@dev:-1",
        "trips@@1",
        f"trips@{2**63}",
        f"trips@dev:{2**63}",
        "trips@..:1",
        "trips@../x",
        "trips@a//b",
        "trips@a/",
        "trips@gold@silver",
        "trips@.hidden",
        "trips@" + "x" * 129,
        "trips@dev:1:2",
    ],
)
def test_malformed_references_are_refused(text: str) -> None:
    """T9"""
    with pytest.raises(InvalidInputError):
        parse_name(text)


@each_case(
    "fields",
    [
        {"version": 1, "tag": "gold"},
        {"tag": "gold", "branch": "dev"},
        {"version": 1, "asof": datetime(2026, 1, 1, tzinfo=UTC)},
        {"ref": "gold", "branch": "dev"},
        {"tag": "../gold"},
        {"tag": "a/b"},
        {"branch": "../dev"},
        {"branch": ""},
        {"tag": ""},
    ],
)
def test_no_reference_holds_what_is_not_allowed(fields: dict[str, Any]) -> None:
    """T9"""
    with pytest.raises(InvalidInputError):
        DatasetReference("trips", **fields)


def test_hostile_names_are_refused(hostile_names: list[str]) -> None:
    """T7: none of the names that try to leave the root parses, and messages stay short and printable."""
    for text in hostile_names:
        with pytest.raises(InvalidInputError) as caught:
            parse_name(text)
        assert len(str(caught.value)) < 1000
        assert str(caught.value).isprintable()
    assert len(hostile_names) >= 500
