"""The plan of a merge: an action for each kind of row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lance_core.errors import InvalidInputError


@dataclass(frozen=True)
class MergePlan:
    """Actions of a merge for each kind of row.

    Attributes:
        on: Key columns: rows with equal values match. If empty, the primary key of the table.
        when_matched: Action for a row of the table that matches a source row.
        when_matched_condition: SQL on `source.<column>` and `target.<column>`. Only pairs that meet it are
            updated.
        when_not_matched: Action for a source row that matches no row of the table.
        when_not_matched_by_source: Action for a row of the table that matches no source row.
        when_not_matched_by_source_condition: SQL on columns of the table. Only rows that meet it are deleted.
    """

    on: tuple[str, ...] = ()
    when_matched: Literal["do_nothing", "update_all", "delete", "fail"] = "do_nothing"
    when_matched_condition: str | None = None
    when_not_matched: Literal["do_nothing", "insert_all"] = "do_nothing"
    when_not_matched_by_source: Literal["keep", "delete"] = "keep"
    when_not_matched_by_source_condition: str | None = None

    @property
    def writes_rows(self) -> bool:
        """Whether the merge may write updated or inserted rows."""
        return self.when_matched == "update_all" or self.when_not_matched == "insert_all"

    @property
    def removes_rows(self) -> bool:
        """Whether the merge may remove rows of the table. An updated row is removed and written again."""
        return self.when_matched in ("update_all", "delete") or self.when_not_matched_by_source == "delete"

    def check(self) -> None:
        """Raise InvalidInputError if the plan changes nothing and does not refuse matches either."""
        if (
            self.when_matched == "do_nothing"
            and self.when_not_matched == "do_nothing"
            and self.when_not_matched_by_source == "keep"
        ):
            raise InvalidInputError("the merge is not configured to change the data in any way")
