"""Building of JSON indices: values at a path inside JSON, in one type, become an index of another kind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lance_core.encodings.json_values import check_path, extract, type_at
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.index.build import VALUE, BuiltSegment, IndexedRows, IndexKind, Parameters, Scan
from lance_core.index.json.details import JsonDetails, details_bytes, parse_details
from lance_core.index.json.documents import check_json
from lance_core.index.scalar.parameters import refuse_unknown
from lance_core.index.segment_files import SegmentFiles
from lance_core.index.segment_writer import SegmentWriter

_OPTIONS = ("path", "target_index_type", "target_index_parameters")


def json_kind(type_url: str, targets: Mapping[str, IndexKind]) -> IndexKind:
    """Return the kind of JSON indices.

    Args:
        type_url: Type URL of its details.
        targets: Kinds of the indices inside, by name. They name rows as `RowKeys.IDS` says.
    """

    def build(rows: IndexedRows, parameters: Parameters, writer: SegmentWriter) -> BuiltSegment:
        return _build(rows, parameters, writer, targets)

    def parameters_of(files: SegmentFiles) -> Parameters:
        details, name = _target_of(files, targets)
        options = dict(targets[name].parameters_of(files))
        return {"path": details.path, "target_index_type": name, "target_index_parameters": options}

    def statistics_of(files: SegmentFiles) -> dict[str, Any]:
        details, name = _target_of(files, targets)
        return {"path": details.path, **targets[name].statistics_of(files)}

    return IndexKind(type_url, check_json, build, parameters_of=parameters_of, statistics_of=statistics_of)


def _build(
    rows: IndexedRows, parameters: Parameters, writer: SegmentWriter, targets: Mapping[str, IndexKind]
) -> BuiltSegment:
    """Write the files of a JSON index; see `lance_core.index.build.Builder`.

    The parameters are `path`, a path of JSON; `target_index_type`, the name of the kind inside; and
    `target_index_parameters`, its options, which may be JSON text.
    """
    refuse_unknown(parameters, _OPTIONS)
    path, name = (_text(parameters, option) for option in _OPTIONS[:2])
    check_path(path)
    target = targets.get(name.upper())
    if target is None:
        raise UnsupportedFeatureError("target_index_type", expected=", ".join(targets), found=name)
    options = _target_options(parameters)
    field = pa.field(rows.field.name, _type_of(rows, path))
    try:
        target.check(field)
    except TypeError as error:
        raise InvalidInputError(f"values at {path!r} of type {field.type}: {error}") from None
    built = target.build(replace(rows, field=field, scan=_values_of(rows, path, field)), options, writer)
    return replace(built, details=details_bytes(JsonDetails(path, target.type_url, built.details)))


def _values_of(rows: IndexedRows, path: str, field: pa.Field) -> Scan:
    """Return the function that reads the values at a path instead of the documents."""

    def scan(multiple: int = 1) -> Iterator[pa.RecordBatch]:
        for batch in rows.scan(multiple):
            schema = pa.schema([field.with_name(VALUE), batch.schema.field(1)])
            values = extract(batch.column(0), path, field.type)
            yield pa.RecordBatch.from_arrays([values, batch.column(1)], schema=schema)

    return scan


def _type_of(rows: IndexedRows, path: str) -> pa.DataType:
    """Return the type of the first value at a path that is not null; text if there is none."""
    found = (type_at(batch.column(0), path) for batch in rows.scan())
    return next((data_type for data_type in found if data_type is not None), pa.string())


def _text(parameters: Parameters, name: str) -> str:
    value = parameters.get(name)
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} of a JSON index", expected="a text", found=value)
    return value


def _target_options(parameters: Parameters) -> Parameters:
    given = parameters.get("target_index_parameters")
    try:
        options = json.loads(given) if isinstance(given, str) else given or {}
    except ValueError:
        options = None
    if not isinstance(options, Mapping):
        raise InvalidInputError("target_index_parameters", expected="a JSON object", found=given)
    return options


def _target_of(files: SegmentFiles, targets: Mapping[str, IndexKind]) -> tuple[JsonDetails, str]:
    """Return the details of a segment, and the name of the kind inside."""
    details = parse_details(files.details)
    for name, target in targets.items():
        if (
            details is not None
            and target.type_url.rpartition(".")[2].lower() == f"{details.kind}indexdetails"
        ):
            return details, name
    raise UnsupportedFeatureError(
        "kind of a JSON index", expected=", ".join(targets), found=details and details.type_url
    )
