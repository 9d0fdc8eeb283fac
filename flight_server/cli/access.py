"""Options of all verbs with a TARGET: the credentials of the caller, and the certificates of the server.

Secrets come from files and from the environment, never from the command line, which every user of the machine
can read. So there is no option for a token or a password itself.
"""

import base64
import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import typer
from pyarrow import flight

from flight_server.cli.added_options import add_options
from lance_core.errors import InvalidInputError

_PREFIX = "LANCE_FLIGHT_"
_PANEL = "Server"


@dataclass(frozen=True)
class Access:
    """Options and variables about the server that a verb asks."""

    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls_root_certs: str | None = None
    tls_client_cert: str | None = None
    tls_client_key: str | None = None
    tls_hostname: str | None = None
    tls_skip_verify: bool = False

    @property
    def authorization(self) -> str | None:
        """Value of the header `authorization`. Raises InvalidInputError if several credentials are given."""
        given = [name for name in ("token", "token_file", "username") if getattr(self, name)]
        if len(given) > 1:
            raise InvalidInputError(f"{' and '.join(given)}: expected one of them")
        if self.token:
            return f"Bearer {self.token}"
        if self.token_file:
            return f"Bearer {_read(self.token_file).decode().strip()}"
        if self.username:
            if self.password is None:
                raise InvalidInputError(f"the password of {self.username} is missing: {_PREFIX}PASSWORD")
            return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        return None

    def connect(self, uri: str) -> flight.FlightClient:
        """Return a client; a file that cannot be read raises InvalidInputError."""
        authorization = self.authorization
        return flight.connect(
            uri,
            tls_root_certs=_read(self.tls_root_certs) if self.tls_root_certs else None,
            cert_chain=_read(self.tls_client_cert) if self.tls_client_cert else None,
            private_key=_read(self.tls_client_key) if self.tls_client_key else None,
            override_hostname=self.tls_hostname,
            disable_server_verification=self.tls_skip_verify,
            middleware=[] if authorization is None else [_Authorization(authorization)],
        )


access: ContextVar[Access] = ContextVar("access")
"""Access of the verb that runs."""


def with_access(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a command of `verb` that has the options of `Access` besides its own."""

    def command(**values: Any) -> None:
        access.set(_resolve({name: values.pop(name) for name in _OPTIONS}))
        verb(**values)

    return add_options(command, verb, _OPTIONS)


def _resolve(options: Mapping[str, Any]) -> Access:
    """Return what options give, and else variables. An option for the proof replaces all its variables."""
    given = {name: value for name, value in options.items() if value}
    proof = ("token", "token_file", "username")
    for each in fields(Access):
        text = os.environ.get(_PREFIX + each.name.upper())
        is_replaced = each.name in proof and any(name in given for name in proof)
        if text and each.name not in given and not is_replaced:
            given[each.name] = text.lower() in ("true", "1") if each.name == "tls_skip_verify" else text
    return Access(**given)


def _option(help_: str) -> Any:
    return Annotated[str | None, typer.Option(help=help_, rich_help_panel=_PANEL)]


_OPTIONS: Mapping[str, Any] = {
    "token_file": _option("File with the token; or LANCE_FLIGHT_TOKEN."),
    "username": _option("User name; the password is LANCE_FLIGHT_PASSWORD."),
    "tls_root_certs": _option("Certificates that the server is checked with, PEM."),
    "tls_client_cert": _option("Certificate of this client, PEM."),
    "tls_client_key": _option("Key of this client, PEM."),
    "tls_hostname": _option("Name that the server's certificate must have, if not that in the address."),
    "tls_skip_verify": Annotated[
        bool | None,
        typer.Option(
            "--tls-skip-verify", help="Accept every certificate of the server.", rich_help_panel=_PANEL
        ),
    ],
}


class _Authorization(flight.ClientMiddlewareFactory):  # type: ignore[misc]
    def __init__(self, value: str) -> None:
        self._value = value

    def start_call(self, info: flight.CallInfo) -> flight.ClientMiddleware:
        return _Header(self._value)


class _Header(flight.ClientMiddleware):  # type: ignore[misc]
    def __init__(self, value: str) -> None:
        self._headers = {"authorization": value}

    def sending_headers(self) -> Mapping[str, str]:
        return self._headers


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}") from None
