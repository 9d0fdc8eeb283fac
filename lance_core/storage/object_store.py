"""Files in object stores: S3, GCS, Azure."""

import random
import time
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import obstore
import pyarrow as pa

from lance_core.errors import CorruptFileError, FileMissingError, InvalidInputError, StorageError
from lance_core.storage.base import Bytes, Entry, ReadableFile, Storage, WritableFile
from lance_core.storage.object_errors import FAILURES, store_error
from lance_core.storage.object_options import Clients, connect
from lance_core.storage.object_write import NewObject, put_if_absent
from lance_core.storage.paths import contained_path
from lance_core.storage.remote import RemoteFile, aligned

_FIRST_BACKOFF = 0.1
"""Seconds before an answer that broke off is asked for again; doubled each time."""


class ObjectStorage(Storage):
    """The objects below one prefix of a bucket. Directories are what keys have in common."""

    def __init__(self, uri: str, options: Mapping[str, str] | None = None) -> None:
        """`uri` is `s3://bucket/path`, `gs://...`, `az://...` or `abfss://...`.

        Raises:
            InvalidInputError: the URI or an option is malformed.
        """
        parts = urlsplit(uri)
        if not parts.netloc or parts.query or parts.fragment:
            raise InvalidInputError("not the URI of a dataset in an object store", found=repr(uri))
        prefix = unquote(parts.path).strip("/")
        self._start(
            connect(parts.scheme, parts.netloc, options or {}),
            prefix and contained_path(prefix),
            f"{parts.scheme}://{parts.netloc}",
        )

    @classmethod
    def over(cls, clients: Clients, prefix: str, bucket_uri: str) -> "ObjectStorage":
        """The storage of a prefix, over clients that exist."""
        storage = cls.__new__(cls)
        storage._start(clients, prefix, bucket_uri)
        return storage

    def _start(self, clients: Clients, prefix: str, bucket_uri: str) -> None:
        self._clients = clients
        self._prefix = prefix
        self._bucket_uri = bucket_uri
        self.uri = f"{bucket_uri}/{prefix}"

    def open_file(self, path: str, size: int | None = None) -> ReadableFile:
        key = self._key(contained_path(path))
        if size:
            # Whether the object has this size is seen in the answer to the first read.
            return ObjectFile(path, key, self._clients, size, None)
        try:
            meta = obstore.head(self._clients.patient, key)
        except FAILURES as error:
            raise store_error(error, path) from None
        return ObjectFile(path, key, self._clients, meta["size"], meta["e_tag"] or str(meta["last_modified"]))

    def read_file(self, path: str) -> bytes:
        return bytes(fetch(self._clients, self._key(contained_path(path)), path)[0])

    def list_directory(self, path: str) -> list[Entry]:
        prefix = self._key(path and contained_path(path))
        try:
            found = obstore.list_with_delimiter(self._clients.patient, prefix or None)
        except FAILURES as error:
            raise store_error(error, path or ".") from None
        entries = [Entry(name.rpartition("/")[2], True) for name in found["common_prefixes"]]
        entries += [Entry(meta["path"].rpartition("/")[2], False) for meta in found["objects"]]
        if not entries and path:
            raise FileMissingError("no such file or directory", file=path)
        return entries

    def exists(self, path: str) -> bool:
        try:
            obstore.head(self._clients.patient, self._key(contained_path(path)))
        except FileNotFoundError:
            return False
        except FAILURES as error:
            raise store_error(error, path) from None
        return True

    def below(self, path: str) -> "ObjectStorage":
        return ObjectStorage.over(self._clients, self._key(contained_path(path)), self._bucket_uri)

    def create_file(self, path: str, *, sync: bool = True) -> WritableFile:
        return NewObject(path, self._key(contained_path(path)), self._clients)

    def put_if_absent(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        put_if_absent(self._clients, self._key(contained_path(path)), data, path)

    def delete_file(self, path: str) -> None:
        try:
            obstore.delete(self._clients.patient, self._key(contained_path(path)))
        except FileNotFoundError:
            pass
        except FAILURES as error:
            raise store_error(error, path) from None

    def sync_directory(self, path: str) -> None:
        """Nothing to do: a store acknowledges what is durable."""

    def _key(self, path: str) -> str:
        return "/".join(part for part in (self._prefix, path) if part)


class ObjectFile(RemoteFile):
    """One object. Every answer is checked to be a part of the same one, of the size that is known."""

    def __init__(self, name: str, key: str, clients: Clients, size: int, tag: str | None) -> None:
        self.name = name
        self.size = size
        # Data files have names that are used once; asking for their tag would be a request per file.
        self.identity = tag or str(size)
        self._key = key
        self._tag = tag
        self._clients: Clients | None = clients

    def read(self, offset: int, length: int) -> pa.Buffer:
        self.check_range(offset, length)
        clients = self._clients
        if clients is None:
            raise StorageError("file is closed", file=self.name)
        if length == 0:
            return pa.py_buffer(b"")
        try:
            data, size, tag = fetch(clients, self._key, self.name, (offset, offset + length))
        except StorageError as error:
            raise self._shorter_object(clients) or error from None
        self._check(size, tag)
        return aligned(data)

    def close(self) -> None:
        self._clients = None

    def _check(self, size: int, tag: str | None) -> None:
        if size != self.size:
            raise CorruptFileError("file has the wrong size", file=self.name, expected=self.size, found=size)
        if self._tag is None:
            self._tag = tag
        elif tag != self._tag:
            raise CorruptFileError("file was replaced while open", file=self.name)

    def _shorter_object(self, clients: Clients) -> CorruptFileError | None:
        """What is wrong when a range cannot be had because the object is shorter than it should be."""
        try:
            self._check(obstore.head(clients.once, self._key)["size"], self._tag)
        except CorruptFileError as error:
            return error
        except FAILURES:
            pass
        return None


def fetch(
    clients: Clients, key: str, name: str, span: tuple[int, int] | None = None
) -> tuple[obstore.Bytes, int, str | None]:
    """The bytes [start, end) of an object or all of it, the size of the object, and its tag.

    An answer that breaks off or is too short is asked for again. Errors are StorageErrors.
    """
    for attempt in range(clients.download_retries + 1):
        if attempt:
            time.sleep(_FIRST_BACKOFF * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))
        try:
            result = obstore.get(clients.patient, key, options={"range": span} if span else None)
        except FAILURES as error:
            raise store_error(error, name) from None
        meta, (start, end) = result.meta, result.range
        if span and (start, min(end, span[1])) != (span[0], min(span[1], meta["size"])):
            raise StorageError(
                "object store answered another range", file=name, expected=span, found=(start, end)
            )
        try:
            data = result.bytes()
        except FAILURES as error:
            problem = store_error(error, name)
            continue
        if len(data) == end - start:
            return data, meta["size"], meta["e_tag"]
        problem = StorageError(
            "object store sent too few bytes", file=name, expected=end - start, found=len(data)
        )
    raise problem
