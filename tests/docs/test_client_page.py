"""docs/python-client.md names every action of the server, and methods that the client has."""

from __future__ import annotations

import re
from pathlib import Path

from flight_client import Client, RemoteScanner
from flight_server.handlers.actions import ACTIONS

PAGE = Path(__file__).parents[2] / "docs" / "python-client.md"
_OF_FLIGHT = {"CancelFlightInfo", "RenewFlightEndpoint"}
"""The client plans anew."""


def test_every_action_is_on_the_page() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Changing")[2].partition("```")[0]
    listed: dict[str, list[str]] = {}
    for line in re.findall(r"^[-| ].*`.*$", section, flags=re.MULTILINE):
        if line.startswith("|"):
            action, methods = (re.findall(r"`([\w.]+)`", cell) for cell in line.split("|")[1:3])
            listed[action[0]] = methods
        else:
            listed |= {name: [name] for name in re.findall(r"`(\w+)`", line)}
    assert set(listed) == set(ACTIONS) - _OF_FLIGHT
    for action_name, names in listed.items():
        assert action_name in names
        for name in names:
            assert hasattr(RemoteScanner if "." in name else Client, name.rpartition(".")[2]), name
