"""The write command in both forms, and what is wrong with others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage

from flight_server.proto.command_pb2 import Command, Strings, Write
from flight_server.requests.commands import COMMAND_TYPE_URL, parse_command, parse_write
from flight_server.requests.names import DatasetReference
from flight_server.requests.write_command import WriteCommand
from lance_core.changes.rows.merge_plan import MergePlan
from lance_core.errors import InvalidInputError
from support.runs.each_case import each_case

UUID = "3f0e9a52-6d40-4d7f-8f0e-0d8a3b1f1c11"


def write(**fields: Any) -> bytes:
    return json.dumps({"write": {"dataset": "trips", **fields}}).encode()


def packed(message: Write) -> bytes:
    value = Command(write=message).SerializeToString()
    return AnyMessage(type_url=COMMAND_TYPE_URL, value=value).SerializeToString()


def test_a_write_is_an_append_unless_it_says_otherwise() -> None:
    command = parse_write(write())
    assert command == WriteCommand(DatasetReference("trips"))
    assert command.mode == "append"
    assert not command.needs_finish
    assert parse_write(write(mode="overwrite")).needs_finish
    assert parse_write(write(mode="create")).needs_finish


def test_every_field_in_both_forms() -> None:
    fields = {
        "branch": "team/dev",
        "mode": "overwrite",
        "data_storage_version": "2.1",
        "max_rows_per_file": 10,
        "max_bytes_per_file": "5000",
        "enable_stable_row_ids": True,
        "transaction_id": UUID.upper(),
        "properties": {"job": "nightly"},
        "stage": False,
    }
    expected = WriteCommand(
        dataset=DatasetReference("trips", branch="team/dev"),
        mode="overwrite",
        data_storage_version="2.1",
        max_rows_per_file=10,
        max_bytes_per_file=5000,
        enable_stable_row_ids=True,
        transaction_id=UUID,
        properties={"job": "nightly"},
    )
    assert parse_write(write(**fields)) == expected
    message = Write(dataset="trips", **{**fields, "max_bytes_per_file": 5000})
    assert parse_write(packed(message)) == expected


@pytest.mark.parametrize("name", ["trips@dev", "trips@dev:", "trips.lance@dev"])
def test_a_branch_in_the_name(name: str) -> None:
    assert parse_write(write(dataset=name)).dataset == DatasetReference("trips", branch="dev")


def test_the_fields_of_a_merge() -> None:
    plan = {
        "on": ["id"],
        "when_matched": "update_all",
        "when_matched_condition": "source.n > target.n",
        "when_not_matched": "insert_all",
        "when_not_matched_by_source": "delete",
        "when_not_matched_by_source_condition": "n > 1",
    }
    expected = WriteCommand(
        DatasetReference("trips"), mode="merge_insert", merge=MergePlan(**{**plan, "on": ("id",)})
    )
    assert parse_write(write(mode="merge_insert", **plan)) == expected
    packed_plan = {**plan, "on": Strings(values=["id"])}
    assert parse_write(packed(Write(dataset="trips", mode="merge_insert", **packed_plan))) == expected
    assert expected.needs_finish
    assert not expected.creates


@each_case(
    ("fields", "message"),
    [
        ({"mode": "replace"}, "write.mode: expected one of create, append, overwrite"),
        ({"mode": 1}, "write.mode"),
        ({"mode": []}, "write.mode"),
        ({"rows": 1}, "unknown field 'rows'"),
        ({"stage": True, "transaction_id": UUID}, "transaction_id belongs to the action commit"),
        ({"stage": 1}, "write.stage: expected true or false"),
        ({"dataset": "../x"}, "not allowed"),
        ({"dataset": "trips@3"}, "goes to the latest version"),
        ({"dataset": "trips@dev:3"}, "goes to the latest version"),
        ({"dataset": "trips@dev", "branch": "dev"}, "both give a branch"),
        ({"branch": "../dev"}, "not a valid name of a branch"),
        ({"on": ["id"]}, "field on is not allowed with mode append"),
        ({"mode": "merge_insert", "on": ["id"]}, "not configured to change"),
        ({"mode": "merge_insert", "when_matched": "replace"}, "write.when_matched: expected one of"),
        (
            {"mode": "merge_insert", "max_rows_per_file": 9},
            "max_rows_per_file is not allowed with mode merge",
        ),
        ({"mode": "add_columns", "stage": True}, "staged columns need a fragment_id, or keys"),
        ({"mode": "add_columns", "on": []}, "write.on: expected one or more key columns"),
        ({"mode": "add_columns", "on": ["id"], "fragment_id": 0}, "no fragment_id"),
        ({"mode": "replace_columns"}, "needs a fragment_id"),
        (
            {"mode": "replace_columns", "fragment_id": 0, "on": ["id"]},
            "on is not allowed with mode replace",
        ),
        ({"mode": "add_columns", "fragment_id": -1}, "write.fragment_id"),
        ({"mode": "overwrite", "fragment_id": 0}, "field fragment_id is not allowed with mode overwrite"),
        ({"max_rows_per_file": 0}, "write.max_rows_per_file: expected 1 to"),
        ({"max_bytes_per_file": -1}, "write.max_bytes_per_file"),
        ({"enable_stable_row_ids": "yes"}, "write.enable_stable_row_ids"),
        ({"transaction_id": "7"}, "write.transaction_id: expected a UUID"),
        ({"transaction_id": 7}, "write.transaction_id: expected a string"),
        ({"properties": ["a"]}, "write.properties: expected an object of strings"),
        ({"properties": {"a": 1}}, "write.properties.'a': expected a string"),
        ({"properties": {str(n): "" for n in range(257)}}, "257 properties; at most 256"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, Any], message: str) -> None:
    """T19"""
    with pytest.raises(InvalidInputError, match=message):
        parse_write(write(**fields))


def test_writes_and_reads_are_not_mistaken_for_each_other() -> None:
    with pytest.raises(InvalidInputError, match="a write command goes to DoPut"):
        parse_command(write())
    with pytest.raises(InvalidInputError, match="DoPut takes a write command, not scan"):
        parse_write(b'{"scan": {"dataset": "trips"}}')
