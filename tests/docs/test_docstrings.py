"""Docstrings begin with the thing or the verb that they are about, not with a pronoun or a bare clause.

"What a page says of its chunks" and "Those that passed" make a reader search for the noun. The docstring of a
function begins with a verb in the imperative.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "lance_core",
    "flight_server",
    "flight_client",
    "spark_pipeline",
    "benchmarks",
    "scripts",
    "tests",
)
CLAUSE = re.compile(
    r"(?:T\d+(?:, T\d+)*: )?"
    r"(?:what(?:ever)?|who(?:ever|m|se)?|which(?:ever)?|where|how(?:ever)?|when(?:ever)?|why"
    r"|that|those|these|they|them|it|its|their|theirs|ours|he|she|of|as(?! in the reference,)|such|so|others"
    r"|the (?:same|one|ones|other|others|rest)"
    r"|(?:one|ones|all|any|each|some|none)(?: of)? (?:that|who|which|whose|those))\b",
    re.IGNORECASE,
)

KNOWN_VERBS = """
Accept Acquire Act Add Adopt Answer Append Apply Ask Assemble Attach Begin Bind Bound Bring
Build Call Cancel Cast Change Check Choose Claim Clean Clear Close Collect Combine Commit
Compact Compare Compile Complete Compress Compute Concat Concatenate Connect Convert Copy
Correct Count Cover Create Cut Decode Decompress Define Delegate Delete Depend Describe Detach
Disable Discard Disconnect Dispatch Distinguish Divide Do Download Draw Drop Dump Duplicate Emit
Enable Encode Encrypt End Enforce Ensure Enter Escape Estimate Evaluate Exchange Exit Expand
Explain Export Extend Fail Feed Fetch Fill Filter Find Fit Flatten Flush Fold Follow Forget
Format Forward Free Gather Generate Get Give Go Group Guard Hand Handle Hold Implement Import
Include Infer Initialize Insert Inspect Install Interleave Interpret Introduce Invalidate
Iterate Join Keep Lay Learn Leave Let Lift Limit Link List Listen Load Lock Log Look Lower Make
Manage Map Mark Match Materialize Measure Merge Mirror Monitor Move Name Narrow Normalize Note
Notice Notify Number Obtain Offer Open Order Override Pack Pad Pair Parse Pass Pause Pick Pickle
Pin Place Plan Pop Post Prepare Preserve Print Probe Process Produce Project Promise Protect
Prove Provide Prune Publish Push Put Quit Quote Raise Read Rebase Receive Reclaim Recover Redeem
Record Reduce Refer Refresh Refuse Register Reject Release Remember Remove Rename Render Renew Repair
Repeat Replace Report Represent Request Require Reserve Reset Resolve Restore Resume Retrieve
Retry Return Reuse Reverse Rewrite Roll Round Run Sample Save Say Scan Search See Seek Select
Send Serialize Serve Set Share Shift Show Shred Shrink Sign Simplify Skip Sort Spill Split
Spread Stage Start Stop Store Stream Strip Submit Subtract Sum Summarize Support Suppress Survey
Switch Sync Take Tell Terminate Test Throw Touch Track Transform Train Translate Trim Truncate Try
Turn Undo Unlock Unpack Unpickle Update Upload Use Validate Verify View Visit Wait Warn Watch
Widen Withdraw Wrap Write Yield Zip
"""
VERBS = frozenset(KNOWN_VERBS.split())
"""Verbs that begin the docstring of a function. Add a verb that is missing."""


Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Docstrings(NamedTuple):
    """Docstrings of one file, with their lines."""

    all: list[tuple[int, str]]
    """Line and text: of modules, classes, functions and attributes."""
    functions: list[tuple[int, str, str]]
    """Line, name and text of functions that are called."""


@cache
def docstrings(path: Path) -> Docstrings:
    """Return the docstrings of a file."""
    found = Docstrings([], [])
    for node in definitions(ast.parse(path.read_text(encoding="utf-8"))):
        for statement in node.body:
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    found.all.append((statement.lineno, text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_property(node):
            found.functions.append((node.lineno, node.name, ast.get_docstring(node) or ""))
    return found


def definitions(tree: ast.Module) -> Iterator[Definition]:
    """Yield the module, its classes and its functions.

    Expressions have none of these, and are most of what `ast.walk` visits.
    """
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, Definition):
            yield node
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            left += getattr(node, name, ())


def offenders(path: Path) -> list[str]:
    """Return `file:line: beginning` of each docstring that begins with a pronoun or a bare clause."""
    return [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {text.strip().splitlines()[0][:60]}"
        for line, text in docstrings(path).all
        if CLAUSE.match(text.strip())
    ]


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function is read like an attribute, so that its docstring begins with a noun."""
    names = {ast.unparse(decorator).partition("(")[0] for decorator in function.decorator_list}
    return any(name.rpartition(".")[2] in ("property", "cached_property", "setter") for name in names)


def begins_with_a_verb(text: str) -> bool:
    """Return whether the first word of a docstring is a verb ("Number the rows", not "Number of rows")."""
    first, *rest = text.split(maxsplit=2)
    return first.strip(".,:;`") in VERBS and rest[:1] != ["of"]


def functions_without_a_verb(path: Path) -> list[str]:
    """Return `file:line: name: beginning` of each function whose docstring does not begin with a verb."""
    return [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {name}: {text.splitlines()[0][:60]}"
        for line, name, text in docstrings(path).functions
        if text and not begins_with_a_verb(text)
    ]


@cache
def sources() -> list[Path]:
    """Return the hand-written Python files of the project."""
    found = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [path for path in found if not path.stem.endswith("_pb2")]


@cache
def folders() -> dict[str, list[Path]]:
    """Return the files of the packages by the first two names of their path; tests are left out."""
    found: dict[str, list[Path]] = {}
    for path in sources():
        package, *below = path.relative_to(ROOT).parent.parts
        if package != "tests":
            found.setdefault("/".join([package, *below[:1]]), []).append(path)
    return found


def test_no_docstring_begins_with_a_pronoun_or_a_bare_clause() -> None:
    found = [line for path in sources() for line in offenders(path)]
    assert not found, "\n".join(found)


def test_beginnings() -> None:
    for text in ("What passed.", "T22: what lies", "Those of a page", "One that waits", "The same for lists"):
        assert CLAUSE.match(text), text
    for text in (
        "Return the rows that pass.",
        "One column of a file.",
        "T22: sizes that lie",
        "Offsets of rows",
    ):
        assert not CLAUSE.match(text), text


@pytest.mark.parametrize("folder", sorted(folders()))
def test_the_docstring_of_a_function_begins_with_a_verb(folder: str) -> None:
    """A function's docstring says what the function does: "Return ...", "Raise ...", "Wait until ..."."""
    found = [line for path in folders()[folder] for line in functions_without_a_verb(path)]
    assert not found, "\n".join(found)


def test_verbs() -> None:
    for text in ("Return the rows.", "Number the levels of a page.", "Wait: the lock is held."):
        assert begins_with_a_verb(text), text
    for text in ("Number of rows.", "Rows of a page.", "Returns the rows.", "From the description."):
        assert not begins_with_a_verb(text), text
