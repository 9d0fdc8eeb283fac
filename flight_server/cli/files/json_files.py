"""JSON files with one object on each line: numbers keep their value, text stays text."""

from __future__ import annotations

import json as python_json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from pyarrow import json

from flight_server.cli.files.compressed import open_input
from flight_server.cli.files.source_file import TEXT_BYTES, SourceFile, fitted, readable, reading
from flight_server.cli.files.text_options import Column, TextOptions
from flight_server.cli.files.text_values import Declared, first_failure, shown_text
from lance_core.errors import InvalidInputError

_BOM = b"\xef\xbb\xbf"

_LONG_INTEGER = re.compile(rb"[0-9]{16}")
"""The digits of the least integer that a double rounds."""

_NOT_FINITE = re.compile(rb"([:\[,]\s*)-?(?:NaN|Infinity)")
_ESCAPED = re.compile(rb"\\.", re.DOTALL)

_IS_DIGIT = np.isin(np.arange(256), np.frombuffer(b"0123456789", np.uint8))
_IS_OF_NUMBER = np.isin(np.arange(256), np.frombuffer(b"0123456789+-.eE", np.uint8))


class JsonFile(SourceFile):
    """One file with an object on each line."""

    def __init__(self, path: str, options: TextOptions, known: Mapping[str, pa.DataType]) -> None:
        """Infer the types of columns from the first lines; those of `known` are known.

        Raises:
            InvalidInputError: the first lines are no objects, or have an integer that no type keeps.
        """
        self.path, self._encoding = path, options.encoding
        block = next(self._blocks(), b"")
        if block.lstrip().startswith(b"["):
            raise InvalidInputError("the file is an array; one object on each line is expected", file=path)
        found = json.read_json(pa.BufferReader(block), _whole(block)).schema
        inferred = pa.schema([(field.name, known.get(field.name) or _plain(field.type)) for field in found])
        unknown = pa.schema([field for field in inferred if field.name not in known])
        decimals = _decimals(block, unknown)
        self.inferred = pa.schema([(name, decimals.get(name, type_)) for name, type_ in _pairs(inferred)])

    def convert(self, columns: Mapping[str, Column]) -> None:
        """Set the columns of all files."""
        self._columns = columns
        self.schema = pa.schema([(name, column.type) for name, column in columns.items()])

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        line = 1
        for block in self._blocks():
            for batch in self._read(block, line).to_batches():
                yield fitted(batch, schema)
            line += block.count(b"\n")

    def _blocks(self) -> Iterator[bytes]:
        """Yield whole lines, about `TEXT_BYTES` at once."""
        with open_input(self.path) as file:
            if self._encoding != "utf-8":
                file = pa.transcoding_input_stream(file, self._encoding, "utf-8")
            rest = file.read(len(_BOM)).removeprefix(_BOM)
            while data := file.read(TEXT_BYTES):
                end = data.rfind(b"\n") + 1
                if end:
                    yield rest + data[:end]
                    rest = data[end:]
                else:
                    rest += data
            if rest.strip():
                yield rest

    def _read(self, block: bytes, line: int) -> pa.Table:
        """Return the rows of a block whose first line is number `line`."""
        columns = list(self._columns.values())
        try:
            return _table(block, columns)
        except pa.ArrowInvalid as error:
            lines = block.split(b"\n")
            wrong = first_failure(
                len(lines), lambda start, stop: _table(b"\n".join(lines[start:stop]), columns)
            )
            if wrong is None:
                raise
            raise self._error(lines[wrong], line + wrong, error) from None

    def _error(self, text: bytes, line: int, error: pa.ArrowInvalid) -> InvalidInputError:
        """Return the error that says what is wrong with a line."""
        try:
            row = python_json.loads(text)
        except ValueError:
            return InvalidInputError(f"line {line} is not JSON", file=self.path, found=error)
        if not isinstance(row, dict):
            return InvalidInputError(f"line {line} is not a JSON object", file=self.path)
        extra = _unknown_field(row, pa.struct(list(self.schema)))
        if extra is not None:
            message = f"line {line} has an unexpected field, which the first lines lack; --types declares it"
            return InvalidInputError(message, file=self.path, column=extra)
        for name in row:
            column = self._columns[name]
            try:
                _table(python_json.dumps({name: row[name]}).encode(), [column])
            except pa.ArrowException:
                return InvalidInputError(
                    f"line {line}: {_REFUSED[column.source]}",
                    file=self.path,
                    column=name,
                    expected=column.type,
                    found=shown_text(python_json.dumps(row[name])),
                )
        return InvalidInputError(f"line {line} cannot be read", file=self.path, found=error)


_REFUSED = {
    "inferred": "the value would change as the type that was inferred from the first lines; give --types",
    "dataset": "the value is none of the type that the column of the dataset has",
    "given": "the value is none of the type that --types gives",
}


