"""Faults of an object store: a real S3 server behind a proxy that breaks answers."""

from __future__ import annotations

from collections.abc import Callable

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    AlreadyExistsError,
    CorruptFileError,
    LanceError,
    PutUnknownError,
    StorageError,
)
from lance_core.storage import Storage, storage_for
from support.stores import s3 as faults
from support.stores.s3 import KEY, S3, SECRET, Proxy

CONTENT = np.random.default_rng(1).integers(0, 256, 300_000, dtype=np.uint8).tobytes()

TRANSIENT = {
    "500": faults.status(500),
    "503": faults.status(503),
    "429": faults.status(429),
    "reset": faults.reset,
    "truncated": faults.truncated,
    "short": faults.short,
    "lost answer": faults.lost_answer,
    "stall": faults.stall(5.0),
}


@pytest.fixture
def options(s3: S3, proxy: Proxy, request: pytest.FixtureRequest) -> dict[str, str]:
    """Options of a client that tries three times, and waits for two seconds only where a store stalls.

    A busy machine answers later than that now and then. A test whose store stalls in some requests, and not
    in all, has further attempts.
    """
    patience = {"client_max_retries": "2", "client_retry_timeout": "60"}
    if "stall" in request.node.name:
        patience["timeout"] = "2s"
        if "keeps_failing" not in request.node.name:
            patience["client_max_retries"] = "6"
    return s3.options(proxy.endpoint) | patience


@pytest.fixture
def storage(
    s3: S3, bucket: str, proxy: Proxy, options: dict[str, str], request: pytest.FixtureRequest
) -> Storage:
    storage = storage_for(f"s3://{bucket}/{request.node.name}".replace("[", "-").replace("]", ""), options)
    storage.put_if_absent("data/file", CONTENT)
    proxy.clear()
    return storage


@pytest.mark.parametrize("fault", TRANSIENT.values(), ids=TRANSIENT)
def test_a_read_is_repeated(storage: Storage, proxy: Proxy, fault: faults.Fault) -> None:
    """T39"""
    proxy.on(fault)
    with storage.open_file("data/file", len(CONTENT)) as file:
        assert bytes(file.read(1000, 200_000)) == CONTENT[1000:201_000]
    assert len(proxy.requests) >= 2 or fault is TRANSIENT["stall"]
    proxy.on(fault)
    assert storage.read_file("data/file") == CONTENT


@pytest.mark.parametrize("fault", TRANSIENT.values(), ids=TRANSIENT)
def test_a_read_that_keeps_failing_is_an_error_that_names_the_file(
    storage: Storage, proxy: Proxy, fault: faults.Fault
) -> None:
    """T39, T45: never wrong bytes, and nothing about the store in the message."""
    proxy.on(fault)
    proxy.always = True
    with (
        storage.open_file("data/file", len(CONTENT)) as file,
        pytest.raises(StorageError, match="data/file") as caught,
    ):
        file.read(1000, 200_000)
    assert caught.value.retryable
    for secret in (KEY, SECRET, proxy.endpoint, "127.0.0.1", "<?xml"):
        assert secret not in str(caught.value)


@pytest.mark.parametrize("fault", [faults.other_tag, faults.other_range], ids=["tag", "range"])
def test_an_answer_from_elsewhere_is_refused(storage: Storage, proxy: Proxy, fault: faults.Fault) -> None:
    """T25, T39: an answer may come from another object, or have other bytes than requested."""
    with storage.open_file("data/file", len(CONTENT)) as file:
        file.read(0, 10)
        proxy.on(fault)
        proxy.always = True
        with pytest.raises((CorruptFileError, StorageError), match="data/file"):
            file.read(1000, 5000)


def test_an_object_replaced_while_it_is_read_is_noticed(storage: Storage) -> None:
    """T25"""
    for changed in (CONTENT[::-1], CONTENT[:1000], CONTENT + b"x"):
        with storage.open_file("data/file") as file:
            file.read(0, 10)
            storage.delete_file("data/file")
            storage.put_if_absent("data/file", changed)
            with pytest.raises(CorruptFileError, match=r"(replaced|wrong size).*data/file"):
                file.read(2000, 5000)
        storage.delete_file("data/file")
        storage.put_if_absent("data/file", CONTENT)
    with storage.open_file("data/file", len(CONTENT)) as file:
        storage.delete_file("data/file")
        with pytest.raises(FileNotFoundError, match="data/file"):
            file.read(0, 10)


@pytest.mark.parametrize("answer", [403, 401])
def test_missing_permission_is_said(storage: Storage, proxy: Proxy, answer: int) -> None:
    proxy.on(faults.status(answer), times=2)
    with pytest.raises(StorageError, match=r"(permission|credentials).*data/file"):
        storage.read_file("data/file")
    proxy.clear()
    proxy.on(faults.status(answer), method="PUT")
    with pytest.raises(StorageError, match=r"(permission|credentials).*new") as caught:
        storage.put_if_absent("new", b"x")
    assert not isinstance(caught.value, PutUnknownError)


