"""JSON Web Tokens: which pass, and with which keys."""

from __future__ import annotations

import base64
import hmac
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from flight_server.errors import NotAuthenticatedError
from flight_server.security.web_tokens import WebTokens, load_keys
from lance_core.errors import InvalidInputError
from support.servers.tokens import AUDIENCE, ISSUER, Issuer, write_key_set

ALGORITHMS = ("EdDSA", "ES256", "RS256", "HS256")


@pytest.fixture(scope="module")
def issuers() -> dict[str, Issuer]:
    return {algorithm: Issuer.make(algorithm, f"{algorithm}-1") for algorithm in ALGORITHMS}


def checks(path: Path, **settings: Any) -> WebTokens:
    return WebTokens(
        load_keys(str(path)), **{"issuer": ISSUER, "audience": AUDIENCE, "leeway": 30.0, **settings}
    )


@pytest.fixture
def all_keys(tmp_path: Path, issuers: dict[str, Issuer]) -> WebTokens:
    write_key_set(tmp_path / "keys.json", *issuers.values())
    return checks(tmp_path / "keys.json")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_kind_of_key(all_keys: WebTokens, issuers: dict[str, Issuer], algorithm: str) -> None:
    assert all_keys.claims_of(issuers[algorithm].token(roles=["a"]))["roles"] == ["a"]


def test_keys_are_rotated_by_their_id(tmp_path: Path) -> None:
    """T2: two keys beside each other, then only the new one."""
    old, new = Issuer.make("EdDSA", "old"), Issuer.make("EdDSA", "new")
    write_key_set(tmp_path / "keys.json", old, new)
    both = checks(tmp_path / "keys.json")
    assert both.claims_of(old.token())["sub"] == both.claims_of(new.token())["sub"] == "ana"
    write_key_set(tmp_path / "keys.json", new)
    with pytest.raises(NotAuthenticatedError, match="unknown key 'old'"):
        checks(tmp_path / "keys.json").claims_of(old.token())
    # Without an id, the only key decides.
    unnamed = jwt.encode(jwt.decode(new.token(), options={"verify_signature": False}), new.key, "EdDSA")
    assert checks(tmp_path / "keys.json").claims_of(unnamed)["sub"] == "ana"
    with pytest.raises(NotAuthenticatedError, match="names no key"):
        both.claims_of(unnamed)


def test_a_pem_is_a_key_without_an_id(tmp_path: Path, issuers: dict[str, Issuer]) -> None:
    issuer = issuers["RS256"]
    pem = issuer.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(pem)
    assert checks(tmp_path / "key.pem").claims_of(issuer.token())["sub"] == "ana"


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def test_bad_claims(all_keys: WebTokens, issuers: dict[str, Issuer]) -> None:
    """T2: a token of another issuer or audience, expired, not valid yet or incomplete is refused."""
    now, issuer = int(time.time()), issuers["EdDSA"]
    assert all_keys.claims_of(issuer.token(exp=now - 5))  # within the leeway
    with pytest.raises(NotAuthenticatedError, match="has expired"):
        all_keys.claims_of(issuer.token(exp=now - 31))
    for claims in (
        {"iss": "https://other.example"},
        {"iss": None},
        {"aud": "other"},
        {"aud": None},
        {"aud": []},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": now + 60},
        {"iat": now + 600},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
    ):
        with pytest.raises(NotAuthenticatedError, match="not valid"):
            all_keys.claims_of(issuer.token(**claims))
    assert all_keys.claims_of(issuer.token(aud=["other", AUDIENCE]))


def test_the_key_fixes_the_algorithm(tmp_path: Path, issuers: dict[str, Issuer]) -> None:
    """T2: no `none`, no public key as a shared secret, no other algorithm than that of the key."""
    issuer = issuers["RS256"]
    write_key_set(tmp_path / "keys.json", issuer)
    only = checks(tmp_path / "keys.json")
    header, payload, signature = issuer.token().split(".")
    public = issuer.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    confused_header = part({"alg": "HS256", "typ": "JWT", "kid": issuer.key_id})
    signed = f"{confused_header}.{payload}"
    confused = hmac.digest(public, signed.encode(), "sha256")
    for token in (
        f"{part({'alg': 'none', 'kid': issuer.key_id})}.{payload}.",
        f"{part({'alg': 'None', 'kid': issuer.key_id})}.{payload}.{signature}",
        f"{signed}.{base64.urlsafe_b64encode(confused).decode().rstrip('=')}",
        f"{part({'alg': 'RS512', 'kid': issuer.key_id})}.{payload}.{signature}",
        f"{header}.{part({'sub': 'root'})}.{signature}",
        f"{header}.{payload}.",
        f"{header}.{payload}",
        f"{part({'alg': 'RS256', 'kid': {'a': 1}})}.{payload}.{signature}",
        f"{part({'alg': 'RS256', 'kid': issuer.key_id, 'crit': ['x']})}.{payload}.{signature}",
        f"{part([1])}.{payload}.{signature}",
        "..",
        "",
        "[" * 4000 + "..",
    ):
        with pytest.raises(NotAuthenticatedError):
            only.claims_of(token)


@pytest.mark.parametrize("algorithm", ["EdDSA", "HS256"])
def test_no_flipped_bit_passes(all_keys: WebTokens, issuers: dict[str, Issuer], algorithm: str) -> None:
    """T2: every bit of a token, but the unused ones at the end of a part."""
    token = issuers[algorithm].token().encode()
    ends = {index - 1 for index, byte in enumerate(token) if byte == ord(".")} | {len(token) - 1}
    for index in set(range(len(token))) - ends:
        for bit in range(7):
            flipped = bytes([*token[:index], token[index] ^ 1 << bit, *token[index + 1 :]]).decode()
            with pytest.raises(NotAuthenticatedError) as caught:
                all_keys.claims_of(flipped)
            assert flipped not in str(caught.value)


def test_key_files_that_cannot_be_used(tmp_path: Path, issuers: dict[str, Issuer]) -> None:
    weak = rsa.generate_private_key(65537, 1024).public_key()
    pem = weak.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    jwk = issuers["EdDSA"].public()
    for content, message in (
        (b"", "neither a JWK set nor"),
        (b"{", "neither a JWK set nor"),
        (b"{}", "neither a JWK set nor"),
        (b'{"keys": []}', "found none"),
        (b'{"keys": 3}', "neither a JWK set nor"),
        (json.dumps({"keys": [{**jwk, "use": "enc"}]}).encode(), "found none"),
        (json.dumps({"keys": [jwk, jwk]}).encode(), "`kid`"),
        (json.dumps({**issuers["RS256"].public(), "alg": "PS1"}).encode(), "neither|another kind"),
        (b'{"kty": "oct", "k": "c2hvcnQ"}', "a secret of 5 bytes"),
        (pem, "1024 bits"),
    ):
        (tmp_path / "keys").write_bytes(content)
        with pytest.raises(InvalidInputError, match=message):
            load_keys(str(tmp_path / "keys"))
    with pytest.raises(InvalidInputError, match="No such file"):
        load_keys(str(tmp_path / "missing"))
