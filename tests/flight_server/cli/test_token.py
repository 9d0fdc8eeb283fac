"""`lance-flight token`: what it makes is what a server takes, and nobody else reads it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from flight_server.errors import NotAuthenticatedError
from flight_server.security.accounts import Accounts
from flight_server.security.web_tokens import WebTokens, load_keys
from support.clients.command_line import run_verb


def checks(path: Path, **settings: str) -> WebTokens:
    given = {"issuer": "lance-flight", "audience": "lance-flight", **settings}
    return WebTokens(load_keys(str(path)), **given, leeway=0.0)


@pytest.mark.parametrize("algorithm", ["EdDSA", "ES256", "RS256", "HS256"])
def test_a_key_and_its_tokens(tmp_path: Path, algorithm: str) -> None:
    key, keys = tmp_path / "key.json", tmp_path / "keys.json"
    made = json.loads(run_verb("token", "make-key", key, "--algorithm", algorithm, "--key-set", keys).stdout)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(keys.stat().st_mode) == (0o600 if algorithm == "HS256" else 0o644)
    issue = ("token", "issue", key, "--subject", "ana", "--role", "a", "--role", "b", "--lifetime", "15m")
    token = run_verb(*issue).stdout.strip()
    claims = checks(keys).claims_of(token)
    assert (claims["sub"], claims["roles"], claims["exp"] - claims["iat"]) == ("ana", ["a", "b"], 900)
    shown = json.loads(run_verb("token", "show", stdin=token).stdout)
    assert shown["claims"] == claims
    assert shown["header"]["kid"] == made["kid"]
    assert token.rpartition(".")[2] not in json.dumps(shown)
    if algorithm != "HS256":
        assert "d" not in json.loads(keys.read_text())["keys"][0]


def test_a_key_is_rotated(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    tokens = []
    for name in ("old", "new"):
        run_verb("token", "make-key", tmp_path / name, "--key-set", keys)
        output = tmp_path / f"{name}.token"
        run_verb("token", "issue", tmp_path / name, "--subject", name, "--audience", "x", "-o", output)
        assert stat.S_IMODE(output.stat().st_mode) == 0o600
        tokens.append(output.read_text().strip())
    both = checks(keys, audience="x")
    assert [both.claims_of(token)["sub"] for token in tokens] == ["old", "new"]
    with pytest.raises(NotAuthenticatedError):
        checks(keys).claims_of(tokens[0])
    before = (tmp_path / "old").read_text()
    assert "File exists" in run_verb("token", "make-key", tmp_path / "old", code=1).stderr
    assert (tmp_path / "old").read_text() == before


def test_hashes_for_a_file_of_accounts(tmp_path: Path) -> None:
    made = run_verb("token", "make").stdout.strip()
    token = run_verb("token", "hash", stdin=made + "\n").stdout.strip()
    password = run_verb("token", "hash", "--password", stdin="tr0ub4dor\n").stdout.strip()
    path = tmp_path / "accounts.toml"
    path.write_text(f'[[account]]\nsubject = "ana"\ntokens = ["{token}"]\npassword = "{password}"\n')
    accounts = Accounts.load(str(path))
    for found in (accounts.of_token(made), accounts.of_password("ana", "tr0ub4dor")):
        assert found is not None
        assert found.subject == "ana"
    assert accounts.of_password("ana", "tr0ub4dor ") is None
    assert accounts.of_password("ben", "tr0ub4dor") is None
    assert accounts.of_token(token) is None
    assert made not in path.read_text()
    assert "can be guessed" in run_verb("token", "hash", stdin="tr0ub4dor\n", code=1).stderr.replace(
        "\n", " "
    )


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        (["make-key", "x", "--algorithm", "none"], "", 1),
        (["issue", "missing", "--subject", "a"], "", 1),
        (["issue", "garbage", "--subject", "a"], "", 1),
        (["issue", "garbage", "--subject", "a", "--lifetime", "soon"], "", 2),
        (["show"], "secret.of.nobody", 1),
        (["hash"], "", 1),
    ],
)
def test_what_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], stdin: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "garbage").write_text('{"kty": "oct"}')
    done = run_verb("token", *arguments, stdin=stdin, code=code)
    assert done.stdout == ""
    assert "secret" not in done.stderr
