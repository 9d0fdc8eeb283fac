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


def test_a_commit_lists_versions_twice(s3: S3, bucket: str, proxy: Proxy) -> None:
    """To see the newest version, and that the new one is in the history; see `require_in_history`."""
    uri = f"s3://{bucket}/commits.lance"
    options = s3.options(proxy.endpoint)
    rows = pa.table({"a": np.arange(10)})
    made = lance_core.write_dataset(rows, uri, storage_options=options)
    proxy.clear()
    lance_core.write_dataset(rows, made, mode="append")
    assert [request.method for request in proxy.requests].count("GET") == 3  # with the manifest
    assert [request.method for request in proxy.requests].count("PUT") == 3
    assert len(proxy.requests) == 6
    proxy.clear()
    with pytest.raises(lance_core.DatasetNotFoundError):
        lance_core.dataset(f"s3://{bucket}/nothing.lance", storage_options=options)
    assert len(proxy.requests) == 1


def test_a_cleanup_finds_manifests_without_asking_for_each(s3: S3, bucket: str, proxy: Proxy) -> None:
    uri = f"s3://{bucket}/cleanup.lance"
    rows = pa.table({"a": np.arange(10)})
    for number in range(8):
        mode = "append" if number else "create"
        lance.write_dataset(rows, uri, mode=mode, storage_options=s3.options())
    dataset = lance_core.dataset(uri, storage_options=s3.options(proxy.endpoint))
    proxy.clear()
    assert dataset.cleanup_old_versions(timedelta(0)).old_versions == 7
    assert not [request for request in proxy.requests if request.method == "HEAD"]
    assert lance.dataset(uri, storage_options=s3.options()).count_rows() == 80


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
