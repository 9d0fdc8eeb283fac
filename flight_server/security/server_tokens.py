"""Tokens with which servers of one root ask each other whether they are ready.

    lfp_<expires>.<signature>      expires in seconds since the epoch; the signature in hexadecimal digits

The key of the signature is derived from the signing key, which all servers of the root share.
"""

import hmac
import time

PREFIX = "lfp_"
"""Begin of the token of a server, which no other kind of token has."""

SUBJECT = "lance-flight server"
"""Subject of a server that asks another one."""

LIFETIME_SECONDS = 60
"""The clocks of two servers may differ by less than this."""


def server_token(signing_key: bytes) -> str:
    """Return a token that is valid from now on for `LIFETIME_SECONDS`."""
    expires = str(int(time.time()) + LIFETIME_SECONDS)
    return f"{PREFIX}{expires}.{_signature(signing_key, expires)}"


def expiry_of(token: str, signing_key: bytes) -> int | None:
    """Return the time at which a token ends; None if a server with another key made it."""
    expires, _, signature = token.removeprefix(PREFIX).partition(".")
    expected = _signature(signing_key, expires)
    if not hmac.compare_digest(signature.encode("utf-8", "replace"), expected.encode()):
        return None
    return int(expires)


def key_id(signing_key: bytes) -> str:
    """Return a name of the key that says nothing about it. Equal keys have equal names."""
    return hmac.digest(signing_key, b"id of the signing key", "sha256").hex()[:16]


def _signature(signing_key: bytes, expires: str) -> str:
    key = hmac.digest(signing_key, b"tokens of servers", "sha256")
    return hmac.digest(key, expires.encode("utf-8", "replace"), "sha256").hex()
