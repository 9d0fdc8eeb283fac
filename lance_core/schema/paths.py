"""Dotted paths that name columns."""

from collections.abc import Iterable

from lance_core.errors import InvalidInputError


def check_names(argument: str, names: Iterable[object], kinds: tuple[type, ...] = (list, tuple)) -> None:
    """Refuse names of columns that are not a list of texts.

    One text would pass for the list of its letters, and each letter may be a column.

    Args:
        argument: what the caller gave them as.
        names: what was given.
        kinds: what passes for a list.

    Raises:
        TypeError: names the argument, and what was found.
    """
    if not isinstance(names, kinds):
        raise TypeError(f"{argument} must be a list of names, got {type(names).__name__}")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{argument} must be a list of names, it holds {name!r}")


def split_path(path: str) -> list[str]:
    """Return the names of a dotted path: `` s.`a.b` `` is ["s", "a.b"].

    A name with dots or backticks in it is written between backticks, where two stand for one.

    Raises:
        InvalidInputError: an empty name or an unclosed backtick.
    """
    names: list[str] = []
    rest = path
    while True:
        if rest.startswith("`"):
            name, rest = _quoted(path, rest[1:])
        else:
            name, dot, rest = rest.partition(".")
            rest = dot + rest
        if not name or (rest and not rest.startswith(".")):
            raise InvalidInputError("malformed column path", column=path)
        names.append(name)
        if not rest:
            return names
        rest = rest[1:]


def _quoted(path: str, rest: str) -> tuple[str, str]:
    """Return the name up to the closing backtick, and what follows it."""
    name = ""
    while True:
        piece, tick, rest = rest.partition("`")
        if not tick:
            raise InvalidInputError("backtick is not closed", column=path)
        name += piece
        if not rest.startswith("`"):
            return name, rest
        name += "`"
        rest = rest[1:]
