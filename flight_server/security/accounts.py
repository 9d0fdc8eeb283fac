"""Accounts: subjects with their roles, and the hashes of their tokens and passwords, in a TOML file.

    [[account]]
    subject = "ana"
    roles = ["analyst"]
    tokens = ["sha256:..."]
    password = "scrypt:..."

The file holds nothing that opens a server. Tokens are long and random, so one hash without salt is enough for
them and makes them quick to check. Passwords are neither, so their hash has salt and takes long on purpose.
"""

import base64
import hashlib
import hmac
import re
import secrets
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flight_server.requests.json_fields import check_fields, list_of, string
from lance_core.errors import InvalidInputError

MINIMUM_TOKEN_CHARACTERS = 16
_TOKEN_PREFIX = "lft_"
"""Begin of tokens that this program makes; programs that search for leaked secrets look for it."""

_N, _R, _P = 1 << 14, 8, 1
"""Costs of scrypt: 16 MiB and about 50 ms."""

_SALT_BYTES = 16
_TOKEN_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_PASSWORD_HASH = re.compile(r"scrypt:([A-Za-z0-9+/=]{24}):([A-Za-z0-9+/=]{88})")


@dataclass(frozen=True)
class Account:
    """A subject, and what it may prove itself with."""

    subject: str
    roles: frozenset[str] = frozenset()
    tokens: tuple[str, ...] = field(default=(), repr=False)
    password: str | None = field(default=None, repr=False)


class Accounts:
    """The accounts of one file."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._by_subject = accounts
        self._by_token = {token: each for each in accounts.values() for token in each.tokens}
        # A password of a subject that does not exist takes as long as a wrong one.
        self._nobody = hash_password(secrets.token_hex(16))

    @staticmethod
    def load(path: str) -> "Accounts":
        """Read a file of accounts.

        Raises:
            InvalidInputError: the file cannot be read, or an account is incomplete. The message names the
                file and the field.
        """
        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
            found: dict[str, Account] = {}
            for account in _parse(content):
                if account.subject in found:
                    raise InvalidInputError(f"account {account.subject!r} is there twice")
                found[account.subject] = account
        except InvalidInputError as error:
            raise InvalidInputError(f"the accounts {path}: {error}") from None
        except OSError as error:
            raise InvalidInputError(f"the accounts {path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InvalidInputError(f"the accounts {path} cannot be read: not UTF-8") from None
        except tomllib.TOMLDecodeError as error:
            raise InvalidInputError(f"the accounts {path} are no TOML: {error}") from None
        return Accounts(found)

    def of_subject(self, subject: str) -> Account | None:
        """Return the account of a subject."""
        return self._by_subject.get(subject)

    def of_token(self, token: str) -> Account | None:
        """Return the account that a token belongs to.

        The time of the search tells about the hash of what was sent, from which nobody can find a token.
        """
        return self._by_token.get(hash_token(token))

    def of_password(self, subject: str, password: str) -> Account | None:
        """Return the account of a subject if this is its password. Takes the same time if not."""
        account = self._by_subject.get(subject)
        known = account.password if account is not None else None
        is_right = _is_password(password, known or self._nobody)
        return account if is_right and known is not None else None


def make_token() -> str:
    """Return a new token of 256 random bits."""
    return _TOKEN_PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """Return the hash under which a file of accounts knows a token."""
    return "sha256:" + hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def hash_password(password: str) -> str:
    """Return a hash of a password, different each time."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return f"scrypt:{_base64(salt)}:{_base64(_scrypt(password, salt))}"


def _is_password(password: str, known: str) -> bool:
    match = _PASSWORD_HASH.fullmatch(known)
    assert match is not None  # checked when the file was read
    salt, expected = map(base64.b64decode, match.groups())
    return hmac.compare_digest(_scrypt(password, salt), expected)


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogateescape"), salt=salt, n=_N, r=_R, p=_P, maxmem=64 << 20
    )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _parse(content: Mapping[str, object]) -> Iterator[Account]:
    given = check_fields("accounts", dict(content), {"account": list_of(_account)}, required=())
    yield from given.get("account", [])


def _account(name: str, value: object) -> Account:
    fields = check_fields(
        name,
        value,
        {
            "subject": _subject,
            "roles": list_of(string),
            "tokens": list_of(_token_hash),
            "password": _password_hash,
        },
        required=("subject",),
    )
    return Account(
        fields["subject"],
        frozenset(fields.get("roles", ())),
        tuple(fields.get("tokens", ())),
        fields.get("password"),
    )


def _subject(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"{name}: expected a name")
    return value


def _token_hash(name: str, value: object) -> str:
    if not isinstance(value, str) or not _TOKEN_HASH.fullmatch(value):
        raise InvalidInputError(f"{name}: expected sha256:... as `lance-flight token hash` prints it")
    return value


def _password_hash(name: str, value: object) -> str:
    if not isinstance(value, str) or not _PASSWORD_HASH.fullmatch(value):
        raise InvalidInputError(
            f"{name}: expected scrypt:... as `lance-flight token hash --password` prints it"
        )
    return value
