"""Grants: which subjects may do what with which datasets, from the tables `[[grant]]` of the settings file.

    [[grant]]
    subject = "ana"                 # or role = "analyst", or claim = { department = "sales" }
    datasets = ["sales/*"]
    rights = ["list", "read"]
    columns = ["day", "amount"]     # of a grant to read: only these columns exist
    filter = "region = 'north'"     # of a grant to read: only these rows exist

What no grant allows is refused. docs/security.md has a table of what each right is needed for.
"""

import json
import re
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

from flight_server.requests.json_fields import check_fields, list_of, one_of, string
from lance_core.errors import InvalidInputError

Right: TypeAlias = Literal["list", "read", "write", "manage"]
RIGHTS: tuple[Right, ...] = get_args(Right)

EVERYBODY = "*"
"""Subject of a grant to every caller who has proven an identity."""

_MOST_NAMES = 4096
"""Datasets of which the rights of one caller are remembered."""


@dataclass(frozen=True)
class Limit:
    """Part of a dataset: some of its columns and some of its rows."""

    columns: frozenset[str] | None = None
    """Names of top-level columns; None: all."""
    filter: str | None = None
    """SQL condition that the rows meet; None: all rows."""


@dataclass(frozen=True)
class Rights:
    """Rights of one caller to one dataset."""

    held: AbstractSet[Right] = frozenset()
    limits: tuple[Limit, ...] = ()
    """Limits of the right to read, one per set of rows; none: it is not limited."""

    def allow(self, needed: Collection[Right]) -> bool:
        """Return whether the caller may do what needs these rights, with the whole dataset."""
        return self.held >= set(needed) and not (self.limits and "read" in needed)


EVERY_RIGHT = Rights(frozenset(RIGHTS))


@dataclass(frozen=True)
class Grant:
    """Rights to datasets for the callers that all its conditions fit."""

    datasets: tuple[str, ...]
    """Globs on the names of datasets. `*` also matches `/`."""
    rights: frozenset[Right]
    subject: str | None = None
    role: str | None = None
    claims: tuple[tuple[str, str | int | bool], ...] = ()
    """Claims of a JSON Web Token: each has this value, or is a list that contains it."""
    columns: frozenset[str] | None = None
    filter: str | None = None

    def fits(self, subject: str, roles: Collection[str], claims: Mapping[str, object]) -> bool:
        """Return whether the grant is for a caller."""
        return (
            (self.subject is None or self.subject in (EVERYBODY, subject))
            and (self.role is None or self.role in roles)
            and all(_has_value(claims.get(name), value) for name, value in self.claims)
        )

    def covers(self, dataset: str) -> bool:
        """Return whether the grant is about a dataset."""
        return self._names.match(dataset) is not None

    @cached_property
    def _names(self) -> re.Pattern[str]:
        return re.compile("|".join(map(translate, self.datasets)))

    def as_data(self) -> dict[str, Any]:
        """Return the grant as the settings file has it."""
        told = {
            "subject": self.subject,
            "role": self.role,
            "claim": dict(self.claims) or None,
            "datasets": list(self.datasets),
            "rights": [right for right in RIGHTS if right in self.rights],
            "columns": None if self.columns is None else sorted(self.columns),
            "filter": self.filter,
        }
        return {name: value for name, value in told.items() if value is not None}


class Access:
    """Rights of one caller to all datasets. Thread-safe."""

    def __init__(self, grants: Collection[Grant]) -> None:
        """Use the grants that fit the caller."""
        self._grants = grants
        self._known: dict[str, Rights] = {}

    def to(self, dataset: str) -> Rights:
        """Return the rights to the dataset of a name, whether it exists or not."""
        rights = self._known.get(dataset)
        if rights is None:
            rights = _united([grant for grant in self._grants if grant.covers(dataset)])
            if len(self._known) >= _MOST_NAMES:
                self._known.clear()
            self._known[dataset] = rights
        return rights


def _united(grants: Collection[Grant]) -> Rights:
    """Return what several grants to one dataset allow together.

    Grants to read the same rows unite their columns. `catalog.views` unites different limits.
    """
    held = frozenset[Right]().union(*(grant.rights for grant in grants))
    columns: dict[str | None, frozenset[str] | None] = {}
    for grant in grants:
        if "read" in grant.rights:
            known = columns.get(grant.filter, frozenset())
            both_limited = known is not None and grant.columns is not None
            columns[grant.filter] = known | grant.columns if both_limited else None  # type: ignore[operator]
    if None in columns and columns[None] is None:  # one grant to read has no limit
        return Rights(held)
    return Rights(held, tuple(Limit(columns[rows], rows) for rows in sorted(columns, key=str)))


def _has_value(claim: object, value: str | int | bool) -> bool:
    values = claim if isinstance(claim, list | tuple) else (claim,)
    return any(type(each) is type(value) and each == value for each in values)


def parse_grants(text: str) -> tuple[Grant, ...]:
    """Return the grants of a JSON list, in the form of the settings file.

    Raises:
        InvalidInputError: a grant is incomplete or contradicts itself; the message names the grant and field.
    """
    try:
        content = json.loads(text)
    except ValueError:
        raise InvalidInputError("not a JSON list of grants") from None
    return list_of(_grant)("grant", content)


def _grant(name: str, value: object) -> Grant:
    fields = check_fields(
        name,
        value,
        {
            "subject": _name,
            "role": _name,
            "claim": _claims,
            "datasets": _some(_name),
            "rights": _some(one_of(RIGHTS)),
            "columns": _some(_name),
            "filter": _condition,
        },
        required=("datasets", "rights"),
    )
    if not fields.keys() & {"subject", "role", "claim"}:
        raise InvalidInputError(f"{name}: expected one of subject, role and claim")
    rights = frozenset(fields["rights"])
    is_limited = bool(fields.keys() & {"columns", "filter"})
    if is_limited and ("read" not in rights or rights & {"write", "manage"}):
        raise InvalidInputError(
            f"{name}: columns and filter limit the right to read; expected the rights read, or list and read"
        )
    columns = fields.get("columns")
    return Grant(
        fields["datasets"],
        rights,
        fields.get("subject"),
        fields.get("role"),
        fields.get("claim", ()),
        None if columns is None else frozenset(columns),
        fields.get("filter"),
    )


def _some(item: Any) -> Any:
    def check(field: str, value: object) -> tuple[Any, ...]:
        given = list_of(item)(field, value)
        if not given:
            raise InvalidInputError(f"{field}: expected one or more")
        return given

    return check


def _name(field: str, value: object) -> str:
    if not string(field, value):
        raise InvalidInputError(f"{field}: expected a text that is not empty")
    return str(value)


def _claims(field: str, value: object) -> tuple[tuple[str, str | int | bool], ...]:
    if not isinstance(value, dict) or not value:
        raise InvalidInputError(f"{field}: expected values by the names of claims")
    for name, each in value.items():
        if not isinstance(each, str | int):
            raise InvalidInputError(f"{field}.{name}: expected a text, an integer, true or false")
    return tuple(sorted(value.items()))


def _condition(field: str, value: object) -> str:
    # The parser takes long to import, and most servers have no such grant.
    from lance_core.api.serving import check_filter

    text = string(field, value)
    try:
        check_filter(text)
    except InvalidInputError as error:
        raise InvalidInputError(f"{field}: {error}") from None
    return text
