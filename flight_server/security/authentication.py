"""Authentication: from the headers of a call to the identity of its caller."""

import base64
import binascii
import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flight_server.errors import NotAuthenticatedError
from flight_server.security import server_tokens
from flight_server.security.accounts import Account, Accounts
from flight_server.security.identity import Identity
from flight_server.security.sessions import PREFIX, Sessions
from flight_server.security.watched import WatchedFiles
from flight_server.settings import Settings

AUTHORIZATION = "authorization"
HANDSHAKE_TOKEN = "auth-token-bin"
"""Header of clients that did the older form of the handshake."""

MAXIMUM_CREDENTIAL_BYTES = 8192

_MOST_REMEMBERED = 4096
_PASSWORDS_AT_A_TIME = 2
"""Each takes 16 MiB and 50 ms: more at a time would let anybody occupy the machine."""

_PASSWORD_SECONDS = 300.0
"""Seconds for which a right password is remembered; some clients send it with every call."""


@dataclass(frozen=True)
class Caller:
    """Result of a look at the headers of a call."""

    identity: Identity | None
    """None: the headers have no credentials, and the certificate of the connection tells who calls."""
    answer: str | None = field(default=None, repr=False)
    """Token that the client gets for its password."""


@dataclass(frozen=True)
class _Known:
    """Credentials that were checked before."""

    identity: Identity
    expires: float
    account: Account | None = None
    """Account of a password."""


class Authenticator:
    """Identities of the callers of one server. Thread-safe; reads its files again when they change."""

    def __init__(self, settings: Settings, signing_key: bytes) -> None:
        """Raise InvalidInputError if a file cannot be used."""
        self._settings = settings
        self._signing_key = signing_key
        self._sessions = Sessions(signing_key, settings.session_lifetime)
        self._passwords = threading.Semaphore(_PASSWORDS_AT_A_TIME)
        files = [path for path in (settings.accounts_file, settings.jwt_key_file) if path is not None]
        self._files = WatchedFiles(files, self._load)
        self._load()

    @property
    def takes_passwords(self) -> bool:
        """Whether the Handshake RPC is of use.

        A server that asks for certificates has no Handshake: with it pyarrow would not tell whose certificate
        a client has. Passwords in the header of any call work there, too.
        """
        return self._settings.accounts_file is not None and self._settings.tls_client_ca is None

    def identify(self, headers: Mapping[str, Sequence[str | bytes]]) -> Caller:
        """Return the caller that the headers name; their names are in lower case.

        Raises:
            NotAuthenticatedError: there are no credentials, several, or some that are not accepted.
        """
        given = headers.get(AUTHORIZATION, ())
        older = headers.get(HANDSHAKE_TOKEN, ())
        if not given and not older:
            if self._settings.tls_client_ca is not None:
                return Caller(None)
            raise NotAuthenticatedError("the call has no credentials")
        if len(given) + len(older) != 1:
            raise NotAuthenticatedError("the call has several credentials, expected one")
        credential = given[0] if given else b"Bearer " + _as_bytes(older[0])
        text = credential if isinstance(credential, str) else credential.decode("utf-8", "replace")
        if len(text) > MAXIMUM_CREDENTIAL_BYTES:
            raise NotAuthenticatedError("the credentials are too long")
        return self._identify(text)

    def log_in(self, username: str, password: str) -> Caller:
        """Return the caller of a handshake with its new token.

        Raises:
            NotAuthenticatedError: the password is wrong, or there is no such account.
        """
        if len(username) + len(password) > MAXIMUM_CREDENTIAL_BYTES:
            raise NotAuthenticatedError("the credentials are too long")
        return self._identify("Basic " + base64.b64encode(f"{username}:{password}".encode()).decode())

    def reload(self) -> None:
        """Read the files again, whether they changed or not. Files that cannot be used change nothing."""
        self._files.reload()

    def _identify(self, credential: str) -> Caller:
        self._files.look()
        remembered = self._remembered
        key = hashlib.sha256(credential.encode("utf-8", "surrogateescape")).digest()
        known = remembered.get(key)
        if known is None or known.expires <= time.time():
            known = self._check(credential)
            if len(remembered) >= _MOST_REMEMBERED:
                remembered.clear()
            remembered[key] = known
        answer = self._sessions.begin(known.account) if known.account is not None else None
        return Caller(known.identity, answer)

    def _check(self, credential: str) -> _Known:
        scheme, _, value = credential.partition(" ")
        if scheme.lower() == "bearer":
            known = self._check_token(value)
        elif scheme.lower() == "basic":
            known = self._check_password(value)
        else:
            raise NotAuthenticatedError("the credentials are neither a bearer token nor a password")
        if known.expires <= time.time():
            raise NotAuthenticatedError("the token has expired")
        return known

    def _check_token(self, token: str) -> _Known:
        if token.startswith(PREFIX):
            session = self._sessions.account_of(token, self._accounts)
            if session is not None:
                account, expires = session
                return _Known(Identity(account.subject, account.roles, how="session"), expires)
        elif token.startswith(server_tokens.PREFIX):
            ends = server_tokens.expiry_of(token, self._signing_key)
            if ends is not None:
                return _Known(Identity(server_tokens.SUBJECT, how="server"), ends)
        elif self._web_token_claims is not None and token.count(".") == 2:
            claims = self._web_token_claims(token)
            identity = Identity(claims["sub"], self._roles(claims), claims, "jwt")
            return _Known(identity, claims["exp"] + self._settings.jwt_leeway)
        else:
            found = self._accounts.of_token(token)
            if found is not None:
                return _Known(Identity(found.subject, found.roles, how="token"), float("inf"))
        raise NotAuthenticatedError("the token is not valid")

    def _check_password(self, value: str) -> _Known:
        try:
            padded = value + "=" * (-len(value) % 4)  # the clients in Go leave the padding out
            username, colon, password = base64.b64decode(padded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError, ValueError):
            colon = username = password = ""
        if colon:
            with self._passwords:
                account = self._accounts.of_password(username, password)
            if account is not None:
                identity = Identity(account.subject, account.roles, how="password")
                return _Known(identity, time.time() + _PASSWORD_SECONDS, account)
        raise NotAuthenticatedError("the user name or the password is wrong")

    def _roles(self, claims: Mapping[str, Any]) -> frozenset[str]:
        given = claims.get(self._settings.jwt_roles_claim, ())
        roles = given.split() if isinstance(given, str) else given
        if not isinstance(roles, list | tuple):
            return frozenset()
        return frozenset(role for role in roles if isinstance(role, str))

    def _load(self) -> None:
        """Read the files, and forget what older ones proved."""
        settings = self._settings
        accounts = Accounts({}) if settings.accounts_file is None else Accounts.load(settings.accounts_file)
        claims = None if settings.jwt_key_file is None else _claims_of(settings, settings.jwt_key_file)
        self._accounts: Accounts = accounts
        self._web_token_claims: Callable[[str], Mapping[str, Any]] | None = claims
        self._remembered: dict[bytes, _Known] = {}


def _claims_of(settings: Settings, path: str) -> Callable[[str], Mapping[str, Any]]:
    # Most servers need neither PyJWT nor cryptography, which take long to import.
    from flight_server.security.web_tokens import WebTokens, load_keys

    return WebTokens(
        load_keys(path),
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        leeway=settings.jwt_leeway,
    ).claims_of


def _as_bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
