"""A server with grants, its callers, and the datasets of its matrix: one for each action."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

import lance_core
from flight_server.security.accounts import hash_token
from support.servers.server import RunningServer
from support.servers.tokens import AUDIENCE, ISSUER, Issuer, write_key_set

ROWS = pa.table(
    {
        "id": pa.array(range(40), pa.int64()),
        "region": [("north", "south", "west", "east")[i % 4] for i in range(40)],
        "hidden_salary": pa.array([90_000 + i for i in range(40)], pa.int64()),
    }
)

HELD: dict[str, tuple[str, ...]] = {
    "owner": ("list", "read", "write", "manage"),
    "reader": ("list", "read"),
    "lister": ("list",),
    "writer": ("write",),
    "manager": ("manage",),
    "stranger": (),
}
"""Rights to `shop/*`, by subject. The stranger has rights elsewhere."""

LIMITED = {"of columns": {"columns": ["id", "region"]}, "of rows": {"filter": "region = 'north'"}}
"""Limits of two more readers, by subject."""


def token_of(subject: str) -> str:
    return f"lft_static-token-of-{subject.replace(' ', '-')}"


def headers_of(subject: str) -> list[tuple[str, str | bytes]]:
    return [("authorization", f"Bearer {token_of(subject)}")]


def write_settings(folder: Path, issuer: Issuer) -> Path:
    """Write the settings file of a server with the grants, and what it needs."""
    write_key_set(folder / "keys.json", issuer)
    subjects = [*HELD, *LIMITED]
    (folder / "accounts.toml").write_text(
        "".join(
            f'[[account]]\nsubject = "{each}"\ntokens = ["{hash_token(token_of(each))}"]\n'
            for each in subjects
        )
    )
    grants = [
        {"subject": subject, "datasets": ["shop/*"], "rights": list(rights)}
        for subject, rights in HELD.items()
        if rights
    ]
    grants += [
        {"subject": subject, "datasets": ["shop/*"], "rights": ["list", "read"], **limits}
        for subject, limits in LIMITED.items()
    ]
    grants.append({"subject": "stranger", "datasets": ["elsewhere/*"], "rights": list(HELD["owner"])})
    grants.append({"claim": {"department": "north"}, "datasets": ["shop/*"], "rights": ["read"]})
    tables = [
        "[[grant]]\n" + "".join(f"{name} = {_toml(value)}\n" for name, value in grant.items())
        for grant in grants
    ]
    path = folder / "server.toml"
    path.write_text(
        f'accounts-file = "accounts.toml"\njwt-key-file = "keys.json"\njwt-issuer = "{ISSUER}"\n'
        f'jwt-audience = "{AUDIENCE}"\n\n' + "\n".join(tables)
    )
    return path


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(each)}" for name, each in value.items()) + " }"
    return json.dumps(value)


def write_dataset(path: Path) -> None:
    """Write a dataset with two versions, a tag, a branch, deleted rows and a staged write to compact."""
    dataset = lance_core.write_dataset(
        ROWS.slice(0, 20), path, max_rows_per_file=10, enable_stable_row_ids=True
    )
    dataset.insert(ROWS.slice(20))
    dataset.tags.create("gold", 1)
    dataset.create_branch("dev", 1)


def digest_of(folder: Path) -> str:
    """Return what changes with any file of a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(f"{path.relative_to(folder)}\n".encode())
        if path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


@dataclass(frozen=True)
class Granted:
    """A running server with grants."""

    server: RunningServer
    root: Path
    settings: Path
    issuer: Issuer

    def options(self, subject: str) -> flight.FlightCallOptions:
        """Return the options of a call of a subject."""
        return flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token_of(subject)}".encode())])

    def credentials(self) -> dict[str, list[tuple[str, str | bytes]]]:
        """Return headers that nobody may pass with, by what is wrong with them."""
        now = int(time.time())
        good = self.issuer.token("owner")
        head, _, tail = good.rpartition(".")
        stranger = Issuer.make(self.issuer.algorithm, self.issuer.key_id)
        tokens = {
            "expired": self.issuer.token("owner", exp=now - 120),
            "foreign": stranger.token("owner"),
            "forged": f"{head}.{'B' if tail[0] == 'A' else 'A'}{tail[1:]}",
        }
        return {kind: [("authorization", f"Bearer {token}")] for kind, token in tokens.items()}
