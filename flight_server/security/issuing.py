"""Issuing of JSON Web Tokens: keys in the form of JWKs, and tokens signed with them."""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from lance_core.errors import InvalidInputError

ALGORITHMS = ("EdDSA", "ES256", "RS256", "HS256")
_RSA_BITS = 3072
_SECRET_BYTES = 32
_PUBLIC = ("kty", "crv", "x", "y", "n", "e", "alg", "use", "kid")


def make_key(algorithm: str) -> dict[str, Any]:
    """Return a new private key as a JWK; its id is made from the key.

    Raises InvalidInputError if the algorithm is none of `ALGORITHMS`.
    """
    if algorithm not in ALGORITHMS:
        raise InvalidInputError(f"no algorithm {algorithm!r}; expected one of {', '.join(ALGORITHMS)}")
    key: Any
    if algorithm == "EdDSA":
        key = ed25519.Ed25519PrivateKey.generate()
    elif algorithm == "ES256":
        key = ec.generate_private_key(ec.SECP256R1())
    elif algorithm == "RS256":
        key = rsa.generate_private_key(65537, _RSA_BITS)
    else:
        key = secrets.token_bytes(_SECRET_BYTES)
    jwk: dict[str, Any] = dict(jwt.get_algorithm_by_name(algorithm).to_jwk(key, as_dict=True))
    jwk = {name: value for name, value in jwk.items() if name != "key_ops"}
    jwk |= {"alg": algorithm, "use": "sig"}
    public = {name: value for name, value in jwk.items() if name in _PUBLIC or algorithm == "HS256"}
    digest = hashlib.sha256(json.dumps(public, sort_keys=True).encode()).digest()
    return {**jwk, "kid": base64.urlsafe_b64encode(digest[:9]).decode()}


def public_key(jwk: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a server needs of a key to check tokens. A shared secret is all of it."""
    if jwk.get("kty") == "oct":
        return dict(jwk)
    return {name: value for name, value in jwk.items() if name in _PUBLIC}


def issue_token(
    jwk: Mapping[str, Any],
    *,
    subject: str,
    roles: Sequence[str],
    lifetime: float,
    issuer: str,
    audience: str,
) -> str:
    """Return a token that is valid for `lifetime` seconds from now.

    Raises InvalidInputError if `jwk` is no private key.
    """
    try:
        key = jwt.PyJWK(dict(jwk))
        now = int(time.time())
        claims = {"sub": subject, "iss": issuer, "aud": audience, "iat": now, "exp": int(now + lifetime)}
        if roles:
            claims["roles"] = list(roles)
        token: str = jwt.encode(claims, key.key, jwk["alg"], {"kid": jwk["kid"]})
    except (jwt.PyJWTError, KeyError, TypeError, ValueError, AttributeError):
        raise InvalidInputError("no private key as `lance-flight token make-key` makes it") from None
    return token


def claims_of(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the header and the claims of a token, without a look at its signature.

    Raises InvalidInputError if the text is no JSON Web Token; the message does not hold it.
    """
    try:
        decoded = jwt.decode_complete(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise InvalidInputError("the text is no JSON Web Token") from None
    return decoded["header"], decoded["payload"]
