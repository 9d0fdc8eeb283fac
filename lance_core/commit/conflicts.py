"""Conflicts: what a committed transaction means for a transaction that was made on an earlier
version.

  ok      the transaction can be applied to the newer version unchanged
  rebase  the transaction can be applied after a change, if both deleted different rows; see `rebase`
  retry   the change must be computed again on the newer version; then it may succeed
  fail    the newer version differs too much; the caller has to decide

The rules are those of the reference, except five stricter rules:

- In three cases the reference loses an acknowledged change: an index on a column that was rewritten
  meanwhile, metadata of fields that a projection reverts, and the appended values of a column that got
  another type.
- In one case the reference doubles rows: two appends of the same files.
- In one case the reference makes the table unreadable: an append with a dropped column whose field id another
  column got.

The rules are not symmetric. There is one table per operation that wants to commit, with one
entry per committed operation. Operations without an entry fail.

Source: docs/format.md, "Two writers".
"""

from collections.abc import Mapping

from lance_core.commit.conflict_rules import (
    Rule,
    Verdict,
    append_beside_keys,
    append_beside_merge,
    append_beside_projection,
    both_settings,
    columns_of_projection,
    committed_field_metadata,
    committed_schema_metadata,
    index_of_rewritten,
    index_of_updated,
    may_need_values,
    moves_replaced,
    my_schema_metadata,
    overlap,
    overwritten_settings,
    removes_replaced,
    replaced_of_projection,
    replaces_indexed,
    rewritten_of_index,
    same_bases,
    same_config_keys,
    same_files,
    same_index,
    same_replacement,
    two_rewrites,
    two_updates,
    unless_nullability,
)
from lance_core.proto.transaction_pb2 import Transaction

__all__ = ["Verdict", "check_conflict"]

_OK, _REBASE, _RETRY, _FAIL = Verdict.OK, Verdict.REBASE, Verdict.RETRY, Verdict.FAIL


def check_conflict(mine: Transaction, committed: Transaction) -> Verdict:
    """Return what `committed` means for `mine`, which is based on an earlier version."""
    ours, theirs = mine.WhichOneof("operation"), committed.WhichOneof("operation")
    if ours is None or theirs is None:
        return _FAIL
    if ours == "update" and mine.update.update_mode == Transaction.Update.REWRITE_COLUMNS:
        ours = "update columns"
    rule = _RULES.get(ours, {}).get(theirs, _FAIL)
    return rule if isinstance(rule, Verdict) else rule(mine, committed)


_ANYTHING: dict[str, Rule] = dict.fromkeys(
    (
        "append",
        "delete",
        "overwrite",
        "create_index",
        "rewrite",
        "merge",
        "restore",
        "reserve_fragments",
        "update",
        "project",
        "update_config",
        "data_replacement",
        "update_mem_wal_state",
        "update_bases",
        "data_overlay",
    ),
    _OK,
)
_SAME_TABLE: dict[str, Rule] = {
    **_ANYTHING,
    "overwrite": _FAIL,
    "restore": _FAIL,
    "update_mem_wal_state": _FAIL,
}
"""Rules for operations that need the table on which they are based: they fail after an overwrite or a
restore.
"""

_RULES: Mapping[str, Mapping[str, Rule]] = {
    "append": {
        **_SAME_TABLE,
        "append": same_files,
        "merge": append_beside_merge,
        "project": append_beside_projection,
    },
    "delete": {
        **_SAME_TABLE,
        "delete": overlap(_REBASE),
        "update": overlap(_REBASE),
        "rewrite": overlap(_RETRY),
        "merge": _RETRY,
        "data_replacement": overlap(_RETRY),
    },
    "update": {
        **_SAME_TABLE,
        "append": append_beside_keys,
        "delete": overlap(_REBASE),
        "update": two_updates(_REBASE),
        "rewrite": overlap(_RETRY),
        "merge": _RETRY,
        "project": unless_nullability,
        "data_replacement": overlap(_RETRY),
        "update_mem_wal_state": _OK,
        "data_overlay": overlap(_RETRY),
    },
    "update columns": {
        **_SAME_TABLE,
        "append": append_beside_keys,
        "delete": overlap(_RETRY),
        "update": two_updates(_RETRY),
        "rewrite": overlap(_RETRY),
        "merge": _RETRY,
        "project": columns_of_projection,
        "data_replacement": overlap(_RETRY),
        "update_mem_wal_state": _OK,
        "data_overlay": overlap(_RETRY),
    },
    "overwrite": {
        **_ANYTHING,
        "overwrite": same_config_keys(_RETRY),
        "update_config": same_config_keys(_OK),
        "update_mem_wal_state": _FAIL,
    },
    "create_index": {
        **_SAME_TABLE,
        "create_index": same_index,
        "rewrite": index_of_rewritten,
        "update": index_of_updated,
        "data_replacement": lambda mine, their: _RETRY if replaces_indexed(mine, their) else _OK,
    },
    "rewrite": {
        **_SAME_TABLE,
        "delete": overlap(_RETRY),
        "create_index": rewritten_of_index,
        "rewrite": two_rewrites,
        "merge": _RETRY,
        "update": overlap(_RETRY),
        "data_replacement": overlap(_RETRY),
        "update_mem_wal_state": _OK,
        "data_overlay": overlap(_RETRY),
    },
    "merge": {
        **_SAME_TABLE,
        "append": _RETRY,
        "delete": _RETRY,
        "rewrite": _RETRY,
        "merge": _RETRY,
        "update": _RETRY,
        "project": _FAIL,
        "update_config": committed_schema_metadata(_RETRY),
        "data_replacement": _RETRY,
        "data_overlay": _RETRY,
    },
    "project": {
        **_SAME_TABLE,
        **dict.fromkeys(("append", "update", "data_replacement", "data_overlay"), may_need_values),
        "merge": _RETRY,
        "project": _RETRY,
        "update_config": committed_field_metadata,
    },
    "restore": {
        **_ANYTHING,
        "update_config": committed_schema_metadata(_FAIL),
        "update_mem_wal_state": _FAIL,
    },
    "reserve_fragments": {**_SAME_TABLE, "update_mem_wal_state": _OK},
    "update_config": {
        **_ANYTHING,
        "overwrite": overwritten_settings,
        "merge": my_schema_metadata(_RETRY),
        "restore": my_schema_metadata(_FAIL),
        "update_config": both_settings,
    },
    "data_replacement": {
        **_SAME_TABLE,
        "delete": removes_replaced,
        "create_index": lambda mine, their: _RETRY if replaces_indexed(their, mine) else _OK,
        "rewrite": overlap(_RETRY),
        "merge": _RETRY,
        "update": moves_replaced,
        "project": replaced_of_projection,
        "data_replacement": same_replacement,
    },
    "update_bases": {**_ANYTHING, "update_bases": same_bases},
}
"""Rules by the operation that wants to commit, then by the committed operation. This package commits no
write-ahead logs and no overlays, so they have no rules.
"""
