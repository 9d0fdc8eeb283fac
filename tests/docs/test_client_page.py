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
    text = PAGE.read_text(encoding="utf-8").partition("## Changing")[2].partition("```")[0]
    rows = [row.split("|")[1:3] for row in re.findall(r"^\|.*`.*\|$", text, flags=re.MULTILINE)]
    listed: dict[str, list[str]] = {}
    for action, methods in rows:
        names = re.findall(r"`([\w.]+)`", methods)
        listed |= {action.strip(" `"): names} if "`" in action else {name: [name] for name in names}
    assert set(listed) == set(ACTIONS) - _OF_FLIGHT
    for action, methods in listed.items():
        assert action in methods
        for method in methods:
            assert hasattr(RemoteScanner if "." in method else Client, method.rpartition(".")[2]), method