def open_json_files(
    paths: Sequence[str], table: pa.Schema | None, options: TextOptions
) -> tuple[list[JsonFile], list[Column]]:
    """Open files and decide about the types of their columns, which all files share.

    Args:
        paths: the files.
        table: the dataset that the rows go to; its columns keep their types.
        options: how to read the files. Types of columns that the first lines lack declare these columns.

    Raises:
        InvalidInputError: a file cannot be read, or files do not go together.
    """
    of_table = {} if table is None else dict(_pairs(table))
    known = of_table | dict(options.types)
    files = []
    for path in paths:
        with reading(path):
            files.append(JsonFile(path, options, known))
    try:
        inferred = pa.unify_schemas([file.inferred for file in files], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInputError(
            "the files have columns of the same name and different types", found=error
        ) from None
    columns = {name: Column(name, type_, "inferred") for name, type_ in _pairs(inferred)}
    columns |= {name: Column(name, type_, "dataset") for name, type_ in of_table.items() if name in columns}
    columns |= {name: Column(name, type_, "given") for name, type_ in options.types.items()}
    if not columns:
        raise InvalidInputError("the first lines have no fields", file=paths[0])
    for file in files:
        file.convert(columns)
    return files, list(columns.values())


def _pairs(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]


def _whole(block: bytes) -> json.ReadOptions:
    """Return options that make Arrow read all lines as one block."""
    return json.ReadOptions(block_size=len(block) + 1, use_threads=False)


def _table(block: bytes, columns: Sequence[Column]) -> pa.Table:
    """Return the columns of a block. ArrowInvalid: a value would change, or is of another kind."""
    if not block.strip():
        return pa.schema([(column.name, column.type) for column in columns]).empty_table()
    schema = pa.schema([(column.name, _read_as(readable(column.type))) for column in columns])
    table = _parsed(block, schema, "error")
    checked = [(column.name, column.type) for column in columns if column.source != "given"]
    for _, text in _texts_of_floats(block, pa.schema(checked)):
        _ = Declared(pa.float64()).values(text)
    values = [
        _converted(table[column.name].combine_chunks(), readable(column.type), column.source != "given")
        for column in columns
    ]
    return pa.table(values, [column.name for column in columns])


def _parsed(block: bytes, schema: pa.Schema, unexpected: str) -> pa.Table:
    options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
    return json.read_json(pa.BufferReader(block), _whole(block), options)


def _with_leaves(data_type: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type of objects and arrays with other types at its leaves."""
    if types.is_struct(data_type):
        return pa.struct([(field.name, _with_leaves(field.type, leaf)) for field in data_type])
    if _is_list(data_type):
        return pa.list_(_with_leaves(readable(data_type.value_type), leaf))
    return leaf(data_type)


def _is_list(data_type: pa.DataType) -> bool:
    kinds = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(is_kind(data_type) for is_kind in kinds)


def _plain(data_type: pa.DataType) -> pa.DataType:
    """Return an inferred type with strings for timestamps, whose zone Arrow drops, and for nulls."""
    is_text = (types.is_timestamp, types.is_null)
    return _with_leaves(
        data_type, lambda leaf: pa.string() if any(is_kind(leaf) for is_kind in is_text) else leaf
    )


def _read_as(data_type: pa.DataType) -> pa.DataType:
    """Return the type that Arrow reads JSON as before `_converted` makes another type of it."""

    def leaf(wanted: pa.DataType) -> pa.DataType:
        if types.is_temporal(wanted):
            return pa.int64() if types.is_duration(wanted) else pa.string()
        if types.is_large_string(wanted) or types.is_string_view(wanted):
            return pa.string()
        if types.is_large_binary(wanted) or types.is_fixed_size_binary(wanted):
            return pa.binary()
        return pa.float64() if types.is_floating(wanted) else readable(wanted)

    return _with_leaves(data_type, leaf)


def _converted(array: pa.Array, data_type: pa.DataType, keeps_integers: bool) -> pa.Array:
    """Return values that were read as `_read_as` says, in their own type."""
    if types.is_struct(data_type):
        children = [
            _converted(array.field(place), readable(field.type), keeps_integers)
            for place, field in enumerate(data_type)
        ]
        return pa.StructArray.from_arrays(children, fields=list(data_type), mask=array.is_null())
    if _is_list(data_type):
        items = _converted(array.values, readable(data_type.value_type), keeps_integers)
        lists = pa.ListArray.from_arrays(array.offsets, items, mask=array.is_null())
        return lists.cast(data_type)
    if types.is_string(array.type) and types.is_temporal(data_type):
        return Declared(data_type, keeps_integers=keeps_integers).values(array)
    values = pc.cast(array, data_type)
    if types.is_floating(array.type):
        rounded = pc.cast(values, pa.float64())
        is_kept = pc.or_(pc.equal(rounded, array), pc.not_equal(pc.floor(array), array))
        is_kept = pc.and_(pc.or_(is_kept, not keeps_integers), pc.equal(pc.is_inf(rounded), pc.is_inf(array)))
        if not pc.all(is_kept, min_count=0).as_py():
            raise pa.ArrowInvalid("a number is beyond the type")
    return values


def _decimals(block: bytes, schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the types of the columns whose inferred floats are integers beyond 64 bits: decimals."""
    exact = {
        path: _integer_type(text)
        for path, text in _texts_of_floats(block, schema)
        if pc.all(pc.match_substring_regex(text, "^-?[0-9]+$"), min_count=1).as_py()
    }
    if not exact:
        return {}

    def replaced(path: tuple[str, ...], data_type: pa.DataType) -> pa.DataType:
        if types.is_struct(data_type):
            return pa.struct([(field.name, replaced((*path, field.name), field.type)) for field in data_type])
        if types.is_list(data_type):
            return pa.list_(replaced((*path, "[]"), data_type.value_type))
        return exact.get(path, data_type)

    return {name: replaced((name,), type_) for name, type_ in _pairs(schema)}


def _integer_type(text: pa.Array) -> pa.DataType:
    digits = pc.max(pc.utf8_length(pc.utf8_ltrim(text, "-"))).as_py()
    return pa.decimal128(38, 0) if digits <= 38 else pa.decimal256(76, 0)


def _texts_of_floats(block: bytes, schema: pa.Schema) -> Iterator[tuple[tuple[str, ...], pa.Array]]:
    """Yield the texts of the floats of a block by the path of their leaf; nothing if all numbers are short.

    Arrow reads `9007199254740993` as a float without a word where other values of the field have a fraction.
    """
    if not _LONG_INTEGER.search(block):
        return
    fields = [field for field in schema if _has_floats(field.type)]
    if not fields:
        return
    as_text = pa.schema([(field.name, _number_texts(field.type)) for field in fields])
    table = _parsed(_with_quoted_numbers(block), as_text, "ignore")
    for field in fields:
        yield from _float_leaves((field.name,), table[field.name].combine_chunks(), readable(field.type))


def _has_floats(data_type: pa.DataType) -> bool:
    data_type = readable(data_type)
    children = [data_type.field(index).type for index in range(data_type.num_fields)]
    return types.is_floating(data_type) or any(_has_floats(child) for child in children)


def _number_texts(data_type: pa.DataType) -> pa.DataType:
    """Return the type to read a value as when all numbers are quoted."""
    return _with_leaves(readable(data_type), lambda leaf: leaf if types.is_boolean(leaf) else pa.string())


def _float_leaves(
    path: tuple[str, ...], text: pa.Array, data_type: pa.DataType
) -> Iterator[tuple[tuple[str, ...], pa.Array]]:
    if types.is_struct(data_type):
        for place, field in enumerate(data_type):
            yield from _float_leaves((*path, field.name), text.field(place), readable(field.type))
    elif _is_list(data_type):
        yield from _float_leaves((*path, "[]"), text.values, readable(data_type.value_type))
    elif types.is_floating(data_type):
        yield path, text


def _with_quoted_numbers(block: bytes) -> bytes:
    """Return the block with quotes around every number, and null for numbers that are not finite."""
    block = _NOT_FINITE.sub(rb"\1null", block)
    # Without escapes every quote begins or ends a text.
    data = np.frombuffer(_ESCAPED.sub(b"__", block), np.uint8)
    is_of_number = _IS_OF_NUMBER[data] & ~np.logical_xor.accumulate(data == ord('"'))
    edges = np.flatnonzero(np.diff(is_of_number, prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    # `true` and `false` end in a letter of exponents.
    is_number = _IS_DIGIT[data[starts]] | (data[starts] == ord("-"))
    places = np.concatenate([starts[is_number], ends[is_number]])
    return np.insert(np.frombuffer(block, np.uint8), places, ord('"')).tobytes()


def _unknown_field(value: Any, data_type: pa.DataType) -> str | None:
    """Return the path of a field in a value of JSON that a type lacks, or None."""
    if isinstance(value, dict) and types.is_struct(data_type):
        known = {field.name: readable(field.type) for field in data_type}
        for name, child in value.items():
            if name not in known:
                return str(name)
            deeper = _unknown_field(child, known[name])
            if deeper is not None:
                return f"{name}.{deeper}"
    if isinstance(value, list) and _is_list(data_type):
        found = (_unknown_field(item, readable(data_type.value_type)) for item in value)
        return next((path for path in found if path is not None), None)
    return None
