"""The messages: complete for what the reference writes, and generated from the sources in the repository."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from lance_core.file.metadata import read_file_metadata
from lance_core.proto import encodings_v2_0_pb2, encodings_v2_1_pb2, table_pb2, transaction_pb2
from lance_core.storage import LocalStorage
from support.files.manifests import read_message

ROOT = Path(__file__).resolve().parents[2]


def unknown_fields(message: Message, path: str = "") -> Iterator[str]:
    """Return the paths of fields in a message, or in one inside it, that our protos do not describe."""
    path = path or message.DESCRIPTOR.name
    yield from (f"{path}.{unknown.field_number}" for unknown in UnknownFieldSet(message))
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        for inner in value if descriptor.is_repeated else [value]:
            yield from unknown_fields(inner, f"{path}.{descriptor.name}")


def make_history(path: Path) -> set[str]:
    """Return a table that lives through most operations; returns the names of those it must have seen."""
    uri = str(path)
    table = pa.table(
        {
            "k": range(100),
            "v": [f"text {row}" for row in range(100)],
            "x": [[float(row)] for row in range(100)],
        }
    )
    lance.write_dataset(table, uri, max_rows_per_file=40, enable_stable_row_ids=True)
    lance.write_dataset(table, uri, mode="append")
    lance.dataset(uri).delete("k % 5 = 0")
    lance.dataset(uri).update({"v": "'new'"}, where="k = 7")
    lance.dataset(uri).create_scalar_index("k", "BTREE")
    lance.dataset(uri).add_columns({"y": "k * 2"})
    lance.dataset(uri).alter_columns({"path": "y", "name": "z"})
    lance.dataset(uri).update_config({"a": "b"})
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri, version=2).restore()
    lance.write_dataset(table, uri, mode="overwrite")
    return {
        "append",
        "create_index",
        "delete",
        "merge",
        "overwrite",
        "project",
        "reserve_fragments",
        "restore",
        "rewrite",
        "update",
        "update_config",
    }


def test_nothing_in_the_files_of_a_table_is_unknown(tmp_path: Path) -> None:
    """A field that our protos lack would be dropped by whoever rewrites a manifest, and missed by readers."""
    expected = make_history(tmp_path / "t")
    seen = set()
    for file in (tmp_path / "t" / "_transactions").iterdir():
        transaction = transaction_pb2.Transaction.FromString(file.read_bytes())
        assert list(unknown_fields(transaction)) == []
        seen.add(transaction.WhichOneof("operation"))
    assert seen == expected
    for file in (tmp_path / "t" / "_versions").glob("*.manifest"):
        assert list(unknown_fields(read_message(file))) == []


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_nothing_in_a_data_file_is_unknown(tmp_path: Path, version: str) -> None:
    table = pa.table(
        {
            "number": range(5000),
            "text": [f"some text {row % 50}" for row in range(5000)],
            "vector": pa.array([[1.0] * 64] * 5000, pa.list_(pa.float32(), 64)),
            "nested": [[{"x": row, "y": None}] for row in range(5000)],
            "category": pa.array(["a", "b"] * 2500).dictionary_encode(),
            "nothing": pa.nulls(5000),
        }
    )
    lance.write_dataset(table, str(tmp_path), data_storage_version=version)
    storage = LocalStorage(str(tmp_path))
    (name,) = storage.list_names("data")
    with storage.open_file(f"data/{name}") as file:
        metadata = read_file_metadata(file)
    assert list(unknown_fields(metadata.descriptor)) == []
    for index in range(metadata.num_columns):
        column = metadata.column(index)
        described: list[Message] = [encodings_v2_0_pb2.ColumnEncoding.FromString(column.encoding)]
        kind = encodings_v2_0_pb2.ArrayEncoding if version == "2.0" else encodings_v2_1_pb2.PageLayout
        assert {page.encoding_type for page in column.pages} == {kind.DESCRIPTOR.full_name}
        described += [kind.FromString(page.encoding) for page in column.pages]
        assert [field for message in described for field in unknown_fields(message)] == []


def test_an_unknown_field_is_noticed() -> None:
    """The two tests above can fail."""
    newer = table_pb2.Manifest(fragments=[table_pb2.DataFragment.FromString(b"\xf8\x07\x01")])
    assert list(unknown_fields(newer)) == ["Manifest.fragments.127"]


@pytest.mark.parametrize("change", ["nothing", "source", "generated", "left over", "missing"])
def test_generated_files_are_checked(tmp_path: Path, change: str) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "generate_protos.py", tmp_path / "scripts")
    shutil.copytree(ROOT / "protos" / "lance", tmp_path / "protos" / "lance")
    shutil.copytree(ROOT / "lance_core" / "proto", tmp_path / "lance_core" / "proto")
    source = tmp_path / "protos" / "lance" / "rowids.proto"
    generated = tmp_path / "lance_core" / "proto" / "rowids_pb2.py"
    match change:
        case "source":
            source.write_text(source.read_text() + "message Added {}\n")
        case "generated":
            generated.write_text(generated.read_text() + "\n")
        case "left over":
            source.unlink()
        case "missing":
            generated.unlink()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        script = str(tmp_path / "scripts" / "generate_protos.py")
        return subprocess.run(
            [sys.executable, script, *arguments], capture_output=True, text=True, check=False
        )

    checked = run("--check")
    assert checked.returncode == (0 if change == "nothing" else 1)
    assert ("rowids_pb2" in checked.stderr) == (change != "nothing")
    assert run().returncode == 0
    assert run("--check").returncode == 0
