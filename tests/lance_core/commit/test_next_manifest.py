"""The next version: what it keeps, which counters it raises, and what is refused."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.commit.conflicts import Verdict, check_conflict
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.proto import table_pb2, transaction_pb2
from lance_core.storage import storage_for
from lance_core.table import writer_version
from lance_core.table.manifest import parse_manifest, serialize_manifest
from lance_core.table.snapshot import read_manifest
from support.files.manifests import edit_manifest, newest_manifest, read_message
from support.runs.each_case import each_case

TABLE = pa.table({"a": [1, 2]})


def _message(path: Path) -> table_pb2.Manifest:
    return read_message(newest_manifest(path))


def test_unknown_fields_and_what_an_append_does_not_mention_stay(tmp_path: Path) -> None:
    lance_core.write_dataset(TABLE, tmp_path)
    lance.dataset(str(tmp_path)).update_config({"key": "value"})
    unknown = b"\xba\x3e\x03new"  # field 999, bytes

    def note(message: table_pb2.Manifest) -> None:
        message.MergeFromString(unknown)
        message.table_metadata["who"] = "me"

    edit_manifest(tmp_path, note)
    lance_core.write_dataset(TABLE, tmp_path, mode="append")

    message = _message(tmp_path)
    assert unknown in message.SerializeToString()
    assert dict(message.config) == {"key": "value"}
    assert dict(message.table_metadata) == {"who": "me"}
    assert message.writer_feature_flags & 8
    assert message.writer_version.library == "lance-flight"
    assert message.max_fragment_id == 1


def test_fragment_ids_are_never_used_again(tmp_path: Path) -> None:
    lance_core.write_dataset(TABLE, tmp_path)
    lance.dataset(str(tmp_path)).delete("true")
    lance_core.write_dataset(TABLE, tmp_path, mode="append")
    lance_core.write_dataset(TABLE, tmp_path, mode="overwrite")

    assert [fragment.id for fragment in _message(tmp_path).fragments] == [2]
    assert _message(tmp_path).max_fragment_id == 2


def test_the_last_fragment_id_is_the_last(tmp_path: Path) -> None:
    lance_core.write_dataset(TABLE, tmp_path)

    def exhaust(message: table_pb2.Manifest) -> None:
        message.max_fragment_id = (1 << 32) - 1

    edit_manifest(tmp_path, exhaust)

    with pytest.raises(InvalidInputError, match="no fragment ids left"):
        lance_core.write_dataset(TABLE, tmp_path, mode="append")
    assert len(list((tmp_path / "data").iterdir())) == 1


def test_time_does_not_go_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T42: a writer whose clock is a day late makes no version that is older than the one before."""
    lance_core.write_dataset(TABLE, tmp_path)
    now = writer_version.time_ns()
    monkeypatch.setattr(writer_version, "time_ns", lambda: now - 86_400 * 10**9)

    lance_core.write_dataset(TABLE, tmp_path, mode="append")

    first, second = lance.dataset(str(tmp_path)).versions()
    assert first["timestamp"] <= second["timestamp"]


@pytest.mark.parametrize("bit", [64, 512, 4096, 8192, 16384, 65536, 1 << 17, 1 << 40])
def test_flags_that_are_not_known_are_not_written_over(bit: int, tmp_path: Path) -> None:
    """T43: every unknown flag of a writer is refused by number before anything is written."""
    lance_core.write_dataset(TABLE, tmp_path)

    def flag(message: table_pb2.Manifest) -> None:
        message.writer_feature_flags |= bit
        if bit in (16384, 65536):  # which stand in both words or in none
            message.reader_feature_flags |= bit

    edit_manifest(tmp_path, flag)

    for mode in ("append", "overwrite"):
        with pytest.raises(UnsupportedFeatureError, match=f"flag {bit} "):
            lance_core.write_dataset(TABLE, tmp_path, mode=mode)  # type: ignore[arg-type]
    assert len(list(tmp_path.rglob("*.lance"))) == 1


def test_field_ids_that_are_never_used_again(tmp_path: Path) -> None:
    lance_core.write_dataset(TABLE, tmp_path)

    def flag(message: table_pb2.Manifest) -> None:
        message.writer_feature_flags |= 32768
        message.max_allocated_field_id = 5

    edit_manifest(tmp_path, flag)

    lance_core.write_dataset(TABLE, tmp_path, mode="append")
    assert _message(tmp_path).max_allocated_field_id == 5
    with pytest.raises(UnsupportedFeatureError, match="never reuses field ids"):
        lance_core.write_dataset(TABLE, tmp_path, mode="overwrite")
    lance.write_dataset(TABLE, str(tmp_path), mode="append")


