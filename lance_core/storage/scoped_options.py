"""Storage options of one base path: the key `base_<id>.<key>` sets `<key>` for the base path with this id."""

import re
from collections.abc import Mapping

_SCOPED = re.compile(r"base_([0-9]+)\.(.+)", re.ASCII)


def scoped_options(options: Mapping[str, str], base_id: int | None) -> dict[str, str]:
    """Return the options for a base path, or, if `base_id` is None, for the dataset itself.

    An option of the base path overrides the option without an id. Options of other base paths are left out.
    """
    shared: dict[str, str] = {}
    scoped: dict[str, str] = {}
    for key, value in options.items():
        match = _SCOPED.fullmatch(key)
        if match is None:
            shared[key] = value
        elif int(match[1]) == base_id:
            scoped[match[2]] = value
    return shared | scoped
