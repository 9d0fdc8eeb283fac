"""`lance-flight config`: the settings a server would run with, and where each comes from."""

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Any

import typer

from flight_server.cli.errors import stderr
from flight_server.cli.rendering import print_table
from flight_server.cli.server_options import Arguments, resolve, with_settings
from flight_server.cli.values import readable_bytes
from flight_server.configuration.values import parse_bytes
from flight_server.settings import Settings

_SECRET = "(secret)"
_DEFAULT = "default"


@with_settings
def config(
    given: Arguments,
    root: Annotated[
        str | None, typer.Argument(help="Directory or URL that would be served; not looked at if left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show the settings that `serve` would run with, given the same options, and where each comes from.

    No server is started. Secrets are not shown.
    """
    settings = resolve("." if root is None else root, given)
    for warning in Settings.unknown_variables():
        stderr.print(f"warning: {warning}", markup=False)
    described = list(_described(settings, given))
    if as_json:
        print(json.dumps({"root": None if root is None else settings.root, "settings": described}))
        return
    rows = [] if root is None else [("root", settings.root, "ROOT")]
    rows += [(each["name"].replace("_", "-"), _shown(each), each["from"]) for each in described]
    print_table(("setting", "value", "from"), rows, folded=("value",))


def _described(settings: Settings, given: Arguments) -> Iterator[dict[str, Any]]:
    """Name, value and origin of each setting; of secrets no more than that there is one."""
    told = Settings.given(given)
    for setting in fields(Settings):
        if setting.name == "root":
            continue
        value = getattr(settings, setting.name)
        if not setting.repr:
            value = _SECRET if setting.name in told else None
        origin = told[setting.name].origin if setting.name in told else _DEFAULT
        yield {"name": setting.name, "value": value, "from": origin}


def _shown(described: dict[str, Any]) -> str:
    """Return a value as one would write it."""
    value = described["value"]
    if described["name"] in _SIZES:
        return readable_bytes(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(value)
    return "" if value is None else str(value)


_SIZES = {setting.name for setting in fields(Settings) if setting.metadata.get("parse") is parse_bytes}
