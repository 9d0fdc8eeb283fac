"""Datasets in an S3 store: the reference writes them there, and both read the same."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.errors import (
    DatasetExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_core.storage import storage_for
from lance_core.table.bases import DatasetBasePath, open_base
from support.processes.workers import rows_of, spawned
from support.runs.products import thinned
from support.stores.s3 import S3, Proxy

VERSIONS = ["legacy", "2.0", "2.1", "2.2"]


def mixed_table(rows: int, seed: int = 5) -> pa.Table:
    generator = np.random.default_rng(seed)
    return pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "text": pa.array([None if i % 11 == 0 else f"text {i % 97}" * (i % 5) for i in range(rows)]),
            "vector": pa.FixedSizeListArray.from_arrays(generator.random(rows * 4, np.float32), 4),
            "lists": pa.array([list(range(i % 4)) for i in range(rows)]),
            "struct": pa.array([{"a": i, "b": [str(i)]} for i in range(rows)]),
        }
    )


@pytest.fixture(scope="module")
def written_once(s3: S3) -> Callable[[str], str]:
    """Write each dataset once. A process that comes back to this module writes them to another bucket."""
    bucket = s3.new_bucket()

    @cache
    def write(version: str) -> str:
        options = s3.options()
        uri = f"s3://{bucket}/ns/{version}.lance"
        data = mixed_table(3000)
        lance.write_dataset(
            data, uri, storage_options=options, data_storage_version=version, max_rows_per_file=1000
        )
        dataset = lance.dataset(uri, storage_options=options)
        dataset.delete("id % 7 = 0")
        dataset.tags.create("gold", 1)
        lance.write_dataset(mixed_table(500, 6), uri, mode="append", storage_options=options)
        branch = dataset.create_branch("dev")
        lance.write_dataset(mixed_table(100, 7), branch, mode="append", storage_options=options)
        return uri

    return write


@pytest.fixture(params=VERSIONS)
def uri(request: pytest.FixtureRequest, written_once: Callable[[str], str]) -> str:
    """A dataset with several versions, fragments, deletions, a tag and a branch."""
    return written_once(request.param)


@pytest.mark.parametrize(
    ("uri", "reference"),
    thinned(VERSIONS, [None, 1, 2, 3, "gold", ("dev", None), ("dev", 2)]),
    indirect=["uri"],
)
def test_every_version_reads_like_the_reference(uri: str, s3: S3, reference) -> None:
    theirs = lance.dataset(uri, storage_options=s3.options())
    ours = lance_core.dataset(uri, storage_options=s3.options())
    if reference is not None:
        theirs, ours = theirs.checkout_version(reference), ours.checkout_version(reference)
    assert ours.version == theirs.version
    assert ours.schema == theirs.schema
    assert ours.to_table() == theirs.to_table()
    assert ours.count_rows() == theirs.count_rows()
    rows = random.Random(3).sample(range(ours.count_rows()), 50)
    assert ours.take(rows) == theirs.take(rows)


def test_versions_and_refs_are_listed(uri: str, s3: S3) -> None:
    theirs = lance.dataset(uri, storage_options=s3.options())
    ours = lance_core.dataset(uri, storage_options=s3.options())
    assert [entry["version"] for entry in ours.versions()] == [
        entry["version"] for entry in theirs.versions()
    ]
    assert set(ours.tags.list()) == {"gold"}
    assert set(ours.branches.list()) == {"dev"}


def test_manifests_of_many_versions_are_read_at_once(s3: S3, bucket: str, proxy: Proxy) -> None:
    uri = f"s3://{bucket}/many_versions.lance"
    dataset = lance.write_dataset(pa.table({"id": [1]}), uri, storage_options=s3.options())
    for number in range(19):
        dataset.update_config({"number": str(number)})
    opened = lance_core.dataset(uri, storage_options=s3.options(proxy.endpoint))
    proxy.clear()
    meeting = proxy.let_meet(8, applies=lambda request: ".manifest" in request.target)
    found = opened.versions()
    assert meeting.is_over
    assert [version["version"] for version in found] == list(range(1, 21))


def test_a_clone_reads_its_source_with_the_same_options(uri: str, s3: S3) -> None:
    """The base path in the manifest of the clone is a URL of the store."""
    source = lance.dataset(uri, storage_options=s3.options())
    clone = f"{uri}-clone"
    source.shallow_clone(clone, reference=2, storage_options=s3.options())
    ours = lance_core.dataset(clone, storage_options=s3.options())
    assert ours.to_table() == source.checkout_version(2).to_table()


def test_a_base_of_another_kind_of_server_is_not_followed(tmp_path: Path) -> None:
    """T11: a manifest alone does not make this process send requests to any server."""
    for path in ("http://169.254.169.254/latest", "ftp://host/x", "memory://x"):
        with pytest.raises(UnsupportedFeatureError, match="base path 1"):
            open_base(DatasetBasePath(path, is_dataset_root=True, id=1), storage_for(str(tmp_path)))


def test_blobs(s3: S3, bucket: str) -> None:
    options = s3.options()
    uri = f"s3://{bucket}/blobs.lance"
    values = [bytes([i]) * (i * 40_000) for i in range(8)]
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    data = pa.table({"b": pa.array(values, pa.large_binary())}, schema=schema)
    lance.write_dataset(data, uri, storage_options=options, data_storage_version="2.1")
    blobs = lance_core.dataset(uri, storage_options=options).take_blobs("b", indices=[7, 0, 3])
    assert [blob.read() for blob in blobs] == [values[7], values[0], values[3]]


def test_what_is_not_there(s3: S3, bucket: str) -> None:
    with pytest.raises(DatasetNotFoundError, match="none"):
        lance_core.dataset(f"s3://{bucket}/none.lance", storage_options=s3.options())
    with pytest.raises(StorageError, match=r"404.*NoSuchBucket"):
        lance_core.dataset("s3://no-such-bucket/x.lance", storage_options=s3.options())
    with pytest.raises(InvalidInputError, match="not the URI"):
        lance_core.dataset("s3:///x.lance", storage_options=s3.options())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"aws_endpoint": "http://127.0.0.1:1"}, "connection refused"),
        ({"aws_endpoint": "http://no.such.host.invalid"}, "dns error"),
        ({"allow_http": "false"}, "plain http needs the storage option allow_http"),
        ({"timeout": "1 ns"}, "timed out"),
        ({"aws_access_key_id": None, "aws_secret_access_key": None}, "no credentials are given"),
    ],
    ids=str,
)
def test_why_a_store_cannot_be_asked(
    s3: S3, bucket: str, change: dict[str, str | None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what is wrong, and nothing of the address."""
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    patience = {"client_max_retries": "0", "connect_timeout": "5 s", "timeout": "5 s"}
    options = {**s3.options(), **patience, **change}
    with pytest.raises(StorageError, match=f"^object store: {message}") as caught:
        lance_core.dataset(
            f"s3://{bucket}/x.lance",
            storage_options={key: value for key, value in options.items() if value is not None},
        )
    assert "127.0.0.1" not in str(caught.value)
    assert bucket not in str(caught.value)


