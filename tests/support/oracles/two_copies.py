"""One dataset in two places: we change the one, the reference the other, and both have to be the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance

import lance_core
from lance_core.storage import LocalStorage
from lance_core.table.transaction import read_transaction
from support.oracles.comparison import assert_tables_equal

LINEAGE = ("_rowid", "_row_created_at_version", "_row_last_updated_at_version")


@dataclass(frozen=True)
class TwoCopies:
    """Two copies of a dataset: one for each library."""

    ours: Path
    theirs: Path

    def do(self, change: Callable[[Any], Any]) -> None:
        """Change both."""
        change(lance_core.dataset(self.ours))
        change(lance.dataset(str(self.theirs)))

    def check(self, *, compare_versions: bool = True) -> None:
        """Compare schemas with ids, rows, lineage, fragments; ours as both libraries read it."""
        ours, theirs = lance_core.dataset(self.ours), lance.dataset(str(self.theirs))
        read_by_reference = lance.dataset(str(self.ours))
        assert read_by_reference.validate() is None
        expected = theirs.to_table()
        assert_tables_equal(expected, read_by_reference.to_table(), label="ours, read by the reference")
        assert_tables_equal(expected, ours.to_table(), label="ours, read by us")
        ours.validate()
        mine, other = (lance_core.dataset(path).snapshot.manifest for path in (self.ours, self.theirs))
        assert [_field(f) for f in mine.message.fields] == [_field(f) for f in other.message.fields]
        if compare_versions:
            assert [_fragment(f) for f in mine.message.fragments] == [
                _fragment(f) for f in other.message.fragments
            ]
            assert (mine.version, mine.max_fragment_id) == (other.version, other.max_fragment_id)
            columns = [*LINEAGE] if theirs.has_stable_row_ids else ["_rowaddr"]
            expected = theirs.to_table(columns=columns)
            assert ours.to_table(columns=columns).equals(expected)
            assert read_by_reference.to_table(columns=columns).equals(expected)
            kinds = [
                read_transaction(LocalStorage(str(path)), manifest)
                for path, manifest in ((self.ours, mine), (self.theirs, other))
            ]
            assert kinds[0].WhichOneof("operation") == kinds[1].WhichOneof("operation")
            nullability = [
                getattr(kind, kind.WhichOneof("operation")).preserves_nullability
                for kind in kinds
                if kind.WhichOneof("operation") in ("merge", "project")
            ]
            assert len(set(nullability)) <= 1
        assert (mine.reader_feature_flags, mine.writer_feature_flags) == (
            other.reader_feature_flags,
            other.writer_feature_flags,
        )

    def go_on(self) -> None:
        """Let each library change what the other one made, and compare again."""
        name = lance_core.dataset(self.ours).schema.names[0]
        for path in (self.ours, self.theirs):
            lance.dataset(str(path)).add_columns({"go_on": f"`{name}` is null"})
            lance_core.dataset(path).add_columns({"go_on_2": "go_on"})
            lance.dataset(str(path)).optimize.compact_files()
            lance_core.dataset(path).drop_columns(["go_on"])
        self.check(compare_versions=False)


def _field(message: Any) -> tuple[object, ...]:
    return (
        message.id,
        message.parent_id,
        message.name,
        message.logical_type,
        message.nullable,
        message.encoding,
        dict(message.metadata),
    )


def _fragment(message: Any) -> tuple[object, ...]:
    files = [(list(file.fields), list(file.column_indices)) for file in message.files]
    return (message.id, message.physical_rows, message.deletion_file.num_deleted_rows, files)
