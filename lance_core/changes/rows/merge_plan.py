"""Plan of a merge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lance_core.errors import InvalidInputError


@dataclass(frozen=True)
class MergePlan:
    """Actions of a merge for each kind of row.

    Attributes:
        on: columns whose values make rows match; the primary key of the table where there are none.
        when_matched: what becomes of a row of the table that a row of the source matches.
        when_matched_condition: SQL on `source.<column>` and `target.<column>`: only pairs for which it is
            true are updated.
        when_not_matched: what becomes of a row of the source that matches none.
        when_not_matched_by_source: what becomes of a row of the table that no row of the source matches.
        when_not_matched_by_source_condition: SQL on columns of the table: only rows for which it is true are
            deleted.
    """

    on: tuple[str, ...] = ()
    when_matched: Literal["do_nothing", "update_all", "delete", "fail"] = "do_nothing"
    when_matched_condition: str | None = None
    when_not_matched: Literal["do_nothing", "insert_all"] = "do_nothing"
    when_not_matched_by_source: Literal["keep", "delete"] = "keep"
    when_not_matched_by_source_condition: str | None = None

    def check(self) -> None:
        """Raise InvalidInputError for a plan that neither changes nor, with `fail`, asserts anything."""
        if (
            self.when_matched == "do_nothing"
            and self.when_not_matched == "do_nothing"
            and self.when_not_matched_by_source == "keep"
        ):
            raise InvalidInputError("the merge is not configured to change the data in any way")
