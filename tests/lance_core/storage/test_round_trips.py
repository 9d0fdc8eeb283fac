"""Requests to an object store run side by side, and bytes that are needed anyway come in one request."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.storage import storage_for
from lance_core.storage.remote import RemoteFile
from support.processes.waiting import wait_until
from support.stores.s3 import S3, Exchange, Proxy, Request

NUM_ROWS = 200_000
COLUMNS = [f"c{number}" for number in range(8)]


@pytest.fixture(scope="module")
def data() -> pa.Table:
    random = np.random.default_rng(3)
    return pa.table({name: random.permutation(NUM_ROWS) for name in COLUMNS})


@pytest.fixture(scope="module")
def uri(s3: S3, data: pa.Table) -> str:
    """A table of one file with a page of 0.4 MB for each column, and a B-tree.

    A process that comes back to this module writes it to another bucket.
    """
    uri = f"s3://{s3.new_bucket()}/rounds.lance"
    written = lance.write_dataset(data, uri, storage_options=s3.options(), data_storage_version="2.1")
    written.create_scalar_index("c0", "BTREE")
    return uri


@pytest.fixture
def opened(uri: str, s3: S3, proxy: Proxy) -> lance_core.LanceDataset:
    """The table, opened in a session of its own."""
    dataset = lance_core.dataset(
        uri, storage_options=s3.options(proxy.endpoint), session=lance_core.Session()
    )
    proxy.clear()
    return dataset


Read = Callable[[lance_core.LanceDataset], pa.Table]


def is_small(request: Request) -> bool:
    """Return whether a request is for the index of a page."""
    return request.range is not None and request.range[1] - request.range[0] < 4096


@pytest.mark.parametrize(
    ("read", "expected", "requests_before"),
    [
        (lambda rows: rows.head(100), lambda rows: rows.slice(0, 100), 1),
        (lambda rows: rows.to_table(limit=50, offset=90_000), lambda rows: rows.slice(90_000, 50), 1),
        (
            lambda rows: rows.to_table(filter="c7 < 3", columns=COLUMNS[:7]),
            lambda rows: rows.filter(np.asarray(rows["c7"]) < 3).select(COLUMNS[:7]),
            4,  # the end of the file, the index of c7 and two ranges of its chunks
        ),
        (
            lambda rows: pa.Table.from_batches(rows.to_batches(limit=10)),
            lambda rows: rows.slice(0, 10),
            1,
        ),
    ],
    ids=["head", "offset", "filter", "stream"],
)
def test_columns_are_asked_for_side_by_side(
    opened: lance_core.LanceDataset,
    proxy: Proxy,
    data: pa.Table,
    read: Read,
    expected: Read,
    requests_before: int,
) -> None:
    """The indices of the pages are there at the same time."""
    meeting = proxy.let_meet(7, after=requests_before, applies=is_small)
    assert read(opened) == expected(data)
    assert meeting.is_over


def test_whole_pages_take_one_request(opened: lance_core.LanceDataset, proxy: Proxy, data: pa.Table) -> None:
    """The index of a page is read together with its chunks if all of them are wanted."""
    assert opened.to_table() == data
    assert len(proxy.requests) == 1 + len(COLUMNS)


def test_leaves_of_a_struct_are_asked_for_side_by_side(s3: S3, bucket: str, proxy: Proxy) -> None:
    random = np.random.default_rng(4)
    leaves = [pa.array(random.permutation(NUM_ROWS)) for _ in range(5)]
    data = pa.table({"s": pa.StructArray.from_arrays(leaves, names=list("abcde"))})
    uri = f"s3://{bucket}/struct.lance"
    lance.write_dataset(data, uri, storage_options=s3.options(), data_storage_version="2.1")
    for read in (
        lambda rows: rows.to_table(limit=5, offset=1000) == data.slice(1000, 5),
        lambda rows: rows.take([3, 150_000]) == data.take([3, 150_000]),
    ):
        rows = lance_core.dataset(
            uri, storage_options=s3.options(proxy.endpoint), session=lance_core.Session()
        )
        proxy.clear()
        meeting = proxy.let_meet(5, applies=is_small)
        assert read(rows)
        assert meeting.is_over


class Asked(dict[Any, Any]):
    """Requests that run, and how often a thread has looked for one that it can share."""

    num_looks = 0

    def setdefault(self, *arguments: Any) -> Any:
        found = super().setdefault(*arguments)
        self.num_looks += 1
        return found


def test_threads_that_want_the_same_bytes_share_a_request(s3: S3, bucket: str, proxy: Proxy) -> None:
    """The request is answered when all threads want the bytes. Each of them gets the bytes."""
    storage = storage_for(f"s3://{bucket}/shared", s3.options(proxy.endpoint))
    content = np.random.default_rng(5).bytes(1 << 20)
    storage.put_if_absent("file", content)
    file = storage.open_file("file", len(content))
    assert isinstance(file, RemoteFile)
    file._asked = asked = Asked()
    proxy.clear()

    def answer_late(exchange: Exchange) -> None:
        wait_until(lambda: asked.num_looks == 4)
        exchange.send(b"\r\n\r\n".join(exchange.forward()))

    proxy.on(answer_late)
    with ThreadPoolExecutor(4) as pool:
        reads = [pool.submit(file.read, 1000, 500) for _ in range(4)]
    assert [bytes(read.result()) for read in reads] == [content[1000:1500]] * 4
    assert len(proxy.requests) == 1


def test_an_index_is_opened_and_searched_in_few_requests(
    opened: lance_core.LanceDataset, proxy: Proxy, data: pa.Table
) -> None:
    """Both files by one request each, and the values and keys of a page side by side."""
    proxy.delay = 0.1
    assert opened.to_table(filter="c0 = 77") == data.filter(np.asarray(data["c0"]) == 77)
    lookup = [request for request in proxy.requests if "page_lookup" in request.target]
    pages = [request for request in proxy.requests if "page_data" in request.target]
    assert len(lookup) == 1
    assert len(pages) == 1 + 2 * 2  # the end, then the index and the chunks of two columns


CHANGES: dict[str, tuple[Callable[[Any], object], int]] = {
    "append": (lambda rows: lance_core.write_dataset(pa.table({"a": [1]}), rows, mode="append"), 2),
    "overwrite": (lambda rows: lance_core.write_dataset(pa.table({"a": [1]}), rows, mode="overwrite"), 2),
    "delete": (lambda rows: rows.delete("a = 3"), 2),
    "update": (lambda rows: rows.update({"a": "1"}, "a = 3"), 3),
    "merge": (
        lambda rows: rows.merge_insert("a").when_not_matched_insert_all().execute(pa.table({"a": [77]})),
        2,
    ),
    "drop a column": (lambda rows: rows.drop_columns(["b"]), 1),
    "settings": (lambda rows: rows.update_config({"key": "value"}), 1),
}
"""Changes, and the number of files that each of them writes before the manifest."""


@pytest.mark.parametrize("name", CHANGES)
def test_a_commit_takes_three_round_trips(s3: S3, bucket: str, proxy: Proxy, name: str) -> None:
    """The listing that shows the newest version runs beside the writes of all files, then the manifest is
    put, and a listing shows that it is in the history; see `require_in_history`. No manifest is read.
    """
    change, num_files = CHANGES[name]
    uri = f"s3://{bucket}/commits-{name.replace(' ', '-')}.lance"
    options = s3.options(proxy.endpoint)
    data = pa.table({"a": np.arange(10), "b": np.arange(10)})
    lance_core.write_dataset(data, uri, storage_options=options)
    made = lance_core.dataset(uri, storage_options=options)
    assert made.to_table() == data  # what the change reads is known
    proxy.clear()
    meeting = proxy.let_meet(1 + num_files, applies=lambda request: not is_of_data(request))
    change(made)
    assert meeting.is_over
    requests = [request for request in proxy.requests if not is_of_data(request)]
    assert [request.method for request in requests[1 + num_files :]] == ["PUT", "GET"]
    assert [request.method for request in requests].count("GET") == 2
    assert not [
        request for request in requests if request.method == "GET" and "list-type" not in request.target
    ]


def is_of_data(request: Request) -> bool:
    """Return whether a request reads a data file."""
    return request.method == "GET" and "/data/" in request.target


def test_a_version_that_was_just_made_is_not_read_again(s3: S3, bucket: str, proxy: Proxy) -> None:
    uri = f"s3://{bucket}/chain.lance"
    options = s3.options(proxy.endpoint)
    dataset = lance_core.write_dataset(pa.table({"a": [0]}), uri, storage_options=options)
    proxy.clear()
    for number in range(1, 4):
        dataset = lance_core.write_dataset(pa.table({"a": [number]}), dataset, mode="append")
    assert len(proxy.requests) == 3 * 5
    assert dataset.to_table()["a"].to_pylist() == [0, 1, 2, 3]


def test_a_new_table_takes_four_round_trips(s3: S3, bucket: str, proxy: Proxy) -> None:
    """A listing that shows no table, the files beside another listing, the manifest, and the listing that
    shows that it is in the history.
    """
    options = s3.options(proxy.endpoint)
    proxy.clear()
    meeting = proxy.let_meet(3, after=1)
    lance_core.write_dataset(pa.table({"a": [0]}), f"s3://{bucket}/new.lance", storage_options=options)
    assert meeting.is_over
    assert [request.method for request in proxy.requests].count("GET") == 3
    assert len(proxy.requests) == 6


def test_a_missing_table_takes_one_request(s3: S3, bucket: str, proxy: Proxy) -> None:
    proxy.clear()
    with pytest.raises(lance_core.DatasetNotFoundError):
        lance_core.dataset(f"s3://{bucket}/nothing.lance", storage_options=s3.options(proxy.endpoint))
    assert len(proxy.requests) == 1


def test_fragments_are_opened_side_by_side_for_a_merge(s3: S3, bucket: str, proxy: Proxy) -> None:
    uri = f"s3://{bucket}/merge.lance"
    data = pa.table({"a": np.arange(40_000), "b": np.arange(40_000)})
    written = lance.write_dataset(data, uri, max_rows_per_file=10_000, storage_options=s3.options())
    written.create_scalar_index("a", "BTREE")
    rows = lance_core.dataset(uri, storage_options=s3.options(proxy.endpoint), session=lance_core.Session())
    proxy.clear()
    meeting = proxy.let_meet(4, applies=is_of_data)
    source = pa.table({"a": [5, 10_005, 20_005, 30_005], "b": [1, 2, 3, 4]})
    rows.merge_insert("a").when_matched_update_all().execute(source)
    assert meeting.is_over


def test_small_files_are_put_together_within_limits(s3: S3, bucket: str, proxy: Proxy) -> None:
    """A file that does not fit into memory beside the others is put at once."""
    storage = storage_for(f"s3://{bucket}/late", s3.options(proxy.endpoint))
    puts: list[Callable[[], None]] = []
    later = storage.putting_later(puts)
    proxy.clear()
    for number in range(3):
        with later.create_file(f"data/{number}") as file:
            file.write(bytes(7 << 20))
    assert len(puts) == 2
    assert [request.target for request in proxy.requests if request.method == "PUT"] == [
        f"/{bucket}/late/data/2"
    ]
    for number in range(70):
        later.create_file(f"data/empty-{number}").close()
    assert len(puts) == 64
    for put in puts:
        put()
    assert len(storage.list_names("data")) == 3 + 70


def test_a_cleanup_takes_eight_round_trips(s3: S3, bucket: str, proxy: Proxy) -> None:
    """Manifests are read once and removed by one request, as are the files that are left. A file in
    `REMOVALS` is there meanwhile.
    """
    uri = f"s3://{bucket}/cleanup.lance"
    rows = pa.table({"a": np.arange(10)})
    for number in range(8):
        mode = "append" if number else "create"
        lance.write_dataset(rows, uri, mode=mode, storage_options=s3.options())
    dataset = lance_core.dataset(uri, storage_options=s3.options(proxy.endpoint))
    proxy.clear()
    assert dataset.cleanup_old_versions(timedelta(0)).old_versions == 7
    asked = [
        f"{request.method} {request.target.partition('?')[2] or request.target}" for request in proxy.requests
    ]
    asked = [each.replace("%2F", "/") for each in asked]
    is_listing = ["list-type" in each for each in asked]
    assert sorted(each.rpartition("/")[2] for each in asked if ".manifest" in each) == [
        f"{(1 << 64) - 1 - version:020}.manifest" for version in range(8, 0, -1)
    ]
    assert is_listing[:3] == [True] * 3  # versions, tags, branches
    assert is_listing[3:11] == [False] * 8  # the manifests
    assert [each.partition(" ")[0] for each in asked[11:16]].count("GET") == 3  # the same listings again
    assert [each for each in asked[11:16] if each.startswith("PUT") and "/_refs/removals/" in each]
    assert [each for each in asked[11:16] if each == "POST delete"]  # of the hint
    assert asked[16] == "POST delete"  # of seven manifests
    assert is_listing[17:19] == [True] * 2  # tags and branches
    assert asked[19] == "POST delete"  # of the file in REMOVALS
    assert is_listing[20:26] == [True] * 6  # the directories
    assert is_listing[26]  # the versions
    assert asked[27:] == ["POST delete"]  # of seven transactions
    assert lance.dataset(uri, storage_options=s3.options()).count_rows() == 80


def test_a_cleanup_within_limits_deletes_one_by_one(s3: S3, bucket: str, proxy: Proxy) -> None:
    uri = f"s3://{bucket}/slow.lance"
    for number in range(4):
        mode = "append" if number else "create"
        lance.write_dataset(pa.table({"a": [1]}), uri, mode=mode, storage_options=s3.options())
    dataset = lance_core.dataset(uri, storage_options=s3.options(proxy.endpoint))
    proxy.clear()
    assert dataset.cleanup_old_versions(timedelta(0), delete_concurrency=1).old_versions == 3
    assert [request.method for request in proxy.requests].count("POST") == 1 + 3 + 3
    assert not [request for request in proxy.requests if request.method == "PUT"]


def test_a_limit_reads_no_window_ahead_of_the_first(s3: S3, bucket: str, proxy: Proxy) -> None:
    """The first window has all rows, so the others are not asked for."""
    uri = f"s3://{bucket}/limit.lance"
    data = pa.table({"a": np.random.default_rng(6).permutation(2_000_000)})
    lance.write_dataset(data, uri, storage_options=s3.options(), data_storage_version="2.1")
    rows = lance_core.dataset(uri, storage_options=s3.options(proxy.endpoint))
    proxy.clear()
    proxy.delay = 0.1
    found = rows.to_table(filter="a % 2 = 0", limit=10)
    assert found == data.filter(np.asarray(data["a"]) % 2 == 0).slice(0, 10)
    assert proxy.bytes_read < 2 << 20  # of 5 MB
