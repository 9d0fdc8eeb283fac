"""Changes in an object store with another change made wholly between two of their requests, at each place.

The requests of the first attempt of a commit run side by side, and it trusts the tag of a listing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    CommitUnknownError,
    DatasetNotFoundError,
    FileMissingError,
    LanceError,
    StorageError,
)
from lance_core.table.versions import version_path
from support.stores import s3 as faults
from support.stores.s3 import S3, Exchange, Proxy, Request

_names = itertools.count()
OTHERS = 1000
"""Ids from here on belong to the change in between."""


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "value": pa.array(ids, pa.int64())})


def upsert(dataset: Any) -> object:
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute(pa.table({"id": [3, 50], "value": [300, 500]}))


MINE: dict[str, tuple[Callable[[Any], object], Callable[[set[int]], set[int]]]] = {
    "append": (
        lambda dataset: lance_core.write_dataset(rows(100, 101), dataset, mode="append"),
        lambda ids: ids | {100, 101},
    ),
    "delete": (lambda dataset: dataset.delete("id IN (1, 6)"), lambda ids: ids - {1, 6}),
    "upsert": (upsert, lambda ids: ids | {3, 50}),
    "drop a column": (lambda dataset: dataset.drop_columns(["value"]), lambda ids: ids),
}
"""Changes, and what they do to the ids of a table."""


def append_and_clean_up(dataset: Any) -> None:
    for number in (OTHERS, OTHERS + 1):
        dataset = lance_core.write_dataset(rows(number), dataset, mode="append")
    dataset.cleanup_old_versions(timedelta(0))


def append_and_remove_a_version(dataset: Any) -> None:
    for number in (OTHERS, OTHERS + 1):
        dataset = lance_core.write_dataset(rows(number), dataset, mode="append")
    dataset.cleanup_old_versions(versions=[dataset.version - 1])


THEIRS: dict[str, tuple[Callable[[Any], object], Callable[[set[int]], set[int]]]] = {
    "append": (
        lambda dataset: lance_core.write_dataset(rows(OTHERS), dataset, mode="append"),
        lambda ids: ids | {OTHERS},
    ),
    "delete": (lambda dataset: dataset.delete("id = 2"), lambda ids: ids - {2}),
    "clean up": (append_and_clean_up, lambda ids: ids | {OTHERS, OTHERS + 1}),
    "clean up one": (append_and_remove_a_version, lambda ids: ids | {OTHERS, OTHERS + 1}),
}


def _at(place: int) -> Callable[[Request], bool]:
    """Return whether a request is the one at a place."""
    seen = itertools.count()
    return lambda request: next(seen) == place


@pytest.mark.parametrize("theirs", THEIRS)
@pytest.mark.parametrize("mine", MINE)
def test_a_change_between_two_requests_of_another(
    mine: str, theirs: str, s3: S3, bucket: str, proxy: Proxy, tmp_path: Path
) -> None:
    """T37, T41: an acknowledged change is there, a refused one is not, and the other one is always there."""
    lance_core.write_dataset(rows(*range(8)), tmp_path / "t", max_rows_per_file=4)
    change, effect = MINE[mine]
    other, other_effect = THEIRS[theirs]
    for place in itertools.count():
        name = f"between-{next(_names)}.lance"
        uri = f"s3://{bucket}/{name}"
        s3.upload(tmp_path / "t", bucket, name)
        dataset = lance_core.dataset(uri, storage_options=s3.options(proxy.endpoint))
        done: list[bool] = []

        def meanwhile(exchange: Exchange, uri: str = uri, done: list[bool] = done) -> None:
            other(lance_core.dataset(uri, storage_options=s3.options()))
            done.append(True)
            head, body = exchange.forward()
            exchange.send(head + b"\r\nConnection: close\r\n\r\n" + body)

        proxy.clear()
        proxy.faults.append((_at(place), meanwhile))
        possible = [effect]
        try:
            change(dataset)
        except CommitUnknownError:
            assert theirs.startswith("clean up")  # the number of the version was used and cleaned up before
            possible = [lambda ids: ids, effect]
        except LanceError:
            possible = [lambda ids: ids]
        proxy.clear()
        expected = [other_effect(make(set(range(8)))) if done else make(set(range(8))) for make in possible]
        for library in (lance, lance_core):
            found = library.dataset(uri, storage_options=s3.options()).to_table()
            assert len(found) == len(set(found["id"].to_pylist()))
            assert set(found["id"].to_pylist()) in expected
        if not done:
            break
    assert place > 2


def test_a_table_that_was_made_again_has_other_manifests(s3: S3, bucket: str) -> None:
    """T12: the version has the number that was read, but not the tag. So it is read again before the commit,
    and no version names a file of the table that is gone.
    """
    uri, options = f"s3://{bucket}/again.lance", s3.options()
    old = lance_core.write_dataset(rows(1, 2), uri, storage_options=options)
    lance_core.LanceDataset.drop(uri, storage_options=options)
    lance_core.write_dataset(rows(3), uri, storage_options=options)
    lance_core.write_dataset(rows(4), old, mode="append")
    for library in (lance, lance_core):
        found = library.dataset(uri, storage_options=options).to_table()
        assert sorted(found["id"].to_pylist()) == [3, 4]


def _history(s3: S3, bucket: str, name: str, num_versions: int = 4) -> str:
    """Write a table of one more row per version; the first version has the row 0."""
    uri = f"s3://{bucket}/{name}"
    for number in range(num_versions):
        mode = "append" if number else "create"
        lance_core.write_dataset(rows(number), uri, mode=mode, storage_options=s3.options())
    return uri


def _require_complete(uri: str, s3: S3, newest: set[int]) -> None:
    """Check the rows of the newest version, and that every version that is listed has all its files."""
    for library in (lance, lance_core):
        dataset = library.dataset(uri, storage_options=s3.options())
        assert set(dataset.to_table()["id"].to_pylist()) == newest
        for entry in dataset.versions():
            assert dataset.checkout_version(entry["version"]).to_table().num_rows


@pytest.mark.parametrize(
    "fault", [faults.status(500), faults.lost_answer], ids=["500 before", "reset after landing"]
)
def test_a_fault_at_any_request_of_a_cleanup(fault: faults.Fault, s3: S3, bucket: str, proxy: Proxy) -> None:
    """T35, T39, T41: no version that is listed lacks a file, and the next cleanup removes what is left."""
    options = s3.options(proxy.endpoint) | {"client_max_retries": "0"}
    for place in itertools.count():
        uri = _history(s3, bucket, f"cleanup-{next(_names)}.lance")
        dataset = lance_core.dataset(uri, storage_options=options)
        proxy.clear()
        proxy.faults.append((_at(place), fault))
        try:
            dataset.cleanup_old_versions(timedelta(0))
            is_over = bool(proxy.faults)
        except StorageError:
            is_over = False
        proxy.clear()
        _require_complete(uri, s3, {0, 1, 2, 3})
        later = lance_core.dataset(uri, storage_options=s3.options())
        later.cleanup_old_versions(timedelta(0), delete_unverified=True)
        _require_complete(uri, s3, {0, 1, 2, 3})
        listed = s3.client.list_objects_v2(Bucket=bucket, Prefix=uri.rpartition("/")[2])["Contents"]
        kinds = [entry["Key"].split("/")[1] for entry in listed]
        assert sorted(kinds) == ["_transactions", "_versions", *["data"] * 4]
        if is_over:
            break
    assert place > 15


@pytest.mark.parametrize("theirs", ["append", "tag", "restore", "clean up"])
def test_a_change_between_two_requests_of_a_cleanup(theirs: str, s3: S3, bucket: str, proxy: Proxy) -> None:
    """T41: a new version, a tagged version and a restored version have all their files."""
    for place in itertools.count():
        uri = _history(s3, bucket, f"cleanup-{next(_names)}.lance")
        dataset = lance_core.dataset(uri, storage_options=s3.options(proxy.endpoint))
        newest = {0, 1, 2, 3}
        done: list[bool] = []

        def meanwhile(exchange: Exchange, uri: str = uri, done: list[bool] = done) -> None:
            done.append(_changed_meanwhile(theirs, uri, s3))
            head, body = exchange.forward()
            exchange.send(head + b"\r\nConnection: close\r\n\r\n" + body)

        proxy.clear()
        proxy.faults.append((_at(place), meanwhile))
        dataset.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
        proxy.clear()
        if theirs == "append" and any(done):
            newest = {0, 1, 2, 3, OTHERS}
        if theirs == "restore" and any(done):
            newest = {0, 1}
        _require_complete(uri, s3, newest)
        if theirs == "tag" and any(done):
            tagged = lance_core.dataset(uri, version="gold", storage_options=s3.options())
            assert tagged.to_table()["id"].to_pylist() == [0, 1]
        if not done:
            break
    assert place > 15


def _changed_meanwhile(theirs: str, uri: str, s3: S3) -> bool:
    """Make a change of a table that is cleaned up; return whether the version that it needs was there."""
    dataset = lance_core.dataset(uri, storage_options=s3.options())
    try:
        if theirs == "append":
            lance_core.write_dataset(rows(OTHERS), dataset, mode="append")
        elif theirs == "tag":
            dataset.tags.create("gold", 2)
        elif theirs == "restore":
            dataset.checkout_version(2).restore()
        else:
            dataset.cleanup_old_versions(timedelta(0))
    except (DatasetNotFoundError, FileMissingError):  # the version was removed
        return False
    return True


def test_a_writer_trusts_no_parent_while_versions_go_in_any_order(s3: S3, bucket: str, proxy: Proxy) -> None:
    """T41: a cleanup has removed the version that the writer puts again, and not yet the one before."""
    uri = _history(s3, bucket, "order.lance", 1)
    name = "order.lance"
    dataset = lance_core.dataset(uri, storage_options=s3.options(proxy.endpoint))

    def meanwhile(exchange: Exchange) -> None:
        for number in (OTHERS, OTHERS + 1):
            lance_core.write_dataset(rows(number), uri, mode="append", storage_options=s3.options())
        s3.client.put_object(Bucket=bucket, Key=f"{name}/_refs/removals/one", Body=b"")
        s3.client.delete_object(Bucket=bucket, Key=f"{name}/{version_path(2, True)}")
        head, body = exchange.forward()
        exchange.send(head + b"\r\nConnection: close\r\n\r\n" + body)

    proxy.clear()
    proxy.on(meanwhile, method="PUT", part="_versions/")
    with pytest.raises(CommitUnknownError):
        lance_core.write_dataset(rows(5), dataset, mode="append")
    found = lance.dataset(uri, storage_options=s3.options()).to_table()
    assert found["id"].to_pylist() == [0, OTHERS, OTHERS + 1]
