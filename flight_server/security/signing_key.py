"""Key of a server: it signs tickets and the tokens of sessions.

Everybody who knows the key can forge both. So a server never signs with a key that is part of the program:
without a configured key it makes a random one. In a local root the key is kept in a file, so that all servers
of the root share it and a restart keeps tickets valid. In an object store the key would be readable for
everybody who may read the data, so it stays in memory.
"""

import errno
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field

from flight_server.configuration.values import MINIMUM_KEY_BYTES
from flight_server.settings import Settings
from lance_core.api.serving import scheme_of
from lance_core.errors import InvalidInputError, StorageError

FILE_NAME = ".lance-flight-key"
"""Name of the file in a local root. Names of datasets begin with a letter or a digit."""

_RANDOM_BYTES = 32


@dataclass(frozen=True)
class SigningKey:
    """Key with its origin."""

    key: bytes = field(repr=False)
    origin: str
    """`settings`, `root` (a file that servers of the same local root share) or `memory`."""


def signing_key(settings: Settings) -> SigningKey:
    """Return the key that a server signs with; the file in a local root is made if it is missing.

    Raises:
        InvalidInputError: the file in the root belongs to another user, or others may read it, or it is no
            key; or there are peers, and no key that they could have, too.
    """
    if settings.signing_key is not None:
        return SigningKey(settings.signing_key, "settings")
    if scheme_of(settings.root) == "file":
        key = _shared(os.path.join(settings.root, FILE_NAME))
        if key is not None:
            return SigningKey(key, "root")
    if settings.peers:
        raise InvalidInputError(
            "servers with peers need a common signing key; give all of them the same --signing-key-file"
        )
    return SigningKey(secrets.token_bytes(_RANDOM_BYTES), "memory")


def _shared(path: str) -> bytes | None:
    """Return the key in a file, which is made if it is missing; None if nobody may write there."""
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    temporary = f"{path}.{secrets.token_hex(8)}"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(_RANDOM_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())  # a power failure must not leave the name without the key
        # The first of several servers that start together decides.
        with suppress(FileExistsError):
            os.link(temporary, path)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return None
        raise StorageError(f"the signing key cannot be kept in the root: {error.strerror}") from error
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    return _read(path)


def _read(path: str) -> bytes:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InvalidInputError(f"the signing key {path} cannot be read: {error.strerror}") from None
    with open(opened, "rb") as file:
        status = os.fstat(opened)
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InvalidInputError(
                f"the signing key {path} belongs to another user, or others may read it; remove the file, "
                "and the next start makes another key, or name a file of your own with --signing-key-file"
            )
        key = file.read().strip()
    if len(key) < MINIMUM_KEY_BYTES:
        raise InvalidInputError(f"the signing key {path} is damaged; remove the file")
    return key
