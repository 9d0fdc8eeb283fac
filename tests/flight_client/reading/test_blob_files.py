"""Blobs of a remote dataset as files and as bytes, beside `lance_core` on the same dataset."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flight_client
import lance_core
from flight_client import BlobFile
from support.runs.draws import draws
from support.servers.served import StartServer
from support.servers.server import serving

MIB = 1 << 20
_SOURCE = np.random.default_rng(8)
SIZES = (3, None, 0, 100_000, 7 * MIB, 4, None, 90_000)
VALUES = [None if size is None else _SOURCE.bytes(size) for size in SIZES]
DELETED = 5
LEFT = [number for number in range(len(VALUES)) if number != DELETED]
BLOB = {"lance-encoding:blob": "true"}
NAMES = ("v20", "v21", "v22")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blobs")


@pytest.fixture(scope="module")
def client(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[flight_client.Client]:
    """Client that wrote the datasets itself: created, appended and merged rows, and deleted one."""
    log = tmp_path_factory.mktemp("log") / "server.log"
    with serving(folder, log) as server, flight_client.connect(server.uri) as client:
        for name in NAMES:
            values = [b"replaced", *VALUES[1:]]
            if name == "v22":
                rows = pa.table({"id": range(len(values)), "b": lance_core.blob_array(values)})
            else:
                rows = first_form(range(len(values)), values)
            client.write(name, rows.slice(0, 3), "create", data_storage_version=f"2.{name[2]}")
            client.write(name, rows.slice(3))
            client.merge_insert(name, first_form([0], VALUES[:1]), on="id", when_matched="update_all")
            client.delete(name, f"id = {DELETED}")
        yield client


def first_form(ids: range | list[int], values: list[bytes | None]) -> pa.Table:
    columns = [pa.array(ids, pa.int64()), pa.array(values, pa.large_binary())]
    fields = [pa.field("id", pa.int64()), pa.field("b", pa.large_binary(), metadata=BLOB)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def value_of(row: dict[str, int]) -> bytes | None:
    return VALUES[row["id"]]


@pytest.mark.parametrize("name", NAMES)
def test_bytes_are_those_of_other_libraries(client: flight_client.Client, folder: Path, name: str) -> None:
    """Rows that a client wrote, read back by key over the wire, by `lance_core` and by the reference."""
    remote = client.dataset(name)
    local = lance_core.dataset(folder / f"{name}.lance")
    reference = lance.dataset(str(folder / f"{name}.lance"))
    rows = remote.to_table(["id"], with_row_id=True, with_row_address=True).to_pylist()
    assert sorted(row["id"] for row in rows) == LEFT
    order = [4, 0, 0, 6, 2, 1, 3, 5]
    for selector, keys in {
        "indices": order,
        "ids": [rows[row]["_rowid"] for row in order],
        "addresses": [rows[row]["_rowaddr"] for row in order],
    }.items():
        found = remote.read_blobs("b", **{selector: keys})
        assert found == [(rows[row]["_rowaddr"], value_of(rows[row])) for row in order]
        assert found == local.read_blobs("b", **{selector: keys})
        assert found == reference.read_blobs("b", **{selector: keys})
        requests = [(key, 0, 1) for key, row in zip(keys, order, strict=True) if value_of(rows[row]) != b""]
        ranges = remote.read_blob_ranges("b", requests, selector=selector)
        assert ranges == local.read_blob_ranges("b", requests, selector=selector)
        assert remote.read_blobs("b", **{selector: []}) == []
    binary = remote.to_table(blob_handling="all_binary")
    assert binary.equals(reference.scanner(blob_handling="all_binary").to_table(), check_metadata=True)
    assert remote.take(order, blob_handling="all_binary") == binary.take(order)
    assert remote.take([0], ["b"], "id = 4", blob_handling="all_binary")["b"].to_pylist() == [VALUES[4]]
    with remote.lookup(["b"], blob_handling="all_binary") as lookup:
        assert lookup.take([2])["b"].to_pylist() == [value_of(rows[2])]


def open_file(client: flight_client.Client, value: int, **options: int) -> BlobFile:
    dataset = client.dataset("v22")
    address = dataset.to_table([], f"id = {value}", with_row_address=True)["_rowaddr"].to_pylist()
    (file,) = dataset.take_blobs("b", addresses=address, **options)
    assert file is not None
    return file


def test_nulls_and_empty_blobs(client: flight_client.Client) -> None:
    dataset = client.dataset("v21")
    ids = dataset.to_table(["id"])["id"].to_pylist()
    files = dataset.take_blobs("b", indices=range(len(ids)))
    assert [file and file.read() for file in files] == [VALUES[number] for number in ids]
    assert [file and file.size() for file in files] == [
        value if value is None else len(value) for value in map(VALUES.__getitem__, ids)
    ]


@settings(max_examples=draws(25), deadline=None)
@given(
    buffer_size=st.sampled_from([0, 1000, 64 << 10]),
    steps=st.lists(
        st.tuples(st.sampled_from(["read", "readinto", "read1", "seek", "range"]), st.integers(0, 60_000)),
        max_size=12,
    ),
)
def test_a_file_reads_like_a_file_of_python(
    client: flight_client.Client, buffer_size: int, steps: list[tuple[str, int]]
) -> None:
    value = VALUES[3]
    assert value is not None
    remote, local = open_file(client, 3, buffer_size=buffer_size), io.BytesIO(value)
    for act, number in steps:
        if act == "read":
            assert remote.read(number) == local.read(number)
        elif act == "read1":
            assert remote.read1(number) == local.read(number)
        elif act == "readinto":
            ours, theirs = bytearray(number), bytearray(number)
            assert (remote.readinto(ours), ours) == (local.readinto(theirs), theirs)
        elif act == "seek":
            assert remote.seek(2 * number) == local.seek(2 * number)
        else:
            length = min(number, len(value) - number)
            assert remote.read_range(number, length) == value[number : number + length]
        assert remote.tell() == local.tell()
    assert remote.read() == local.read()


def test_files_work_with_other_libraries(client: flight_client.Client) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in ("one", "two"):
            archive.writestr(name, name * 10_000)
    client.write("archives", first_form([0], [packed.getvalue()]), "overwrite")
    (file,) = client.dataset("archives").take_blobs("b", indices=[0])
    assert file is not None
    with zipfile.ZipFile(file) as archive:
        assert archive.read("two") == b"two" * 10_000
    file.seek(0)
    assert b"".join(io.BufferedReader(file, 4096)) == packed.getvalue()


def test_reads_in_sequence_request_more_and_more(client: flight_client.Client) -> None:
    """A file of 7 MiB that is read in parts of 8 KiB takes few requests."""
    file = open_file(client, 4, buffer_size=64 << 10)
    assert file.read(8192) + b"".join(iter(lambda: file.read(8192), b"")) == VALUES[4]
    requests = []
    column = file._blobs
    counted = open_file(client, 4, buffer_size=64 << 10)

    class Counting:
        def chunks(self, address: int, start: int, length: int) -> Iterator[memoryview]:
            requests.append((start, length))
            return column.chunks(address, start, length)

    counted._blobs = Counting()  # type: ignore[assignment]
    while counted.read(8192):
        pass
    assert requests[:3] == [(0, 64 << 10), (64 << 10, 128 << 10), (192 << 10, 256 << 10)]
    assert len(requests) == 11
    assert requests[-1][0] + requests[-1][1] == 7 * MIB


def test_errors_have_the_names_of_local_ones(client: flight_client.Client, folder: Path) -> None:
    remote, local = client.dataset("v22"), lance_core.dataset(folder / "v22.lance")
    deleted = DELETED - 3 + (1 << 32)
    for call in (
        lambda data: data.take_blobs("b", indices=[7]),
        lambda data: data.read_blobs("b", addresses=[deleted]),
        lambda data: data.read_blobs("b", ids=[deleted]),
        lambda data: data.take_blobs("id", indices=[0]),
        lambda data: data.take_blobs("b", indices=[0], ids=[0]),
        lambda data: data.take_blobs("b"),
        lambda data: data.read_blobs("b", indices=[-1]),
        lambda data: data.read_blob_ranges("b", [(1, 0, 100 * MIB)], selector="indices"),
        lambda data: data.read_blob_ranges("b", [(1, -1, 1)], selector="indices"),
        lambda data: data.read_blob_ranges("b", [], selector="rows"),
    ):
        with pytest.raises(lance_core.LanceError) as expected:
            call(local)
        with pytest.raises(flight_client.LanceError) as found:
            call(remote)
        named = {"NegativeRowError": "InvalidInputError"}
        name = type(expected.value).__name__
        assert type(found.value).__name__ == named.get(name, name)
    with pytest.raises(flight_client.UnsupportedFeatureError, match="filtered dataset has no blobs by key"):
        remote.filter("id > 1").take_blobs("b", indices=[0])
    with pytest.raises(flight_client.InvalidInputError, match="give the condition as SQL"):
        remote.to_table(filter=pc.field("b", "size") + 1 > 11, blob_handling="all_binary")
    assert remote.to_table(["id"], "b.size > 10", blob_handling="all_binary").num_rows == 3
    file = open_file(client, 3)
    with pytest.raises(flight_client.InvalidInputError, match="leaves the blob"):
        file.read_range(99_999, 2)
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.read(1)


def test_a_file_keeps_its_version(client: flight_client.Client) -> None:
    """T12: a file reads the version that was opened, and no other dataset of the same name."""
    client.write("changing", first_form([0], [b"a" * 200_000]), "create")
    (file,) = client.dataset("changing").take_blobs("b", indices=[0], buffer_size=10)
    assert file is not None
    client.write("changing", first_form([0], [b"b" * 200_000]), "overwrite")
    assert file.read(50) == b"a" * 50
    client.drop_dataset("changing")
    client.write("changing", first_form([0], [b"c" * 200_000]), "create")
    with pytest.raises(flight_client.DatasetNotFoundError):
        file.read(5000)
    assert file.tell() == 50


def test_another_server_goes_on(tmp_path: Path, serve: StartServer) -> None:
    """A stream of blobs whose server is killed continues behind the last part, at the other server."""
    value = random.Random(3).randbytes(40 * MIB)
    (tmp_path / "root").mkdir()
    first, second = serve(tmp_path / "root"), serve(tmp_path / "root")
    client = flight_client.connect([first.uri, second.uri], attempts=4)
    client.write("t", first_form([0, 1, 2], [b"before", value, b"after"]), "create")
    dataset = client.dataset("t")
    (file,) = dataset.take_blobs("b", indices=[1])
    assert file is not None
    chunks = file._blobs.chunks(1, 0, len(value))
    before = [next(chunks) for _ in range(3)]
    first.kill()
    assert b"".join([*before, *chunks]) == value
    assert [data for _, data in dataset.read_blobs("b", indices=[2, 1, 0])] == [b"after", value, b"before"]
    second.kill()
    with pytest.raises(flight_client.UnavailableError):
        file.read()
    assert file.tell() == 0
