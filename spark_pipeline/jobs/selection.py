"""Columns and order of rows, as the options of jobs name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f


def selected(
    frame: DataFrame, columns: Sequence[str] | Mapping[str, str] | None, where: str | None = None
) -> DataFrame:
    """Return the columns and rows of a frame that `SelectionOptions` name."""
    if where is not None:
        frame = frame.where(where)
    if columns is None:
        return frame
    if isinstance(columns, Mapping):
        return frame.selectExpr(*(f"{sql} AS {quoted(name)}" for name, sql in columns.items()))
    return frame.select(*(quoted(name) for name in columns))


def quoted(name: str) -> str:
    """Return a name, with any characters, in the form that SQL of Spark and `DataFrame.select` expect."""
    return "`" + name.replace("`", "``") + "`"


def column_named(name: str) -> Column:
    """Return the column of this name; dots are part of the name."""
    return f.col(quoted(name))


def parse_order(text: str) -> tuple[str, bool]:
    """Return the name in `fare`, `fare ASC` or `fare DESC`, and whether the order is descending."""
    name, _, direction = text.rpartition(" ")
    if name and direction.upper() in ("ASC", "DESC"):
        return name.strip(), direction.upper() == "DESC"
    return text, False


def ordering(column: tuple[str, bool]) -> Column:
    """Return the sort key for Spark. Nulls come first, in descending order last."""
    name, descending = column
    return column_named(name).desc() if descending else column_named(name).asc()
