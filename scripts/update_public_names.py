"""Write the lists of public names in tests/docs/public_names, one file per door of a package.

A door is a module whose `__all__` says what the package offers. Each name becomes a line with its kind and
signature. The public methods and properties of a class follow below its line. With `--check` the script
writes nothing. Its exit code is 1 when a list is out of date, and stderr shows the difference.
"""

import argparse
import difflib
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "tests" / "docs" / "public_names"

DOORS = (
    "lance_core",
    "lance_core.api.serving",
    "flight_server",
    "flight_client",
    "flight_client.errors",
    "flight_client.terminal",
    "spark_pipeline",
    "spark_pipeline.jobs",
    "spark_pipeline.pipeline_file",
)
"""Modules with an offer. A door that does not exist, or has no `__all__`, offers nothing and has no list."""

OURS = ("lance_core", "flight_server", "flight_client", "spark_pipeline")

SPECIAL_METHODS = (
    "__arrow_c_stream__",
    "__call__",
    "__contains__",
    "__enter__",
    "__exit__",
    "__getitem__",
    "__iter__",
    "__len__",
    "__next__",
)
"""Special methods that callers use without their name: `with`, `for`, `pa.table(...)`, and so on."""


def list_of(door: str, known: dict[int, str]) -> list[str] | None:
    """Return the lines of a door, or None if it offers nothing.

    Args:
        door: full name of the module.
        known: the names that earlier doors offer, by the identity of the object. The names of this door are
            added. A name that an earlier door offers is one line that points there.
    """
    try:
        exists = find_spec(door) is not None
    except ModuleNotFoundError:  # the package of the door does not exist
        exists = False
    module = import_module(door) if exists else None
    if not hasattr(module, "__all__"):
        return None
    assert module is not None
    lines = list(_commands(door))
    offer = {name: getattr(module, name) for name in sorted(module.__all__)}
    classes = [each for each in offer.values() if inspect.isclass(each)]
    for name, offered in offer.items():
        full_name = f"{door}.{name}"
        is_shared = inspect.isclass(offered) or inspect.isfunction(offered)
        if is_shared and known.setdefault(id(offered), full_name) != full_name:
            lines.append(f"{name} = {known[id(offered)]}")
        else:
            lines += _described(name, offered, classes)
    return lines


