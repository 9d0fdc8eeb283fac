"""The table of conflicts: what two transactions on one version mean for each other.

The table below is what the reference does, found by letting it commit every operation after every other one;
`test_the_reference_does_the_same` does that again and prints it. The differences are on purpose.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import lance
import pytest

import lance_core
from lance_core.commit.commit import commit
from lance_core.commit.conflicts import Verdict, check_conflict
from lance_core.errors import CommitConflictError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.storage import LocalStorage
from lance_core.table.manifest import serialize_manifest
from lance_core.table.snapshot import read_manifest
from lance_core.table.versions import version_path
from support.changes.operations import HANDMADE, OPERATIONS, Maker, base_table, message_of

ALL = [*OPERATIONS, *HANDMADE]
COMMITTED = {  # short names of the columns below
    "append": "ap", "delete 0": "d0", "delete 1": "d1", "remove 0": "r0", "update 0": "u0", "update 1": "u1",
    "columns 0": "c0", "overwrite": "ow", "index a": "ia", "index b": "ib", "rewrite 0": "w0",
    "rewrite 1": "w1", "merge": "me", "merge pn": "mp", "restore": "rs", "project": "pr", "project pn": "pp",
    "config x": "cx", "config y": "cy", "metadata": "md", "schema md": "sm", "field md": "fm",
    "replace 0": "p0", "replace 1": "p1", "reserve": "re", "bases": "ba", "mem wal": "mw", "overlay 0": "o0",
}  # fmt: skip
REFERENCE = """
           ap d0 d1 r0 u0 u1 c0 ow ia ib w0 w1 me mp rs pr pp cx cy md sm fm p0 p1 re ba mw o0
