"""Credentials of a client: the header that proves who calls, and what to do when a server refuses it."""

from __future__ import annotations

import base64
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from flight_client.errors import InvalidInputError

HEADER = "authorization"
_BEARER = "Bearer "


@dataclass(frozen=True)
class Proof:
    """Token, file of a token, or user name and password. At most one of them. Can be pickled."""

    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    """File with the token. It is read in the process that calls, and again when it changes."""
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        given = [name for name in ("token", "token_file", "username") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidInputError(f"{' and '.join(given)}: expected one of them")
        if (self.username is None) != (self.password is None):
            raise InvalidInputError("username and password: expected both, found one of them")

    @property
    def is_given(self) -> bool:
        """Whether there is anything to send."""
        return any(each is not None for each in (self.token, self.token_file, self.username))


class Credentials:
    """Header of the calls to one server. Thread-safe.

    A password is sent with the first call. The server answers it with a token, which the next calls send.
    """

    def __init__(self, proof: Proof) -> None:
        self._proof = proof
        self._lock = threading.Lock()
        self._session: str | None = None
        self._read_at: tuple[object, ...] | None = None
        self._read = ""

    def header(self) -> str | None:
        """Return the value of the header; None: the client sends no credentials.

        Raises:
            InvalidInputError: the file of the token cannot be read.
        """
        proof = self._proof
        if proof.token is not None:
            return _BEARER + proof.token
        if proof.token_file is not None:
            return _BEARER + self._token_of(proof.token_file)
        if proof.username is not None:
            return self._session or _basic(proof.username, proof.password or "")
        return None

    def learn(self, answer: str, sent: str | None) -> None:
        """Keep the token that a server answered to a password."""
        if self._proof.username is not None and answer.startswith(_BEARER) and sent is not None:
            self._session = answer

    def renew(self, refused: str | None) -> bool:
        """Return whether another header can be sent than the one that a server refused."""
        with self._lock:
            if self._session is not None and self._session == refused:
                self._session = None
            self._read_at = None
        return self.header() != refused

    def _token_of(self, path: str) -> str:
        try:
            status = os.stat(path)
            read_at = (status.st_ino, status.st_size, status.st_mtime_ns)
            with self._lock:
                if read_at != self._read_at:
                    self._read = Path(path).read_text(encoding="utf-8").strip()
                    self._read_at = read_at
                return self._read
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8"
            raise InvalidInputError(f"the token file {path} cannot be read: {reason}") from None


def _basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
