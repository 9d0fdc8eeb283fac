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
from flight_server.logs import without_secrets
from flight_server.settings import Settings

_SECRET = "(secret)"
_DEFAULT = "default"


@with_settings
def config(
    given: Arguments,
    root: Annotated[
        str | None, typer.Argument(help="Directory or URL that would be served; not looked at if left out.")
    ] = None,
    explain_subject: Annotated[
        str | None, typer.Option(help="Show the grants of this subject instead of the settings.")
    ] = None,
    role: Annotated[list[str] | None, typer.Option(help="Role of the subject; repeatable.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show the settings that `serve` would run with, given the same options, and where each comes from.

    No server is started. Secrets are not shown.
    """
    settings = resolve("." if root is None else root, given)
    for warning in Settings.unknown_variables():
        stderr.print(f"warning: {warning}", markup=False)
    if explain_subject is not None:
        _explain(settings, explain_subject, role or [], as_json)
        return
    described = list(_described(settings, given))
    served = None if root is None else without_secrets(settings.root)
    if as_json:
        print(json.dumps({"root": served, "settings": described}))
        return
    rows = [] if served is None else [("root", served, "ROOT")]
    rows += [(each["name"].replace("_", "-"), _shown(each), each["from"]) for each in described]
    print_table(("setting", "value", "from"), rows, folded=("value",))


def _explain(settings: Settings, subject: str, roles: list[str], as_json: bool) -> None:
    """Show the grants that fit a subject with some roles and no claims of tokens."""
    grants = [grant.as_data() for grant in settings.grant if grant.fits(subject, roles, {})]
    if as_json:
        is_limited = bool(settings.grant)
        print(
            json.dumps({"subject": subject, "roles": roles, "every_right": not is_limited, "grants": grants})
        )
    elif not settings.grant:
        stderr.print("there are no grants: every caller has every right", markup=False)
    else:
        columns = ("datasets", "rights", "columns", "filter")
        rows = [tuple(_joined(grant.get(name)) for name in columns) for grant in grants]
        print_table(columns, rows, folded=("datasets", "filter"))


def _joined(value: list[str] | str | None) -> str:
    return ", ".join(value) if isinstance(value, list) else value or ""


def _described(settings: Settings, given: Arguments) -> Iterator[dict[str, Any]]:
    """Name, value and origin of each setting; of secrets no more than that there is one."""
    told = Settings.given(given)
    for setting in fields(Settings):
        if not setting.metadata:
            continue
        value = getattr(settings, setting.name)
        if isinstance(value, str):  # perhaps a URL
            value = without_secrets(value)
        if setting.name == "grant":
            value = [grant.as_data() for grant in value]
        if not setting.repr:
            value = _SECRET if setting.name in told else None
        origin = told[setting.name].origin if setting.name in told else _DEFAULT
        yield {"name": setting.name, "value": value, "from": origin}


def _shown(described: dict[str, Any]) -> str:
    """Return a value as one would write it."""
    value = described["value"]
    if described["name"] in _SIZES and value is not None:
        return readable_bytes(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, list):
        return "\n".join(map(json.dumps, value))
    return "" if value is None else str(value)


_SIZES = {setting.name for setting in fields(Settings) if setting.metadata.get("parse") is parse_bytes}
