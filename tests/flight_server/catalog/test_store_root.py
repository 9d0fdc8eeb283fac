"""A server whose root is in an object store: a real server process on a real S3 server."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import lance
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from flight_server.catalog.store import StoreCatalog
from flight_server.requests.names import DatasetReference
from flight_server.service import Service
from flight_server.settings import Settings
from lance_core.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_core.storage import storage_for
from support.clients.actions import act, stage
from support.clients.command_line import run_verb
from support.clients.puts import put
from support.servers.server import RunningServer, serving, start_server
from support.stores.s3 import KEY, S3, SECRET, Exchange, Proxy, s3_proxy

TABLE = pa.table({"id": np.arange(5000), "text": [f"text {i % 13}" for i in range(5000)]})


@pytest.fixture(scope="module")
def _proxy(s3: S3) -> Iterator[Proxy]:
    with s3_proxy(s3.endpoint) as proxy:
        yield proxy


@pytest.fixture
def proxy(_proxy: Proxy) -> Proxy:
    _proxy.clear()
    return _proxy


@pytest.fixture(scope="module")
def root(s3: S3) -> str:
    """trips (with an older version, a tag and a branch), ns/inner, plain, and what is no dataset."""
    bucket = s3.new_bucket()
    root = f"s3://{bucket}/served"
    options = s3.options()
    dataset = lance.write_dataset(
        TABLE, f"{root}/trips.lance", storage_options=options, max_rows_per_file=2000
    )
    dataset.delete("id % 5 = 0")
    dataset.tags.create("gold", 1)
    branch = dataset.create_branch("dev")
    lance.write_dataset(TABLE.slice(0, 10), branch, mode="append", storage_options=options)
    for name in ("ns/inner.lance", "plain", "twice", "twice.lance", "bad name.lance"):
        lance.write_dataset(TABLE.slice(0, 100), f"{root}/{name}", storage_options=options)
    lance.write_dataset(TABLE, f"s3://{bucket}/outside.lance", storage_options=options)
    dataset.shallow_clone(f"{root}/inside-clone.lance", reference=1, storage_options=options)
    lance.dataset(f"s3://{bucket}/outside.lance", storage_options=options).shallow_clone(
        f"{root}/outside-clone.lance", reference=1, storage_options=options
    )
    s3.client.put_object(Bucket=bucket, Key="served/other/file.txt", Body=b"x")
    return root


NAMES = ["inside-clone", "ns/inner", "outside-clone", "plain", "trips", "twice"]


@pytest.fixture(scope="module")
def server(s3: S3, root: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    directory = tmp_path_factory.mktemp("server")
    (directory / "options.json").write_text(json.dumps(s3.options()))
    with serving(
        root, directory / "log", "--storage-options-file", str(directory / "options.json")
    ) as server:
        yield server
    assert SECRET not in server.log
    assert KEY not in server.log


def read(server: RunningServer, descriptor: flight.FlightDescriptor) -> pa.Table:
    client = server.client()
    info = client.get_flight_info(descriptor)
    return pa.concat_tables([client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints])


def test_datasets_are_listed(server: RunningServer) -> None:
    listed = {b"/".join(info.descriptor.path).decode(): info for info in server.client().list_flights()}
    assert sorted(listed) == NAMES
    assert listed["trips"].total_records == 4000
    assert listed["ns/inner"].schema == TABLE.schema


def test_every_version_is_read(server: RunningServer, root: str, s3: S3) -> None:
    theirs = lance.dataset(f"{root}/trips.lance", storage_options=s3.options())
    path = flight.FlightDescriptor.for_path
    assert read(server, path("trips")) == theirs.to_table()
    assert read(server, path("trips@1")) == TABLE
    assert read(server, path("trips@gold")) == TABLE
    branch = theirs.checkout_version(("dev", None)).to_table()
    assert read(server, path("trips@dev")) == branch
    assert read(server, path("ns", "inner")) == TABLE.slice(0, 100)
    assert read(server, path("inside-clone")) == TABLE


def test_a_commit_of_another_writer_is_seen_at_once(server: RunningServer, root: str, s3: S3) -> None:
    uri = f"{root}/appended.lance"
    lance.write_dataset(TABLE, uri, storage_options=s3.options())
    path = flight.FlightDescriptor.for_path("appended")
    assert read(server, path).num_rows == 5000
    lance.write_dataset(TABLE, uri, mode="append", storage_options=s3.options())
    assert read(server, path).num_rows == 10_000
    for key in s3.keys(root.split("/")[2]):
        if key.startswith("served/appended.lance"):
            s3.client.delete_object(Bucket=root.split("/")[2], Key=key)
    with pytest.raises(KeyError, match="appended"):
        read(server, path)


def test_a_root_with_a_manifest_store(s3: S3, tmp_path: Path) -> None:
    """Datasets, and branches whose base paths name the store, that the reference shares."""
    keys = {"base_uri": ("HASH", "S"), "version": ("RANGE", "N")}
    boto3.client(
        "dynamodb",
        endpoint_url=s3.endpoint,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    ).create_table(
        TableName="served-versions",
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, (kind, _) in keys.items()],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": t} for name, (_, t) in keys.items()],
        BillingMode="PAY_PER_REQUEST",
    )
    root, table = f"s3+ddb://{s3.new_bucket()}/served", "?ddbTableName=served-versions"
    options = {**s3.options(), "dynamodb_endpoint": s3.endpoint}
    (tmp_path / "options.json").write_text(json.dumps(options))
    lance.write_dataset(TABLE, f"{root}/trips.lance{table}", storage_options=options)
    lance.dataset(f"{root}/trips.lance{table}", storage_options=options).create_branch("dev")

    server = start_server(
        root + table, tmp_path / "log", "--storage-options-file", str(tmp_path / "options.json")
    )
    try:
        path = flight.FlightDescriptor.for_path
        assert read(server, path("trips")) == read(server, path("trips@dev")) == TABLE
        put(server.client(), {"dataset": "trips", "mode": "append"}, TABLE)
        theirs = lance.dataset(f"{root}/trips.lance{table}", storage_options=options)
        assert theirs.version == 2
        assert read(server, path("trips")) == theirs.to_table()
    finally:
        server.stop()


@pytest.mark.parametrize("name", ["none", "ns", "other", "trips/data", "ns/none", "bad name", "../outside"])
def test_what_is_no_dataset_is_not_found(server: RunningServer, name: str) -> None:
    with pytest.raises((KeyError, pa.ArrowInvalid)):
        read(server, flight.FlightDescriptor.for_path(name))


def test_an_ambiguous_name_is_refused(server: RunningServer) -> None:
    with pytest.raises(pa.ArrowInvalid, match="ambiguous"):
        read(server, flight.FlightDescriptor.for_path("twice"))


def test_a_base_path_outside_the_root_is_refused(server: RunningServer) -> None:
    """T11"""
    with pytest.raises(NotImplementedError, match="outside the served root"):
        read(server, flight.FlightDescriptor.for_path("outside-clone"))


@pytest.mark.parametrize(
    "path", ["s3://b/served-2/x", "s3://b/x", "/etc", "http://169.254.169.254/", "gs://b/served/x"]
)
def test_only_what_is_below_the_root_is_a_base(s3: S3, path: str) -> None:
    """T11: the name of a sibling may begin like that of the root."""
    from lance_core.table.bases import DatasetBasePath

    storage = storage_for("s3://b/served", s3.options())
    catalog = StoreCatalog(storage, 1 << 20)
    with pytest.raises(UnsupportedFeatureError, match="outside"):
        catalog._open_base(DatasetBasePath(path, is_dataset_root=True, id=1), storage)


def test_requests_of_the_catalog_are_bounded(root: str, s3: S3, proxy: Proxy) -> None:
    """Listing: one request per directory and no object is read. A warm open: names, and one look."""
    catalog = StoreCatalog(storage_for(root, s3.options(proxy.endpoint)), 1 << 20)
    assert sorted(catalog.names()) == NAMES
    directories = 1 + len(NAMES) + 4  # the second "twice", "ns", "other" and the name that is not allowed
    print(f"listing {len(NAMES)} datasets: {len(proxy.requests)} requests")
    assert len(proxy.requests) <= directories
    assert all("list-type=2" in request.target for request in proxy.requests)

    reference = DatasetReference("trips")
    catalog.open(catalog.pin(reference))
    print(f"first open: {len(proxy.requests) - directories} requests")
    proxy.clear()
    catalog.open(catalog.pin(reference))
    assert [request.method for request in proxy.requests] == ["GET", "HEAD"]


def test_listing_does_not_wait_for_one_dataset_after_the_other(s3: S3, proxy: Proxy, tmp_path: Path) -> None:
    """Each costs its names, a look and, the first time, its manifest; of several at the same time."""
    root = f"s3://{s3.new_bucket()}/many"
    for number in range(16):
        lance.write_dataset(TABLE.slice(0, 1), f"{root}/d{number}.lance", storage_options=s3.options())
    service = Service(
        Settings.resolve(root, {"storage_options": json.dumps(s3.options(proxy.endpoint))}, environment={})
    )
    assert len(list(service.datasets.summaries(""))) == 16
    proxy.clear()
    meeting = proxy.let_meet(8, after=1)
    assert [summary.num_rows for summary in service.datasets.summaries("")] == [1] * 16
    print(f"listing 16 datasets again: {len(proxy.requests)} requests")
    assert len(proxy.requests) <= 1 + 3 * 16
    assert meeting.is_over


def test_a_dataset_made_again_is_not_mistaken(root: str, s3: S3) -> None:
    """T12, T14: the manifest of the same version has another tag."""
    catalog = StoreCatalog(storage_for(root, s3.options()), 1 << 20)
    uri, bucket = f"{root}/again.lance", root.split("/")[2]
    rows = []
    for number in (10, 20):
        lance.write_dataset(TABLE.slice(0, number), uri, storage_options=s3.options())
        rows.append(sum(f.num_rows for f in catalog.open(DatasetReference("again", 1)).manifest.fragments))
        for key in s3.keys(bucket):
            if key.startswith("served/again.lance"):
                s3.client.delete_object(Bucket=bucket, Key=key)
    assert rows == [10, 20]
    with pytest.raises(DatasetNotFoundError):
        catalog.open(DatasetReference("again", 1))


def test_a_store_that_fails_is_unavailable(s3: S3, root: str, tmp_path: Path, proxy: Proxy) -> None:
    """T39, T45: and the client learns nothing about it."""
    options = s3.options(proxy.endpoint) | {"client_max_retries": "1"}
    (tmp_path / "options.json").write_text(json.dumps(options))
    server = start_server(
        root, tmp_path / "log", LANCE_FLIGHT_STORAGE_OPTIONS_FILE=str(tmp_path / "options.json")
    )
    try:
        from support.stores.s3 import status

        assert read(server, flight.FlightDescriptor.for_path("plain")).num_rows == 100
        proxy.on(status(503))
        proxy.always = True
        for act in (
            lambda: read(server, flight.FlightDescriptor.for_path("plain")),
            lambda: list(server.client().list_flights()),
        ):
            with pytest.raises(flight.FlightUnavailableError, match="503") as caught:
                act()
            for word in (proxy.endpoint, "127.0.0.1:" + proxy.endpoint.rpartition(":")[2], SECRET, KEY):
                assert word not in str(caught.value)
        proxy.clear()
        assert read(server, flight.FlightDescriptor.for_path("plain")).num_rows == 100
    finally:
        server.kill()


def test_a_bucket_that_does_not_exist(s3: S3, tmp_path: Path) -> None:
    """T45: calls say so, and the log, where the sweep for expired uploads meets it, too: in one line each."""
    (tmp_path / "options.json").write_text(json.dumps(s3.options()))
    options = ("--storage-options-file", str(tmp_path / "options.json"))
    with serving("s3://no-such-bucket/x", tmp_path / "log", *options) as server:
        with pytest.raises(flight.FlightUnavailableError, match="NoSuchBucket"):
            list(server.client().list_flights())
        with pytest.raises(flight.FlightUnavailableError, match="NoSuchBucket"):
            put(server.client(), {"dataset": "t", "mode": "create"}, TABLE)
        deadline = time.monotonic() + 60
        while "sweep_failed" not in server.log:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert "Traceback" not in server.log


def test_an_endpoint_that_is_no_url(tmp_path: Path) -> None:
    """The server does not start, and says which option is wrong."""
    (tmp_path / "options.json").write_text('{"aws_endpoint": "localhost:9000"}')
    options = ("--storage-options-file", str(tmp_path / "options.json"))
    with pytest.raises(AssertionError, match="error: storage option aws_endpoint is not a URL"):
        start_server("s3://bucket/x", tmp_path / "log", *options)


def test_settings_of_a_store(tmp_path: Path) -> None:
    """T10, T46: options come from a file or the environment, and are never shown."""
    (tmp_path / "options.json").write_text('{"aws_secret_access_key": "geheim-1"}')
    settings = Settings.resolve(
        "s3://bucket/prefix/", {"storage_options_file": str(tmp_path / "options.json")}, {}
    )
    assert settings.root == "s3://bucket/prefix"
    assert dict(settings.storage_options) == {"aws_secret_access_key": "geheim-1"}
    assert "geheim-1" not in repr(settings)
    environment = {"LANCE_FLIGHT_STORAGE_OPTIONS": '{"a": "b"}'}
    assert dict(Settings.resolve("gs://bucket", {}, environment).storage_options) == {"a": "b"}
    for text in ("geheim-1", '["geheim-1"]', '{"a": 1}'):
        with pytest.raises(InvalidInputError, match="setting storage_options") as caught:
            Settings.resolve("s3://b", {}, {"LANCE_FLIGHT_STORAGE_OPTIONS": text})
        assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("root", ["http://host/x", "memory://x", "gs+ddb://b/x", "file:///tmp", "hf://x"])
def test_other_roots_are_refused(root: str) -> None:
    """T10"""
    with pytest.raises(InvalidInputError, match="not a local directory"):
        Settings.resolve(root, {}, {})


def test_datasets_are_written(server: RunningServer, root: str, s3: S3) -> None:
    """Made, appended to and replaced through the server; the reference reads them from the store."""
    client = server.client()
    uri = f"{root}/deep/er/written.lance"
    put(client, {"dataset": "deep/er/written", "mode": "create"}, TABLE)
    assert lance.dataset(uri, storage_options=s3.options()).to_table() == TABLE
    assert put(client, "deep/er/written", TABLE)["version"] == 2
    theirs = lance.dataset(uri, storage_options=s3.options())
    assert theirs.to_table() == pa.concat_tables([TABLE, TABLE])
    assert theirs.validate() is None
    lance.write_dataset(TABLE, uri, mode="append", storage_options=s3.options())
    result = put(client, {"dataset": "deep/er/written", "mode": "overwrite"}, TABLE.slice(0, 7))
    assert result["version"] == 4
    assert read(server, flight.FlightDescriptor.for_path("deep/er/written")) == TABLE.slice(0, 7)
    assert lance.dataset(uri, version=3, storage_options=s3.options()).count_rows() == 15_000


def test_what_is_not_written(server: RunningServer) -> None:
    client = server.client()
    with pytest.raises(flight.FlightServerError, match="exists"):
        put(client, {"dataset": "plain", "mode": "create"}, TABLE)
    with pytest.raises(pa.ArrowInvalid, match="cannot contain datasets"):
        put(client, {"dataset": "plain/below", "mode": "create"}, TABLE)
    with pytest.raises(KeyError):
        put(client, "none", TABLE)


def _dataset_keys(s3: S3, root: str, name: str) -> list[str]:
    return [key for key in s3.keys(root.split("/")[2]) if key.startswith(f"served/{name}.lance/")]


def test_drop(server: RunningServer, root: str, s3: S3) -> None:
    """All objects of the dataset and of its branches go, and none of a neighbour with a longer name."""
    client, options = server.client(), s3.options()
    for name in ("gone", "gone2"):
        put(client, {"dataset": name, "mode": "create"}, TABLE)
    put(client, "gone", TABLE)
    act(client, "create_tag", dataset="gone", tag="gold", version=1)
    act(client, "create_branch", dataset="gone", branch="dev")
    before = _dataset_keys(s3, root, "gone2")
    assert act(client, "drop_dataset", dataset="gone") == {"dataset": "gone"}
    assert _dataset_keys(s3, root, "gone") == []
    assert _dataset_keys(s3, root, "gone2") == before
    assert "gone" not in [info.descriptor.path[-1].decode() for info in client.list_flights()]
    with pytest.raises(KeyError, match="no dataset is named"):
        read(server, flight.FlightDescriptor.for_path("gone"))
    with pytest.raises(KeyError, match="no dataset is named"):
        act(client, "drop_dataset", dataset="gone")
    assert put(client, {"dataset": "gone", "mode": "create"}, TABLE.slice(0, 3))["version"] == 1
    assert lance.dataset(f"{root}/gone.lance", storage_options=options).count_rows() == 3
    assert act(client, "list_tags", dataset="gone") == {"tags": {}}
    for name in ("gone", "gone2"):
        act(client, "drop_dataset", dataset=name)


def test_a_drop_that_breaks_off(root: str, s3: S3, proxy: Proxy) -> None:
    """T39: the newest version stays whole until nobody can open the dataset; a drop is repeated."""
    lance.write_dataset(TABLE, f"{root}/broken.lance", storage_options=s3.options())
    lance.write_dataset(TABLE, f"{root}/broken.lance", storage_options=s3.options(), mode="append")
    options = {**s3.options(), "aws_endpoint": proxy.endpoint, "client_max_retries": "0"}
    settings = Settings.resolve(root, {"storage_options": json.dumps(options)}, {})
    service = Service(settings)

    def refuse(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")

    for at in range(2):  # the older version goes first
        deletions = itertools.count()
        proxy.faults.append(
            (lambda request: request.method == "POST" and next(deletions) == at, refuse)  # noqa: B023
        )
        with pytest.raises(StorageError):
            service.changes.drop("broken")
        proxy.clear()
        assert lance.dataset(f"{root}/broken.lance", storage_options=s3.options()).count_rows() == 10_000
    service.changes.drop("broken")
    assert _dataset_keys(s3, root, "broken") == []


def test_an_upload_that_ends_early_leaves_nothing(server: RunningServer, root: str, s3: S3) -> None:
    """T27"""
    before = s3.keys(root.split("/")[2])
    with pytest.raises(pa.ArrowInvalid, match="finish"):
        put(server.client(), {"dataset": "unfinished", "mode": "create"}, TABLE, finish=False)
    assert s3.keys(root.split("/")[2]) == before


def test_staged_writes(s3: S3, tmp_path: Path) -> None:
    """T13: receipts in a store: committed once at another server, aborted, and expired."""
    bucket = s3.new_bucket()
    options_file = tmp_path / "options.json"
    options_file.write_text(json.dumps(s3.options()))
    arguments = (f"s3://{bucket}/root", tmp_path / "log", "--storage-options-file", str(options_file))
    rows = pa.table({"n": [1, 2]})
    first = start_server(*arguments)
    second = start_server(*arguments)
    servers = [first, second]
    try:
        with first.client() as client, second.client() as other:
            put(client, {"dataset": "t", "mode": "create"}, rows)
            receipts = [stage(each, rows, dataset="t") for each in (client, other)]
            aborted = stage(client, rows, dataset="t")
            stage(client, rows, dataset="new", mode="create")
            assert act(other, "abort", dataset="t", staged=[aborted]) == {"removed": 1}
            commit = {"dataset": "t", "operation": "append", "staged": receipts}
            assert act(other, "commit", **commit) == {"version": 2}
            with pytest.raises(pa.ArrowInvalid, match="nothing is staged"):
                act(client, "commit", **commit)
            done = act(client, "compact", dataset="t", options={"target_rows_per_fragment": 100})
            assert done["fragments_removed"] == 3
            # Whatever is staged expires after the time of the server that looks, so it starts only now.
            servers.append(start_server(*arguments, "--stage-expiry", "1"))
            deadline = time.monotonic() + 30
            while [key for key in s3.keys(bucket) if "/_staging/" in key or "/new.lance/" in key]:
                assert time.monotonic() < deadline, s3.keys(bucket)
                time.sleep(0.2)
    finally:
        for server in servers:
            server.kill()
    dataset = lance.dataset(f"s3://{bucket}/root/t.lance", storage_options=s3.options())
    assert dataset.to_table()["n"].to_pylist() == [1, 2] * 3


def test_a_staged_file_that_is_gone(server: RunningServer, root: str, s3: S3) -> None:
    """T13: a file of a receipt is shorter, or was removed, before the commit."""
    bucket = root.split("/")[2]
    rows = pa.table({"n": [1, 2]})
    with server.client() as client:
        put(client, {"dataset": "gone", "mode": "create"}, rows)
        before = s3.keys(bucket)
        receipt = stage(client, rows, dataset="gone")
        (staged,) = (key for key in s3.keys(bucket) if key not in before and key.endswith(".lance"))
        whole = s3.client.get_object(Bucket=bucket, Key=staged)["Body"].read()
        commit = {"dataset": "gone", "operation": "append", "staged": [receipt]}
        s3.client.put_object(Bucket=bucket, Key=staged, Body=whole[:-1])
        with pytest.raises(flight.FlightInternalError, match="wrong size"):
            act(client, "commit", **commit)
        s3.client.delete_object(Bucket=bucket, Key=staged)
        with pytest.raises(pa.ArrowInvalid, match="is gone"):
            act(client, "commit", **commit)
        act(client, "drop_dataset", dataset="gone")


def test_a_root_with_a_manifest_store_names_its_table() -> None:
    with pytest.raises(InvalidInputError, match="not the URI"):
        Service(Settings.resolve("s3+ddb://bucket/x", {}, {}))


def test_the_command_line_takes_urls_of_stores(root: str, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials come from the environment."""
    for name, value in s3.options().items():
        monkeypatch.setenv(name.upper(), value)
    url = f"{root}/by-url.lance"
    lance.write_dataset(TABLE, url, storage_options=s3.options())
    assert json.loads(run_verb("show", url, "--json").stdout)["rows"] == 5000
    assert run_verb("validate", url).stdout == "no damage found\n"
    assert run_verb("delete", url, "id > 0").stdout == "version 2: 4,999 rows deleted\n"
    run_verb("drop", url, "--yes")
    assert _dataset_keys(s3, root, "by-url") == []
    assert "no dataset" in run_verb("show", url, code=1).stderr
