"""Write the generated parts of pages that compare names: of the reference with those of `lance_core`
(docs/pylance-names.md), and of datasets in folders with those on servers (docs/remote-datasets.md).

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`. With `--check` the script
writes nothing. Its exit code is 1 when a page is out of date, and stderr shows the difference.
"""

import argparse
import ast
import difflib
import inspect
import re
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pyarrow.dataset

import lance_core
from flight_client import RemoteDataset
from lance_core.api.names.missing import MISSING, MISSING_MODULES
from lance_core.errors import MissingNameError

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("docs/pylance-names.md", "docs/remote-datasets.md")
PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
COLUMNS = 120

INTERNAL = {"conftest", "debug", "dependencies", "download", "lance", "types", "util"}
"""Modules of the reference that are no part of its interface."""

KINDS = ("refused", "missing")
"""States of what is not here."""

BUILT_BY_LIBRARY = {
    *("BlobFile", "DatasetDelta", "DatasetOptimizer", "FragmentSession", "LanceDataset", "LanceFragment"),
    *("LanceScanner", "MergeInsertBuilder", "ReaderResults", "Tags", "Branches"),
}
"""Classes whose objects come from functions and methods. Arguments of their constructors are internal."""


@cache
def reference_modules() -> Mapping[str, set[str]]:
    """Return the public names of each public module of the reference that has some."""
    root = Path(lance.__path__[0])
    found = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        if any((part.startswith("_") or part in INTERNAL) and part != "__init__" for part in parts):
            continue
        if name := ".".join(part for part in parts if part != "__init__"):
            module = imported(f"lance.{name}")
            compiled = vars(module).items() if module else ()
            found[name] = names_in(path) | {
                name for name, value in compiled if getattr(value, "__module__", None) == module.__name__
            }
    public = {
        name: {each for each in names if each[0] != "_" and each != "T"} for name, names in found.items()
    }
    return {name: names for name, names in sorted(public.items()) if names}


def names_here(name: str) -> set[str]:
    """Return which names of a module of the reference are in the module that stands for it."""
    path = ROOT.joinpath("lance_core", "api", *name.split("."))
    sources = [each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()]
    module = imported(f"lance_core.api.{name}") if sources else None
    wanted = reference_modules()[name]
    if module is None:
        return {each for source in sources for each in names_in(source) & wanted}
    return {each for each in wanted if hasattr(module, each)}


def names_in(source: Path) -> set[str]:
    """Return what a module lists in `__all__`, and the classes and functions that it defines."""
    names = set()
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        match node:
            case ast.ClassDef() | ast.FunctionDef():
                names.add(node.name)
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                names |= set(ast.literal_eval(node.value))
    return names


@cache
def imported(module: str) -> ModuleType | None:
    """Return a module, None if it needs packages that the tests do without: then only its sources count."""
    needs_more = ("hf", "pydantic", "torch")
    return None if set(module.split(".")) & set(needs_more) else import_module(module)


def members(kind: type) -> set[str]:
    """Return the public methods, properties and fields of a class; of a typed dict its keys."""
    fields = {name for each in kind.__mro__ for name in inspect.get_annotations(each)}
    listed = fields if issubclass(kind, dict) else fields | set(dir(kind))
    return {name for name in listed if not name.startswith("_")}


def has_member(kind: type, name: str) -> bool:
    slots = {slot for each in kind.__mro__ for slot in getattr(each, "__slots__", ())}
    return hasattr(kind, name) or name in slots or name in members(kind)


def shared_classes() -> Iterator[tuple[str, type, type]]:
    """Yield `module.class`, the class of the reference and ours, for each class of both; each class once."""
    seen = set()
    for name, theirs, ours in shared():
        if inspect.isclass(theirs) and inspect.isclass(ours) and theirs not in seen:
            seen.add(theirs)
            yield name, theirs, ours


def shared() -> Iterator[tuple[str, Any, Any]]:
    """Yield `module.name`, the object of the reference and ours, for each name that both offer."""
    for module in reference_modules():
        here = names_here(module)
        theirs = imported(f"lance.{module}") if here else None
        for name in sorted(here) if theirs else ():
            yield (
                f"{module}.{name}",
                getattr(theirs, name),
                getattr(imported(f"lance_core.api.{module}"), name),
            )


