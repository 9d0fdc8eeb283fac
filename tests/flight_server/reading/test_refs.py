"""Tags, branches, times, clones and single rows of a real server, against what the reference reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from support.clients.raw_flight import scan_json
from support.oracles.comparison import assert_tables_equal
from support.servers.served import StartServer
from support.servers.server import RunningServer, serving


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`t`: three versions, tags on two branches; `inside` clones it; `outside` is a clone of another root."""
    root = tmp_path_factory.mktemp("refs")
    path = str(root / "served" / "t.lance")
    table = pa.table({"x": range(100), "s": [f"v{row}" for row in range(100)]})
    dataset = lance.write_dataset(table, path, max_rows_per_file=40, enable_stable_row_ids=True)
    dataset.delete("x % 10 = 3")
    dataset.update({"s": "'new'"}, where="x < 5")
    dataset = lance.dataset(path)
    dataset.update_metadata({"owner": "somebody"})
    dataset.tags.create("gold", 2)
    dataset.create_branch("team/dev", 2).delete("x > 50")
    dataset.create_branch("plain", 1)
    dataset.tags.create("of-dev", ("team/dev", 3))
    dataset.shallow_clone(str(root / "served" / "inside"), 3)
    elsewhere = lance.write_dataset(table, str(root / "elsewhere" / "t"))
    elsewhere.shallow_clone(str(root / "served" / "outside"), 1)
    return root


@pytest.fixture(scope="module")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(root / "served", tmp_path_factory.mktemp("log") / "server.log") as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[flight.FlightClient]:
    with server.client() as client:
        yield client


@pytest.fixture
def dataset(root: Path) -> lance.LanceDataset:
    return lance.dataset(str(root / "served" / "t.lance"))


def read(client: flight.FlightClient, descriptor: flight.FlightDescriptor) -> pa.Table:
    info = client.get_flight_info(descriptor)
    return pa.concat_tables([client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints])


def read_scan(client: flight.FlightClient, name: str, **fields: Any) -> pa.Table:
    return read(client, flight.FlightDescriptor.for_command(scan_json(name, **fields)))


@pytest.mark.parametrize(
    ("suffix", "fields", "reference"),
    [
        ("@gold", {"tag": "gold"}, "gold"),
        ("@of-dev", {"tag": "of-dev"}, "of-dev"),
        ("@team/dev:", {"branch": "team/dev"}, ("team/dev", None)),
        ("@team/dev", {"branch": "team/dev"}, ("team/dev", None)),
        ("@team/dev:2", {"branch": "team/dev", "version": 2}, ("team/dev", 2)),
        ("@plain", {"branch": "plain"}, ("plain", None)),
        ("@plain:1", {"branch": "plain", "version": 1}, ("plain", 1)),
        ("@main:1", {"branch": "main", "version": 1}, 1),
        ("@1", {"version": 1}, 1),
    ],
    ids=str,
)
def test_versions_by_name(
    client: flight.FlightClient,
    dataset: lance.LanceDataset,
    suffix: str,
    fields: dict[str, Any],
    reference: Any,
) -> None:
    expected = dataset.checkout_version(reference).to_table()
    assert_tables_equal(expected, read_scan(client, "t" + suffix))
    assert_tables_equal(expected, read_scan(client, "t", **fields))
    assert_tables_equal(expected, read(client, flight.FlightDescriptor.for_path(*f"t{suffix}".split("/"))))
    assert_tables_equal(expected, client.do_get(flight.Ticket(scan_json("t", **fields))).read_all())


