"""Automatic cleanup after commits, if the settings of a table ask for it.

`lance.auto_cleanup.interval` is the number of versions between two cleanups. `older_than` and
`retain_versions` say which versions are removed. As in the reference, the settings are those of the new
version, so that a commit that disables the cleanup does not clean up. The version before the new one stays.
A cleanup that fails does not fail the commit.

Source: docs/format.md, "Cleanup".
"""

import logging
import operator
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TypedDict

from lance_core.arguments import named
from lance_core.errors import InvalidInputError, LanceError
from lance_core.storage import Storage
from lance_core.table.manifest import Manifest

_PREFIX = "lance.auto_cleanup."
_SECONDS = {
    "nanos nsec ns": 1e-9,
    "usec us": 1e-6,
    "millis msec ms": 1e-3,
    "seconds second secs sec s": 1.0,
    "minutes minute mins min m": 60.0,
    "hours hour hrs hr h": 3600.0,
    "days day d": 86400.0,
    "weeks week wks wk w": 7 * 86400.0,
    "months month M": 30.44 * 86400.0,
    "years year yrs yr y": 365.25 * 86400.0,
}
_UNITS = {unit: seconds for units, seconds in _SECONDS.items() for unit in units.split()}
_DURATION = re.compile(r"(\s*[0-9]+\s*[A-Za-z]+)+\s*")
_PART = re.compile(r"([0-9]+)\s*([A-Za-z]+)")
_LONGEST_SECONDS = 1000 * 365.25 * 86400.0

_log = logging.getLogger(__name__)


class AutoCleanupConfig(TypedDict):
    """Options of the automatic cleanup of old versions: `auto_cleanup_options` of `write_dataset`."""

    interval: int
    """Number of versions between two cleanups."""
    older_than_seconds: int
    """Age in seconds at which a version is removed."""


SETTINGS = (f"{_PREFIX}interval", f"{_PREFIX}older_than")
"""Settings of a table that `cleanup_settings` makes."""


@named
def cleanup_settings(options: AutoCleanupConfig) -> dict[str, str]:
    """Return the settings of a table that let commits clean up.

    Args:
        options: both options; a mapping without them is refused.

    Raises:
        InvalidInputError: an option is missing, unknown or negative.
    """
    names = ("interval", "older_than_seconds")
    if set(options) != set(names):
        raise InvalidInputError(
            "auto_cleanup_options", expected=" and ".join(names), found=", ".join(map(str, options)) or "none"
        )
    interval, seconds = operator.index(options["interval"]), operator.index(options["older_than_seconds"])
    if min(interval, seconds) < 0:
        raise InvalidInputError("auto_cleanup_options", expected="0 or more", found=min(interval, seconds))
    return dict(zip(SETTINGS, (f"{interval}", f"{seconds}s"), strict=True))


def auto_clean_up(storage: Storage, before: Manifest, made: Manifest) -> None:
    """Clean up after a commit if the settings of the table ask for it. Never raise a `LanceError`.

    Args:
        storage: storage of the main branch. Other branches are not cleaned up automatically.
        before: version before the new version.
        made: the new version.
    """
    if SETTINGS[0] not in made.message.config:
        return
    # Imported late: few tables use it.
    from lance_core.maintenance.cleanup import CleanupPolicy, clean_up
    from lance_core.table.snapshot import Snapshot

    settings = {
        key.removeprefix(_PREFIX): value
        for key, value in made.message.config.items()
        if key.startswith(_PREFIX)
    }
    try:
        interval = _number(settings, "interval")
        if made.branch is not None or (interval and made.version % interval):
            return
        age = settings.get("older_than")
        policy = CleanupPolicy(
            older_than=None if age is None else parse_duration(age),
            retain_versions=_number(settings, "retain_versions"),
            error_if_tagged_old_versions=False,
            delete_rate_limit=_number(settings, "delete_rate_limit"),
            delete_concurrency=_number(settings, "delete_concurrency"),
        )
        if policy.older_than is not None or policy.retain_versions is not None:
            clean_up(Snapshot(storage, before), storage, policy)
    except LanceError as error:
        _log.warning("version %d is made, but cleaning up after it failed: %s", made.version, error)


def parse_duration(text: str) -> timedelta:
    """Return the duration of a text such as `14days` or `1h 30m`, at most a thousand years.

    Raises:
        InvalidInputError: the text is not a duration.
    """
    if not _DURATION.fullmatch(text):
        raise InvalidInputError("duration", expected="like 14days or 1h 30m", found=text)
    seconds = 0.0
    for number, unit in _PART.findall(text):
        if unit not in _UNITS:
            raise InvalidInputError("unit of a duration", expected=f"one of {', '.join(_UNITS)}", found=unit)
        seconds += int(number) * _UNITS[unit]
    return timedelta(seconds=min(seconds, _LONGEST_SECONDS))


def _number(settings: Mapping[str, str], name: str) -> int | None:
    text = settings.get(name)
    if text is None:
        return None
    if not re.fullmatch("[0-9]+", text):
        raise InvalidInputError(
            "setting of the table", column=_PREFIX + name, expected="a number", found=text
        )
    return int(text)
