"""The write command: how the batches of a DoPut become a new version; `Write` in command.proto."""

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import UUID

from flight_server.requests.json_fields import (
    Checker,
    boolean,
    check_fields,
    integer,
    list_of,
    one_of,
    parse_object,
    string,
)
from flight_server.requests.names import DatasetReference, parse_name, shown
from lance_core.api.serving import MergePlan, Mode, StreamBatch
from lance_core.errors import InvalidInputError

MODES = ("create", "append", "overwrite", "merge_insert", "add_columns", "replace_columns")
OPERATIONS = ("append", "overwrite", "merge_insert", "add_columns", "replace_columns", "rewrite")
"""Operations of the action `commit` on staged writes."""
MAXIMUM_PROPERTIES = 256
MAXIMUM_STREAM_NAME = 256
"""Characters."""

_RECEIPT = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class WriteCommand:
    """Command to write a new version of one dataset. The writer has a default for each field that is None."""

    dataset: DatasetReference
    """Dataset and perhaps a branch, without a version."""
    mode: Mode | Literal["merge_insert", "add_columns", "replace_columns"] = "append"
    merge: MergePlan | None = None
    """Plan of a merge."""
    fragment_id: int | None = None
    """Fragment whose rows get columns or other values; None: the whole dataset, in its order or joined by
    `on`.
    """
    on: tuple[str, ...] = ()
    """Keys that new columns are joined by."""
    data_storage_version: str | None = None
    max_rows_per_file: int | None = None
    max_bytes_per_file: int | None = None
    enable_stable_row_ids: bool | None = None
    transaction_id: str | None = None
    """A UUID in its usual form."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties for the transaction to record."""
    stage: bool = False
    """Whether only files are written, and the action `commit` makes the version later."""
    report_bytes: int | None = None
    """Send a progress message after every so many bytes, for clients that send little ahead. None: a default.
    """

    @property
    def needs_finish(self) -> bool:
        """Whether the finish message is required even if unfinished appends are allowed."""
        return self.mode != "append" or self.stage

    @property
    def creates(self) -> bool:
        """Whether the command may create the dataset."""
        return self.mode in ("create", "overwrite")


@dataclass(frozen=True)
class CommitCommand:
    """Command to make one version of staged writes; the body of the action `commit`."""

    dataset: DatasetReference
    operation: str
    """Operation of all the writes."""
    staged: tuple[str, ...]
    """Receipts, each once."""
    read_version: int | None = None
    """Version from which on conflicts are looked for. None: the version that the writes were made on."""
    transaction_id: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    stream: StreamBatch | None = None
    """Stream and number of the batch, which is committed once, however long ago that was."""


def write_command(fields: Any) -> WriteCommand:
    """Return the command of the JSON object `fields`.

    Raises:
        InvalidInputError: a field is unknown, has the wrong type, or is not for this mode. The message names
            it.
    """
    values = check_fields("write", fields, _FIELDS, required=("dataset",))
    mode = values.get("mode", "append")
    for name in sorted(values.keys() - _FIELDS_OF[mode]):
        raise InvalidInputError(f"write: the field {name} is not allowed with mode {mode}")
    if mode == "merge_insert":
        values["merge"] = MergePlan(**{name: values.pop(name) for name in _MERGE_FIELDS if name in values})
        values["merge"].check()
    if mode == "replace_columns" and "fragment_id" not in values:
        raise InvalidInputError("write: mode replace_columns needs a fragment_id")
    if mode == "add_columns":
        if "on" in values and (not values["on"] or "fragment_id" in values):
            raise InvalidInputError(
                "write.on: expected one or more key columns, and no fragment_id beside them"
            )
        if values.get("stage") and not values.keys() & {"fragment_id", "on"}:
            raise InvalidInputError("write: staged columns need a fragment_id, or keys to join by (on)")
    if values.get("stage"):
        for name in ("transaction_id", "properties"):
            if name in values:
                raise InvalidInputError(
                    f"write: the field {name} belongs to the action commit, not to a staged upload"
                )
    reference = write_target(parse_name(values.pop("dataset")), values.pop("branch", None))
    return WriteCommand(dataset=reference, **values)


def parse_commit(data: bytes) -> CommitCommand:
    """Return the body of the action `commit`; errors as for `write_command`."""
    required = ("dataset", "operation", "staged")
    values = check_fields("commit", parse_object(data), _COMMIT_FIELDS, required)
    for name in ("properties", "stream"):
        if name in values and values["operation"] not in ("append", "overwrite"):
            raise InvalidInputError(
                f"commit: the field {name} is not allowed with operation {values['operation']}"
            )
    if "stream" in values and "transaction_id" not in values:
        raise InvalidInputError("commit: the field stream needs a transaction_id, the same in every attempt")
    reference = write_target(parse_name(values.pop("dataset")), values.pop("branch", None))
    return CommitCommand(dataset=reference, **values)


def parse_abort(data: bytes) -> tuple[DatasetReference, tuple[str, ...]]:
    """Return the body of the action `abort`: the dataset and receipts."""
    values = check_fields("abort", parse_object(data), _ABORT_FIELDS, ("dataset", "staged"))
    return write_target(parse_name(values["dataset"]), values.get("branch")), values["staged"]


