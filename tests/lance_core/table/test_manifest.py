"""Parsing of manifests: manifests of the reference, and damaged manifests."""

import random
import shutil
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_core.errors import CorruptFileError, LanceError, UnsupportedFeatureError
from lance_core.proto import table_pb2, transaction_pb2
from lance_core.storage import LocalStorage
from lance_core.table.fragment_totals import FragmentTotals
from lance_core.table.indices import describe_indices
from lance_core.table.manifest import Manifest, parse_manifest
from lance_core.table.snapshot import open_snapshot
from support.files.manifests import edit_manifest, manifest_bytes, newest_manifest, read_message
from support.runs.each_case import each_case


def manifest_of(path: Path, version: int | None = None) -> Manifest:
    return open_snapshot(LocalStorage(str(path)), version).manifest


@pytest.fixture
def dataset(tmp_path: Path, table: pa.Table) -> Path:
    path = tmp_path / "t"
    lance.write_dataset(table.replace_schema_metadata({"owner": "é"}), str(path), max_rows_per_file=4)
    return path


def test_what_a_manifest_says(dataset: Path) -> None:
    theirs = lance.dataset(str(dataset))
    theirs.update_config({"some.key": "value"})
    theirs.create_scalar_index("number", "BTREE")
    before = datetime.now(UTC)

    ours = manifest_of(dataset)

    assert ours.version == theirs.version == 3
    assert ours.schema.to_arrow().equals(theirs.schema, check_metadata=True)
    assert ours.schema.metadata == {"owner": "é"}
    assert ours.data_storage_version == theirs.data_storage_version
    assert ours.config == theirs.config() == {"some.key": "value"}
    assert ours.max_fragment_id == 2
    assert before - timedelta(minutes=1) < ours.timestamp <= before
    assert ours.num_rows == theirs.count_rows() == 10
    (index,) = ours.index_segments
    assert (index.name, index.field_ids) == ("number_idx", (0,))
    assert (dataset / "_indices" / index.description.uuid).is_dir()
    assert (ours.branch, ours.base_paths, ours.table_metadata) == (None, {}, {})


@each_case("seed", range(20))
def test_totals_of_fragments(seed: int) -> None:
    chance = random.Random(seed)
    message = table_pb2.Manifest(version=300, schema_metadata={"a": b"b" * 300})
    for id_ in range(chance.choice([0, 1, 300])):
        fragment = message.fragments.add(id=id_, physical_rows=chance.choice([0, 1, 1 << 20, 1 << 50]))
        for _ in range(chance.randint(0, 3)):
            fragment.files.add(path="x" * 200, fields=range(5), file_size_bytes=chance.choice([0, 1 << 40]))
        if chance.random() < 0.5:
            fragment.deletion_file.num_deleted_rows = chance.choice([0, 1, 1 << 30])
        if chance.random() < 0.5:
            fragment.inline_row_ids = chance.randbytes(40)

    files = [file for fragment in message.fragments for file in fragment.files]
    deletions = [each.deletion_file for each in message.fragments if each.HasField("deletion_file")]
    deleted = [deletion.num_deleted_rows for deletion in deletions]
    rows = [fragment.physical_rows for fragment in message.fragments]
    assert FragmentTotals.of(message, "m") == FragmentTotals(
        fragments=len(message.fragments),
        files=len(files),
        file_bytes=sum(file.file_size_bytes for file in files),
        physical_rows=sum(rows),
        deletion_files=len(deletions),
        deleted_rows=sum(deleted),
        is_counted=all(rows) and all(deleted),
    )


