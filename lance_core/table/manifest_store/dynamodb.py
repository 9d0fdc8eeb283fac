"""Manifest store in a DynamoDB table, with the layout of the reference.

Each version is one item. The hash key `base_uri` (text) is the key of the dataset in its bucket, the range
key `version` is a number. The other attributes are `path` and `committer` (text) and `size` (number).

Source: Lance documentation, "Object Store Configuration"; rust/lance-table/src/io/commit/dynamodb.rs.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from lance_core.errors import (
    AlreadyExistsError,
    CorruptFileError,
    InvalidInputError,
    PutUnknownError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_core.storage import Storage
from lance_core.table.manifest_store.store import ManifestRow, ManifestStore

_COMMITTER = "lance-flight"
_KEYS = {"HASH": "base_uri", "RANGE": "version"}
_CLIENT_OPTIONS = {
    "aws_access_key_id": ("aws_access_key_id", "access_key_id"),
    "aws_secret_access_key": ("aws_secret_access_key", "secret_access_key"),
    "aws_session_token": ("aws_session_token", "session_token", "aws_token", "token"),
    "region_name": ("aws_region", "region", "aws_default_region", "default_region"),
    "endpoint_url": ("dynamodb_endpoint",),
}
"""Arguments of the boto3 client, and the storage options that set them."""
T = TypeVar("T")


class DynamoDbManifestStore(ManifestStore):
    """Manifest store in a DynamoDB table, for any number of machines."""

    def __init__(self, table: str, options: Mapping[str, str]) -> None:
        """Connect to an existing DynamoDB table.

        Args:
            table: name of the DynamoDB table.
            options: storage options. Credentials, the region and `dynamodb_endpoint` are used; boto3 finds
                missing values in its usual places.

        Raises:
            UnsupportedFeatureError: boto3 is not installed.
            InvalidInputError: the table has other keys, or the options do not make a client.
            StorageError: DynamoDB cannot be reached.
        """
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            raise UnsupportedFeatureError("manifest stores in DynamoDB need the package boto3") from None
        given = {key.lower(): value for key, value in options.items()}
        arguments = {
            name: next(given[key] for key in keys if key in given)
            for name, keys in _CLIENT_OPTIONS.items()
            if any(key in given for key in keys)
        }
        config = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=5, read_timeout=20)
        self._table = table
        try:
            self._client: Any = boto3.client("dynamodb", config=config, **arguments)
        except Exception as error:  # boto3 complains about settings, which may be secrets
            raise InvalidInputError(f"no client for DynamoDB: {type(error).__name__}") from None
        description = self._call(lambda: self._client.describe_table(TableName=table))
        keys = {key["KeyType"]: key["AttributeName"] for key in description["Table"]["KeySchema"]}
        if keys != _KEYS:
            raise InvalidInputError(f"keys of DynamoDB table {table}", expected=_KEYS, found=keys)

    def place(self, storage: Storage) -> str:
        return urlsplit(storage.uri).path.strip("/")

    def get(self, place: str, version: int) -> ManifestRow | None:
        found = self._call(
            lambda: self._client.get_item(
                TableName=self._table,
                ConsistentRead=True,
                Key={"base_uri": {"S": place}, "version": {"N": str(version)}},
            )
        )
        return _row(found["Item"]) if "Item" in found else None

    def latest(self, place: str) -> ManifestRow | None:
        found = self._query(place, ScanIndexForward=False, Limit=1)["Items"]
        return _row(found[0]) if found else None

    def insert(self, place: str, row: ManifestRow) -> None:
        from botocore.exceptions import ClientError

        condition = "attribute_not_exists(base_uri) AND attribute_not_exists(version)"
        try:
            self._client.put_item(
                TableName=self._table, Item=_item(place, row), ConditionExpression=condition
            )
        except ClientError as error:
            if _code(error) == "ConditionalCheckFailedException":
                raise AlreadyExistsError("version exists in the manifest store") from None
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
            if 400 <= status < 500:  # DynamoDB refused the request
                raise _failed(error) from None
            raise PutUnknownError("manifest store: no answer to a conditional put") from None
        except Exception:  # connection errors and timeouts of boto3
            raise PutUnknownError("manifest store: no answer to a conditional put") from None

    def update(self, place: str, row: ManifestRow) -> None:
        condition = "attribute_exists(base_uri) AND attribute_exists(version)"
        self._call(
            lambda: self._client.put_item(
                TableName=self._table, Item=_item(place, row), ConditionExpression=condition
            )
        )

    def forget(self, place: str) -> None:
        start: dict[str, Any] = {}
        while True:
            page = self._query(place, **start)
            for item in page["Items"]:
                self._delete({name: item[name] for name in _KEYS.values()})
            if "LastEvaluatedKey" not in page:
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def _delete(self, key: dict[str, Any]) -> None:
        self._call(lambda: self._client.delete_item(TableName=self._table, Key=key))

    def _query(self, place: str, **arguments: Any) -> Any:
        return self._call(
            lambda: self._client.query(
                TableName=self._table,
                ConsistentRead=True,
                KeyConditionExpression="base_uri = :base_uri",
                ExpressionAttributeValues={":base_uri": {"S": place}},
                **arguments,
            )
        )

    def _call(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except Exception as error:
            raise _failed(error) from None


def _item(place: str, row: ManifestRow) -> dict[str, dict[str, str]]:
    item = {
        "base_uri": {"S": place},
        "version": {"N": str(row.version)},
        "path": {"S": row.path},
        "committer": {"S": _COMMITTER},
    }
    if row.size is not None:
        item["size"] = {"N": str(row.size)}
    return item


def _row(item: Mapping[str, Mapping[str, str]]) -> ManifestRow:
    try:
        size = item.get("size", {}).get("N")
        return ManifestRow(int(item["version"]["N"]), item["path"]["S"], int(size) if size else None)
    except (KeyError, ValueError) as error:
        raise CorruptFileError("item of the manifest store", found=repr(error)) from None


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _failed(error: Exception) -> StorageError:
    """Return the error without boto3's text, which may name hosts and credentials."""
    code = _code(error) if hasattr(error, "response") else ""
    return StorageError(f"manifest store: {code or type(error).__name__}")
