"""Every setting of the server, resolved once into one frozen object.

Order: argument, then environment variable (`LANCE_FLIGHT_` and the upper-case field name), then the default
here. Nothing else in the package reads the environment.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from lance_core.api.serving import is_object_store
from lance_core.errors import InvalidInputError

ENVIRONMENT_PREFIX = "LANCE_FLIGHT_"

# Without a configured key tickets are signed with this one, so that every server of the same root redeems
# them, after a restart too. This key detects damaged tickets, but anybody can forge tickets with it. Set a
# key to prevent that.
WELL_KNOWN_TICKET_KEY = b"lance-flight: integrity only, not a secret"
MINIMUM_TICKET_KEY_BYTES = 16
MAXIMUM_STAGE_SECONDS = 3 * 24 * 3600

_FILES = {"ticket_key": "ticket key", "storage_options": "storage options"}
"""Settings that a file may hold, which the setting `..._file` names, and what they are called."""

_SIZE = re.compile(r"(\d+)\s*([KMGT]i?)?B?", re.IGNORECASE)
_SIZE_FACTOR = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZE_FACTOR |= {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}
_LOCATION_SCHEMES = ("grpc://", "grpc+tcp://", "grpc+tls://", "grpc+unix://")


def parse_bytes(text: str) -> int:
    """Return a size in bytes, 1 or more. The number may have a unit: `256MiB` (binary) or `2GB` (decimal).

    Raises InvalidInputError naming the text.
    """
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * _SIZE_FACTOR[(match[2] or "").lower()] if match else 0
    if size < 1:
        raise InvalidInputError(f"not a size in bytes: {text!r} (examples: 1048576, 256MiB, 2GB)")
    return size


def _parse_count(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < 1:
        raise InvalidInputError(f"not a positive count: {text!r}")
    return int(text)


def _parse_port(text: str) -> int:
    if not re.fullmatch(r"\d{1,5}", text) or int(text) > 65535:
        raise InvalidInputError(f"not a TCP port: {text!r} (0 takes any free one)")
    return int(text)


def _parse_seconds(text: str) -> float:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text):
        raise InvalidInputError(f"not a number of seconds: {text!r}")
    return float(text)


def _parse_stage_expiry(text: str) -> float:
    seconds = _parse_seconds(text)
    if not 0 < seconds <= MAXIMUM_STAGE_SECONDS:
        raise InvalidInputError(f"not more than 0 and at most {MAXIMUM_STAGE_SECONDS} seconds: {text!r}")
    return seconds


def _parse_switch(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise InvalidInputError(f"not a switch: {text!r} (true, false)")
    return text.lower() in ("true", "1")


def _parse_log_level(text: str) -> str:
    level = text.upper()
    if level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise InvalidInputError(f"not a log level: {text!r} (debug, info, warning, error)")
    return level


def _parse_locations(text: str) -> tuple[str, ...]:
    locations = tuple(part.strip() for part in text.split(",") if part.strip())
    for location in locations:
        if not location.startswith(_LOCATION_SCHEMES):
            raise InvalidInputError(f"not a Flight location: {location!r} (example: grpc://host:8815)")
    return locations


def _parse_directories(text: str) -> tuple[str, ...]:
    directories = tuple(part for part in text.split(os.pathsep) if part)
    for directory in directories:
        if not os.path.isdir(directory):
            raise InvalidInputError(f"not a directory: {directory!r}")
    return tuple(map(os.path.realpath, directories))


def _parse_cache_directory(text: str) -> str:
    path = os.path.realpath(text)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"not a directory for caches: {text!r} ({error.strerror})") from None
    return path


def _parse_key(text: str) -> bytes:
    key = text.encode()
    if len(key) < MINIMUM_TICKET_KEY_BYTES:
        raise InvalidInputError(
            f"the ticket key has {len(key)} bytes; it needs {MINIMUM_TICKET_KEY_BYTES} or more"
        )
    return key


def _parse_storage_options(text: str) -> tuple[tuple[str, str], ...]:
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
        raise InvalidInputError("not a JSON object of texts")  # and nothing of it, since it has secrets
    return tuple(options.items())


@dataclass(frozen=True)
class Given:
    """The given value of one setting."""

    text: str = field(repr=False)
    """May be a secret."""
    origin: str
    """Origin of the value: `--port`, `LANCE_FLIGHT_PORT`, `/run/secrets/key (--ticket-key-file)`."""


def given_settings(
    arguments: Mapping[str, str | None] | None = None, environment: Mapping[str, str] | None = None
) -> dict[str, Given]:
    """Return the settings that are not left to their defaults, by name; texts are not looked at yet.

    Args:
        arguments: texts of the command line by the names of `Settings`, None where one is not given; besides,
            `ticket_key_file` and `storage_options_file`, which come before what they stand for.
        environment: that of the process if None.

    Raises InvalidInputError for names that are no settings, and files that cannot be read.
    """
    texts = {name: text for name, text in (arguments or {}).items() if text is not None}
    environment = os.environ if environment is None else environment
    found: dict[str, Given] = {}
    for name in [each.name for each in fields(Settings) if "parse" in each.metadata]:
        for told in (f"{name}_file", name) if name in _FILES else (name,):
            variable = ENVIRONMENT_PREFIX + told.upper()
            if told in texts:
                given = Given(texts.pop(told), "--" + told.replace("_", "-"))
            elif variable in environment:
                given = Given(environment[variable], variable)
            else:
                continue
            if told != name:
                given = Given(_read_file(given.text, _FILES[name]), f"{given.text} ({given.origin})")
            found.setdefault(name, given)
    if texts:
        raise InvalidInputError(f"unknown settings: {', '.join(sorted(texts))}")
    return found


def _setting(default: Any, parse: Callable[[str], Any], *, secret: bool = False) -> Any:
    return field(default=default, repr=not secret, metadata={"parse": parse})


@dataclass(frozen=True)
class Settings:
    """Settings of one server process."""

    root: str
    """The served directory, resolved: absolute and without symbolic links. Or the URL of an object store."""
    host: str = _setting("127.0.0.1", str)
    port: int = _setting(8815, _parse_port)
    """0 takes any free port."""
    advertise: tuple[str, ...] = _setting((), _parse_locations)
    """Locations written into endpoints, comma separated in the environment; empty: the address the server
    is bound to.
    """
    memory_limit: int = _setting(512 << 20, parse_bytes)
    """Bytes that all streams together may use for read-ahead and caches."""
    max_streams: int = _setting(256, _parse_count)
    """Streams that may run at the same time; the next one is refused as retryable."""
    max_puts: int = _setting(32, _parse_count)
    """Uploads that may run at the same time; the next one is refused as retryable."""
    max_put_bytes: int = _setting(1 << 40, parse_bytes)
    """Decoded bytes that one upload may hold."""
    max_put_seconds: float = _setting(24 * 3600.0, _parse_seconds)
    """Seconds that one upload may take."""
    max_batch_bytes: int = _setting(256 << 20, parse_bytes)
    """Decoded bytes of one uploaded batch."""
    allow_unfinished_append: bool = _setting(False, _parse_switch)
    """Commit appends of clients that cannot send the finish message."""
    verify_checksums: bool = _setting(False, _parse_switch)
    """Hold the pages that scans read against their checksums, in files that have them."""
    stage_expiry: float = _setting(24 * 3600.0, _parse_stage_expiry)
    """Seconds after which what was staged and not committed is removed. Cleanups spare files of no version
    for 7 days, at least twice as long.
    """
    ticket_key: bytes = _setting(WELL_KNOWN_TICKET_KEY, _parse_key, secret=True)
    """Signs tickets; see `WELL_KNOWN_TICKET_KEY`. The setting `ticket_key_file` names a file that holds it.
    """
    ticket_lifetime: float = _setting(24 * 3600.0, _parse_seconds)
    """Seconds after which a ticket is refused."""
    allow_base: tuple[str, ...] = _setting((), _parse_directories)
    """Directories outside the root whose files tables may name as base paths, resolved; separated as in PATH
    in the environment.
    """
    cache_dir: str | None = _setting(None, _parse_cache_directory)
    """Directory for statistics of data files that filters found out, made if it is missing; servers may share
    it, and what is in it may be deleted at any time. None: they are kept in memory only.
    """
    cache_dir_limit: int = _setting(256 << 20, parse_bytes)
    """About how many bytes the cache directory may hold."""
    storage_options: tuple[tuple[str, str], ...] = _setting((), _parse_storage_options, secret=True)
    """Credentials and settings of the store of the root, a JSON object; see `lance_core.dataset`. What they
    leave out is taken from the store's own environment variables. The setting `storage_options_file` names a
    file that holds them.
    """
    drain_grace: float = _setting(30.0, _parse_seconds)
    """Seconds that running streams get to end after a stop signal."""
    log_level: str = _setting("INFO", _parse_log_level)

    @classmethod
    def resolve(
        cls,
        root: str,
        arguments: Mapping[str, str | None] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> "Settings":
        """Return the settings from command-line texts (None: not given), the environment and the defaults.

        Raises InvalidInputError naming the setting that cannot be used.
        """
        given = given_settings(arguments, environment)
        values: dict[str, Any] = {}
        for setting in fields(cls):
            if setting.name not in given:
                continue
            try:
                values[setting.name] = setting.metadata["parse"](given[setting.name].text)
            except InvalidInputError as error:
                raise InvalidInputError(f"setting {setting.name}: {error}") from None
        return cls(root=_resolve_root(root), **values)


def _read_file(path: str, kind: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"the {kind} file cannot be read: {type(error).__name__}") from error


def _resolve_root(root: str) -> str:
    if is_object_store(root):
        return root.rstrip("/")
    if "://" in root:
        raise InvalidInputError(f"not a local directory or an object store: {root!r}")
    resolved = os.path.realpath(root)
    if not os.path.isdir(resolved):
        raise InvalidInputError(f"the root to serve is not a directory: {root!r}")
    if os.path.isdir(os.path.join(resolved, "_versions")):
        raise InvalidInputError(f"the root to serve is a dataset, not a directory of datasets: {root!r}")
    return resolved
