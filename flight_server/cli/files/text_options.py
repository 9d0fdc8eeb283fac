"""Options for reading text files, and the report about their columns."""

import codecs
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import pyarrow as pa
import typer

from flight_server.cli.files.type_names import parse_type
from lance_core.errors import InvalidInputError


@dataclass(frozen=True)
class TextOptions:
    """Options for reading CSV and JSON files.

    Attributes:
        types: the types of columns by name, which inference and the dataset do not change.
        infer: look for types in the first rows; otherwise columns of CSV files are text.
        delimiter: the character between the cells of CSV; None means a tab for `.tsv` and a comma otherwise,
            and refuses files whose header seems to have another one.
        quote: the character around cells of CSV, or None if there is none.
        nulls: the cells of CSV that are null, without quotes around them.
        quoted_nulls: the same cells are null within quotes, too.
        encoding: of the text, a name that Python knows.
        decimal_point: the character before the fraction of a number of CSV.
    """

    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    infer: bool = True
    delimiter: str | None = None
    quote: str | None = '"'
    nulls: tuple[str, ...] = ("",)
    quoted_nulls: bool = False
    encoding: str = "utf-8"
    decimal_point: str = "."


@dataclass(frozen=True)
class Column:
    """The report about one column of text files: its type, and the reason for the type.

    Attributes:
        name: of the column.
        type: the type that its cells become.
        source: `--types`, the dataset or the first rows; "text" if no type keeps all cells.
        example: for text, a cell that keeps the column from another type.
    """

    name: str
    type: pa.DataType
    source: Literal["given", "dataset", "inferred", "text"]
    example: str = ""

    def as_data(self) -> dict[str, Any]:
        """Return the report as JSON."""
        data = {"name": self.name, "type": str(self.type), "source": self.source}
        return data | ({"example": self.example} if self.example else {})


_OF_KIND = {"csv": {f.name for f in fields(TextOptions)}, "json": {"types", "encoding"}}
"""The options that files of a kind have; others have none."""


def text_options(
    kind: str | None,
    *,
    delimiter: str | None,
    quote: str,
    nulls: Iterable[str] | None,
    quoted_nulls: bool,
    types: Iterable[str] | None,
    no_infer: bool,
    encoding: str,
    decimal_point: str,
) -> TextOptions:
    """Return the options of the command line for files of one kind.

    Raises:
        typer.BadParameter: a value makes no sense, or this kind of files has no such option.
    """
    default = TextOptions()
    given = TextOptions(
        types=dict(_typed(text) for text in types or ()),
        infer=not no_infer,
        delimiter=None if delimiter is None else _ESCAPES.get(delimiter, delimiter),
        quote=quote or None,
        nulls=default.nulls if nulls is None else tuple(null for each in nulls for null in each.split(",")),
        quoted_nulls=quoted_nulls,
        encoding=_encoding(encoding),
        decimal_point=decimal_point,
    )
    for each in fields(TextOptions):
        hint = f"--{_FLAGS.get(each.name, each.name.replace('_', '-'))}"
        value = getattr(given, each.name)
        if value != getattr(default, each.name) and each.name not in _OF_KIND.get(str(kind), ()):
            raise typer.BadParameter(f"not an option for {kind} files", param_hint=hint)
        is_character = each.name in ("delimiter", "quote", "decimal_point") and value is not None
        if is_character and (len(value) != 1 or not value.isascii()):
            raise typer.BadParameter(f"expected one ASCII character, found {value!r}", param_hint=hint)
    if given.delimiter in (given.quote, given.decimal_point):
        raise typer.BadParameter(
            "the delimiter must differ from the quote and from the decimal point", param_hint="--delimiter"
        )
    if given.decimal_point not in ".,":
        raise typer.BadParameter(
            "expected a point or a comma, found " + repr(given.decimal_point), param_hint="--decimal-point"
        )
    return given


_ESCAPES = {"\\t": "\t", "tab": "\t"}
_FLAGS = {"infer": "no-infer"}


def _typed(text: str) -> tuple[str, pa.DataType]:
    name, equals, type_name = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"expected column=type, found {text!r}", param_hint="--types")
    try:
        return name, parse_type(type_name)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error), param_hint="--types") from None


def _encoding(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise typer.BadParameter(f"no such encoding: {name}", param_hint="--encoding") from None


def check_names(types: Mapping[str, pa.DataType], names: Iterable[str]) -> None:
    """Raise InvalidInputError for a type of a column that no file has."""
    missing = sorted(types.keys() - set(names))
    if missing:
        raise InvalidInputError("--types names a column that no file has", column=missing[0])
