"""Plans of merges as text: the steps of a merge, the columns that they use, and what a run measured."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from textwrap import indent

import pyarrow as pa

from lance_core.changes.checked_reads import scan_for_change
from lance_core.changes.rows.key_matches import key_scan
from lance_core.changes.rows.merge_insert import MergeTrace, write_merge
from lance_core.changes.rows.merge_plan import MergePlan
from lance_core.changes.rows.merged_rows import MergedRows
from lance_core.changes.rows.row_change import make_row_change
from lance_core.changes.source_rows import SourceRows
from lance_core.scan.explain import explain_text
from lance_core.table.snapshot import Snapshot
from lance_core.write.targets import TargetBases

_Facts = Mapping[str, object]


def explain_merge(
    snapshot: Snapshot, schema: pa.Schema | None, plan: MergePlan, *, verbose: bool = False
) -> str:
    """Return the steps of a merge without running it.

    Args:
        snapshot: The version to merge into.
        schema: Schema of the source; None means that of the table.
        plan: Actions per kind of row.
        verbose: Add the pages of the key columns, per fragment.

    Raises:
        InvalidInputError: The plan or a column of the source is not valid.
        UnsupportedFeatureError: Rows cannot be matched by a key of this type.
    """
    plan.check()
    schema = snapshot.manifest.schema.to_arrow() if schema is None else schema
    with SourceRows(schema.empty_table()) as source:
        return _text(snapshot, source, plan, {}, verbose=verbose)


def analyze_merge(
    snapshot: Snapshot, source: SourceRows, plan: MergePlan, targets: TargetBases | None = None
) -> str:
    """Run a merge without a commit, and remove its files. Return its steps with what they measured.

    Args:
        snapshot: The version to merge into.
        source: Rows, as for `merge_insert`.
        plan: Actions per kind of row.
        targets: Base paths that the files of new fragments are written to.

    Raises:
        LanceError: The errors of `merge_insert`, except those of the commit.
    """
    trace = MergeTrace()
    begin = time.perf_counter()
    change = make_row_change(
        snapshot,
        lambda current, change: write_merge(current, source, plan, change, targets, trace=trace, sync=True),
    )
    elapsed_ms = 1000 * (time.perf_counter() - begin)
    try:
        files = [file for new in change.transaction.update.new_fragments for file in new.files]
        metrics = {
            "MergeInsert": {
                "elapsed_ms": round(elapsed_ms, 3),
                **change.counts,
                "bytes_written": sum(file.file_size_bytes for file in files),
                "num_files_written": len(files),
                "num_deletion_files_written": len(change.files),
            },
            "RemoveRows": _elapsed(trace, "remove"),
            "WriteRows": _elapsed(trace, "write"),
            "HashJoin": {**_elapsed(trace, "find"), "output_rows": trace.num_pairs},
            "Source": {"output_rows": source.num_rows},
        }
        return _text(snapshot, source, plan, metrics, verbose=True)
    finally:
        change.discard(snapshot.storage)


def _elapsed(trace: MergeTrace, step: str) -> _Facts:
    return {"elapsed_ms": round(trace.elapsed_ms.get(step, 0.0), 3)}


def _text(
    snapshot: Snapshot, source: SourceRows, plan: MergePlan, metrics: Mapping[str, _Facts], *, verbose: bool
) -> str:
    """Return the steps as lines. A step uses the results of the steps below it that are indented further."""
    merge = MergedRows(snapshot, source, plan)
    keys = [field.name for field in merge.keys]
    kept = [field.name for field in merge.kept]
    updates, inserts = plan.when_matched == "update_all", plan.when_not_matched == "insert_all"
    actions = {
        "on": _names(keys),
        "when_matched": _WORDS[plan.when_matched],
        "when_matched_condition": plan.when_matched_condition,
        "when_not_matched": _WORDS[plan.when_not_matched],
        "when_not_matched_by_source": _WORDS[plan.when_not_matched_by_source],
        "when_not_matched_by_source_condition": plan.when_not_matched_by_source_condition,
    }
    steps: list[tuple[str, _Facts]] = [("MergeInsert", actions)]
    if plan.removes_rows:
        steps.append(("RemoveRows", {"files": "deletion files", "fragments_without_rows": "removed"}))
    if plan.writes_rows:
        columns = {
            "from_source": _names(source.schema.names),
            "updated_rows_keep": _names(kept) if kept and updates else None,
            "inserted_rows_null": _names(kept) if kept and inserts else None,
        }
        steps.append(("WriteRows", {"files": "new fragments", **columns}))
    steps.append(
        ("HashJoin", {"type": "inner", "keys": _names(keys), "table_in_memory": "parts of the keys"})
    )
    lines = [
        "  " * depth + f"{name}: {_facts(facts, metrics.get(name))}"
        for depth, (name, facts) in enumerate(steps)
    ]
    held = "a temporary file" if source.is_spooled else "memory"
    facts = {"columns": _names(source.schema.names), "held_in": held if metrics else None}
    lines.append("  " * len(steps) + f"Source: {_facts(facts, metrics.get('Source'))}")
    scan = scan_for_change(snapshot, key_scan(snapshot, source, merge.keys)).explain()
    return "\n".join(lines) + "\n" + indent(explain_text(scan, verbose=verbose), "  " * len(steps))


def _names(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"


def _facts(facts: _Facts, metrics: _Facts | None) -> str:
    shown = [f"{name}={value}" for name, value in facts.items() if value is not None]
    if metrics is not None:
        shown.append(f"metrics=[{', '.join(f'{name}={value}' for name, value in metrics.items())}]")
    return ", ".join(shown)


_WORDS = {
    "do_nothing": "DoNothing",
    "update_all": "UpdateAll",
    "delete": "Delete",
    "fail": "Fail",
    "insert_all": "InsertAll",
    "keep": "Keep",
}
