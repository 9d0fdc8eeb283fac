"""Making and dropping datasets, against the reference and the file system."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
import pytest
from pyarrow import flight

from support.clients.puts import descriptor_of, files_below, finish_message, put
from support.servers.server import RunningServer, serving

TABLE = pa.table({"id": range(100), "name": [str(row) for row in range(100)]})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, Path]]:
    base = tmp_path_factory.mktemp("actions")
    with serving(base, tmp_path_factory.mktemp("log") / "server.log") as server:
        yield server, base


@pytest.fixture
def space() -> str:
    """A namespace that no other test has."""
    return f"s{uuid4().hex}"


@pytest.fixture
def root(server: tuple[RunningServer, Path], space: str) -> Path:
    path = server[1] / space
    path.mkdir()
    return path


@pytest.fixture
def client(server: tuple[RunningServer, Path]) -> Iterator[flight.FlightClient]:
    with server[0].client() as client:
        yield client


def act(client: flight.FlightClient, kind: str, **body: Any) -> dict[str, Any]:
    (result,) = client.do_action(flight.Action(kind, json.dumps(body).encode()))
    return json.loads(result.body.to_pybytes())  # type: ignore[no-any-return]


def encoded(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


def test_create_and_drop(client: flight.FlightClient, root: Path, space: str) -> None:
    identity = str(uuid4())
    body = {
        "dataset": f"{space}/ns/t",
        "schema": encoded(TABLE.schema.with_metadata({"owner": "me"})),
        "data_storage_version": "2.1",
        "enable_stable_row_ids": True,
        "transaction_id": identity,
        "properties": {"why": "test"},
    }
    assert act(client, "create_dataset", **body) == {"version": 1}
    assert act(client, "create_dataset", **body) == {"version": 1}
    with pytest.raises(flight.FlightServerError, match="DatasetExistsError"):
        act(client, "create_dataset", **{**body, "transaction_id": str(uuid4())})
    dataset = lance.dataset(str(root / "ns" / "t.lance"))
    assert dataset.schema.equals(TABLE.schema.with_metadata({"owner": "me"}), check_metadata=True)
    assert (dataset.data_storage_version, dataset.has_stable_row_ids) == ("2.1", True)
    assert dataset.read_transaction(1).uuid == identity
    assert put(client, f"{space}/ns/t", TABLE)["version"] == 2
    assert act(client, "drop_dataset", dataset=f"{space}/ns/t") == {"dataset": f"{space}/ns/t"}
    assert files_below(root) == {"ns"}
    with pytest.raises(KeyError, match="no dataset"):
        act(client, "drop_dataset", dataset=f"{space}/ns/t")
    assert act(client, "create_dataset", **body) == {"version": 1}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"dataset": "t"}, "schema is missing"),
        ({"dataset": "t", "schema": "?"}, "base64"),
        ({"dataset": "t", "schema": base64.b64encode(b"x" * 40).decode()}, "expected a schema"),
        ({"dataset": "t@3", "schema": encoded(TABLE.schema)}, "goes to the latest version"),
        ({"dataset": "../t", "schema": encoded(TABLE.schema)}, "not allowed"),
        ({"dataset": "t", "schema": encoded(TABLE.schema), "mode": "append"}, "unknown field"),
        ({"dataset": "t", "schema": encoded(pa.schema([("n" * 5000, pa.int8())]))}, "longer than"),
    ],
)
def test_what_cannot_be_created(
    client: flight.FlightClient, root: Path, space: str, body: dict[str, Any], message: str
) -> None:
    """T7, T18"""
    with pytest.raises(pa.ArrowInvalid, match=message):
        act(client, "create_dataset", **{**body, "dataset": f"{space}/{body['dataset']}"})
    assert files_below(root) == set()


def test_names_that_are_in_the_way(
    client: flight.FlightClient, root: Path, space: str, tmp_path: Path
) -> None:
    """T8: nothing is made through a link, nor below a dataset or a file."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "link").symlink_to(outside)
    (root / "file").touch()
    (root / "gone.lance").symlink_to(tmp_path / "nowhere")
    put(client, {"dataset": f"{space}/t", "mode": "create"}, TABLE)
    before = files_below(root)
    for name in ("link/t", "file/t", "t.lance/t", "gone"):
        with pytest.raises(pa.ArrowInvalid, match=r"cannot contain datasets|is taken by|not allowed"):
            act(client, "create_dataset", dataset=f"{space}/{name}", schema=encoded(TABLE.schema))
        with pytest.raises((pa.ArrowInvalid, KeyError)):
            act(client, "drop_dataset", dataset=f"{space}/{name}")
    assert files_below(root) == before
    assert not list(outside.iterdir())


def test_what_a_link_leads_to_is_not_dropped(
    client: flight.FlightClient, root: Path, space: str, tmp_path: Path
) -> None:
    """T8"""
    (tmp_path / "kept").touch()
    put(client, {"dataset": f"{space}/t", "mode": "create"}, TABLE)
    (root / "alias.lance").symlink_to(root / "t.lance")
    with pytest.raises(NotImplementedError, match="through a link"):
        act(client, "drop_dataset", dataset=f"{space}/alias")
    inside = root / "t.lance" / "data" / "link"
    inside.symlink_to(tmp_path)
    act(client, "drop_dataset", dataset=f"{space}/t")
    assert files_below(root) == {"alias.lance"}
    assert (tmp_path / "kept").is_file()


def test_a_dataset_that_is_written_is_not_dropped(
    server: tuple[RunningServer, Path], client: flight.FlightClient, root: Path, space: str
) -> None:
    """T37: otherwise the commit would bring back a dataset of one version."""
    put(client, {"dataset": f"{space}/t", "mode": "create"}, TABLE)
    writer, reader = client.do_put(descriptor_of(f"{space}/t"), TABLE.schema)
    writer.write_table(TABLE)
    while not fd_is_unnamed(server[0].process.pid, root):
        threading.Event().wait(0.05)
    with pytest.raises(flight.FlightServerError, match="is being written") as caught:
        act(client, "drop_dataset", dataset=f"{space}/t")
    assert json.loads(caught.value.extra_info)["retryable"]
    writer.write_metadata(finish_message(100, 1))
    writer.close()
    assert reader is not None
    assert lance.dataset(str(root / "t.lance")).count_rows() == 200
    act(client, "drop_dataset", dataset=f"{space}/t")


def fd_is_unnamed(pid: int, root: Path) -> bool:
    """Return whether a process has a file below the root open that has no name yet."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            place = os.readlink(descriptor)
        except OSError:
            continue
        if place.startswith(str(root)) and place.endswith("(deleted)"):
            return True
    return False
