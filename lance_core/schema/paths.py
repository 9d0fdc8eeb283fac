"""Dotted paths that name columns."""

from lance_core.errors import InvalidInputError


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
