"""Identity of a caller."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Identity:
    """Subject that makes a call, and the kind of its proof."""

    subject: str | None
    """Name of a user or program, however it was proven. None: the server asks nobody."""
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    """Claims of a JSON Web Token. Values come from the issuer."""
    how: Literal["anonymous", "token", "session", "password", "jwt", "certificate", "server"] = "anonymous"


ANONYMOUS = Identity(None)
"""Everybody, on a server without authentication."""
