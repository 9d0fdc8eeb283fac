"""Datasets in S3 whose versions DynamoDB decides about, shared with the reference."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import boto3
import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    AlreadyExistsError,
    DatasetExistsError,
    InvalidInputError,
    RefConflictError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_core.storage import storage_for
from lance_core.table.manifest_store import ManifestRow, manifest_store_of
from lance_core.table.manifest_store.dynamodb import DynamoDbManifestStore
from support.changes.mixed_histories import run_and_check
from support.stores.manifest_store_cases import ManifestStoreCases
from support.stores.s3 import (
    KEY,
    S3,
    SECRET,
    Exchange,
    Fault,
    Proxy,
    failed_after_landing,
    lost_answer,
    reset,
    status,
)

TABLE = "lance-versions"
_names = itertools.count()


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def values(dataset: Any) -> list[int]:
    return sorted(dataset.to_table()["x"].to_pylist())


@pytest.fixture(scope="session")
def dynamodb(s3: S3) -> Any:
    """Make the table of versions once in the server of the session."""
    client = boto3.client(
        "dynamodb",
        endpoint_url=s3.endpoint,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )
    keys = {"base_uri": ("HASH", "S"), "version": ("RANGE", "N")}
    client.create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, (kind, _) in keys.items()],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": t} for name, (_, t) in keys.items()],
        BillingMode="PAY_PER_REQUEST",
    )
    return client


@pytest.fixture
def options(s3: S3, dynamodb: Any) -> dict[str, str]:
    return {**s3.options(), "dynamodb_endpoint": s3.endpoint}


@pytest.fixture
def key() -> str:
    return f"dynamodb/{next(_names)}/t.lance"


@pytest.fixture
def uri(bucket: str, key: str, dynamodb: Any) -> str:
    return f"s3+ddb://{bucket}/{key}?ddbTableName={TABLE}"


def items(client: Any, key: str) -> dict[int, dict[str, str]]:
    found = client.query(
        TableName=TABLE,
        KeyConditionExpression="base_uri = :base_uri",
        ExpressionAttributeValues={":base_uri": {"S": key}},
    )["Items"]
    return {
        int(item["version"]["N"]): {name: next(iter(value.values())) for name, value in item.items()}
        for item in found
    }


class TestDynamoDbRows(ManifestStoreCases):
    """The tests of SQLite, on DynamoDB."""

    @pytest.fixture
    def store(self, options: dict[str, str], dynamodb: Any) -> DynamoDbManifestStore:
        store = DynamoDbManifestStore(TABLE, options)
        for place in ("a", "a/b"):
            store.forget(place)
        return store


@pytest.mark.parametrize(("first", "second"), [(lance, lance_core), (lance_core, lance)])
def test_both_libraries_write_one_history(
    first: Any, second: Any, uri: str, key: str, options: dict[str, str], dynamodb: Any, s3: S3, bucket: str
) -> None:
    first.write_dataset(rows(1), uri, storage_options=options)
    second.write_dataset(rows(2), uri, mode="append", storage_options=options)
    first.dataset(uri, storage_options=options).delete("x = 1")
    second.dataset(uri, storage_options=options).tags.create("gold", 2)
    branch = first.dataset(uri, storage_options=options).create_branch("dev", "gold")
    branch.insert(rows(3))
    second.dataset(uri, storage_options=options).update_config({"key": "value"})

    for library in (first, second):
        dataset = library.dataset(uri, storage_options=options)
        assert (dataset.version, values(dataset), dataset.config()) == (4, [2], {"key": "value"})
        assert [entry["version"] for entry in dataset.versions()] == [1, 2, 3, 4]
        assert values(dataset.checkout_version("gold")) == [1, 2]
        assert values(dataset.checkout_version(("dev", None))) == [1, 2, 3]
        assert values(library.dataset(f"s3://{bucket}/{key}", storage_options=s3.options())) == [2]
        at_branch = uri.replace("?", "/tree/dev?")
        assert values(library.dataset(at_branch, storage_options=options)) == [1, 2, 3]
    found = items(dynamodb, key)
    assert list(found) == [1, 2, 3, 4]
    for version, item in found.items():
        name = f"{key}/_versions/{2**64 - 1 - version}.manifest"
        assert item["path"] == name
        assert int(item["size"]) == s3.client.head_object(Bucket=bucket, Key=name)["ContentLength"]
        assert set(item) == {"base_uri", "version", "path", "size", "committer"}
    assert not [name for name in s3.keys(bucket) if ".manifest-" in name]


def test_cleanup_by_either_library(uri: str, options: dict[str, str]) -> None:
    for value in range(3):
        lance_core.write_dataset(rows(value), uri, mode="overwrite", storage_options=options)
    lance_core.dataset(uri, storage_options=options).create_branch("dev", 2)
    ours = lance_core.dataset(uri, storage_options=options)
    assert ours.cleanup_old_versions(retain_versions=1).old_versions == 1
    for value in range(3, 5):
        lance.write_dataset(rows(value), uri, mode="overwrite", storage_options=options)
    lance.dataset(uri, storage_options=options).cleanup_old_versions(retain_versions=1)
    for library in (lance, lance_core):
        opened = library.dataset(uri, storage_options=options)
        assert (opened.version, values(opened)) == (5, [4])
        assert values(opened.checkout_version(("dev", None))) == [1]
    lance_core.write_dataset(rows(9), uri, mode="append", storage_options=options)
    assert values(lance.dataset(uri, storage_options=options)) == [4, 9]


@pytest.mark.parametrize("reader", [lance, lance_core])
def test_what_a_dead_writer_left_is_finished(
    reader: Any, uri: str, key: str, options: dict[str, str], dynamodb: Any, s3: S3, bucket: str
) -> None:
    """T35: by a reader of either library, for a writer of ours that died after the second step."""
    lance_core.write_dataset(rows(1), uri, storage_options=options)
    lance_core.write_dataset(rows(2), uri, mode="append", storage_options=options)
    final = items(dynamodb, key)[2]["path"]
    staged = f"{final}-11111111-2222-4333-8444-555555555555"
    s3.client.copy_object(Bucket=bucket, Key=staged, CopySource=f"{bucket}/{final}")
    size = s3.client.head_object(Bucket=bucket, Key=final)["ContentLength"]
    s3.client.delete_object(Bucket=bucket, Key=final)
    store = manifest_store_of(storage_for(uri, options))
    assert store is not None
    store.update(key, ManifestRow(2, staged, size))

    assert values(reader.dataset(uri, storage_options=options)) == [1, 2]
    assert items(dynamodb, key)[2]["path"] == final
    keys = s3.keys(bucket)
    assert final in keys
    assert staged not in keys


def test_many_writers_of_both_libraries_make_one_history(uri: str, options: dict[str, str]) -> None:
    """T37: no row is lost or doubled."""
    lance.write_dataset(rows(-1), uri, storage_options=options)
    errors: list[BaseException] = []

    def write(library: Any, first: int) -> None:
        try:
            for value in range(first, first + 5):
                library.write_dataset(rows(value), uri, mode="append", storage_options=options)
        except BaseException as error:
            errors.append(error)

    libraries = [lance, lance_core, lance, lance_core]
    threads = [
        threading.Thread(target=write, args=(library, number * 5)) for number, library in enumerate(libraries)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for library in (lance, lance_core):
        dataset = library.dataset(uri, storage_options=options)
        assert (dataset.version, values(dataset)) == (21, [*range(-1, 20)])


@pytest.mark.parametrize("kind", ["dynamodb", "sqlite"])
def test_a_store_without_conditional_puts(
    kind: str, uri: str, bucket: str, key: str, options: dict[str, str], tmp_path: Path
) -> None:
    """With a manifest store, neither data files nor transactions need conditional puts."""
    options = {**options, "aws_conditional_put": "disabled"}
    plain = f"s3://{bucket}/{key}"
    with pytest.raises(UnsupportedFeatureError, match="exclusively"):
        lance_core.write_dataset(rows(1), plain, storage_options=options)
    if kind == "sqlite":
        uri, options = plain, {**options, "manifest_store": f"sqlite://{tmp_path}/versions.db"}
    dataset = lance_core.write_dataset(rows(1), uri, storage_options=options)
    dataset.insert(rows(2))
    dataset.delete("x = 1")
    dataset.tags.create("gold", 2)
    with pytest.raises(RefConflictError):
        dataset.tags.create("gold", 1)
    dataset.create_branch("dev", 2).insert(rows(3))
    storage = storage_for(uri, options)
    with pytest.raises(AlreadyExistsError):
        storage.put_if_absent("_refs/tags/gold.json", b"other")
    opened = lance_core.dataset(uri, storage_options=options)
    assert (values(opened), values(opened.checkout_version(("dev", None)))) == ([2], [1, 2, 3])


@pytest.mark.long("hundreds of commits of 8 processes")
def test_mixed_changes_make_one_history(uri: str, options: dict[str, str]) -> None:
    """T37: deletes, updates and compactions, too; the history is that of one writer after the other."""
    run_and_check(uri, ["ours", "reference"] * 4, 15, stable_row_ids=True, options=options)


def test_there_is_one_dataset_at_a_place(uri: str, options: dict[str, str]) -> None:
    lance.write_dataset(rows(1), uri, storage_options=options)
    with pytest.raises(DatasetExistsError):
        lance_core.write_dataset(rows(1), uri, storage_options=options)
    with pytest.raises(VersionNotFoundError):
        lance_core.dataset(uri, 2, storage_options=options)


@pytest.mark.parametrize(
    "query", ["", "?", "?ddbTableName=", "?table=x", "?ddbTableName=x&more=1", "?ddbTableName=a/b"]
)
def test_the_query_names_a_table(bucket: str, query: str, options: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError, match="not the URI"):
        lance_core.dataset(f"s3+ddb://{bucket}/t{query}", storage_options=options)


def test_a_table_that_is_missing_or_of_another_kind(
    bucket: str, options: dict[str, str], dynamodb: Any
) -> None:
    with pytest.raises(StorageError, match="ResourceNotFoundException"):
        lance_core.dataset(f"s3+ddb://{bucket}/t?ddbTableName=missing", storage_options=options)
    dynamodb.create_table(
        TableName="other-keys",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    with pytest.raises(InvalidInputError, match=r"keys.*other-keys.*base_uri"):
        lance_core.dataset(f"s3+ddb://{bucket}/t?ddbTableName=other-keys", storage_options=options)


def test_a_manifest_store_that_is_down_is_an_error(bucket: str, options: dict[str, str]) -> None:
    """T39, T46"""
    down = {**options, "dynamodb_endpoint": "http://127.0.0.1:9"}
    with pytest.raises(StorageError, match="manifest store") as caught:
        lance_core.dataset(f"s3+ddb://{bucket}/t?ddbTableName={TABLE}", storage_options=down)
    assert "127.0.0.1" not in str(caught.value)


def first_put(proxy: Proxy, fault: Fault) -> None:
    """Break the first item that is put: the one that makes a version."""
    broken = []

    def act(exchange: Exchange) -> None:
        if b".PutItem" in exchange.message and not broken:
            broken.append(exchange.request)
            fault(exchange)
        else:
            head, body = exchange.forward()
            exchange.send(head + b"\r\nConnection: close\r\n\r\n" + body)

    proxy.always = True
    proxy.on(act, method="POST")


@pytest.mark.parametrize("fault", [status(500), status(503), reset, lost_answer, failed_after_landing])
def test_a_conditional_put_without_an_answer_is_repeated(
    fault: Fault, uri: str, options: dict[str, str], proxy: Proxy
) -> None:
    """T38: and found to be ours where it had been served."""
    through = {**options, "dynamodb_endpoint": proxy.endpoint}
    dataset = lance_core.write_dataset(rows(1), uri, storage_options=through)
    first_put(proxy, fault)
    dataset.insert(rows(2))
    assert sum(request.method == "POST" for request in proxy.requests) > 6
    assert dataset.version == 2
    assert values(lance.dataset(uri, storage_options=options)) == [1, 2]
