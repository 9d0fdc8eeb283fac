"""Storages: access to the bytes of a dataset."""

import re
from collections.abc import Mapping

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.storage.base import Bytes, Entry, ReadableFile, Storage, StoredFile, WritableFile
from lance_core.storage.local import LocalStorage

__all__ = [
    "OBJECT_STORES",
    "S3_WITH_DYNAMODB",
    "Bytes",
    "Entry",
    "LocalStorage",
    "ObjectStorage",
    "ReadableFile",
    "Storage",
    "StoredFile",
    "WritableFile",
    "scheme_of",
    "storage_for",
]

OBJECT_STORES = ("s3", "gs", "az", "abfss")
"""URL schemes of object stores."""
S3_WITH_DYNAMODB = "s3+ddb"
"""URL scheme of S3 with a manifest store in DynamoDB."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def storage_for(uri: str, options: Mapping[str, str] | None = None) -> Storage:
    """Return the storage of a dataset, by the scheme of its URI.

    A local path or `file://`; `s3://`, `gs://`, `az://` and `abfss://` for object stores; `s3+ddb://` with
    the query `ddbTableName=` for S3 beside a manifest store in DynamoDB; every other scheme is one of fsspec.
    `options` configure remote storages, see `object_options`, and local files have none. The option
    `manifest_store` names what decides about versions where the storage cannot.

    Raises:
        InvalidInputError: the URI is empty or malformed, or an option has an impossible value.
        UnsupportedFeatureError: a scheme that is not known or needs a package, named in the message.
    """
    if not uri or "\0" in uri:
        raise InvalidInputError("not a dataset URI", found=repr(uri))
    scheme = scheme_of(uri)
    if scheme == "file":
        return LocalStorage(uri)
    if scheme in (*OBJECT_STORES, S3_WITH_DYNAMODB):
        # Imported when they are used: the client costs as much time as opening a local dataset.
        from lance_core.storage.object_store import ObjectStorage

        return ObjectStorage(uri, options)
    if "+" in scheme:  # not the scheme before it, so that no commit goes past what the other one stands for
        raise UnsupportedFeatureError("storage scheme", found=scheme)
    from lance_core.storage.fsspec_storage import FsspecStorage

    return FsspecStorage(uri, options)


def scheme_of(uri: str) -> str:
    """Return the scheme of a dataset's URI in lower case; that of a local path is "file"."""
    match = _SCHEME.match(uri)
    return match[1].lower() if match else "file"
