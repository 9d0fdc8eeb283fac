"""Names that try to lead out of the root."""

from __future__ import annotations

import itertools

import pytest

# fmt: off
_ESCAPES = [
    "..", ".", "", "/", "//", "\\", "..\\", "%2e%2e", "%2e%2e%2f", "%00", "\x00", "\n", "\r\n", "\t",
    "\x1b[2J",
    " ", "~", "$HOME", "`id`", "*", "?", "|", ":", ";", "'", '"', "-", "_x", ".hidden", "\u2024\u2024",
    "\uff0e\uff0e", "\u2215", "\uff0f", "\u202e", "\u200b", "\ud7ff", "\u0430", "\u00e9", "e\u0301", "CON\\",
    "file://", "s3://b", "a::b", "http://169.254.169.254", "\U0001f980", "x" * 129, "x" * 10_000, "..;",
    "..%c0%af", "..%252f",
]
_SHAPES = [
    "{}", "{}/trips", "trips/{}", "ns/{}/trips", "ns/../{}/trips", "/{}", "{}/", "../{}", "./{}",
    "trips.lance/../{}", "{}/../../etc/passwd",
]
# fmt: on


@pytest.fixture(scope="session")
def hostile_names() -> list[str]:
    """T7: every escape in every shape."""
    return sorted({shape.format(escape) for shape, escape in itertools.product(_SHAPES, _ESCAPES)})
