"""Values of record batches as JSON and as text."""

import base64
import json
import math
import re
from typing import Any

import pyarrow as pa

_INVISIBLE = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that JSON needs not escape, and that terminals obey or that turn text around."""


def json_lines(batch: pa.RecordBatch) -> str:
    """Return one JSON object per row; bytes as base64, non-finite numbers, dates and decimals as strings."""
    lines = (json.dumps(_jsonable(row), ensure_ascii=False) for row in _rows(batch))
    return "".join(f"{_INVISIBLE.sub(_escape, line)}\n" for line in lines)


def python_values(column: pa.Array) -> list[Any]:
    """Return the values of a column; times and durations that Python cannot hold as text."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [_python_value(scalar) for scalar in column]


def schema_rows(schema: pa.Schema) -> list[dict[str, Any]]:
    """Return the fields of a schema as plain values."""
    return [{"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in schema]


def readable_bytes(num_bytes: int) -> str:
    """Return a size in binary units with three digits; `?` for -1, which means unknown."""
    if num_bytes < 0:
        return "?"
    exponent = max(0, min(4, (num_bytes.bit_length() - 1) // 10))
    unit = ("B", "KiB", "MiB", "GiB", "TiB")[exponent]
    return f"{num_bytes / 1024**exponent:.3g} {unit}" if exponent else f"{num_bytes} B"


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if (
        value is None
        or isinstance(value, bool | int | str)
        or (isinstance(value, float) and math.isfinite(value))
    ):
        return value
    return str(value)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    try:
        return list(batch.to_pylist())
    except (OverflowError, ValueError):
        columns = map(python_values, batch.columns)
        return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _python_value(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.StructScalar):
        return {name: _python_value(child) for name, child in scalar.items()}
    if isinstance(scalar, pa.ListScalar):
        return [_python_value(child) for child in scalar.values]
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        # Neither Python nor Arrow's own text has years of more than five digits.
        return f"{scalar.value} {_unit(scalar.type)}"


def _unit(data_type: pa.DataType) -> str:
    unit = getattr(data_type, "unit", "ms" if pa.types.is_date64(data_type) else "days")
    return unit if pa.types.is_duration(data_type) else f"{unit} since 1970"
