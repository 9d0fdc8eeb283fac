"""Whether a transaction still makes sense after another one was committed since the version it was made on.

    ok      it can be applied to the newer version as it is
    retry   it has to be made anew on the newer version; then it may succeed
    fail    the newer version is of another kind altogether; whoever made it has to decide

The rules are those of the reference. They are not symmetric: one row per operation that wants to commit, one
entry per operation that did. What is not listed fails.
Source: Lance table format, "Conflict rules"; docs/format.md.
"""

from enum import Enum

from lance_core.proto import transaction_pb2


class Verdict(Enum):
    """What a committed transaction means for one that is not."""

    OK = "ok"
    RETRY = "retry"
    FAIL = "fail"


_OK, _RETRY, _FAIL = Verdict.OK, Verdict.RETRY, Verdict.FAIL

_RULES: dict[str, dict[str, Verdict]] = {
    "append": {
        "append": _OK,
        "delete": _OK,
        "overwrite": _FAIL,
        "create_index": _OK,
        "rewrite": _OK,
        "merge": _RETRY,
        "restore": _FAIL,
        "reserve_fragments": _OK,
        "update": _OK,
        "project": _RETRY,
        "update_config": _OK,
        "data_replacement": _OK,
        "update_mem_wal_state": _FAIL,
        "update_bases": _OK,
        "data_overlay": _OK,
    },
    "overwrite": {
        "append": _OK,
        "delete": _OK,
        "overwrite": _RETRY,
        "create_index": _OK,
        "rewrite": _OK,
        "merge": _OK,
        "restore": _OK,
        "reserve_fragments": _OK,
        "update": _OK,
        "project": _OK,
        "update_config": _OK,
        "data_replacement": _OK,
        "update_mem_wal_state": _FAIL,
        "update_bases": _OK,
        "data_overlay": _OK,
    },
}


def check_conflict(mine: transaction_pb2.Transaction, committed: transaction_pb2.Transaction) -> Verdict:
    """What `committed`, of a version after the one that `mine` was made on, means for `mine`."""
    ours, theirs = mine.WhichOneof("operation"), committed.WhichOneof("operation")
    verdict = _RULES[ours].get(theirs, _FAIL) if ours and theirs else _FAIL
    if verdict is _RETRY and ours == "append" and getattr(committed, theirs).preserves_nullability:
        return _OK  # no column that the rows lack became one that needs a value
    if ours == "overwrite" and set(mine.overwrite.config_upsert_values) & _config_keys(committed):
        return _FAIL
    return verdict


def _config_keys(committed: transaction_pb2.Transaction) -> set[str]:
    """Settings of the table that a transaction changed."""
    update = committed.update_config
    named = {entry.key for entry in update.config_updates.update_entries}
    named |= set(committed.overwrite.config_upsert_values)
    return named | set(update.upsert_values) | set(update.delete_keys)