def test_transactions_that_are_inline_only(tmp_path: Path) -> None:
    lance_core.write_dataset(TABLE, tmp_path)

    def flag(message: table_pb2.Manifest) -> None:
        message.writer_feature_flags |= 32

    edit_manifest(tmp_path, flag)
    lance_core.write_dataset(TABLE, tmp_path, mode="append")

    assert len(list((tmp_path / "_transactions").iterdir())) == 1
    assert _message(tmp_path).transaction_file == ""
    assert _message(tmp_path).writer_feature_flags & 32
    assert lance.dataset(str(tmp_path)).count_rows() == 4


def test_what_old_libraries_did_not_say_is_said(tmp_path: Path) -> None:
    lance_core.write_dataset(TABLE, tmp_path, data_storage_version="2.0")

    def forget(message: table_pb2.Manifest) -> None:
        for name in ("data_format", "max_fragment_id", "writer_version", "timestamp"):
            message.ClearField(name)

    edit_manifest(tmp_path, forget)
    lance_core.write_dataset(TABLE, tmp_path, mode="append")

    message = _message(tmp_path)
    assert message.data_format.version == "2.0"
    assert message.max_fragment_id == 1
    assert [fragment.id for fragment in message.fragments] == [0, 1]
    assert lance.dataset(str(tmp_path)).count_rows() == 4


def test_sections_come_back(tmp_path: Path) -> None:
    message = table_pb2.Manifest(version=3)
    transaction = transaction_pb2.Transaction(uuid="u")
    section = table_pb2.IndexSection(indices=[table_pb2.IndexMetadata(name="i")])

    data = serialize_manifest(message, transaction.SerializeToString(), section.SerializeToString())

    parsed = parse_manifest(data, "manifest")
    assert parsed.version == 3
    assert parsed.transaction_uuid == "u"
    assert parsed.index_section == section.SerializeToString()


def test_a_version_without_a_transaction_stops_writers_from_before(tmp_path: Path) -> None:
    old = lance_core.write_dataset(TABLE, tmp_path)
    lance_core.write_dataset(TABLE, tmp_path, mode="append")

    def forget(message: table_pb2.Manifest) -> None:
        message.ClearField("transaction_section")
        message.transaction_file = ""

    edit_manifest(tmp_path, forget)

    with pytest.raises(OSError, match="version 2 has no transaction"):
        old.insert(TABLE)
    assert read_manifest(storage_for(str(tmp_path)), 2).version == 2


OPERATIONS = [
    field.name for field in transaction_pb2.Transaction.DESCRIPTOR.oneofs_by_name["operation"].fields
]
APPEND = {"overwrite": "fail", "restore": "fail", "merge": "retry", "project": "retry", "clone": "fail"}
OVERWRITE = {"overwrite": "retry", "clone": "fail"}
NEVER = {"update_mem_wal_state": "fail"}


@each_case("theirs", OPERATIONS)
@each_case(("mine", "exceptions"), [("append", APPEND), ("overwrite", OVERWRITE)])
def test_verdicts(mine: str, exceptions: dict[str, str], theirs: str) -> None:
    """T37: the table of the format page, operation by operation. A new operation without rules fails the
    test.
    """
    ours, committed = transaction_pb2.Transaction(), transaction_pb2.Transaction()
    getattr(ours, mine).SetInParent()
    getattr(committed, theirs).SetInParent()

    expected = (exceptions | NEVER).get(theirs, "ok")

    assert check_conflict(ours, committed) is Verdict(expected)


def test_verdicts_that_depend_on_more() -> None:
    append, overwrite = transaction_pb2.Transaction(), transaction_pb2.Transaction()
    append.append.SetInParent()
    overwrite.overwrite.config_upsert_values["key"] = "mine"
    for name in ("merge", "project"):
        committed = transaction_pb2.Transaction()
        getattr(committed, name).preserves_nullability = True
        assert check_conflict(append, committed) is Verdict.OK
    config = transaction_pb2.Transaction()
    config.update_config.config_updates.update_entries.add(key="other", value="x")
    assert check_conflict(overwrite, config) is Verdict.OK
    config.update_config.config_updates.update_entries.add(key="key", value="theirs")
    assert check_conflict(overwrite, config) is Verdict.FAIL
    assert check_conflict(overwrite, overwrite) is Verdict.FAIL
    assert check_conflict(append, transaction_pb2.Transaction()) is Verdict.FAIL
