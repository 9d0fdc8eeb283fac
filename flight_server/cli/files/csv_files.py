"""CSV files: read all cells as text, then make values of them that say the same."""

from __future__ import annotations

import csv as python_csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from pyarrow import csv

from flight_server.cli.files.compressed import open_input, suffixes
from flight_server.cli.files.source_file import TEXT_BYTES, SourceFile, fitted, readable, reading
from flight_server.cli.files.text_options import Column, TextOptions, check_names
from flight_server.cli.files.text_values import Conversion, Declared, Inferred, inferred_types, shown_text
from lance_core.errors import InvalidInputError

_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
_HEADER_BYTES = 1 << 16
"""Bytes at the begin of a file in which its header is looked for."""


class CsvFile(SourceFile):
    """One file with a header, read as text."""

    def __init__(self, path: str, options: TextOptions) -> None:
        """Read the header.

        Raises:
            InvalidInputError: the file seems to have another delimiter, or two columns have one name.
        """
        self.path, self._options = path, options
        self.names: list[str] = []
        self._delimiter = options.delimiter or ("\t" if suffixes(Path(path))[0] == ".tsv" else ",")
        if options.delimiter is None:
            self._check_delimiter()
        with self._open({}) as found:
            self.names = found.schema.names
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if twice:
            raise InvalidInputError("two columns have the same name", file=path, column=twice[0])

    def first_texts(self, names: Sequence[str]) -> dict[str, pa.Array]:
        """Return the cells of some columns in the first rows."""
        if not names:
            return {}
        with self._open(dict.fromkeys(names, pa.string())) as reader:
            batch = next(iter(reader), None)
        return {name: pa.array([], pa.string()) if batch is None else batch[name] for name in names}

    def convert(self, columns: Mapping[str, Column], conversions: Mapping[str, Conversion]) -> None:
        """Set the type of each column and the way to it."""
        self._columns, self._conversions = columns, conversions
        self.schema = pa.schema([(name, columns[name].type) for name in self.names])

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        text = {name: _text_type(readable(self._columns[name].type)) for name in self.names}
        first_row = 1
        with self._open(text) as reader:
            for batch in reader:
                values = [self._values(name, batch[name], first_row) for name in self.names]
                yield fitted(pa.RecordBatch.from_arrays(values, self.names), schema)
                first_row += batch.num_rows

    def _values(self, name: str, text: pa.Array, first_row: int) -> pa.Array:
        column, conversion = self._columns[name], self._conversions[name]
        try:
            return conversion.values(text)
        except pa.ArrowInvalid:
            row = conversion.first_failure(text)
            if row is None:
                raise
            raise InvalidInputError(
                f"row {first_row + row}: {_REFUSED[column.source]}",
                file=self.path,
                column=name,
                expected=column.type,
                found=shown_text(str(text[row])),
            ) from None

    def _open(self, text: Mapping[str, pa.DataType]) -> csv.CSVStreamingReader:
        """Open the file. `text` gives the type, string or binary, of columns whose type is not inferred.

        If `text` is empty, Arrow infers the types of all columns.
        """
        options = self._options
        return csv.open_csv(
            open_input(self.path),
            csv.ReadOptions(block_size=TEXT_BYTES, encoding=options.encoding),
            csv.ParseOptions(
                delimiter=self._delimiter,
                quote_char=options.quote or False,
                newlines_in_values=True,
                # A row of one column may be an empty cell.
                ignore_empty_lines=len(self.names) != 1,
            ),
            csv.ConvertOptions(
                column_types=text,
                include_columns=list(text),
                null_values=options.nulls,
                strings_can_be_null=True,
                quoted_strings_can_be_null=options.quoted_nulls,
            ),
        )

    def _check_delimiter(self) -> None:
        with open_input(self.path) as file:
            begin = file.read(_HEADER_BYTES)
        lines = begin.decode(self._options.encoding, errors="replace").lstrip("\ufeff").splitlines()
        if not lines:
            return
        counts = {}
        for delimiter in _DELIMITERS:
            with suppress(python_csv.Error):
                quotes = {"quotechar": self._options.quote} if self._options.quote else {"quoting": 3}
                counts[delimiter] = len(next(python_csv.reader(lines[:1], delimiter=delimiter, **quotes)))
        likely = max(counts, key=lambda delimiter: counts[delimiter])
        if counts[likely] > counts.get(self._delimiter, 0):
            raise InvalidInputError(
                f"the cells seem to have a {_DELIMITERS[likely]} between them; give --delimiter",
                file=self.path,
                expected=f"{_DELIMITERS[self._delimiter]} in the header",
                found=shown_text(lines[0]),
            )


