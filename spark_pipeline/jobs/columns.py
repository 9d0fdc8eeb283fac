"""Columns as jobs name them: which, under which names, in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f


def selected(
    frame: DataFrame, columns: Sequence[str] | Mapping[str, str] | None, where: str | None = None
) -> DataFrame:
    """Return the schema mapping of a job.

    Args:
        frame: the source.
        columns: names to keep, in this order; or SQL of Spark by the new name: `{"fare": "CAST(total AS
            DOUBLE)"}` renames, casts and computes; all columns if None.
        where: only rows for which this SQL of Spark is true, on the columns of the source.
    """
    if where is not None:
        frame = frame.where(where)
    if columns is None:
        return frame
    if isinstance(columns, Mapping):
        return frame.selectExpr(*(f"{sql} AS {quoted(name)}" for name, sql in columns.items()))
    return frame.select(*(quoted(name) for name in columns))


def quoted(name: str) -> str:
    """Return the name as SQL of Spark and `DataFrame.select` take it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def column_named(name: str) -> Column:
    """Return the column of exactly this name, dots included."""
    return f.col(quoted(name))


def parse_order(text: str) -> tuple[str, bool]:
    """`fare` or `fare DESC`: the name, and whether it is descending."""
    name, _, direction = text.rpartition(" ")
    if name and direction.upper() in ("ASC", "DESC"):
        return name.strip(), direction.upper() == "DESC"
    return text, False


def ordering(column: tuple[str, bool]) -> Column:
    """Return the sort key for Spark; nulls come first, and last in descending order."""
    name, descending = column
    return column_named(name).desc() if descending else column_named(name).asc()