def write_target(reference: DatasetReference, branch: str | None = None) -> DatasetReference:
    """Return the dataset and branch to write to. A version or a tag is refused, since writes go to the
    latest version of a branch.
    """
    if reference.ref is not None:
        reference = replace(reference, ref=None, branch=reference.ref)
    if reference.version is not None:
        raise InvalidInputError(
            f"dataset {reference.name}: a write goes to the latest version, not to version "
            f"{reference.version}"
        )
    if branch is None:
        return reference
    if reference.branch is not None:
        raise InvalidInputError(f"dataset {reference.name}: its name and the field branch both give a branch")
    return replace(reference, branch=branch)


def transaction_id(field: str, value: Any) -> str:
    """Return a UUID."""
    text = string(field, value)
    try:
        return str(UUID(text))
    except ValueError:
        raise InvalidInputError(f"{field}: expected a UUID, found {shown(value)}") from None


def properties(field: str, value: Any) -> dict[str, str]:
    """Return an object of strings."""
    if not isinstance(value, dict):
        raise InvalidInputError(f"{field}: expected an object of strings")
    if len(value) > MAXIMUM_PROPERTIES:
        raise InvalidInputError(f"{field}: {len(value)} properties; at most {MAXIMUM_PROPERTIES}")
    return {key: string(f"{field}.{shown(key)}", entry) for key, entry in value.items()}


def stream_batch(field: str, value: Any) -> StreamBatch:
    """Return the batch of a stream that `value` describes: name of the stream, query, number of the batch."""
    values = check_fields(field, value, _STREAM_FIELDS, required=tuple(_STREAM_FIELDS))
    if not 0 < len(values["name"]) <= MAXIMUM_STREAM_NAME:
        raise InvalidInputError(f"{field}.name: expected 1 to {MAXIMUM_STREAM_NAME} characters")
    return StreamBatch(**values)


def is_receipt(text: str) -> bool:
    """Return whether `text` has the form of a receipt."""
    return _RECEIPT.fullmatch(text) is not None


def receipts(field: str, value: Any) -> tuple[str, ...]:
    """Return receipts of staged writes: one or more, each once."""
    given = list_of(receipt)(field, value)
    if not given:
        raise InvalidInputError(f"{field}: expected one receipt or more")
    if len(set(given)) < len(given):
        raise InvalidInputError(f"{field}: a receipt appears twice")
    return given


def receipt(field: str, value: Any) -> str:
    if not isinstance(value, str) or not is_receipt(value):
        raise InvalidInputError(f"{field}: not a receipt of a staged write", found=shown(str(value)))
    return value


# How a table is made and its files are cut; the action create_dataset takes some of them, too.
TABLE_FIELDS: Mapping[str, Checker] = {
    "data_storage_version": string,
    "enable_stable_row_ids": boolean,
    "transaction_id": transaction_id,
    "properties": properties,
}

_MERGE_FIELDS: Mapping[str, Checker] = {
    "on": list_of(string),
    "when_matched": one_of(("update_all", "do_nothing", "fail", "delete")),
    "when_matched_condition": string,
    "when_not_matched": one_of(("insert_all", "do_nothing")),
    "when_not_matched_by_source": one_of(("keep", "delete")),
    "when_not_matched_by_source_condition": string,
}
_ANY_MODE: Mapping[str, Checker] = {
    "dataset": string,
    "branch": string,
    "mode": one_of(MODES),
    "stage": boolean,
    "transaction_id": transaction_id,
    "report_bytes": integer(1),
}
_ROW_FIELDS: Mapping[str, Checker] = {
    "max_rows_per_file": integer(1),
    "max_bytes_per_file": integer(1),
    **TABLE_FIELDS,
}
_COLUMN_FIELDS: Mapping[str, Checker] = {"fragment_id": integer()}

_FIELDS: Mapping[str, Checker] = {**_ANY_MODE, **_ROW_FIELDS, **_MERGE_FIELDS, **_COLUMN_FIELDS}
_FIELDS_OF: Mapping[str, AbstractSet[str]] = {
    **dict.fromkeys(("create", "append", "overwrite"), _ANY_MODE.keys() | _ROW_FIELDS.keys()),
    "merge_insert": _ANY_MODE.keys() | _MERGE_FIELDS.keys(),
    "add_columns": _ANY_MODE.keys() | _COLUMN_FIELDS.keys() | {"on"},
    "replace_columns": _ANY_MODE.keys() | _COLUMN_FIELDS.keys(),
}

_ABORT_FIELDS: Mapping[str, Checker] = {"dataset": string, "branch": string, "staged": receipts}

_STREAM_FIELDS: Mapping[str, Checker] = {"name": string, "query": string, "batch": integer()}

_COMMIT_FIELDS: Mapping[str, Checker] = {
    **_ABORT_FIELDS,
    "operation": one_of(OPERATIONS),
    "read_version": integer(),
    "transaction_id": transaction_id,
    "properties": properties,
    "stream": stream_batch,
}