def state_of(owner: object, name: str) -> str:
    """Return how a module, or an object of a class, answers to a name that it lacks."""
    try:
        getattr(owner, name)
    except MissingNameError:
        return "refused"
    except AttributeError:
        return "missing"
    raise AssertionError(f"{owner} has {name}")


def rows_of_missing(names: Iterable[str], place: str, owner: object) -> list[str]:
    """Return the table of missing names, nothing if there are no such names."""
    instead = MISSING.get(place, {})
    rows = [
        f"| `{name}` | {state_of(owner, name)} | {instead.get(name, 'nothing')} |" for name in sorted(names)
    ]
    return ["", "| name | state | instead |", "|---|---|---|", *rows] if rows else []


def wrapped(text: str) -> str:
    return textwrap.fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


def item(text: str) -> str:
    """Return an item of a list."""
    return textwrap.fill(
        f"- {text}", COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def summary() -> Iterator[str]:
    """Yield the table of modules: how many of their names are here."""
    yield "| module | here | missing | instead of the module |"
    yield "|---|---|---|---|"
    here = [name for name in lance.__all__ if hasattr(lance_core, name)]
    yield f"| `lance` itself | {len(here)} | {len(lance.__all__) - len(here)} |  |"
    for module, names in reference_modules().items():
        found = names_here(module)
        instead = "" if found else MISSING_MODULES[module.partition(".")[0]]
        yield f"| `{module}` | {len(found)} | {len(names - found)} | {instead} |"


def names() -> Iterator[str]:
    """Yield a section per module that is here, with tables of the names that are missing."""
    yield "### The package itself"
    yield ""
    here = {name for name in lance.__all__ if hasattr(lance_core, name)}
    yield wrapped(f"Here: {listed(here)}.")
    elsewhere = {name for place, names in MISSING.items() if place != "lance" for name in names}
    yield from rows_of_missing(set(lance.__all__) - here - elsewhere, "lance", lance_core)
    classes = {name: pair for name, *pair in shared_classes()}
    for module, wanted in reference_modules().items():
        if here := names_here(module):
            yield f"\n### Module `{module}`\n"
            yield wrapped(f"Here: {listed(here)}.")
            yield from rows_of_missing(wanted - here, module, imported(f"lance_core.api.{module}"))
            pairs = {
                name: classes[f"{module}.{name}"] for name in sorted(here) if f"{module}.{name}" in classes
            }
            whole = [name for name, pair in pairs.items() if members(pair[0]) and not lacks(*pair)]
            if whole:
                yield "\n" + wrapped(f"With all their names: {listed(whole)}.")
            for name, (theirs, ours) in pairs.items():
                if lacking := lacks(theirs, ours):
                    yield f"\n#### Class `{name}`\n"
                    yield wrapped(f"Here: {listed(members(theirs) - lacking)}.")
                    yield from rows_of_missing(lacking, name, object.__new__(ours))
    yield "\n### Modules that are missing\n"
    for module, wanted in reference_modules().items():
        if not names_here(module):
            yield item(f"`{module}`: {listed(wanted)}")


def lacks(theirs: type, ours: type) -> set[str]:
    """Return the names of members that our class lacks."""
    return {name for name in members(theirs) if not has_member(ours, name)}


def shared_functions() -> Iterator[tuple[str, Any, Any]]:
    """Yield `function`, `class` or `class.method`, and the function of the reference and ours."""
    yield "dataset", lance.dataset, lance_core.dataset
    for full_name, theirs, ours in shared():
        if not inspect.isclass(theirs) and callable(theirs) and callable(ours):
            yield full_name.rpartition(".")[2], theirs, ours
    for full_name, theirs, ours in shared_classes():
        name = full_name.rpartition(".")[2]
        if not issubclass(theirs, (dict, pa.Array, pa.Scalar, BaseException)):
            if name not in BUILT_BY_LIBRARY:
                yield name, theirs, ours
            for member in sorted(members(theirs)):
                pair = getattr(theirs, member, None), getattr(ours, member, None)
                if all(callable(each) and not inspect.isclass(each) for each in pair):
                    yield f"{name}.{member}", *pair


def parameters(function: Any) -> dict[str, inspect.Parameter] | None:
    """Return the parameters by name, None if a compiled function does not tell."""
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    return {name: each for name, each in found.items() if name != "self"}


def answer(call: Callable[..., Any], name: str) -> str:
    """Return "here", "refused" or "missing": what a call of ours does with an argument of the reference."""
    state = "here"
    for value in (1, "x"):  # some arguments are only refused if they are of the right type
        try:
            call(**{name: value})
        except lance_core.UnsupportedFeatureError as error:
            state = "refused" if name in str(error) else state
        except TypeError as error:
            state = "missing" if re.search(rf"unexpected.*'{name}'", str(error)) else state
        except (ValueError, OSError, AttributeError):
            pass  # the value is wrong, so the argument exists
    return state


def calls(folder: str) -> Mapping[str, Callable[..., Any]]:
    """Return calls of the functions that refuse arguments by name, or take any and look at them later."""
    rows = pa.table({"x": [1]})
    dataset = lance_core.write_dataset(rows, f"{folder}/d")
    fragment = dataset.get_fragments()[0]
    append = lance_core.LanceOperation.Append([])
    return {
        "dataset": partial(lance_core.dataset, dataset.uri),
        "write_dataset": partial(lance_core.write_dataset, rows, f"{folder}/written"),
        "write_fragments": partial(lance_core.write_fragments, rows, f"{folder}/fragments"),
        "LanceDataset.commit": partial(lance_core.LanceDataset.commit, dataset.uri, append, read_version=1),
        "LanceFileReader": partial(import_module("lance_core.api.file").LanceFileReader, f"{folder}/none"),
        **{f"LanceDataset.{name}": getattr(dataset, name) for name in ("scanner", "to_table", "to_pandas")},
        **{f"LanceFragment.{name}": getattr(fragment, name) for name in ("scanner", "to_table", "to_pandas")},
    }


def arguments() -> Iterator[str]:
    """Yield the functions with arguments that are refused or missing, then the number of the others."""
    complete = 0
    with tempfile.TemporaryDirectory() as folder:
        probes = calls(folder)
        for name, theirs, ours in shared_functions():
            wanted, own = parameters(theirs), parameters(ours)
            if wanted is None or own is None:
                continue
            probe = probes.get(name)
            open_ended = any(each.kind is each.VAR_KEYWORD for each in own.values())
            states = {
                each: answer(probe, each) if probe else "here" if each in own or open_ended else "missing"
                for each, parameter in wanted.items()
                if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) and each[0] != "_"
            }
            kinds = {kind: [each for each, state in states.items() if state == kind] for kind in KINDS}
            complete += not any(kinds.values())
            if any(kinds.values()):
                found = "; ".join(f"{kind}: {listed(each)}" for kind, each in kinds.items() if each)
                yield item(f"`{name}`, {found}")
    yield ""
    yield f"{complete} other functions, methods and constructors take all arguments of the reference."


