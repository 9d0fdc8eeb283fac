"""Text for people on terminals, for the command lines of all packages."""

__all__ = ["count", "printable"]


def printable(text: str) -> str:
    """Return `text` with escapes (`\\x1b`, `\\n`, `\\u202e`) in place of invisible characters."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def count(number: int, thing: str) -> str:
    """Return "1 row", "2 rows" or "1,000 rows". `thing` is a singular whose plural ends in `s` or `es`."""
    ending = "" if number == 1 else "es" if thing.endswith(("ch", "s", "x")) else "s"
    return f"{number:,} {thing}{ending}"
