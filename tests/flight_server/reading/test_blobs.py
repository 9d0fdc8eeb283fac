"""Blobs over the wire: the command `blobs`, and `blob_handling` of scans and takes, beside the reference."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import flight

import flight_client
from flight_client.errors import InvalidInputError, UnsupportedFeatureError
from support.runs.draws import draws
from support.runs.each_case import each_case
from support.servers.server import RunningServer, serving

MIB = 1 << 20
_SOURCE = np.random.default_rng(5)
# Inline, in a shared side file, in a side file of its own, and larger than one batch; nulls and empty values.
SIZES = [3, None, 0, 100_000, 5 * MIB, None, 70_000, 2 * MIB, 9, 1]
VALUES = [None if size is None else _SOURCE.bytes(size) for size in SIZES]
DELETED = (0, 5)
ROWS = [number for number in range(len(VALUES)) if number not in DELETED]
"""Numbers of the values that are left, by row offset."""
NAMES = ("v20", "v21", "v22")


@dataclass(frozen=True)
class Blobs:
    server: RunningServer
    client: flight.FlightClient
    root: Path
    outside: Path

    def read(self, command: str = "blobs", **fields: Any) -> pa.Table:
        return self.client.do_get(flight.Ticket(json.dumps({command: fields}))).read_all()

    def reference(self, name: str) -> lance.LanceDataset:
        return lance.dataset(str(self.root / f"{name}.lance"))


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blobs]:
    """Datasets that the reference wrote, in every file version that has blobs."""
    root, outside = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("outside")
    metadata = {"lance-encoding:blob": "true"}
    first_form = pa.schema([("id", pa.int64()), pa.field("b", pa.large_binary(), metadata=metadata)])
    for name in NAMES:
        version = f"{name[1]}.{name[2]}"
        if version == "2.2":
            table = pa.table({"id": range(len(VALUES)), "b": lance.blob_array(VALUES)})
        else:
            columns = [pa.array(range(len(VALUES))), pa.array(VALUES, pa.large_binary())]
            table = pa.Table.from_arrays(columns, schema=first_form)
        dataset = lance.write_dataset(
            table,
            str(root / f"{name}.lance"),
            data_storage_version=version,
            max_rows_per_file=4,
            enable_stable_row_ids=version == "2.1",
        )
        dataset.delete(f"id in {DELETED}")
    (outside / "file").write_bytes(bytes(range(256)))
    uri = f"file://{outside}/file"
    external = lance.blob_array([lance.Blob.from_uri(uri, position=10, size=20), lance.Blob.from_uri(uri)])
    lance.write_dataset(
        pa.table({"b": external}), str(root / "external.lance"), allow_external_blob_outside_bases=True
    )
    log = tmp_path_factory.mktemp("log") / "server.log"
    options = ("--allow-base", str(outside), "--memory-limit", "16MiB")
    with serving(root, log, *options) as server, server.client() as client:
        yield Blobs(server, client, root, outside)


def joined(table: pa.Table) -> list[tuple[int, int, bytes | None]]:
    """Return key, position and bytes of each request, after a look at the order of its parts."""
    assert table.schema.names[:3] == ["key", "position", "bytes"]
    found: list[tuple[int, int, bytes | None]] = []
    for key, position, data in zip(
        *table.select(["key", "position", "bytes"]).to_pydict().values(), strict=True
    ):
        last = found[-1] if found else None
        if last and last[2] and data and last[0] == key and position == last[1] + len(last[2]) > 0:
            found[-1] = (key, last[1], last[2] + data)
        else:
            found.append((key, position, data))
    return found


def batches(client: flight.FlightClient, ticket: bytes | str) -> list[pa.RecordBatch]:
    return [chunk.data for chunk in client.do_get(flight.Ticket(ticket))]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["offsets", "row_ids", "row_addresses"])
def test_whole_blobs(blobs: Blobs, name: str, kind: str) -> None:
    reference = blobs.reference(name)
    order = [6, 0, 0, 1, 3, 7, 2, 6, 4, 5]
    rows = reference.scanner(["id"], with_row_id=True, with_row_address=True).to_table()
    assert rows["id"].to_pylist() == ROWS
    column = {"offsets": None, "row_ids": "_rowid", "row_addresses": "_rowaddr"}[kind]
    keys = order if column is None else rows[column].take(order).to_pylist()

    found = blobs.read(dataset=name, column="b", **{kind: keys})

    expected = [VALUES[ROWS[row]] for row in order]
    assert joined(found) == [(key, 0, value) for key, value in zip(keys, expected, strict=True)]
    argument = {"offsets": "indices", "row_ids": "ids", "row_addresses": "addresses"}[kind]
    assert [value for _, value in reference.read_blobs("b", **{argument: keys})] == expected
    added = blobs.read(dataset=name, column="b", with_size=True, with_row_address=True, **{kind: keys})
    assert added.select(found.schema.names) == found
    first = added.filter(pa.compute.equal(added["position"], 0))
    assert first["size"].to_pylist() == [None if value is None else len(value) for value in expected]
    assert first["_rowaddr"].to_pylist() == rows["_rowaddr"].take(order).to_pylist()


@st.composite
def requests(draw: st.DrawFn) -> list[tuple[int, int, int | None]]:
    """Row offset, start and length of ranges inside blobs, or of any range of a null."""
    made = []
    for row in draw(st.lists(st.integers(0, len(ROWS) - 1), max_size=12)):
        size = SIZES[ROWS[row]] or 0
        start = draw(st.integers(0, size))
        made.append((row, start, draw(st.none() | st.integers(0, size - start))))
    return made


@settings(max_examples=draws(40), deadline=None)
@given(name=st.sampled_from(NAMES), asked=requests())
def test_ranges(blobs: Blobs, name: str, asked: list[tuple[int, int, int | None]]) -> None:
    """Every range comes whole and in its place, in batches of at most 2 MiB."""
    rows = [row for row, _, _ in asked]
    command = {"dataset": name, "column": "b", "offsets": rows}
    ranges = [[start, length] for _, start, length in asked]
    ticket = json.dumps({"blobs": {**command, "ranges": ranges}})

    found = batches(blobs.client, ticket)

    assert all(batch.nbytes <= 2 * MIB for batch in found)
    parts = iter([part for batch in found for part in batch.to_pylist()])
    for row, start, length in asked:
        value = VALUES[ROWS[row]]
        end = None if length is None else start + length
        wanted = None if value is None else value[start:end]
        part = next(parts)
        got = part["bytes"]
        assert (part["key"], part["position"]) == (row, start)
        while wanted is not None and len(got) < len(wanted):
            part = next(parts)
            assert (part["key"], part["position"]) == (row, start + len(got))
            got += part["bytes"]
        assert got == wanted
    assert next(parts, None) is None


@each_case(
    ("fields", "expected", "text"),
    [
        ({"offsets": [8]}, ValueError, "row offset is out of range"),
        ({"row_addresses": [9 << 32]}, ValueError, "fragment that does not exist"),
        ({"row_addresses": [0]}, NotImplementedError, "must not target deleted rows"),
        ({"offsets": [0, 1], "ranges": [[0, 1], [0, 1]]}, ValueError, "request 1 for row 1: range leaves"),
        ({"offsets": [2], "ranges": [[100_001, None]]}, ValueError, "range leaves the blob"),
        ({"offsets": [2], "ranges": []}, ValueError, "blobs.ranges: expected one per key, 1, found 0"),
        ({"offsets": [2], "ranges": [[1]]}, ValueError, "expected a start and a length"),
        ({"offsets": [2], "ranges": [[-1, 2]]}, ValueError, "blobs.ranges"),
        ({"offsets": [2], "row_ids": [2]}, ValueError, "row_ids, row_addresses, found 2"),
        ({}, ValueError, "row_ids, row_addresses, found 0"),
        ({"offsets": [2], "column": "id"}, ValueError, "not a blob column"),
        ({"offsets": [2], "column": "no"}, ValueError, "no column 'no'"),
        ({"offsets": [2], "filter": "id > 1"}, ValueError, "unknown field 'filter'"),
        ({"offsets": [2], "asof": "2026-01-01"}, NotImplementedError, "asof"),
        ({"offsets": [2], "dataset": "none"}, KeyError, "none"),
    ],
)  # fmt: skip
def test_refused_commands(blobs: Blobs, fields: dict[str, Any], expected: type[Exception], text: str) -> None:
    """T19: `read_blobs` and `read_blob_ranges` refuse the same rows and ranges in a local dataset."""
    with pytest.raises(expected, match=text):
        blobs.read(**{"dataset": "v22", "column": "b", **fields})


def test_ids_of_deleted_rows(blobs: Blobs) -> None:
    with pytest.raises(ValueError, match="row ids without a live row"):
        blobs.read(dataset="v21", column="b", row_ids=[0, 1])
    with pytest.raises(NotImplementedError, match="must not target deleted rows"):
        blobs.read(dataset="v22", column="b", row_ids=[0, 1])


def test_tickets_name_one_version(blobs: Blobs) -> None:
    """T12: a ticket gives the same batches again, whatever is committed meanwhile, and no other bytes."""
    table = pa.table({"b": lance.blob_array([b"old", np.random.default_rng(6).bytes(3 * MIB)])})
    path = str(blobs.root / "changing.lance")
    lance.write_dataset(table, path, data_storage_version="2.2")
    command = {"dataset": "changing", "column": "b", "offsets": [1, 0], "ranges": [[7, None], [0, 2]]}
    descriptor = flight.FlightDescriptor.for_command(json.dumps({"blobs": command}))
    info = blobs.client.get_flight_info(descriptor)
    (endpoint,) = info.endpoints
    assert info.schema == blobs.client.get_schema(descriptor).schema
    assert (info.total_records, json.loads(info.app_metadata)["version"]) == (-1, 1)
    before = batches(blobs.client, endpoint.ticket.ticket)

    lance.write_dataset(pa.table({"b": lance.blob_array([b"new", b"n" * 100])}), path, mode="overwrite")

    assert batches(blobs.client, endpoint.ticket.ticket) == before
    assert joined(pa.Table.from_batches(before))[1] == (0, 0, b"ol")
    assert joined(blobs.read(dataset="changing", column="b", offsets=[0])) == [(0, 0, b"new")]
    forged = endpoint.ticket.ticket.replace(b'"ranges":[[7,', b'"ranges":[[0,')
    with pytest.raises(ValueError, match="altered"):
        batches(blobs.client, forged)


def test_blobs_outside_the_dataset(blobs: Blobs, tmp_path: Path) -> None:
    """T3, T11: a server follows URIs below the directories of `--allow-base`, and no others.

    In the root are files of other datasets, and the signing key.
    """
    found = joined(
        blobs.read(dataset="external", column="b", offsets=[0, 1, 1], ranges=[[0, 5], [250, None], [0, 2]])
    )
    assert [data for _, _, data in found] == [bytes(range(10, 15)), bytes(range(250, 256)), b"\x00\x01"]
    (tmp_path / "secret").write_bytes(b"secret")
    signing_key = blobs.root / ".lance-flight-key"
    (other, *_) = (blobs.root / "v20.lance" / "data").iterdir()
    assert signing_key.stat().st_size
    files = (tmp_path / "secret", signing_key, other)
    secrets = lance.blob_array([lance.Blob.from_uri(f"file://{file}") for file in files])
    lance.write_dataset(
        pa.table({"b": secrets}), str(blobs.root / "secret.lance"), allow_external_blob_outside_bases=True
    )
    for offset in range(len(files)):
        with pytest.raises(NotImplementedError, match="no setting allows"):
            blobs.read(dataset="secret", column="b", offsets=[offset])
        with pytest.raises(NotImplementedError, match="no setting allows"):
            blobs.read("take", dataset="secret", offsets=[offset], blob_handling="all_binary")


@pytest.mark.parametrize(
    "metadata",
    [
        {"lance-encoding:blob": "true"},
        {"lance-encoding:packed": None},
        {"ARROW:extension:name": "lance.blob.v2"},
    ],
    ids=lambda metadata: next(iter(metadata)),
)
def test_numbers_of_a_client_do_not_become_places_of_blobs(
    blobs: Blobs, metadata: dict[str, str | None]
) -> None:
    """T11: a struct like the descriptor of a blob stays a struct, and its column keeps its form."""
    members = {"kind": 3, "position": 0, "size": 0, "blob_id": 0, "blob_uri": f"file://{blobs.outside}/file"}
    types = (pa.uint8(), pa.uint64(), pa.uint64(), pa.uint32(), pa.string())
    layout = pa.struct(list(zip(members, types, strict=True)))
    column = pa.field("b", layout, metadata={"lance-encoding:packed": "true"})
    table = pa.Table.from_arrays([pa.array([members], layout)], schema=pa.schema([column]))
    with flight_client.connect(blobs.server.uri) as client:
        client.write("forged", table, mode="overwrite")
        with pytest.raises(InvalidInputError, match="belongs to the type of a field"):
            client.update_config("forged", field_metadata={"b": metadata})
    assert blobs.read("scan", dataset="forged", blob_handling="all_binary").to_pylist() == [{"b": members}]


@pytest.mark.parametrize("name", NAMES)
def test_filters_of_clients_see_the_nulls_of_values(blobs: Blobs, name: str) -> None:
    nulls = [number for number in ROWS if SIZES[number] is None]
    with flight_client.connect(blobs.server.uri) as client:
        scanner = client.dataset(name).scanner(["id"], "b IS NULL", blob_handling="all_binary")
        assert scanner.to_table()["id"].to_pylist() == nulls
        assert scanner.count_rows() == len(nulls)
        assert scanner.head(1).num_rows == min(1, len(nulls))
        with pytest.raises(UnsupportedFeatureError, match="values of blobs"):
            scanner.aggregate({"n": "count(*)"})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("handling", ["blobs_descriptions", "all_descriptions", "all_binary"])
def test_scans_and_takes(blobs: Blobs, name: str, handling: str) -> None:
    """Schema and rows are those of the reference. A row that is larger than a batch is one batch."""
    expected = blobs.reference(name).scanner(blob_handling=handling).to_table()
    fields = {"dataset": name, "blob_handling": handling}
    descriptor = flight.FlightDescriptor.for_command(json.dumps({"scan": {**fields, "rows_per_endpoint": 3}}))
    info = blobs.client.get_flight_info(descriptor)
    assert info.schema.equals(expected.schema, check_metadata=True)
    found = [batch for each in info.endpoints for batch in batches(blobs.client, each.ticket.ticket)]
    assert pa.Table.from_batches(found).equals(expected, check_metadata=True)
    assert blobs.read("scan", **fields) == expected
    assert all(batch.nbytes <= 2 * MIB for batch in found if batch.num_rows > 1)
    filtered = blobs.read("scan", **fields, columns=["b"], filter="id > 3 and b.size > 2")
    large = [number > 3 and (SIZES[number] or 0) > 2 for number in ROWS]
    assert filtered == expected.filter(pa.array(large)).select(["b"])
    nulls = blobs.read("scan", **fields, columns=["id"], filter="b IS NULL")
    assert nulls == expected.filter(pc.field("b").is_null()).select(["id"])
    computed = blobs.read("take", **fields, offsets=[0, 1, 2], columns={"is_null": "b IS NULL"})
    assert computed["is_null"].to_pylist() == [each is None for each in expected["b"].to_pylist()[:3]]
    order = [3, 0, 7, 3]
    assert blobs.read("take", **fields, offsets=order) == expected.take(order)
    take = flight.FlightDescriptor.for_command(
        json.dumps({"take": {**fields, "offsets": order, "columns": ["b"]}})
    )
    planned = blobs.client.get_flight_info(take)
    taken = batches(blobs.client, planned.endpoints[0].ticket.ticket)
    assert pa.Table.from_batches(taken, planned.schema) == expected.select(["b"]).take(order)
    assert all(batch.nbytes <= 2 * MIB for batch in taken if batch.num_rows > 1)


def test_refused_blob_handling(blobs: Blobs) -> None:
    with pytest.raises(
        ValueError, match="blob_handling: expected one of blobs_descriptions, all_descriptions"
    ):
        blobs.read("scan", dataset="v22", blob_handling="some_binary")
    with pytest.raises(ValueError, match="values of blobs have no fields"):
        blobs.read("take", dataset="v22", offsets=[0], columns=["b.size"], blob_handling="all_binary")


@pytest.mark.parametrize(
    "size",
    [192 * MIB, pytest.param(5 << 30, marks=pytest.mark.long("5 GB through a server"))],
    ids=["small", "large"],
)
def test_memory_of_one_large_blob(blobs: Blobs, size: int) -> None:
    """T29, T33: a blob of any size passes in bounded memory."""
    with (blobs.outside / f"large-{size}").open("wb") as file:
        file.truncate(size)
        file.seek(size - 7)
        file.write(b"the end")
    large = lance.blob_array([lance.Blob.from_uri(f"file://{blobs.outside}/large-{size}")])
    lance.write_dataset(
        pa.table({"b": large}),
        str(blobs.root / "large.lance"),
        mode="overwrite",
        allow_external_blob_outside_bases=True,
    )
    blobs.read(dataset="v22", column="b", offsets=[3])
    before = peak = blobs.server.anonymous_bytes()
    reader = blobs.client.do_get(
        flight.Ticket('{"blobs": {"dataset": "large", "column": "b", "offsets": [0]}}')
    )
    position = 0
    last = b""
    for chunk in reader:
        (row,) = chunk.data.select(["position", "bytes"]).to_pylist()
        assert row["position"] == position
        position += len(row["bytes"])
        last = row["bytes"]
        peak = max(peak, blobs.server.anonymous_bytes())
    assert (position, last[-7:]) == (size, b"the end")
    print(f"{size / MIB:,.0f} MiB: {(peak - before) / MIB:.0f} MiB above {before / MIB:.0f} MiB")
    assert peak - before < 48 * MIB