def test_totals_of_more_than_64_bits_are_refused(dataset: Path) -> None:
    """T22"""

    def change(message: table_pb2.Manifest) -> None:
        for fragment in message.fragments:
            fragment.physical_rows = (1 << 64) - 1

    edit_manifest(dataset, change)
    with pytest.raises(CorruptFileError, match=r"totals of the fragments .*_versions/.*64 bits"):
        open_snapshot(LocalStorage(str(dataset)))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_the_version_of_data_files(tmp_path: Path, table: pa.Table, version: str) -> None:
    path = tmp_path / "t"
    lance.write_dataset(table, str(path), data_storage_version=version)
    assert manifest_of(path).data_storage_version == version

    edit_manifest(path, lambda message: message.ClearField("data_format"))
    assert manifest_of(path).data_storage_version == lance.dataset(str(path)).data_storage_version == version

    edit_manifest(path, lambda message: message.ClearField("fragments"))
    assert manifest_of(path).data_storage_version == lance.dataset(str(path)).data_storage_version == "0.1"


def test_another_version_of_data_files_is_refused(dataset: Path) -> None:
    """T43"""
    edit_manifest(dataset, lambda message: setattr(message.data_format, "version", "2.3"))
    with pytest.raises(UnsupportedFeatureError, match=r"2\.3"):
        manifest_of(dataset)
    edit_manifest(dataset, lambda message: setattr(message.data_format, "file_format", "parquet"))
    with pytest.raises(UnsupportedFeatureError, match="parquet"):
        manifest_of(dataset)


def test_identity_survives_reopening_but_not_recreation(dataset: Path, table: pa.Table) -> None:
    """T12: a table that was dropped and made again is not mistaken for the old one."""
    identity = manifest_of(dataset).identity
    assert manifest_of(dataset, 1).identity == identity

    shutil.rmtree(dataset)
    lance.write_dataset(table.replace_schema_metadata({"owner": "é"}), str(dataset), max_rows_per_file=4)
    assert manifest_of(dataset).identity != identity


def test_the_transaction_is_found_inline_and_by_file_name(dataset: Path) -> None:
    """docs/format.md, "Manifest": field 23 wins over 21, both win over the file."""
    (file,) = (dataset / "_transactions").iterdir()
    uuid = transaction_pb2.Transaction.FromString(file.read_bytes()).uuid
    assert manifest_of(dataset).transaction_uuid == uuid

    sections = b"".join(
        struct.pack("<I", len(data)) + data
        for data in (transaction_pb2.Transaction(uuid=name).SerializeToString() for name in ("new", "old"))
    )
    message = read_message(newest_manifest(dataset))
    assert message.transaction_file == file.name

    def parsed(**positions: int) -> Manifest:
        for name in ("transaction_section", "transaction_section_deprecated"):
            message.ClearField(name)
        for name, position in positions.items():
            setattr(message, name, position)
        data = message.SerializeToString()
        footer = struct.pack("<QHH4s", len(sections), 0, 2, b"LANC")
        return parse_manifest(sections + struct.pack("<I", len(data)) + data + footer, "m")

    old = len(sections) // 2
    assert parsed(transaction_section=0, transaction_section_deprecated=old).transaction_uuid == "new"
    assert parsed(transaction_section_deprecated=old).transaction_uuid == "old"
    assert parsed().transaction_uuid == uuid
    message.transaction_file = ""
    assert parsed().transaction_uuid is None
    first = parsed().identity
    message.version += 1
    assert parsed().identity != first


def test_the_footer_version_is_ignored(dataset: Path) -> None:
    """docs/format.md, "Manifest": old libraries wrote other numbers, and the reference reads any."""
    file = newest_manifest(dataset)
    data = bytearray(file.read_bytes())
    data[-8:-4] = struct.pack("<HH", 9, 9)
    file.write_bytes(data)
    assert manifest_of(dataset).num_rows == 10


def test_a_manifest_with_nothing_but_the_essentials_is_read(dataset: Path) -> None:
    """Libraries before 0.8 wrote no writer version, data format, timestamp or transaction."""
    old = read_message(newest_manifest(dataset))
    message = table_pb2.Manifest(fields=old.fields, fragments=old.fragments, version=1)

    manifest = parse_manifest(manifest_bytes(message), "m")

    assert manifest.num_rows is None  # nobody signed it, so nobody trusts its counts
    assert manifest.timestamp == datetime(1970, 1, 1, tzinfo=UTC)
    assert manifest.max_fragment_id is None
    assert manifest.transaction_uuid is None