def test_the_environment_gives_what_the_options_do_not(
    uri: str, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in s3.options().items():
        monkeypatch.setenv(key.upper(), value)
    assert lance_core.dataset(uri).count_rows() == lance.dataset(uri).count_rows()
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    spelled = {"endpoint_url": s3.endpoint, "Region": "us-east-1", "no_such_option": "ignored"}
    assert lance_core.dataset(uri, storage_options=spelled).count_rows() > 0


def test_a_wide_dataset_reads_the_bytes_of_its_projection(s3: S3, bucket: str, proxy: Proxy) -> None:
    """2 columns out of 1000."""
    rows = 2000
    generator = np.random.default_rng(2)
    data = pa.table({f"c{i}": generator.integers(0, 1 << 60, rows) for i in range(1000)})
    uri = f"s3://{bucket}/wide.lance"
    lance.write_dataset(data, uri, storage_options=s3.options(), data_storage_version="2.1")
    manifest_bytes = max(
        entry["Size"]
        for entry in s3.client.list_objects_v2(Bucket=bucket, Prefix="wide.lance/_versions/")["Contents"]
    )

    ours = lance_core.dataset(uri, storage_options=s3.options(proxy.endpoint))
    opening = len(proxy.requests)
    assert proxy.bytes_read < manifest_bytes + 10_000
    assert opening <= 2, proxy.requests
    proxy.clear()
    assert ours.to_table(columns=["c17", "c912"]) == data.select(["c17", "c912"])
    columns_bytes = 2 * rows * 8
    print(f"opening: {opening} requests; scan: {len(proxy.requests)} requests, {proxy.bytes_read} bytes")
    ranges = [request.range for request in proxy.requests if request.range]
    assert len(ranges) == len(proxy.requests) <= 6, proxy.requests
    metadata_bytes = proxy.bytes_read - columns_bytes
    assert metadata_bytes < 400_000, proxy.requests  # of 1000 columns, read once
    proxy.clear()
    assert ours.to_table(columns=["c17", "c912"]) == data.select(["c17", "c912"])
    assert proxy.bytes_read <= columns_bytes
    assert len(proxy.requests) == 2


def test_requests_for_opening_and_scanning_are_bounded(s3: S3, bucket: str, proxy: Proxy) -> None:
    """Opening: one page of names and the manifest, however many versions; a file: its end, then its pages."""
    uri = f"s3://{bucket}/many.lance"
    data = pa.table({"a": np.arange(100), "b": np.random.default_rng(1).random(100)})
    for mode in ("create", "append", "append"):
        lance.write_dataset(data, uri, mode=mode, storage_options=s3.options())
    ours = lance_core.dataset(uri, storage_options=s3.options(proxy.endpoint))
    assert [request.method for request in proxy.requests] == ["GET", "GET"], proxy.requests

    proxy.clear()
    assert ours.to_table().num_rows == 300
    print(f"scan of three small files: {len(proxy.requests)} requests")
    assert [request.method for request in proxy.requests] == ["GET"] * 3, proxy.requests

    proxy.clear()
    assert ours.take([1, 150, 299]).num_rows == 3
    assert ours.to_table().num_rows == 300
    assert proxy.requests == []  # a small file was read whole


def test_distant_ranges_are_read_at_once(s3: S3, bucket: str, proxy: Proxy) -> None:
    """One round trip for many ranges, not one each."""
    storage = storage_for(f"s3://{bucket}/ranges", s3.options(proxy.endpoint))
    storage.put_if_absent("file", bytes(4 << 20))
    proxy.clear()
    meeting = proxy.let_meet(12)
    with storage.open_file("file", 4 << 20) as file:
        file.read_ranges([(start, 100) for start in range(0, 4 << 20, 256 << 10)])
    assert len(proxy.requests) == 16
    assert meeting.is_over


@pytest.mark.parametrize("way", ["table", "stream", "filter", "take"])
def test_round_trips_are_hidden(s3: S3, bucket: str, proxy: Proxy, way: str) -> None:
    """Many fragments, small and far away: their files are opened and read at the same time, in order."""
    uri = f"s3://{bucket}/far-{way}.lance"
    data = pa.table({"a": np.arange(2400), "b": np.random.default_rng(1).random(2400)})
    lance.write_dataset(data, uri, storage_options=s3.options(), max_rows_per_file=100)
    ours = lance_core.dataset(uri, storage_options=s3.options(proxy.endpoint))
    read = {
        "table": lambda: ours.to_table() == data,
        "stream": lambda: pa.Table.from_batches(ours.to_batches()) == data,
        "filter": lambda: (
            ours.to_table(filter="a % 2 = 0") == data.filter(pc.equal(pc.bit_wise_and(data["a"], 1), 0))
        ),
        "take": lambda: ours.take(list(range(0, 2400, 50))) == data.take(list(range(0, 2400, 50))),
    }[way]
    proxy.clear()
    meeting = proxy.let_meet(8)
    assert read()
    assert len(proxy.requests) == 24
    assert meeting.is_over


def test_our_own_writes(s3: S3, bucket: str) -> None:
    """Made, appended to and replaced in the store by both libraries in turn."""
    uri, options = f"s3://{bucket}/own.lance", s3.options()
    data = mixed_table(1500)
    lance_core.write_dataset(data, uri, storage_options=options, max_rows_per_file=400)
    lance.write_dataset(data, uri, mode="append", storage_options=options)
    lance_core.write_dataset(data, uri, mode="append", storage_options=options)
    theirs = lance.dataset(uri, storage_options=options)
    assert theirs.to_table() == lance_core.dataset(uri, storage_options=options).to_table()
    assert theirs.to_table() == pa.concat_tables([data, data, data])
    assert theirs.validate() is None
    lance_core.write_dataset(data.slice(0, 3), uri, mode="overwrite", storage_options=options)
    assert lance.dataset(uri, storage_options=options).to_table() == data.slice(0, 3)
    assert lance.dataset(uri, version=3, storage_options=options).count_rows() == 4500
    with pytest.raises(DatasetExistsError):
        lance_core.write_dataset(data, uri, storage_options=options)


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_columns_and_compaction(version: str, s3: S3, bucket: str) -> None:
    """Both libraries read the results of operations that write files and versions beside existing ones."""
    options, uri = s3.options(), f"s3://{bucket}/columns-{version}.lance"
    lance.write_dataset(
        mixed_table(300), uri, max_rows_per_file=60, data_storage_version=version, storage_options=options
    )
    ours = lance_core.dataset(uri, storage_options=options)
    ours.add_columns({"n": "id * 2"})
    ours.merge(pa.table({"id": [1, 299], "m": ["first", "last"]}), "id")
    lance.dataset(uri, storage_options=options).delete("id % 3 = 0")
    ours.checkout_latest()
    ours.alter_columns({"path": "n", "data_type": pa.int32()})
    ours.drop_columns(["lists"])
    ours.optimize.compact_files(target_rows_per_fragment=100)
    theirs = lance.dataset(uri, storage_options=options)
    assert theirs.validate() is None
    assert ours.to_table().equals(theirs.to_table())
    assert ours.version == theirs.version == 7
    assert len(ours.get_fragments()) == 2
    assert theirs.to_table(filter="m is not null")["m"].to_pylist() == ["first", "last"]
    wanted = [2 * n for n in range(300) if n % 3]
    assert theirs.to_table()["n"].to_pylist() == wanted


def test_changes_of_rows(s3: S3, bucket: str) -> None:
    uri, options = f"s3://{bucket}/changed/rows.lance", s3.options()
    dataset = lance_core.write_dataset(
        mixed_table(300), uri, storage_options=options, max_rows_per_file=100, enable_stable_row_ids=True
    )
    other = lance_core.dataset(uri, storage_options=options)
    assert dataset.delete("id % 10 = 3") == {"num_deleted_rows": 30}
    assert other.update({"text": "'new'"}, "id IN (1, 150)") == {"num_rows_updated": 2}
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    counts = merge.execute(pa.table({"id": [1, 150, 900], "text": ["x", "y", "z"]}))
    assert counts == {"num_inserted_rows": 1, "num_updated_rows": 2, "num_deleted_rows": 0}
    reference = lance.dataset(uri, storage_options=options)
    assert reference.version == dataset.version == 4
    assert reference.to_table(with_row_id=True) == dataset.to_table(with_row_id=True)
    found = {row["id"]: row["text"] for row in reference.to_table(columns=["id", "text"]).to_pylist()}
    assert len(found) == 271
    assert [found[number] for number in (1, 150, 900)] == ["x", "y", "z"]
    dataset.validate()


def test_a_dataset_in_another_file_system() -> None:
    """Any file system of fsspec can be used; this one is in memory."""
    uri = "memory://datasets/own.lance"
    data = mixed_table(700)
    lance_core.write_dataset(data, uri)
    lance_core.write_dataset(data, uri, mode="append")
    assert lance_core.dataset(uri).to_table() == pa.concat_tables([data, data])
    assert lance_core.dataset(uri, version=1).to_table() == data


def test_a_large_range_is_read_in_parts(s3: S3, bucket: str, proxy: Proxy) -> None:
    """Requests for parts stay within their time limits, and several connections transfer the bytes."""
    content = np.random.default_rng(4).bytes(40 << 20)
    storage = storage_for(f"s3://{bucket}/parts", s3.options(proxy.endpoint))
    with storage.create_file("file") as new:
        new.write(content)
    proxy.clear()
    with storage.open_file("file", len(content)) as file:
        data = file.read(100, 35 << 20)
        assert data.address % 64 == 0
        assert bytes(data) == content[100 : 100 + (35 << 20)]
        assert len(proxy.requests) == 5
        both = file.read_ranges([(0, 20 << 20), (39 << 20, 1000)])
        assert [bytes(part) for part in both] == [content[: 20 << 20], content[39 << 20 : (39 << 20) + 1000]]


def test_pickles_carry_the_options(s3: S3, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials included, so that another process opens the same version; connections are its own."""
    for variable in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    uri = f"s3://{bucket}/ns/pickled 100%25.lance"
    dataset = lance_core.write_dataset(mixed_table(100), uri, storage_options=s3.options())
    branch = dataset.create_branch("dev")
    branch.delete("id < 50")
    for opened in (dataset, branch, dataset.checkout_version(("dev", 1)), dataset.scanner(["id"], "id > 7")):
        expected = opened.to_table()
        assert pickle.loads(pickle.dumps(opened)).to_table().equals(expected)
    with spawned(1) as pool:
        assert len(pool.submit(rows_of, branch).result()) == 50
    again = pickle.loads(pickle.dumps(branch))
    assert again.tags.list() == {}
    again.delete("id < 60")
    assert again.count_rows() == 40


@pytest.mark.parametrize("run", ["to_table", "to_batches"])
def test_statistics_of_a_scan_have_the_requests_of_all_threads(uri: str, s3: S3, run: str) -> None:
    dataset = lance_core.dataset(uri, storage_options=s3.options(), session=lance_core.Session())
    found: list[lance_core.ScanStatistics] = []
    before = lance_core.iops_counter(), lance_core.bytes_read_counter()
    list(getattr(dataset.scanner(scan_stats_callback=found.append), run)())
    after = lance_core.iops_counter(), lance_core.bytes_read_counter()
    (statistics,) = found
    assert (statistics.iops, statistics.bytes_read) == (after[0] - before[0], after[1] - before[1])
    assert statistics.bytes_read > 0
