"""Checks of the options of scalar indices."""

from __future__ import annotations

from collections.abc import Collection

from lance_core.errors import CorruptFileError, InvalidInputError
from lance_core.index.build import Parameters
from lance_core.index.segment_files import SourceFile

_MOST_DIGITS = 9


def refuse_unknown(parameters: Parameters, known: Collection[str] = ()) -> None:
    """Raise `InvalidInputError` if there is a parameter that is not in `known`."""
    for name in parameters:
        if name not in known:
            raise InvalidInputError(
                "parameter of an index", expected=", ".join(known) or "no parameters", found=name
            )


def stored_number(file: SourceFile, key: str) -> int | None:
    """Return a number in the metadata of an index file; None if it is missing.

    Raises:
        CorruptFileError: The entry is no number.
    """
    text = file.metadata.get(key)
    if text is None:
        return None
    if not text.isdigit() or len(text) > _MOST_DIGITS:
        raise CorruptFileError(
            f"metadata {key} of an index",
            file=file.name,
            expected="a number",
            found=text.decode(errors="replace"),
        )
    return int(text)


def positive_integer(parameters: Parameters, name: str, default: int) -> int:
    """Return a parameter that is a number of at least 1; `default` if it is missing or None."""
    value = parameters.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1 << 31:
        raise InvalidInputError(name, expected="a whole number of at least 1", found=value)
    return value
