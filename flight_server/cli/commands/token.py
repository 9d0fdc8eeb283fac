"""`lance-flight token`: keys and tokens for servers that ask who calls."""

import json
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from flight_server.cli.errors import stderr
from flight_server.security.accounts import MINIMUM_TOKEN_CHARACTERS, hash_password, hash_token, make_token
from lance_core.errors import InvalidInputError

token = typer.Typer(no_args_is_help=True, add_completion=False)

Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="File that only you can read; stdout if left out.")
]

_DURATION = re.compile(r"(\d+)([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


@token.command("make-key")
def make_key(
    path: Annotated[Path, typer.Argument(help="New file with the private key, which only you can read.")],
    algorithm: Annotated[
        str, typer.Option(help="EdDSA, ES256, RS256, or HS256 (a shared secret).")
    ] = "EdDSA",
    key_set: Annotated[
        Path | None,
        typer.Option(help="File of the server's `--jwt-key-file`; the public key is added to it."),
    ] = None,
) -> None:
    """Make a key that signs tokens, and let servers check tokens with it.

    To replace a key, add the new one to the set, issue tokens with it, and remove the old one from the set
    when its last token has expired.
    """
    from flight_server.security import issuing

    made = issuing.make_key(algorithm)
    keys = []
    if key_set is not None and key_set.exists():
        keys = _read_json(key_set)["keys"]
    _write_secret(path, json.dumps(made) + "\n")
    if key_set is not None:
        text = json.dumps({"keys": [*keys, issuing.public_key(made)]}, indent=2) + "\n"
        _replace(key_set, text, is_secret=any("k" in key for key in (made, *keys)))
    print(json.dumps({"kid": made["kid"], "alg": algorithm}))


@token.command()
def issue(
    path: Annotated[Path, typer.Argument(help="File with the private key, from `token make-key`.")],
    subject: Annotated[str, typer.Option(help="Name of the user or program.")],
    role: Annotated[list[str] | None, typer.Option(help="Role of the subject; repeatable.")] = None,
    lifetime: Annotated[str, typer.Option(help="How long the token is valid: 90s, 15m, 12h, 30d.")] = "1h",
    issuer: Annotated[str, typer.Option(help="The server's `jwt-issuer`.")] = "lance-flight",
    audience: Annotated[str, typer.Option(help="The server's `jwt-audience`.")] = "lance-flight",
    output: Output = None,
) -> None:
    """Make a JSON Web Token."""
    from flight_server.security import issuing

    match = _DURATION.fullmatch(lifetime)
    if match is None or int(match[1]) == 0:
        raise typer.BadParameter(f"not a time: {lifetime!r} (90s, 15m, 12h, 30d)", param_hint="--lifetime")
    seconds = int(match[1]) * _SECONDS[match[2]]
    made = issuing.issue_token(
        _read_json(path),
        subject=subject,
        roles=role or (),
        lifetime=seconds,
        issuer=issuer,
        audience=audience,
    )
    _write(output, made)


@token.command()
def make(output: Output = None) -> None:
    """Make a random token for a file of accounts; `token hash` gives its line."""
    _write(output, make_token())


@token.command("hash")
def hash_(
    password: Annotated[
        bool, typer.Option("--password", help="A password, which people choose; else a random token.")
    ] = False,
) -> None:
    """Print the hash of a token or a password, which is read from stdin, for a file of accounts."""
    if sys.stdin.isatty():
        stderr.print("Type or paste it, then press Enter:", markup=False)
    text = sys.stdin.readline().rstrip("\r\n")
    if not text:
        raise InvalidInputError("stdin is empty; expected a token or a password")
    if not password and len(text) < MINIMUM_TOKEN_CHARACTERS:
        raise InvalidInputError(
            f"a token of {len(text)} characters can be guessed; `lance-flight token make` makes one, and "
            "--password hashes a password"
        )
    print(hash_password(text) if password else hash_token(text))


@token.command()
def show(
    path: Annotated[Path | None, typer.Argument(help="File with the token; stdin if left out.")] = None,
) -> None:
    """Print what a JSON Web Token says, as one JSON object. Its signature is neither checked nor printed."""
    from flight_server.security import issuing

    text = _read(path) if path is not None else sys.stdin.readline()
    header, claims = issuing.claims_of(text.strip())
    told: dict[str, Any] = {"header": header, "claims": claims}
    for name in ("iat", "nbf", "exp"):
        if isinstance(claims.get(name), int | float):
            told[name] = datetime.fromtimestamp(claims[name], UTC).isoformat()
    print(json.dumps(told))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInputError(f"{path} cannot be read: not UTF-8") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(_read(path))
    except ValueError as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"{path} is no JSON") from None
    if not isinstance(content, dict):
        raise InvalidInputError(f"{path} is no JSON object")
    return content


def _write(output: Path | None, text: str) -> None:
    if output is None:
        print(text)
    else:
        _write_secret(output, text + "\n")


def _write_secret(path: Path, text: str) -> None:
    """Write a new file that nobody else can read. An existing file is not replaced: it may be in use."""
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}") from None
    with open(opened, "w", encoding="utf-8") as file:
        file.write(text)


def _replace(path: Path, text: str, *, is_secret: bool) -> None:
    """Replace a file at once: a server may read it at this moment."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if is_secret else 0o644)
        with open(opened, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}") from None