PUTS: dict[str, faults.Fault] = {
    "500 before": faults.status(500),
    "503 before": faults.status(503),
    "409": faults.status(409, "Conflict"),
    "reset before": faults.reset,
    "reset after landing": faults.lost_answer,
    "500 after landing": faults.failed_after_landing,
    "stall": faults.stall(5.0),
}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("fault", PUTS.values(), ids=PUTS)
def test_a_conditional_put_with_a_lost_answer_is_settled(
    storage: Storage, proxy: Proxy, fault: faults.Fault, times: int
) -> None:
    """T38: our own file is a success, whatever the store said meanwhile."""
    proxy.on(fault, method="PUT", times=times)
    storage.put_if_absent("_versions/1", b"ours")
    assert storage.read_file("_versions/1") == b"ours"
    with pytest.raises(AlreadyExistsError):
        storage.put_if_absent("_versions/1", b"theirs")


@pytest.mark.parametrize("fault", PUTS.values(), ids=PUTS)
def test_a_conditional_put_never_replaces_a_file(storage: Storage, proxy: Proxy, fault: faults.Fault) -> None:
    """T37, T38: with every fault, the file of the other stays and we are told."""
    storage.put_if_absent("_versions/1", b"theirs")
    proxy.clear()
    proxy.on(fault, method="PUT")
    with pytest.raises(AlreadyExistsError, match="_versions/1"):
        storage.put_if_absent("_versions/1", b"ours")
    assert storage.read_file("_versions/1") == b"theirs"


@pytest.mark.parametrize("fault", [faults.reset, faults.status(500)], ids=["reset", "500"])
def test_a_conditional_put_that_nobody_answers_is_neither_success_nor_failure(
    storage: Storage, proxy: Proxy, fault: faults.Fault
) -> None:
    """T38"""
    proxy.on(fault, method="PUT")
    proxy.always = True
    with pytest.raises(PutUnknownError, match="_versions/1"):
        storage.put_if_absent("_versions/1", b"ours")


def test_a_comparison_that_fails_is_neither_success_nor_failure(storage: Storage, proxy: Proxy) -> None:
    """T38: the store says that there is a file, and then does not show it."""
    proxy.on(faults.lost_answer, method="PUT")
    proxy.on(faults.status(500), method="GET", times=5)
    with pytest.raises(PutUnknownError, match="_versions/1"):
        storage.put_if_absent("_versions/1", b"ours")


def test_a_failed_upload_leaves_nothing(storage: Storage, proxy: Proxy, s3: S3, bucket: str) -> None:
    """T40: neither an object nor parts of one, which would cost money without being seen."""
    proxy.on(faults.status(500), method="PUT")
    proxy.always = True
    with pytest.raises(StorageError, match=r"data/large"):
        write_parts(storage, 8)
    proxy.clear()
    assert not storage.exists("data/large")
    assert "Uploads" not in s3.client.list_multipart_uploads(Bucket=bucket)


def write_parts(storage: Storage, num_parts: int) -> bytes:
    """Write a file that is uploaded in parts, and return its content."""
    parts = [bytes([number]) * (10 << 20) for number in range(num_parts)]
    with storage.create_file("data/large") as file:
        for part in parts:
            file.write(part)
    return b"".join(parts)


def test_an_upload_survives_single_faults(storage: Storage, proxy: Proxy) -> None:
    for fault in (faults.status(503), faults.reset, faults.lost_answer):
        proxy.on(fault, method="PUT", part="partNumber")
    content = write_parts(storage, 3)
    assert storage.read_file("data/large") == content


def test_a_scan_is_right_or_an_error(s3: S3, bucket: str, proxy: Proxy, options: dict[str, str]) -> None:
    """T39: every request of a scan, broken in every way, once and always."""
    uri = f"s3://{bucket}/scanned.lance"
    data = pa.table({"a": np.random.default_rng(3).random(30_000), "b": [f"text {i}" for i in range(30_000)]})
    lance.write_dataset(data, uri, storage_options=s3.options(), data_storage_version="2.1")

    def scan() -> pa.Table:
        return lance_core.dataset(uri, storage_options=options).to_table()

    proxy.clear()
    scan()
    num_requests = len(proxy.requests)
    broken: dict[str, Callable] = TRANSIENT | {"tag": faults.other_tag, "range": faults.other_range}
    del broken["stall"]  # takes its time; tested above
    right, refused = 0, set()
    for name, fault in broken.items():
        for number in range(num_requests):
            proxy.clear()
            passed = iter(range(number))
            proxy.faults.append((lambda request, passed=passed: next(passed, None) is None, fault))
            try:
                read = scan()
            except LanceError:
                refused.add(name)
                continue
            assert read == data, (name, number)
            right += 1
    assert refused <= {"tag", "range"}
    print(f"{num_requests} requests x {len(broken)} faults: {right} scans were right, the others errors")
    assert right >= num_requests * (len(broken) - 2)
