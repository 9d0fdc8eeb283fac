"""Blobs outside the dataset: what a file stores for the URI of a value.

A file below a base path of the table is stored as the number of the base path and the path below it. Every
other file is stored as its absolute URI. Source: docs/format.md, "Blobs".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self
from urllib.parse import unquote

from lance_core.errors import InvalidInputError, UnsupportedFeatureError

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.")
_FILE = "file://"


class BasePath(Protocol):
    """Base path of a table; see `lance_core.table.bases`."""

    @property
    def id(self) -> int: ...
    @property
    def path(self) -> str: ...
    @property
    def is_dataset_root(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ExternalBlobs:
    """Rules about blobs that stay outside the dataset."""

    anywhere: bool = False
    """Whether blobs may be anywhere."""
    in_bases: bool = False
    """Whether blobs may be in base paths of the table. A server does not allow it: a client could name any
    file below a base path.
    """
    bases: tuple[tuple[int, str], ...] = ()
    """Number and path of each base path that may hold blobs, the most specific first."""

    def with_bases(self, bases: Iterable[BasePath]) -> Self:
        """Return the same rules with the base paths of a table. Roots of datasets hold no blobs."""
        if not self.in_bases:
            return self
        prefixes = [
            (base.id, f"{_plain(base.path).rstrip('/')}/") for base in bases if not base.is_dataset_root
        ]
        return replace(self, bases=tuple(sorted(prefixes, key=lambda base: len(base[1]), reverse=True)))

    def places(self, uris: Sequence[str], column: str) -> list[tuple[int, str]]:
        """Return what is stored for each URI: the number of a base path, or 0, and the path or the URI.

        Raises:
            InvalidInputError: A URI is not absolute: no reader could find its file.
            UnsupportedFeatureError: A file is where blobs may not be.
        """
        return [self._place(uri, column) for uri in uris]

    def _place(self, uri: str, column: str) -> tuple[int, str]:
        if not self.anywhere and not self.in_bases:
            raise UnsupportedFeatureError("blobs outside the dataset", column=column)
        if not _ABSOLUTE.match(uri):
            raise InvalidInputError("URI of a blob", column=column, expected="scheme://...", found=repr(uri))
        plain = _plain(uri)
        for number, prefix in self.bases:
            below = plain.removeprefix(prefix)
            if below != plain and not {"", ".", ".."}.intersection(below.split("/")):
                return number, below
        if not self.anywhere:
            raise UnsupportedFeatureError(
                "blobs outside the dataset and outside registered external bases; "
                "allow_external_blob_outside_bases=True stores their URIs",
                column=column,
                found=uri,
            )
        return 0, uri


def _plain(uri: str) -> str:
    """Return a path or URI as a URI, for local files without percent escapes."""
    if uri.startswith("/"):
        return f"{_FILE}{uri}"
    return unquote(uri) if uri.startswith(_FILE) else uri
