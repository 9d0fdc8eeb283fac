"""Text on terminals: what comes from users and data is shown as it is, and never as an instruction.

Names, types and values may hold anything: the markup of rich (`[/b]`), escape sequences of terminals, line
breaks. Every text that this program did not write itself goes through `printable`, and to rich as a `Text`,
in which brackets mean nothing.
"""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from flight_client.terminal import count, printable

__all__ = ["count", "plain", "print_line", "print_rows", "print_table", "printable"]

_MOST_CELL_CHARACTERS = 60
"""Limit for a cell in a table; the value of a record may fill its line."""
_MOST_VALUE_CHARACTERS = 1000
"""Limit for the part of a value that is looked at: no terminal has a line as long."""
_LEAST_TABLE_COLUMNS = 4
"""Limit below which rows are shown as records: so many columns have to fit into the terminal."""
_MOST_NAMES = 100
"""Limit for the names of columns that are left out."""
_CELL_FRAME = 3
"""Characters that a column takes beside its text: a border and two spaces. A table has one border more."""
_RECORD_GAP = 2
"""Spaces between the names and the values of a record."""


def plain(text: str) -> Text:
    """Return `text` for a cell or a line that `rich` prints, with escapes for control characters."""
    return Text(printable(text))


def print_line(text: str) -> None:
    """Print one line to stdout, however long, with escapes for what is no visible character."""
    print(printable(text))


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, folded: Sequence[str] = ()) -> None:
    """Print a table to stdout, one line a row.

    Cells that do not fit are cut with an ellipsis. Those of the columns `folded` are broken into several
    lines instead: names and types that somebody wants to copy, or read to the end.
    """
    columns = [
        Column(
            plain(header), no_wrap=header not in folded, overflow="fold" if header in folded else "ellipsis"
        )
        for header in headers
    ]
    table = Table(*columns)
    for row in rows:
        table.add_row(*map(plain, row))
    Console().print(table)


def print_rows(names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows of data to stdout so that they are readable in the width of the terminal.

    Rows that fit are a table, one line a row, long cells cut with an ellipsis. Where columns do not fit,
    those in the middle are left out and named below the table. A single row, and rows of which fewer than
    four columns would fit, are printed as records: a line `name  value` for each column.
    """
    cells = [[_as_text(value) for value in row] for row in rows]
    widths = [
        min(_MOST_CELL_CHARACTERS, max(cell_len(text) for text in (name, *column)))
        for name, column in zip(map(printable, names), _columns(cells, len(names)), strict=True)
    ]
    width = Console().width
    shown = _fitting(widths, width)
    if len(shown) < len(names) and (len(rows) == 1 or len(shown) < _LEAST_TABLE_COLUMNS):
        _print_records(names, cells)
        return
    table = Table(*(Column(plain(names[index]), no_wrap=True, max_width=widths[index]) for index in shown))
    for row in cells:
        table.add_row(*(Text(row[index]) for index in shown))
    Console().print(table)
    left_out = [printable(name) for index, name in enumerate(names) if index not in set(shown)]
    if left_out:
        more = ", ..." if len(left_out) > _MOST_NAMES else ""
        named = ", ".join(left_out[:_MOST_NAMES])
        Console().print(Text(f"... {count(len(left_out), 'more column')}: {named}{more}"))


def _columns(cells: Sequence[Sequence[str]], num_columns: int) -> Sequence[Sequence[str]]:
    return list(zip(*cells, strict=True)) if cells else [()] * num_columns


def _fitting(widths: Sequence[int], width: int) -> list[int]:
    """Return the columns that fit: all, or the first and the last ones."""
    if sum(widths) + _CELL_FRAME * len(widths) + 1 <= width:
        return list(range(len(widths)))
    left, first, last = width - 1, 0, len(widths)
    while first < last:
        takes_first = first <= len(widths) - last
        taken = widths[first if takes_first else last - 1] + _CELL_FRAME
        if taken > left:
            break
        left -= taken
        first, last = (first + 1, last) if takes_first else (first, last - 1)
    return [*range(first), *range(last, len(widths))]


def _print_records(names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print one line for each column of each row."""
    console = Console()
    # Both widths are given: rich would take what a long value needs from the names as well.
    name_width = min(max(cell_len(printable(name)) for name in names), console.width // 2)
    value_width = console.width - name_width - _RECORD_GAP
    for number, row in enumerate(cells):
        if len(cells) > 1:
            console.print(Text(f"row {number}"), style="bold")
        table = Table(
            Column(no_wrap=True, max_width=name_width),
            Column(no_wrap=True, max_width=value_width),
            box=None,
            show_header=False,
            pad_edge=False,
            padding=(0, _RECORD_GAP, 0, 0),
        )
        for name, text in zip(names, row, strict=True):
            table.add_row(plain(name), Text(text))
        console.print(table)


def _as_text(value: object) -> str:
    return "" if value is None else printable(str(value)[:_MOST_VALUE_CHARACTERS])
