"""Values of settings: from the text of an option, a variable or the settings file to what the server uses.

A value that cannot be used raises InvalidInputError with the text and an example. The caller adds the name of
the setting. The messages for secrets do not show the text.
"""

import json
import os
import re
from urllib.parse import urlsplit

from lance_core.errors import InvalidInputError

MINIMUM_KEY_BYTES = 16
MAXIMUM_STAGE_SECONDS = 3 * 24 * 3600
MAXIMUM_LEEWAY_SECONDS = 60
MAXIMUM_WORKERS = 256

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


def parse_count(text: str) -> int:
    """Return a number, 1 or more."""
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < 1:
        raise InvalidInputError(f"not a positive count: {text!r}")
    return int(text)


def parse_port(text: str) -> int:
    """Return the number of a TCP port; 0 takes any free one."""
    if not re.fullmatch(r"\d{1,5}", text) or int(text) > 65535:
        raise InvalidInputError(f"not a TCP port: {text!r} (0 takes any free one)")
    return int(text)


def parse_seconds(text: str) -> float:
    """Return a number of seconds, 0 or more."""
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text):
        raise InvalidInputError(f"not a number of seconds: {text!r}")
    return float(text)


def parse_interval(text: str) -> float:
    """Return a number of seconds, 0.1 or more."""
    seconds = parse_seconds(text)
    if seconds < 0.1:
        raise InvalidInputError(f"not at least 0.1 seconds: {text!r}")
    return seconds


def parse_workers(text: str) -> int:
    """Return a number of processes, from 1 to `MAXIMUM_WORKERS`."""
    count = parse_count(text)
    if count > MAXIMUM_WORKERS:
        raise InvalidInputError(f"more than {MAXIMUM_WORKERS} workers: {text!r}")
    return count


def parse_stage_expiry(text: str) -> float:
    """Return a number of seconds, more than 0 and at most `MAXIMUM_STAGE_SECONDS`."""
    seconds = parse_seconds(text)
    if not 0 < seconds <= MAXIMUM_STAGE_SECONDS:
        raise InvalidInputError(
            f"not a number of seconds above 0 and up to {MAXIMUM_STAGE_SECONDS}: {text!r}"
        )
    return seconds


def parse_leeway(text: str) -> float:
    """Return at most `MAXIMUM_LEEWAY_SECONDS` seconds."""
    seconds = parse_seconds(text)
    if seconds > MAXIMUM_LEEWAY_SECONDS:
        raise InvalidInputError(f"not at most {MAXIMUM_LEEWAY_SECONDS} seconds: {text!r}")
    return seconds


def parse_file(text: str) -> str:
    """Return the absolute path of a file that exists."""
    if not os.path.isfile(text):
        raise InvalidInputError(f"not a file: {text!r}")
    return os.path.abspath(text)  # links stay: a link is how Kubernetes replaces a certificate


def parse_audit_log(text: str) -> str:
    """Return the absolute path of a file that can be written, which is made if it is missing; or `-`."""
    if os.path.basename(text) == "-":
        return "-"
    try:
        os.close(os.open(text, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
    except OSError as error:
        raise InvalidInputError(f"not a file for the audit log: {text!r} ({error.strerror})") from None
    return os.path.abspath(text)


def parse_switch(text: str) -> bool:
    """Return whether a switch is on."""
    if text.lower() not in ("true", "false", "1", "0"):
        raise InvalidInputError(f"not true or false: {text!r}")
    return text.lower() in ("true", "1")


def parse_log_level(text: str) -> str:
    """Return the name of a log level in upper case."""
    level = text.upper()
    if level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise InvalidInputError(f"not a log level: {text!r} (debug, info, warning, error)")
    return level


def parse_log_format(text: str) -> str:
    """Return the form of the lines of the log."""
    if text not in ("text", "json"):
        raise InvalidInputError(f"not a format of the log: {text!r} (text or json)")
    return text


def parse_url(text: str) -> str:
    """Return the URL of a collector of traces. Without a path, the usual path of such collectors is added."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInputError(f"not a URL: {text!r} (example: http://collector:4318)")
    return text.rstrip("/") + "/v1/traces" if parts.path in ("", "/") else text


def parse_locations(text: str) -> tuple[str, ...]:
    """Return Flight locations, which have commas between them."""
    locations = tuple(part.strip() for part in text.split(",") if part.strip())
    for location in locations:
        if not location.startswith(_LOCATION_SCHEMES):
            raise InvalidInputError(f"not a Flight location: {location!r} (example: grpc://host:8815)")
    return locations


def parse_directories(text: str) -> tuple[str, ...]:
    """Return directories, absolute and without symbolic links; separated as in PATH."""
    directories = tuple(part for part in text.split(os.pathsep) if part)
    for directory in directories:
        if not os.path.isdir(directory):
            raise InvalidInputError(f"not a directory: {directory!r}")
    return tuple(map(os.path.realpath, directories))


def parse_cache_directory(text: str) -> str:
    """Return a directory, which is made if it is missing."""
    path = os.path.realpath(text)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"not a directory for caches: {text!r} ({error.strerror})") from None
    return path


def parse_key(text: str) -> bytes:
    """Return a secret key of `MINIMUM_KEY_BYTES` or more."""
    key = text.encode()
    if len(key) < MINIMUM_KEY_BYTES:
        raise InvalidInputError(f"the key has {len(key)} bytes; it needs {MINIMUM_KEY_BYTES} or more")
    return key


def parse_storage_options(text: str) -> tuple[tuple[str, str], ...]:
    """Return texts by name, from a JSON object."""
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
        raise InvalidInputError("not a JSON object of texts")  # and nothing of it, since it has secrets
    return tuple(options.items())
