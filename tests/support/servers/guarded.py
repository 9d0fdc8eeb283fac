"""A server that asks who calls, with accounts and web tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from support.servers.server import RunningServer
from support.servers.tokens import AUDIENCE, ISSUER, Issuer, write_accounts, write_key_set


@dataclass(frozen=True)
class Guarded:
    """A server with its issuer of web tokens."""

    server: RunningServer
    issuer: Issuer
    options: tuple[str, ...]


def guard_options(folder: Path, issuer: Issuer) -> tuple[str, ...]:
    """Return options of a server that accepts the accounts of `write_accounts` and tokens of the issuer."""
    write_accounts(folder / "accounts.toml")
    write_key_set(folder / "keys.json", issuer)
    accounts = ("--accounts-file", str(folder / "accounts.toml"))
    return (
        *accounts,
        "--jwt-key-file",
        str(folder / "keys.json"),
        "--jwt-issuer",
        ISSUER,
        "--jwt-audience",
        AUDIENCE,
    )