def _commands(package: str) -> Iterator[str]:
    """Yield a line for each command that installing the project makes of a package."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    for name, target in sorted(scripts.items()):
        if target.partition(":")[0].partition(".")[0] == package:
            yield f"command {name}"


def _described(name: str, offered: Any, classes: Sequence[type]) -> Iterator[str]:
    """Yield the lines of one name; `classes` are those of the same door."""
    if inspect.isclass(offered) and _is_ours(offered):
        yield from _class(name, offered, classes)
    elif inspect.isfunction(offered):
        yield f"function {name}{_signature(offered)}"
    elif isinstance(offered, ModuleType):
        yield f"module {name}"
    elif type(offered).__module__ in ("builtins", "typing", "types") and not isinstance(offered, str):
        yield f"constant {name} = {_text(offered)}"
    else:
        yield f"constant {name}: {type(offered).__name__}"


def _class(name: str, kind: type, classes: Sequence[type]) -> Iterator[str]:
    """Yield the line of a class, then one for its constructor, attribute, method and property each.

    Members that the class inherits from one of `classes` stand below that class. Members that it inherits
    from a class that the door does not offer stand here.
    """
    bases = ", ".join(base.__name__ for base in kind.__bases__ if base is not object)
    yield f"class {name}({bases})" if bases else f"class {name}"
    constructor = _of_class(kind, "__init__", classes)
    # The docstring "Use `connect`." says that the caller is not to call the constructor.
    is_ours = inspect.isfunction(constructor) and constructor.__module__.partition(".")[0] in OURS
    if is_ours and not (constructor.__doc__ or "").startswith("Use `"):
        yield f"    {name}{_signature(constructor, skip=1, result=False)}"
    in_constructor = {each.name for each in fields(kind)} if is_dataclass(kind) else set()
    for attribute, annotation in sorted(inspect.get_annotations(kind).items()):
        if not attribute.startswith("_") and attribute not in in_constructor:
            yield f"    attribute {attribute}: {_annotation(annotation)}"
    for member in sorted(set(dir(kind)) - in_constructor - set(inspect.get_annotations(kind))):
        found = _of_class(kind, member, classes)
        if found is not None and (not member.startswith("_") or member in SPECIAL_METHODS):
            yield from _member(member, found)


def _of_class(kind: type, name: str, classes: Sequence[type]) -> Any:
    """Return what a class defines or inherits under a name; None if it stands elsewhere, see `_class`."""
    for each in kind.__mro__:
        if name in vars(each):
            is_elsewhere = not _is_ours(each) or (each is not kind and each in classes)
            return None if is_elsewhere else vars(each)[name]
    return None


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in OURS


def _member(name: str, member: Any) -> Iterator[str]:
    if isinstance(member, staticmethod):
        yield f"    static method {name}{_signature(member.__func__)}"
    elif isinstance(member, classmethod):
        yield f"    class method {name}{_signature(member.__func__, skip=1)}"
    elif inspect.isfunction(member):
        yield f"    method {name}{_signature(member, skip=1)}"
    elif isinstance(member, property):
        yield f"    property {name}{_result(member.fget)}{' (can be set)' if member.fset else ''}"
    elif hasattr(member, "func"):  # a cached property
        yield f"    property {name}{_result(member.func)}"
    elif inspect.isclass(member):
        yield f"    class {name}"
        yield from (f"    {line}" for line in _class(name, member, ()) if line.startswith("    "))
    elif inspect.isdatadescriptor(member):
        yield f"    attribute {name}"
    else:
        yield f"    attribute {name} = {_text(member)}"


def _signature(function: Any, *, skip: int = 0, result: bool = True) -> str:
    """Return the parameters without the first `skip`, and with `result` the type of the result."""
    given = inspect.signature(function)
    parameters = [
        each.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty)
        for each in given.parameters.values()
    ][skip:]
    bare = str(given.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    words = bare[1:-1].split(", ") if parameters else []
    by_name = {each.name: each for each in given.parameters.values()}
    shown = ", ".join(_parameter(word, by_name.get(word.lstrip("*"))) for word in words)
    return f"({shown}){_result(function) if result else ''}"


def _parameter(word: str, parameter: inspect.Parameter | None) -> str:
    """Return `name: type = default`; `/` and `*` as they are."""
    if parameter is None:
        return word
    if parameter.annotation is not inspect.Parameter.empty:
        word = f"{word}: {_annotation(parameter.annotation)}"
    if parameter.default is not inspect.Parameter.empty:
        word = f"{word} = {_text(parameter.default)}"
    return word


def _result(function: Any) -> str:
    annotation = inspect.signature(function).return_annotation
    return "" if annotation is inspect.Signature.empty else f" -> {_annotation(annotation)}"


def _annotation(annotation: Any) -> str:
    """Return a type without the modules of its names: imports may change while the type stays."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(?=[A-Za-z])", "", text.replace('"', "'"))


def _text(value: Any) -> str:
    """Return the value in one line that is the same in every process."""
    text = inspect.formatannotation(value) if inspect.isclass(value) else repr(value)
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(text.split()))


def main() -> int:
    """Write the lists, or with `--check` compare them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    known: dict[int, str] = {}
    lists = {door: list_of(door, known) for door in DOORS}
    wanted = {f"{door}.txt": "\n".join(lines) + "\n" for door, lines in lists.items() if lines is not None}
    there = {path.name: path.read_text(encoding="utf-8") for path in LISTS.glob("*.txt")}
    if not is_check:
        LISTS.mkdir(exist_ok=True)
        for name in there.keys() - wanted.keys():
            (LISTS / name).unlink()
        for name, text in wanted.items():
            (LISTS / name).write_text(text, encoding="utf-8")
        return 0
    for name in sorted(there.keys() | wanted.keys()):
        before, after = there.get(name, "").splitlines(), wanted.get(name, "").splitlines()
        for line in difflib.unified_diff(before, after, f"list {name}", f"code {name}", n=1, lineterm=""):
            print(line, file=sys.stderr)
    return int(there != wanted)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
