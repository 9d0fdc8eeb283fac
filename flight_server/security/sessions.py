"""Session tokens: what a client gets for its password, so that the password travels once.

    lfs_<payload>.<signature>      both base64url; the payload is one JSON object

Servers with the same signing key and the same accounts accept each other's tokens.
"""

import base64
import hashlib
import hmac
import json
import time

from flight_server.security.accounts import Account, Accounts

PREFIX = "lfs_"
"""Begin of a session token, which no other kind of token has."""


class Sessions:
    """Session tokens of one server. Thread-safe."""

    def __init__(self, server_key: bytes, lifetime: float) -> None:
        """Sign with a key derived from that of the server; tokens end after `lifetime` seconds."""
        self._key = hmac.digest(server_key, b"session tokens", "sha256")
        self._lifetime = lifetime

    def begin(self, account: Account) -> str:
        """Return a token for an account whose password was right."""
        payload = {
            "subject": account.subject,
            "expires": time.time() + self._lifetime,
            "password": _fingerprint(account),
        }
        text = _encode(json.dumps(payload, separators=(",", ":")).encode())
        return f"{PREFIX}{text}.{_encode(self._sign(text))}"

    def account_of(self, token: str, accounts: Accounts) -> tuple[Account, float] | None:
        """Return the account of a token and the time at which the token ends, in seconds since the epoch.

        None: the token was not made by a server with this key, or the password has changed since. The
        caller checks the time.
        """
        text, _, signature = token.removeprefix(PREFIX).partition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), _encode(self._sign(text)).encode()):
            return None
        payload = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        account = accounts.of_subject(payload["subject"])
        if account is None or payload["password"] != _fingerprint(account):
            return None
        return account, payload["expires"]

    def _sign(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode("utf-8", "replace"), "sha256")


def _fingerprint(account: Account) -> str:
    """Return what changes with the password of an account."""
    return hashlib.sha256((account.password or "").encode()).hexdigest()[:16]


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
