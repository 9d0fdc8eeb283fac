"""Dotted paths that name columns."""

from collections.abc import Iterable, Sequence

from lance_core.arguments import named
from lance_core.errors import ArgumentTypeError, InvalidInputError


def check_names(argument: str, names: Iterable[object], kinds: tuple[type, ...] = (list, tuple)) -> None:
    """Check that the names of columns are a list of texts.

    A single text is refused, because it would count as the list of its letters, and a letter may be a column.

    Args:
        argument: name of the argument, for messages.
        names: value of the argument.
        kinds: types that count as a list.

    Raises:
        ArgumentTypeError: the message names the argument and the type found.
    """
    if not isinstance(names, kinds):
        raise ArgumentTypeError(f"{argument} must be a list of names, got {type(names).__name__}")
    for name in names:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"{argument} must be a list of names, it holds {name!r}")


@named
def split_path(path: str) -> list[str]:
    """Return the names of a dotted path: `` s.`a.b` `` is ["s", "a.b"].

    A name with dots or backticks is written between backticks, and each backtick in it is doubled.

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


def join_path(names: Iterable[str]) -> str:
    """Return a dotted path that `split_path` reads. Names that are no identifiers are between backticks."""
    return ".".join(
        name
        if all(letter.isalnum() or letter == "_" for letter in name)
        else "`" + name.replace("`", "``") + "`"
        for name in names
    )


def shown_path(names: Sequence[str]) -> str:
    """Return a dotted path as descriptions of indices contain it: with backticks only if a name has a dot."""
    return join_path(names) if any("." in name for name in names) else ".".join(names)


def _quoted(path: str, rest: str) -> tuple[str, str]:
    """Return the name up to the closing backtick, and the rest of the path."""
    name = ""
    while True:
        text, tick, rest = rest.partition("`")
        if not tick:
            raise InvalidInputError("backtick is not closed", column=path)
        name += text
        if not rest.startswith("`"):
            return name, rest
        name += "`"
        rest = rest[1:]