_REFUSED = {
    "inferred": "the cell would change as the type that was inferred from the first rows; give --types",
    "dataset": "the cell is no value of the type that the column of the dataset has",
    "given": "the cell is no value of the type that --types gives",
    "text": "the cell is no text",
}


def open_csv_files(
    paths: Sequence[str], table: pa.Schema | None, options: TextOptions
) -> tuple[list[CsvFile], list[Column]]:
    """Open files and decide about the types of their columns, which all files share.

    Args:
        paths: the files.
        table: the dataset that the rows go to; its columns keep their types.
        options: how to read the files.

    Raises:
        InvalidInputError: a file cannot be read, a type names no column or has no text.
    """
    files = []
    for path in paths:
        with reading(path):
            files.append(CsvFile(path, options))
    names = list(dict.fromkeys(name for file in files for name in file.names))
    check_names(options.types, names)
    known = {} if table is None else {field.name: field.type for field in table}
    columns: dict[str, Column] = {}
    conversions: dict[str, Conversion] = {}
    for name in names:
        if name in options.types:
            columns[name] = Column(name, options.types[name], "given")
        elif name in known:
            columns[name] = Column(name, known[name], "dataset")
        elif not options.infer:
            columns[name] = Column(name, pa.string(), "text")
    for column in columns.values():
        data_type = readable(column.type)
        if types.is_nested(data_type):
            raise InvalidInputError(
                "a CSV file cannot hold nested values", column=column.name, expected=data_type
            )
        is_asked_for = column.source == "given"
        conversions[column.name] = Declared(data_type, options.decimal_point, keeps_integers=not is_asked_for)
    guesses = {name: _Guess(inferred_types(options.decimal_point)) for name in names if name not in columns}
    for file in files:
        with reading(file.path):
            for name, text in file.first_texts([name for name in file.names if name in guesses]).items():
                guesses[name].look(text, file.path if len(files) > 1 else None)
    for name, guess in guesses.items():
        columns[name], conversions[name] = guess.result(name)
    for file in files:
        file.convert(columns, conversions)
    return files, [columns[name] for name in names]


class _Guess:
    """The types that keep all cells of one column, as far as the cells were seen."""

    def __init__(self, candidates: Iterable[Inferred]) -> None:
        self._candidates = list(candidates)
        self._num_values = 0
        self._longest = -1
        """The most values that a dropped type kept before it failed."""
        self._example = ""
        """The cell at which that type failed, and where the cell is."""

    def look(self, text: pa.Array, path: str | None) -> None:
        """Drop the types that would change a cell; `path` names the file if there are several."""
        for candidate in list(self._candidates):
            row = candidate.first_failure(text)
            if row is None:
                continue
            self._candidates.remove(candidate)
            kept = self._num_values + pc.count(text.slice(0, row)).as_py()
            if kept > self._longest:
                place = f"row {row + 1}" if path is None else f"row {row + 1} of {path}"
                self._longest, self._example = kept, f"{shown_text(text[row].as_py())} in {place}"
        self._num_values += pc.count(text).as_py()

    def result(self, name: str) -> tuple[Column, Conversion]:
        """Return the first type that is left, else text."""
        if self._num_values and self._candidates:
            return Column(name, self._candidates[0].type, "inferred"), self._candidates[0]
        return Column(name, pa.string(), "text", self._example or "no values"), Declared(pa.string())


def _text_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type to read cells as: bytes do not have to be UTF-8."""
    kinds = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    return pa.binary() if any(is_kind(data_type) for is_kind in kinds) else pa.string()
