"""Errors that name the argument of a wrong type.

A public call does not test the types of its arguments before it begins: most calls are right, and many types
that only resemble the declared one work as well. If a call fails, and an argument has another type than its
annotation says, the error says so. Other errors pass.
"""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache, wraps
from reprlib import repr as short_repr
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from lance_core.errors import ArgumentTypeError, LanceError

_OF_WRONG_TYPES = (TypeError, AttributeError, ValueError, LookupError, OverflowError)
"""Errors that Python and its libraries raise for values of wrong types."""

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


def named_arguments(offered: C) -> C:
    """Let the public methods of a class name arguments of wrong types; for use as a decorator."""
    for name, member in list(vars(offered).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, staticmethod | classmethod):
            setattr(offered, name, type(member)(named(member.__func__)))
        elif inspect.isfunction(member):
            setattr(offered, name, named(member))
    return offered


def named(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function whose errors name arguments of wrong types; for use as a decorator."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except LanceError:
            raise
        except _OF_WRONG_TYPES as error:
            given = inspect.signature(function).bind_partial(*args, **kwargs).arguments
            refuse_wrong_types(function, given, error)
            raise

    return call


def refuse_wrong_types(
    offered: Callable[..., object], given: Mapping[str, object], cause: Exception | None = None
) -> None:
    """Raise an error about the first argument whose type is not that of its annotation, if there is one.

    Args:
        offered: The function or the dataclass that was called.
        given: Arguments by name.
        cause: The error that made the call fail, if it was made.

    Raises:
        ArgumentTypeError: An argument has a wrong type.
    """
    declared = _declared(offered)
    for name, value in given.items():
        hint, text = declared.get(name, (Any, ""))
        if not _fits(value, hint):
            is_plain = isinstance(value, str | bytes | int | float | Collection)
            found = short_repr(value) if is_plain else type(value).__name__
            raise ArgumentTypeError(name, expected=text, found=found) from cause


@cache
def _declared(offered: Callable[..., object]) -> dict[str, tuple[Any, str]]:
    """Return the type of each argument, and how the signature writes it."""
    hints = _hints_of(offered)
    return {
        name: (hints[name], getattr(parameter.annotation, "__name__", str(parameter.annotation)))
        for name, parameter in inspect.signature(offered).parameters.items()
        if name in hints and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


@cache
def _hints_of(offered: Any) -> dict[str, Any]:
    return get_type_hints(offered, localns=_Names(vars(sys.modules[offered.__module__])))


class _Names(dict[str, Any]):
    """Names of a module. Those that are imported for type checkers only are unknown types."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, _Unknown)


class _UnknownType(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __getitem__(cls, item: object) -> Any:
        return cls

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class _Unknown(metaclass=_UnknownType):
    """A type that every value may have."""


def _fits(value: object, hint: Any) -> bool:
    """Return whether a value may be meant by a type; True in doubt."""
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if kind is Literal:
        return any(type(value) is type(each) and value == each for each in inner)
    if hint is None or hint is NoneType:
        return value is None
    if is_typeddict(hint):
        if not isinstance(value, Mapping):
            return False
        return all(_fits(value[name], each) for name, each in _hints_of(hint).items() if name in value)
    if hint is int:
        return hasattr(value, "__index__")
    if hint is float:
        return hasattr(value, "__float__")
    if not isinstance(kind or hint, type):
        return True
    abstract = getattr(hint, "__abstractmethods__", ())
    if kind is None and abstract and all(hasattr(value, name) for name in abstract):
        return True
    try:
        if not isinstance(value, kind or hint):
            return False
    except TypeError:  # a protocol
        return True
    if isinstance(value, str | bytes):
        return kind is None  # otherwise a text is in the place of a list of texts
    if kind is tuple:
        return inner[-1] is not Ellipsis or all(_fits(each, inner[0]) for each in value)
    if not isinstance(value, Collection) or not inner:
        return True
    if isinstance(value, Mapping):
        return all(_fits(key, inner[0]) and _fits(each, inner[1]) for key, each in value.items())
    return all(_fits(each, inner[0]) for each in value)
