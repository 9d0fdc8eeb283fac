"""Accounts, sessions and what becomes of them when the files change."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from flight_server.errors import NotAuthenticatedError
from flight_server.security import watched
from flight_server.security.accounts import Accounts, hash_password, hash_token
from flight_server.security.authentication import Authenticator
from flight_server.settings import Settings
from lance_core.errors import InvalidInputError
from support.servers.tokens import (
    AUDIENCE,
    ISSUER,
    OTHER_TOKEN,
    PASSWORD,
    TOKEN,
    Issuer,
    write_accounts,
    write_key_set,
)

GOOD_HASH = hash_token("x" * 20)


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "_SECONDS_BETWEEN_LOOKS", 0.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_accounts(tmp_path / "accounts.toml")
    return tmp_path / "accounts.toml"


def bearer(token: str) -> dict[str, list[str]]:
    return {"authorization": [f"Bearer {token}"]}


def guard(path: Path, key: bytes = b"key of the server", **settings: object) -> Authenticator:
    return Authenticator(Settings("/", accounts_file=str(path), **settings), key)  # type: ignore[arg-type]


def refused(authenticator: Authenticator, headers: dict[str, list[str]]) -> bool:
    try:
        authenticator.identify(headers)
    except NotAuthenticatedError:
        return True
    return False


def test_a_removed_token_ends_at_once(path: Path) -> None:
    """T2: also a token that was checked before."""
    guarded = guard(path)
    identity = guarded.identify(bearer(TOKEN)).identity
    assert identity is not None
    assert (identity.subject, identity.roles, identity.how) == ("ana", {"analyst"}, "token")
    path.write_text(path.read_text().replace(hash_token(TOKEN), GOOD_HASH))
    assert refused(guarded, bearer(TOKEN))
    assert not refused(guarded, bearer("x" * 20))
    path.write_text("broken [")
    assert not refused(guarded, bearer("x" * 20))


def test_a_session_ends_with_its_password_and_its_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T2: servers with the same key accept each other's; the time is looked at in every call."""
    first, twin, other = guard(path), guard(path), guard(path, b"another key")
    token = first.log_in("ana", PASSWORD).answer
    assert token is not None
    for server in (first, twin):
        identity = server.identify(bearer(token)).identity
        assert identity is not None
        assert (identity.subject, identity.how) == ("ana", "session")
    assert refused(other, bearer(token))
    short = guard(path, session_lifetime=600.0)
    brief = short.log_in("ana", PASSWORD).answer
    assert brief is not None
    assert not refused(short, bearer(brief))
    end = time.time() + 600.0
    with monkeypatch.context() as later:
        later.setattr(time, "time", lambda: end)
        with pytest.raises(NotAuthenticatedError, match="has expired"):
            short.identify(bearer(brief))
    lines = path.read_text().splitlines()
    lines = [
        f'password = "{hash_password("new")}"' if line.startswith("password") else line for line in lines
    ]
    path.write_text("\n".join(lines))
    assert refused(first, bearer(token))
    assert first.log_in("ana", "new").answer
    with pytest.raises(NotAuthenticatedError):
        first.log_in("ana", PASSWORD)


def test_no_flipped_bit_of_a_session_passes(path: Path) -> None:
    """T2: every bit, but the unused ones at the end."""
    guarded = guard(path)
    token = guarded.log_in("ana", PASSWORD).answer
    assert token is not None
    for index in range(len(token) - 1):
        for bit in range(7):
            flipped = f"{token[:index]}{chr(ord(token[index]) ^ 1 << bit)}{token[index + 1 :]}"
            assert refused(guarded, bearer(flipped)), (index, bit)


def test_a_removed_key_ends_its_tokens(tmp_path: Path) -> None:
    """T2: web tokens that were accepted before are refused when their key leaves the set."""
    old, new = Issuer.make("EdDSA", "old"), Issuer.make("ES256", "new")
    write_key_set(tmp_path / "keys.json", old, new)
    settings = Settings(
        "/", jwt_key_file=str(tmp_path / "keys.json"), jwt_issuer=ISSUER, jwt_audience=AUDIENCE
    )
    guarded = Authenticator(settings, b"key of the server")
    token = old.token(roles="a b")
    identity = guarded.identify(bearer(token)).identity
    assert identity is not None
    assert identity.roles == {"a", "b"}
    assert identity.claims["iss"] == ISSUER
    write_key_set(tmp_path / "keys.json", new)
    assert refused(guarded, bearer(token))
    assert not refused(guarded, bearer(new.token(exp=int(time.time()) + 600)))


def test_wrong_passwords_take_as_long_for_nobody(path: Path) -> None:
    """T2: the time tells neither whether an account exists nor whether it has a password.

    The time is that of a processor, which other processes of a busy machine do not lengthen.
    """
    accounts = Accounts.load(str(path))

    def seconds(subject: str) -> float:
        times = []
        for _ in range(5):
            began = time.thread_time()
            assert accounts.of_password(subject, "wrong") is None
            times.append(time.thread_time() - began)
        return min(times)

    measured = [seconds(subject) for subject in ("ana", "ben", "nobody")]
    assert max(measured) < 3 * min(measured), measured


def test_secrets_are_not_shown(path: Path) -> None:
    """T46."""
    guarded = guard(path)
    caller = guarded.log_in("ana", PASSWORD)
    assert caller.answer is not None
    assert caller.answer not in repr(caller)
    assert "sha256" not in repr(Accounts.load(str(path)).of_subject("ana"))
    for headers in (bearer(OTHER_TOKEN + "x"), {"authorization": [f"{TOKEN} x"]}):
        with pytest.raises(NotAuthenticatedError) as caught:
            guarded.identify(headers)
        assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "no TOML"),
        ("[[acount]]\nsubject = 'a'", "acount"),
        ("[[account]]\nroles = []", "subject"),
        ("[[account]]\nsubject = ''", "subject"),
        ("[[account]]\nsubject = 'a'\n[[account]]\nsubject = 'a'", "there twice"),
        ("[[account]]\nsubject = 'a'\ntokens = ['in clear']", "sha256:"),
        ("[[account]]\nsubject = 'a'\npassword = 'in clear'", "scrypt:"),
        ("[[account]]\nsubject = 'a'\ntoken = 'x'", "token"),
    ],
)
def test_files_of_accounts_that_cannot_be_used(path: Path, text: str, message: str) -> None:
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=message) as caught:
        Accounts.load(str(path))
    assert "in clear" not in str(caught.value)
    assert str(path) in str(caught.value)