_FILES = "nothing: files are the server's business"
_PATHS = "nothing: paths and credentials are the server's business"
_SETTINGS = "`Client.update_config`"
_ENGINE = "any engine that reads Arrow, such as DuckDB"

_INDICES = "nothing: open the dataset where it is stored"
ELSEWHERE: Mapping[str, str] = {
    "add_bases": _PATHS,
    "add_columns": "`Client.add_columns`, `Client.write` with `add_columns`",
    "all_files": _FILES,
    "alter_columns": "`Client.alter_columns`",
    "base_paths": _PATHS,
    "centroids": _INDICES,
    "checkout_latest": "`Client.dataset`: an opened dataset stays at its version",
    "cleanup_old_versions": "`Client.cleanup`",
    "commit": "`Client.stage` and `Client.commit`",
    "commit_batch": "`Client.commit` with several receipts",
    "commit_existing_index_segments": "`Client.commit_index`",
    "create_branch": "`Client.create_branch`",
    "create_index": "`Client.create_index`",
    "create_index_uncommitted": "`Client.create_index_segment`",
    "create_scalar_index": "`Client.create_index`",
    "deep_clone": "`Client.write` with a scan of the version",
    "delete": "`Client.delete`",
    "delete_config_keys": _SETTINGS,
    "delta": "`Client.changes`",
    "drop": "`Client.drop_dataset`",
    "drop_columns": "`Client.drop_columns`",
    "drop_index": "`Client.drop_index`",
    "explain_cleanup_old_versions": "`Client.cleanup` with `dry_run`",
    "get_fragments": "`scanner` with `fragments`, `Client.fragments`",
    "get_fragment": "`scanner` with `fragments`, `Client.fragments`",
    "get_ivf_model": _INDICES,
    "get_transactions": "`Client.find_transaction`",
    "has_stable_row_ids": "nothing: the server does not say",
    "index_statistics": "`Client.index_statistics`",
    "initial_storage_options": _PATHS,
    "io_stats_incremental": "`/metrics` of the server",
    "io_stats_snapshot": "`/metrics` of the server",
    "insert": "`Client.write`",
    "lance_schema": "`schema`: the server keeps the ids of fields",
    "latest_storage_options": _PATHS,
    "list_indices": "`describe_indices`, `Client.indices`",
    "max_field_id": "`schema`: the server keeps the ids of fields",
    "merge": "`Client.merge_columns`",
    "merge_existing_index_segments": _INDICES,
    "merge_index_metadata": _INDICES,
    "merge_insert": "`Client.merge_insert`",
    "migrate_manifest_paths_v2": _FILES,
    "new_file_session": _FILES,
    "optimize": "`Client.compact`, `Client.optimize_indices`",
    "prewarm_index": "`Client.prewarm_index`",
    "read_transaction": "`Client.find_transaction`",
    "remap_row_addrs": _INDICES,
    "replace_field_metadata": _SETTINGS,
    "replace_schema_metadata": _SETTINGS,
    "restore": "`Client.restore`",
    "session": "nothing: the server keeps what reads share",
    "shallow_clone": "`Client.shallow_clone`",
    "sql": _ENGINE,
    "stats": "`Client.describe`, `Client.fragments`",
    "tracked_files": _FILES,
    "truncate_table": "`Client.delete` with the predicate `true`",
    "update": "`Client.update`",
    "update_config": _SETTINGS,
    "update_field_metadata": _SETTINGS,
    "update_metadata": _SETTINGS,
    "update_schema_metadata": _SETTINGS,
    "uri": "`name`",
}
"""Alternatives of the names that a dataset in a folder has and a dataset on a server lacks."""