@pytest.mark.parametrize(
    ("name", "position"),
    [
        (name, position)
        for name in ("index_section", "transaction_section", "transaction_section_deprecated")
        for position in (1 << 63, (1 << 64) - 1, 10**6)
    ],
)
def test_a_section_outside_the_file_is_corrupt(dataset: Path, name: str, position: int) -> None:
    """T22"""
    edit_manifest(dataset, lambda message: setattr(message, name, position))
    with pytest.raises(CorruptFileError, match="outside the file"):
        manifest_of(dataset)


def test_a_section_that_is_something_else_is_corrupt_when_asked_for(dataset: Path) -> None:
    """T22: positions copied from another manifest lead to bytes of another kind."""

    def change(message: table_pb2.Manifest) -> None:
        message.index_section = 0
        message.transaction_section = 0

    edit_manifest(dataset, change)
    manifest = manifest_of(dataset)
    with pytest.raises(CorruptFileError, match="index"):
        _ = manifest.index_segments
    with pytest.raises(CorruptFileError, match="transaction"):
        _ = manifest.transaction_uuid


@pytest.mark.parametrize("seconds", [1 << 62, -(1 << 62)])
def test_a_timestamp_out_of_range_is_corrupt(dataset: Path, seconds: int) -> None:
    edit_manifest(dataset, lambda message: setattr(message.timestamp, "seconds", seconds))
    with pytest.raises(CorruptFileError, match="timestamp"):
        _ = manifest_of(dataset).timestamp


def walk(data: bytes) -> None:
    manifest = parse_manifest(data, "_versions/m")
    _ = (
        manifest.schema.to_arrow(),
        manifest.timestamp,
        manifest.identity,
        describe_indices(manifest.index_segments, manifest.schema, manifest.fragments),
        manifest.num_rows,
    )
    _ = manifest.data_storage_version, manifest.config, manifest.table_metadata
    for fragment in manifest.fragments:
        _ = fragment.files, fragment.deletion_file, fragment.num_rows


def test_every_truncation_is_a_lance_error(dataset: Path) -> None:
    """T22, T36: a torn head manifest is reported by name."""
    data = newest_manifest(dataset).read_bytes()
    walk(data)
    for length in range(len(data)):
        with pytest.raises(CorruptFileError, match="_versions/m"):
            walk(data[:length])


def test_mutated_manifests_raise_only_lance_errors(dataset: Path) -> None:
    """T22: 6,000 mutants of a manifest with all its sections."""
    theirs = lance.dataset(str(dataset))
    theirs.create_scalar_index("number", "BTREE")
    theirs.delete("number = 3")
    data = newest_manifest(dataset).read_bytes()
    generator = random.Random(11)
    refused = 0
    for _ in range(6000):
        mutant = bytearray(data)
        for _ in range(generator.choice([1, 1, 2, 4])):
            position = generator.randrange(len(mutant))
            mutant[position] = generator.choice(
                [0, 1, 127, 128, 255, mutant[position] ^ 1 << generator.randrange(8)]
            )
        if generator.random() < 0.1:
            cut = generator.randrange(len(mutant))
            del mutant[cut : cut + generator.randrange(1, 20)]
        try:
            walk(bytes(mutant))
        except LanceError:
            refused += 1
    assert refused > 1000


def test_an_old_version_stays_readable_behind_a_torn_head(dataset: Path, table: pa.Table) -> None:
    """T36"""
    lance.write_dataset(table, str(dataset), mode="append")
    newest_manifest(dataset).write_bytes(b"")
    with pytest.raises(CorruptFileError, match=r"_versions/\d+\.manifest"):
        manifest_of(dataset)
    assert manifest_of(dataset, 1).num_rows == 10