append     .  .  .  .  .  .  .  x  .  .  .  .  r  .  x  r  .  .  .  .  .  .  .  .  .  .  x  .
delete 0   .  r  .  r  r  .  r  x  .  .  r  .  r  r  x  .  .  .  .  .  .  .  r  .  .  .  x  .
delete 1   .  .  r  .  .  r  .  x  .  .  .  r  r  r  x  .  .  .  .  .  .  .  .  r  .  .  x  .
remove 0   .  r  .  r  r  .  r  x  .  .  r  .  r  r  x  .  .  .  .  .  .  .  r  .  .  .  x  .
update 0   .  r  .  r  r  .  r  x  .  .  r  .  r  r  x  r  .  .  .  .  .  .  r  .  .  .  .  r
update 1   .  .  r  .  .  r  .  x  .  .  .  r  r  r  x  r  .  .  .  .  .  .  .  r  .  .  .  .
columns 0  .  r  .  r  r  .  r  x  .  .  r  .  r  r  x  r  r  .  .  .  .  .  r  .  .  .  .  r
overwrite  .  .  .  .  .  .  .  r  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  x  .
index a    .  .  .  .  .  .  .  x  r  .  r  .  .  .  x  .  .  .  .  .  .  .  r  r  .  .  x  .
index b    .  .  .  .  .  .  .  x  .  r  r  .  .  .  x  .  .  .  .  .  .  .  r  r  .  .  x  .
rewrite 0  .  r  .  r  r  .  r  x  r  r  r  .  r  r  x  .  .  .  .  .  .  .  r  .  .  .  .  r
rewrite 1  .  .  r  .  .  r  .  x  .  .  .  r  r  r  x  .  .  .  .  .  .  .  .  r  .  .  .  .
merge      r  r  r  r  r  r  r  x  .  .  r  r  r  r  x  x  x  .  .  .  r  r  r  r  .  .  x  r
merge pn   r  r  r  r  r  r  r  x  .  .  r  r  r  r  x  x  x  .  .  .  r  r  r  r  .  .  x  r
restore    .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  x  x  .  .  .  .  x  .
project    r  .  .  .  r  r  r  x  .  .  .  .  r  r  x  r  r  .  .  .  .  .  r  r  .  .  x  r
project pn .  .  .  .  .  .  .  x  .  .  .  .  r  r  x  r  r  .  .  .  .  .  .  .  .  .  x  .
config x   .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  x  .  .  .  .  .  .  .  .  .  .
config y   .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .
metadata   .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  x  .  .  .  .  .  .  .  .
schema md  .  .  .  .  .  .  .  x  .  .  .  .  r  r  x  .  .  .  .  .  x  .  .  .  .  .  .  .
field md   .  .  .  .  .  .  .  x  .  .  .  .  r  r  x  .  .  .  .  .  .  x  .  .  .  .  .  .
replace 0  .  .  .  x  r  .  r  x  r  r  r  .  r  r  x  r  x  .  .  .  .  .  r  .  .  .  x  .
replace 1  .  .  .  .  .  r  .  x  r  r  .  r  r  r  x  r  x  .  .  .  .  .  .  r  .  .  x  .
"""
"""Mine below, committed above: `.` ok, `r` retry, `x` fail."""

STRICTER = {
    ("index b", "columns 0"): "retry",  # it would go on to find the old values
    ("index b", "project"): "retry",  # its column is gone
    ("index b", "project pn"): "retry",
    ("project", "field md"): "retry",  # it would take back the metadata
    ("project pn", "field md"): "retry",
}
"""Our verdicts for pairs to which the reference says ok."""


def _print(table: dict[tuple[str, str], str]) -> None:
    marks = {"ok": ".", "retry": "r", "fail": "x"}
    print("\n" + " " * 11 + " ".join(COMMITTED[name] for name in ALL), file=sys.stderr)
    for mine in OPERATIONS:
        cells = "  ".join(marks.get(table[mine, theirs], "?") for theirs in ALL)
        print(f"{mine:<11}{cells}", file=sys.stderr)


def _recorded() -> dict[tuple[str, str], str]:
    names = {short: name for name, short in COMMITTED.items()}
    words = {".": "ok", "r": "retry", "x": "fail"}
    header, *lines = REFERENCE.strip("\n").splitlines()
    columns = [names[short] for short in header.split()]
    return {
        (line[:11].strip(), column): words[mark]
        for line in lines
        for column, mark in zip(columns, line[11:].split(), strict=True)
    }


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("conflicts") / "base"
    base_table(path)
    return path


@pytest.fixture(scope="module")
def messages(base: Path) -> dict[str, Transaction]:
    return {name: message_of(name, base) for name in ALL}


def test_every_pair_has_the_verdict_of_the_reference(base: Path, messages: dict[str, Transaction]) -> None:
    """T37: without knowing which rows a transaction deletes; where that is known, retries are rebases.

    An append is rebased without anything else being known.
    """
    committed = messages | {"append": message_of("append", base)}  # other files than those of mine
    recorded = _recorded()
    assert set(recorded) == {(mine, theirs) for mine in OPERATIONS for theirs in ALL}
    found = {}
    for mine, theirs in recorded:
        verdict = check_conflict(messages[mine], committed[theirs])
        rebased = "ok" if mine == "append" else "retry"
        found[mine, theirs] = rebased if verdict is Verdict.REBASE else verdict.value
    _print(found)
    expected = recorded | STRICTER
    # That its column is gone is found when the index is applied.
    for pair in (("index b", "project"), ("index b", "project pn")):
        expected[pair] = "ok"
    assert {pair: found[pair] for pair in found if found[pair] != expected[pair]} == {}


def test_what_nobody_commits_by_hand(messages: dict[str, Transaction]) -> None:
    """Fragments set aside and base paths do not care; unknown operations fail."""
    fails = {"overwrite", "restore"}
    for theirs in ALL:
        reserve = check_conflict(messages["reserve"], messages[theirs])
        assert (reserve is Verdict.FAIL) == (theirs in fails), theirs
        bases = check_conflict(messages["bases"], messages[theirs])
        assert (bases is Verdict.FAIL) == (theirs == "bases"), theirs
        assert check_conflict(messages[theirs], Transaction()) is Verdict.FAIL
        assert check_conflict(Transaction(), messages[theirs]) is Verdict.FAIL
        assert check_conflict(messages["mem wal"], messages[theirs]) is Verdict.FAIL
        assert check_conflict(messages["overlay 0"], messages[theirs]) is Verdict.FAIL


def test_rebases_are_those_of_deleted_rows_and_dropped_columns(messages: dict[str, Transaction]) -> None:
    rebased = {
        (mine, theirs)
        for mine in ALL
        for theirs in ALL
        if check_conflict(messages[mine], messages[theirs]) is Verdict.REBASE
    }
    zero = ["delete 0", "remove 0", "update 0", "columns 0"]
    expected = {(mine, theirs) for mine in zero[:3] for theirs in zero}
    expected |= {(mine, theirs) for mine in ("delete 1", "update 1") for theirs in ("delete 1", "update 1")}
    assert rebased == expected | {("append", "project pn")}


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        ({1, 2}, {2, 3}, "retry"),
        ({1, 2}, {3}, "ok"),
        ({1}, None, "retry"),
        (None, {1}, "ok"),
    ],
)
def test_updates_that_say_which_keys_they_inserted(
    mine: set[int] | None, theirs: set[int] | None, expected: str
) -> None:
    transactions = []
    for keys in (mine, theirs):
        transaction = Transaction()
        transaction.update.SetInParent()
        if keys is not None:
            transaction.update.inserted_rows.field_ids.append(0)
            transaction.update.inserted_rows.exact.key_hashes.extend(keys)
        transactions.append(transaction)
    ours, committed = transactions
    assert check_conflict(ours, committed).value == expected
    append = Transaction()
    append.append.SetInParent()
    assert check_conflict(ours, append).value == ("ok" if mine is None else "retry")
    if mine is not None and theirs is not None:
        committed.update.inserted_rows.field_ids.append(1)
        assert check_conflict(ours, committed) is Verdict.RETRY
        committed.update.inserted_rows.CopyFrom(ours.update.inserted_rows)
        committed.update.inserted_rows.bloom.num_bits = 8
        assert check_conflict(ours, committed) is Verdict.RETRY


def test_a_version_that_is_gone_may_have_been_anything(tmp_path: Path, base: Path) -> None:
    """T37: the reference commits all the same, which loses an overwrite."""
    path = _copy(base, tmp_path / "t")
    for _ in range(2):
        commit(LocalStorage(str(path)), _fresh(message_of("config x", base), path), sync=False)
    (path / version_path(2, True)).unlink()
    with pytest.raises(CommitConflictError, match="version 2 was removed") as caught:
        commit(LocalStorage(str(path)), message_of("append", base), sync=False)
    assert caught.value.retryable


def _fresh(message: Transaction, path: Path) -> Transaction:
    message.uuid = str(uuid4())
    message.read_version = lance.dataset(str(path)).version
    return message


def _copy(source: Path, target: Path) -> Path:
    """Files are never changed, so that links do."""
    shutil.copytree(source, target, copy_function=os.link)
    return target


def _commit_theirs(path: Path, name: str, message: Transaction) -> None:
    """Make version 2. Operations that cannot be committed are written by hand."""
    storage = LocalStorage(str(path))
    if name not in ("mem wal", "overlay 0"):
        commit(storage, message, sync=False)
        return
    manifest = table_pb2.Manifest()
    manifest.CopyFrom(read_manifest(storage, 1).message)
    for section in ("index_section", "transaction_section", "transaction_file"):
        manifest.ClearField(section)
    manifest.version = 2
    data = serialize_manifest(manifest, message.SerializeToString())
    (path / version_path(2, True)).write_bytes(data)


def _outcome(library: ModuleType, operation: Any, path: Path) -> str:
    """Return the result of an operation on version 1."""
    options = {} if library is lance else {"sync": False}
    try:
        library.LanceDataset.commit(str(path), operation, read_version=1, **options)
    except CommitConflictError as error:
        return "retry" if error.retryable else "fail"
    except OSError as error:
        if library is lance_core or not ("onflict" in str(error) or "ncompatible" in str(error)):
            raise
        return "retry" if "Retryable" in str(error) else "fail"
    return "ok"


def test_the_same_files_are_not_appended_twice(messages: dict[str, Transaction]) -> None:
    """T13: staged rows of which two commits got hold; the reference has them twice."""
    assert check_conflict(messages["append"], messages["append"]) is Verdict.FAIL


def test_values_of_a_column_with_another_type_are_not_lost(messages: dict[str, Transaction]) -> None:
    """T37: the column has another id, and an append of the reference nothing of it: its values are gone."""
    cast = Transaction()
    cast.merge.CopyFrom(messages["merge pn"].merge)
    assert check_conflict(messages["append"], cast) is Verdict.OK
    cast.merge.schema[1].id = 2
    assert check_conflict(messages["append"], cast) is Verdict.RETRY


@pytest.mark.long
def test_the_reference_does_the_same(base: Path, messages: dict[str, Transaction], tmp_path: Path) -> None:
    """T37: every operation after every other one, by both libraries on copies of the same table."""
    made = {
        library.__name__: {name: make(Maker(library, base)) for name, make in OPERATIONS.items()}
        for library in (lance, lance_core)
    }
    found: dict[str, dict[tuple[str, str], str]] = {"lance": {}, "lance_core": {}}
    for theirs in ALL:
        template = _copy(base, tmp_path / theirs)
        _commit_theirs(template, theirs, messages[theirs])
        for mine in OPERATIONS:
            for library in (lance, lance_core):
                path = _copy(template, tmp_path / "attempt")
                outcome = _outcome(library, made[library.__name__][mine], path)
                found[library.__name__][mine, theirs] = outcome
                shutil.rmtree(path)
    for name, table in found.items():
        print(f"\n{name}: mine below, committed above", file=sys.stderr)
        _print(table)
    assert found["lance"] == _recorded()
    assert found["lance_core"] == found["lance"] | STRICTER


@pytest.mark.long
def test_the_reference_adds_bases_beside_the_same(
    base: Path, messages: dict[str, Transaction], tmp_path: Path
) -> None:
    """T37: base paths after every operation; the reference has them added by a method of their own."""
    found = {}
    for theirs in ALL:
        path = _copy(base, tmp_path / theirs)
        _commit_theirs(path, theirs, messages[theirs])
        stale = lance.dataset(str(path), version=1)
        try:
            stale.add_bases([lance.DatasetBasePath("/elsewhere", name="elsewhere")])
            found[theirs] = "ok"
        except OSError as error:
            if "incompatible" not in str(error):
                raise
            found[theirs] = "fail"
    print(f"\nbases: {found}", file=sys.stderr)
    assert found == {theirs: check_conflict(messages["bases"], messages[theirs]).value for theirs in ALL}