def test_versions_by_time(client: flight.FlightClient, dataset: lance.LanceDataset) -> None:
    times = [entry["timestamp"].astimezone(UTC) for entry in dataset.versions()]
    between = times[2] - timedelta(microseconds=5)
    expected = lance.dataset(dataset.uri, version=2).to_table()
    assert_tables_equal(expected, read_scan(client, "t", asof=between.isoformat()))
    assert_tables_equal(expected, read_scan(client, "t", asof=between.replace(tzinfo=None).isoformat()))
    with pytest.raises(KeyError, match="no version before"):
        read_scan(client, "t", asof="2001-01-01")


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("t@nope", {}, "no tag or branch 'nope'"),
        ("t", {"tag": "nope"}, "no tag 'nope'"),
        ("t", {"tag": "plain"}, "no tag 'plain'"),
        ("t", {"branch": "nope"}, "no branch 'nope'"),
        ("t", {"branch": "gold"}, "no branch 'gold'"),
        ("t@nope:3", {}, "no branch 'nope'"),
        ("t@team/dev:1", {}, "no version 1"),
    ],
)
def test_unknown_names_are_not_found(
    client: flight.FlightClient, root: Path, name: str, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(KeyError, match=words) as caught:
        read_scan(client, name, **fields)
    assert str(root) not in str(caught.value)


def test_a_ticket_stays_with_its_branch_and_version(root: Path, client: flight.FlightClient) -> None:
    path = root / "served" / "moving"
    lance.write_dataset(pa.table({"x": [1]}), str(path))
    branch = lance.dataset(str(path)).create_branch("dev", 1)
    lance.dataset(str(path)).tags.create("here", ("dev", 1))
    info = client.get_flight_info(flight.FlightDescriptor.for_command(scan_json("moving", tag="here")))
    lance.write_dataset(pa.table({"x": [2]}), branch.uri, mode="append")
    lance.dataset(str(path)).tags.update("here", ("dev", 2))
    assert client.do_get(info.endpoints[0].ticket).read_all()["x"].to_pylist() == [1]
    assert read_scan(client, "moving", tag="here")["x"].to_pylist() == [1, 2]


def describe(client: flight.FlightClient, **fields: Any) -> dict[str, Any]:
    (result,) = client.do_action(flight.Action("describe", json.dumps(fields).encode()))
    return json.loads(result.body.to_pybytes())  # type: ignore[no-any-return]


def test_describe_tells_of_refs_and_metadata(client: flight.FlightClient) -> None:
    described = describe(client, dataset="t")
    assert described["tags"] == ["gold", "of-dev"]
    assert described["branches"] == ["plain", "team/dev"]
    assert described["metadata"] == {"owner": "somebody"}
    assert describe(client, dataset="t", tag="of-dev")["version"] == 3
    assert describe(client, dataset="t@gold")["rows"] == 90


def test_describe_lists_indices(client: flight.FlightClient, dataset: lance.LanceDataset) -> None:
    indexed = dataset.checkout_version(("team/dev", None))
    indexed.create_scalar_index("x", "BTREE")
    indexed = dataset.checkout_version(("team/dev", None))
    (expected,) = indexed.describe_indices()
    (segment,) = expected.segments
    (index,) = describe(client, dataset="t", branch="team/dev")["indices"]
    assert index == {
        "name": "x_idx",
        "type": "BTree",
        "fields": ["x"],
        "rows": expected.num_rows_indexed,
        "bytes": expected.total_size_bytes,
        "segments": [
            {
                "uuid": segment.uuid,
                "version": segment.dataset_version_at_last_update,
                "fragments": [fragment.fragment_id for fragment in indexed.get_fragments()],
            }
        ],
    }


def test_base_paths_are_followed_inside_the_root(client: flight.FlightClient, root: Path) -> None:
    expected = lance.dataset(str(root / "served" / "inside")).to_table()
    assert_tables_equal(expected, read_scan(client, "inside"))


def test_base_paths_outside_the_root_are_refused(
    client: flight.FlightClient, serve: StartServer, root: Path
) -> None:
    """T11: unless the operator allows the place; the refusal names the base and not the path."""
    with pytest.raises(pa.ArrowNotImplementedError, match="base path 0") as caught:
        read_scan(client, "outside")
    assert str(root) not in str(caught.value)
    listed = {"/".join(p.decode() for p in info.descriptor.path): info for info in client.list_flights()}
    assert "base path 0" in json.loads(listed["outside"].app_metadata)["error"]
    with serve(root / "served", "--allow-base", str(root / "elsewhere")).client() as allowed:
        expected = lance.dataset(str(root / "served" / "outside")).to_table()
        assert_tables_equal(expected, read_scan(allowed, "outside"))


def take_json(name: str, **fields: Any) -> bytes:
    return json.dumps({"take": {"dataset": name, **fields}}).encode()


def both_takes(client: flight.FlightClient, **fields: Any) -> pa.Table:
    """Return the command as a ticket, and the endpoint that is planned for it, which must agree."""
    command = take_json("t", **fields)
    info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
    (endpoint,) = info.endpoints
    planned = client.do_get(endpoint.ticket).read_all()
    assert_tables_equal(client.do_get(flight.Ticket(command)).read_all(), planned)
    assert info.total_records in (-1, planned.num_rows)
    assert client.get_schema(flight.FlightDescriptor.for_command(command)).schema == planned.schema
    return planned


def test_takes(client: flight.FlightClient, dataset: lance.LanceDataset) -> None:
    offsets = [80, 3, 3, 0, 89]
    assert_tables_equal(dataset.take(offsets), both_takes(client, offsets=offsets))
    columns = ["_rowid", "x", "_rowaddr"]
    everything = dataset.to_table(columns=columns)
    rows = everything.take(offsets)
    for key, column in (("row_ids", "_rowid"), ("row_addresses", "_rowaddr")):
        found = both_takes(client, columns=columns, **{key: rows[column].to_pylist()})
        assert_tables_equal(rows, found)
    gone = both_takes(client, columns=["x"], row_ids=[13, 14, 1 << 60])
    assert gone["x"].to_pylist() == [14]
    assert both_takes(client, columns=[], offsets=[1, 1]).num_rows == 2
    assert both_takes(client, offsets=[]).num_rows == 0
    of_tag = both_takes(client, tag="of-dev", offsets=[40, 1])
    assert_tables_equal(dataset.checkout_version("of-dev").take([40, 1]), of_tag)


def test_large_takes_come_in_batches(client: flight.FlightClient, root: Path) -> None:
    values = np.arange(200_000 * 4, dtype=np.float64).reshape(-1, 4)
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 4)})
    lance.write_dataset(table, str(root / "served" / "wide"))
    offsets = np.random.default_rng(3).permutation(100_000).tolist()
    reader = client.do_get(flight.Ticket(take_json("wide", offsets=offsets)))
    batches = [chunk.data for chunk in reader]
    assert max(batch.nbytes for batch in batches) <= 2 << 20
    assert_tables_equal(table.take(offsets), pa.Table.from_batches(batches))


def test_takes_of_what_is_not_there_are_invalid(client: flight.FlightClient) -> None:
    for fields in ({"offsets": [90]}, {"row_addresses": [7 << 32]}, {"offsets": [0], "columns": ["nope"]}):
        with pytest.raises(pa.ArrowInvalid, match=r"out of range|does not exist|there is no column"):
            client.do_get(flight.Ticket(take_json("t", **fields))).read_all()
