"""Verbs with a TARGET on a server with TLS that asks who calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.main import get_command

from flight_server.cli import app
from support.clients.command_line import run_verb
from support.servers.secure_server import Authority
from support.servers.served import Root
from support.servers.server import serving
from support.servers.tokens import OTHER_TOKEN, PASSWORD, TOKEN, write_accounts


@dataclass(frozen=True)
class Secure:
    """A server with TLS, accounts and certificates of clients, and the folder of the files."""

    uri: str
    folder: Path


@pytest.fixture(scope="module")
def secure(root: Root, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("secure")
    authority = Authority.make()
    authority.certificate_of("127.0.0.1").write(folder)
    (folder / "ca.pem").write_bytes(authority.certificate)
    write_accounts(folder / "accounts.toml")
    (folder / "token").write_text(TOKEN + "\n")
    options = ["--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem")]
    options += ["--accounts-file", str(folder / "accounts.toml")]
    with serving(root.path, folder / "server.log", *options) as server:
        yield Secure(server.uri, folder)


def test_options(secure: Secure) -> None:
    target = f"{secure.uri}/trips"
    options = ["--token-file", secure.folder / "token", "--tls-root-certs", secure.folder / "ca.pem"]
    assert "trips" in run_verb("ls", secure.uri, *options).stdout
    for verb in (
        ["show"],
        ["head"],
        ["scan", "--limit", "2"],
        ["versions"],
        ["tag", "list"],
        ["index", "list"],
    ):
        words = (
            [*verb[:2], target, *verb[2:]] if verb[0] in ("tag", "index") else [verb[0], target, *verb[1:]]
        )
        run_verb(*words, *options)
    assert "no TLS connection" in run_verb("show", target, *options[:2], code=1).stderr
    run_verb("show", target, *options[:2], "--tls-skip-verify")


def test_variables(secure: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    target = f"{secure.uri}/trips"
    monkeypatch.setenv("LANCE_FLIGHT_TLS_ROOT_CERTS", str(secure.folder / "ca.pem"))
    denied = run_verb("show", target, code=1)
    assert "no credentials" in denied.stderr
    monkeypatch.setenv("LANCE_FLIGHT_TOKEN", "wrong")
    assert "not valid" in run_verb("show", target, code=1).stderr
    run_verb("show", target, "--token-file", secure.folder / "token")
    monkeypatch.setenv("LANCE_FLIGHT_TOKEN", OTHER_TOKEN)
    assert json.loads(run_verb("show", target, "--json").stdout)["rows"] > 0
    monkeypatch.delenv("LANCE_FLIGHT_TOKEN")
    assert "LANCE_FLIGHT_PASSWORD" in " ".join(
        run_verb("show", target, "--username", "ana", code=1).stderr.split()
    )
    monkeypatch.setenv("LANCE_FLIGHT_PASSWORD", PASSWORD)
    run_verb("show", target, "--username", "ana")
    monkeypatch.setenv("LANCE_FLIGHT_PASSWORD", "canary wrong")
    failed = run_verb("show", target, "--username", "ana", code=1)
    assert "canary" not in failed.stdout + failed.stderr


def test_every_verb_with_a_target_has_the_options() -> None:
    def commands(group: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
        for name, command in getattr(group, "commands", {}).items():
            yield (*path, name), command
            yield from commands(command, (*path, name))

    lacking = [
        path
        for path, command in commands(get_command(app), ())
        if {"target", "targets"} & {each.name for each in command.params}  # type: ignore[attr-defined]
        and "token_file" not in {each.name for each in command.params}  # type: ignore[attr-defined]
    ]
    assert not lacking
