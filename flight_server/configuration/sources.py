"""Sources of settings: options of the command line, environment variables and the settings file.

An option comes before a variable, a variable before the file, and the file before the default. Nothing else
in the package reads the environment.
"""

import json
import os
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from lance_core.errors import InvalidInputError

PREFIX = "LANCE_FLIGHT_"
"""Begin of the names of our environment variables."""

SETTINGS_FILE = "settings"
"""The name that is not a setting: the path of the settings file."""

OLD_NAMES = {"ticket_key": "signing_key", "ticket_key_file": "signing_key_file"}
"""Names of earlier releases, which still work."""


@dataclass(frozen=True)
class Known:
    """Facts about one setting that the sources need."""

    name: str
    toml_types: tuple[type, ...]
    """The types that the settings file may use."""
    separator: str = ""
    """Separator of the values of a list in one text; empty: the setting is no list."""
    is_path: bool = False
    """Whether the value names files. The settings file names them relative to its own directory."""
    file_holds: str | None = None
    """Contents of the file of the setting `<name>_file`, for messages; None: there is no such setting."""

    is_table: bool = False
    """Whether the settings file has the value as a list of tables."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which a source may give the setting, best first."""
        return (f"{self.name}_file", self.name) if self.file_holds else (self.name,)


@dataclass(frozen=True)
class Given:
    """The given value of one setting."""

    text: str = field(repr=False)
    """May be a secret."""
    origin: str
    """Origin of the value: `--port`, `LANCE_FLIGHT_PORT`, `/run/secrets/key (--signing-key-file)`."""


_Source = Mapping[str, Given]
"""The values that one source gives, by the names of settings or of their files."""


def given_settings(
    known: Mapping[str, Known],
    arguments: Mapping[str, str | None] | None = None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Given]:
    """Return the settings that are not left to their defaults, by name. Their values are not looked at.

    Args:
        known: all settings by name.
        arguments: texts of the command line by name, None where an option is not given. Besides the settings:
            `settings`, the path of the settings file, and `<name>_file` for the settings that files may hold.
        environment: variables; None takes those of the process.

    Raises:
        InvalidInputError: a name is not known, a file cannot be read, or the settings file is no TOML or has
            a value of another type. The message names the nearest known name.
    """
    environment = os.environ if environment is None else environment
    options: dict[str, Given] = {}
    for name, text in (arguments or {}).items():
        if name != SETTINGS_FILE:
            _check_name(name, known, "options")
        if text is not None:
            options[OLD_NAMES.get(name, name)] = Given(text, "--" + name.replace("_", "-"))
    variables: dict[str, Given] = {}
    for variable, text in environment.items():
        if variable.startswith(PREFIX):
            name = variable.removeprefix(PREFIX).lower()
            variables[OLD_NAMES.get(name, name)] = Given(text, variable)
    sources: list[_Source] = [options, variables]
    file = options.get(SETTINGS_FILE) or variables.get(SETTINGS_FILE)
    if file is not None:
        sources.append(_settings_file(file.text, known))
    found = {name: _first(each, sources) for name, each in known.items()}
    return {name: given for name, given in found.items() if given is not None}


def settings_file(
    arguments: Mapping[str, str | None], environment: Mapping[str, str] | None = None
) -> str | None:
    """Return the path of the settings file; None: there is none. Arguments are those of `given_settings`."""
    environment = os.environ if environment is None else environment
    return arguments.get(SETTINGS_FILE) or environment.get(PREFIX + SETTINGS_FILE.upper())


def _first(known: Known, sources: Iterable[_Source]) -> Given | None:
    """Return the value of the first source that gives the setting, or names a file that holds it."""
    for source in sources:
        for name in known.names:
            if name not in source:
                continue
            given = source[name]
            if known.file_holds is None or name == known.name:
                return given
            return Given(_read_text(given.text, known.file_holds), f"{given.text} ({given.origin})")
    return None


def unknown_variables(
    known: Mapping[str, Known], others: Collection[str], environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Yield a sentence for each environment variable whose name looks like a setting, but is none.

    Such a variable stops no server: a Kubernetes service named `lance-flight` makes some, and so do other
    programs. `others` are variables of ours that are no settings of the server.
    """
    names = [*_names(known), SETTINGS_FILE]
    variables = {PREFIX + name.upper() for name in names} | set(others)
    ends = [name.removeprefix(PREFIX) for name in variables]
    for variable in sorted(os.environ if environment is None else environment):
        if variable.startswith(PREFIX) and variable not in variables:
            # The prefix, which all names have, would make every name a near one.
            near = get_close_matches(variable.removeprefix(PREFIX), ends, 1)
            hint = f"; did you mean {PREFIX}{near[0]}?" if near else ""
            yield f"the environment variable {variable} is no setting{hint}"


def _settings_file(path: str, known: Mapping[str, Known]) -> _Source:
    """Return the values of a settings file, as the texts that options would have."""
    try:
        values = tomllib.loads(_read_text(path, "settings"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"the settings file {path} is no TOML: {error}") from None
    by_name = {name: each for each in known.values() for name in each.names}
    found: dict[str, Given] = {}
    for told, value in values.items():
        where = f"the settings file {path}"
        name = told.replace("-", "_")
        _check_name(name, known, where)
        name = OLD_NAMES.get(name, name)
        if name in found:
            raise InvalidInputError(f"{where}: {name} is given twice")
        found[name] = Given(_text_of(by_name[name], name, value, path), f"{told} in {path}")
    return found


def _text_of(known: Known, name: str, value: Any, path: str) -> str:
    """Return a value of the settings file as text. Raises InvalidInputError if it has another type."""
    is_path = known.is_path or name != known.name
    types = (str,) if name != known.name else known.toml_types
    items = value if isinstance(value, list) else []
    item_type = dict if known.is_table else str
    if type(value) not in types or not all(isinstance(item, item_type) for item in items):
        expected = "tables" if known.is_table else " or ".join(_TYPE_NAMES[kind] for kind in types)
        raise InvalidInputError(f"the settings file {path}: {name}: expected {expected}")
    if isinstance(value, dict) or known.is_table:
        return json.dumps(value, default=str)  # dates, which no setting has
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, list | str):
        return str(value)
    texts = [value] if isinstance(value, str) else value
    if is_path:
        folder = os.path.dirname(os.path.abspath(path))
        texts = [text if "://" in text else os.path.join(folder, text) for text in texts]
    return known.separator.join(texts)


_TYPE_NAMES = {
    str: "a text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    list: "a list of texts",
    dict: "a table",
}


def _names(known: Mapping[str, Known]) -> list[str]:
    """Return all names that a source may use, those of earlier releases included."""
    names = [name for each in known.values() for name in each.names]
    return names + [old for old, new in OLD_NAMES.items() if new in names]


def _check_name(name: str, known: Mapping[str, Known], where: str) -> None:
    names = _names(known)
    if name not in names:
        near = get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InvalidInputError(f"{where}: unknown setting {name}{hint}")


def _read_text(path: str, kind: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise InvalidInputError(f"the {kind} file {path} cannot be read: {reason}") from error
