"""Storages: access to the bytes of a dataset, with one interface for all of them in base.

local, local_write, local_state, descriptor: files of this machine. memory: a file in memory.
object_store, object_write, object_options, object_errors, aws_profile: S3, GCS and Azure.
fsspec_storage: other file systems. remote: reads of both of these.
coalesce: merges byte ranges. paths: the rule for paths inside a storage. scoped_options: options of one base.
commit_lock: locks of the caller around commits.
"""

import re
import uuid
from collections.abc import Mapping

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.storage.base import Bytes, Entry, ReadableFile, Storage, StoredFile, WritableFile
from lance_core.storage.commit_lock import CommitLock, check_lock, held
from lance_core.storage.local import LocalStorage

__all__ = [
    "OBJECT_STORES",
    "S3_WITH_DYNAMODB",
    "Bytes",
    "CommitLock",
    "Entry",
    "LocalStorage",
    "ObjectStorage",
    "ReadableFile",
    "Storage",
    "StoredFile",
    "WritableFile",
    "check_lock",
    "fresh_memory_uri",
    "held",
    "is_object_store",
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

    A local path or `file://` is a local storage. `s3://`, `gs://`, `az://` and `abfss://` are object stores.
    `s3+ddb://` with the query `ddbTableName=` is S3 with a manifest store in DynamoDB. All other schemes
    belong to fsspec. `options` configure remote storages, see `object_options`; local storages ignore them.
    The option `manifest_store` names a service that decides which writer makes a version.

    Raises:
        InvalidInputError: the URI is empty or malformed, or an option has an invalid value.
        UnsupportedFeatureError: the scheme is unknown or needs a package; the message names it.
    """
    if not uri or "\0" in uri:
        raise InvalidInputError("not a dataset URI", found=repr(uri))
    scheme = scheme_of(uri)
    if scheme == "file":
        return LocalStorage(uri)
    if is_object_store(uri):
        # Imported on use: importing the client takes as long as opening a local dataset.
        from lance_core.storage.object_store import ObjectStorage

        return ObjectStorage(uri, options)
    if (
        "+" in scheme
    ):  # an unknown suffix is refused: a commit without its service could overwrite another one
        raise UnsupportedFeatureError("storage scheme", found=scheme)
    from lance_core.storage.fsspec_storage import FsspecStorage

    return FsspecStorage(uri, options)


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI in lower case; "file" for a local path."""
    match = _SCHEME.match(uri)
    return match[1].lower() if match else "file"


def is_object_store(uri: str) -> bool:
    """Return whether a dataset's URI names an object store, with or without a manifest store beside it."""
    return scheme_of(uri) in (*OBJECT_STORES, S3_WITH_DYNAMODB)


def fresh_memory_uri(uri: str) -> str:
    """Return the URI of a new dataset in memory for `memory://` without a name, and any other URI unchanged.

    Without a new name, the dataset would be the root of the store, with all other datasets of the process in
    its directories.
    """
    is_root = scheme_of(uri) == "memory" and not uri.partition("://")[2].strip("/")
    return f"memory://{uuid.uuid4().hex}" if is_root else uri