def local_names() -> set[str]:
    """Return the names of the reference that a dataset in a folder has here."""
    return members(lance.LanceDataset) & members(lance_core.LanceDataset)


def refuses(kind: type, name: str) -> bool:
    """Return whether a method only raises an error, which says what to use instead."""
    return getattr(getattr(kind, name, None), "__annotations__", {}).get("return") == "NoReturn"


def remote_names() -> set[str]:
    """Return the names of a dataset on a server that do what they say."""
    return {
        name
        for name in members(RemoteDataset)
        if refuses(lance_core.LanceDataset, name) or not refuses(RemoteDataset, name)
    }


def remote() -> Iterator[str]:
    """Yield the table of the names of datasets in folders and of datasets on servers."""
    yield "| in a folder | on a server |"
    yield "|---|---|"
    there = remote_names()
    for name in sorted(local_names()):
        yield f"| `{name}` | {'the same' if name in there else ELSEWHERE[name]} |"
    own = {name for name in there - local_names() if not hasattr(pa.dataset.UnionDataset, name)}
    yield ""
    yield wrapped(f"Only datasets on servers have {listed(own)}.")


PARTS: Mapping[str, Callable[[], Iterator[str]]] = {
    "summary": summary,
    "names": names,
    "arguments": arguments,
    "remote": remote,
}


def current(text: str) -> str:
    """Return the text of a page with its generated parts up to date."""
    return PART.sub(lambda part: f"{part[1]}\n" + "\n".join(PARTS[part[2]]()) + f"\n\n{part[3]}", text)


def main() -> int:
    """Bring the pages up to date, or report that one is out of date; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when out of date")
    is_check = parser.parse_args().check
    warnings.simplefilter("ignore")
    is_stale = False
    for page in PAGES:
        before = (ROOT / page).read_text(encoding="utf-8")
        after = current(before)
        is_stale |= before != after
        if not is_check:
            (ROOT / page).write_text(after, encoding="utf-8")
            continue
        lines = before.splitlines(), after.splitlines()
        for line in difflib.unified_diff(*lines, page, "the code", n=1, lineterm=""):
            print(line, file=sys.stderr)
    return int(is_check and is_stale)


if __name__ == "__main__":
    sys.exit(main())
