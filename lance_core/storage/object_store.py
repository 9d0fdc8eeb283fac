"""Storage of object stores: S3, GCS, Azure."""

import itertools
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote, unquote, urlsplit

import obstore
import pyarrow as pa

from lance_core.errors import CorruptFileError, FileMissingError, InvalidInputError, LanceError, StorageError
from lance_core.kernels import count_read
from lance_core.storage.base import Bytes, Entry, FirstNames, ReadableFile, Storage, StoredFile, WritableFile
from lance_core.storage.object_errors import FAILURES, is_broken_off, is_impossible_range, store_error
from lance_core.storage.object_options import Clients, connect
from lance_core.storage.object_write import LatePuts, NewObject, put, put_if_absent, tag_of
from lance_core.storage.paths import contained_path
from lance_core.storage.remote import RemoteFile, aligned

if TYPE_CHECKING:
    from obstore import ObjectMeta

T = TypeVar("T")

_PAGE = 1000
"""Number of objects that stores list per request."""
_UNORDERED = "--x-s3"
"""Suffix of buckets of S3 Express, which lists in no particular order."""
_DYNAMODB_TABLE = re.compile(r"ddbTableName=([A-Za-z0-9_.-]{3,255})")
_FIRST_BACKOFF = 0.1
"""Seconds before the first repetition of a request whose answer broke off. Doubled each time."""


class ObjectStorage(Storage):
    """The objects below one prefix of a bucket. Directories are common prefixes of keys."""

    is_remote = True
    deletes_at_once = True
    _query = ""
    """Query of the URI, with its question mark."""
    _later: LatePuts | None = None

    def __init__(self, uri: str, options: Mapping[str, str] | None = None) -> None:
        """Open the prefix at `uri`: `s3://bucket/path`, `gs://...`, `az://...`, `abfss://...` or
        `s3+ddb://bucket/path?ddbTableName=table`.

        Raises:
            InvalidInputError: the URI or an option is malformed.
        """
        parts = urlsplit(uri)
        provider, _, with_store = parts.scheme.partition("+")
        table = _DYNAMODB_TABLE.fullmatch(parts.query) if with_store else None
        if not parts.netloc or parts.fragment or (table is None and (parts.query or with_store)):
            raise InvalidInputError("not the URI of a dataset in an object store", found=repr(uri))
        self.options = dict(options or {})
        self.manifest_store = f"ddb://{table[1]}" if table else self.options.get("manifest_store")
        self._query = f"?{parts.query}" if table else ""
        prefix = unquote(parts.path).strip("/")
        self._start(
            connect(provider, parts.netloc, self.options),
            prefix and contained_path(prefix),
            f"{parts.scheme}://{parts.netloc}",
        )

    @classmethod
    def over(cls, clients: Clients, prefix: str, bucket_uri: str) -> "ObjectStorage":
        """Return the storage of a prefix, with existing clients."""
        storage = cls.__new__(cls)
        storage._start(clients, prefix, bucket_uri)
        return storage

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address and the options, including credentials. Connections are opened again."""
        uri = f"{self._bucket_uri}/{quote(self._prefix)}{self._query}"
        return ObjectStorage, (uri, dict(self.options))

    def _start(self, clients: Clients, prefix: str, bucket_uri: str) -> None:
        self._clients = clients
        self._prefix = prefix
        self._bucket_uri = bucket_uri
        self.uri = f"{bucket_uri}/{prefix}{self._query}"

    def open_file(self, path: str, size: int | None = None) -> ReadableFile:
        key = self._key(contained_path(path))
        if size:
            # The answer to the first read tells whether the object has this size.
            return ObjectFile(path, key, self._clients, size, None)
        try:
            meta = obstore.head(self._clients.patient, key)
        except FAILURES as error:
            raise store_error(error, path) from None
        return ObjectFile(path, key, self._clients, meta["size"], meta["e_tag"] or str(meta["last_modified"]))

    def read_file(self, path: str) -> bytes:
        return self.read_tagged(path)[0]

    def read_tagged(self, path: str) -> tuple[bytes, str | None]:
        found, _, tag = _fetch(self._clients, self._key(contained_path(path)), path)
        data = bytes(found)
        count_read(len(data))
        return data, tag_of(tag)

    def list_directory(self, path: str) -> list[Entry]:
        prefix = self._key(path and contained_path(path))
        found = _repeated(
            lambda: obstore.list_with_delimiter(self._clients.patient, prefix or None),
            self._clients,
            path or ".",
        )
        entries = [Entry(name.rpartition("/")[2], True) for name in found["common_prefixes"]]
        entries += [Entry(meta["path"].rpartition("/")[2], False) for meta in found["objects"]]
        if not entries and path:
            raise FileMissingError("no such file or directory", file=path)
        return entries

    def first_names(self, path: str) -> FirstNames:
        prefix = self._key(contained_path(path))
        if self._bucket_uri.endswith(_UNORDERED):
            return FirstNames([], is_all=False)
        page = _repeated(
            lambda: next(iter(obstore.list(self._clients.patient, prefix, chunk_size=_PAGE)), []),
            self._clients,
            path,
        )
        tags = {meta["path"][len(prefix) + 1 :]: tag_of(meta["e_tag"]) for meta in page}
        names = [name for name in tags if "/" not in name]
        return FirstNames(names, len(page) < _PAGE, {name: tag for name, tag in tags.items() if tag})

    def list_files(self, path: str) -> Iterator[StoredFile]:
        prefix = self._key(path and contained_path(path))
        skipped = len(self._prefix) + 1 if self._prefix else 0
        after: str | None = None

        def next_page() -> "Sequence[ObjectMeta]":
            pages = obstore.list(self._clients.patient, prefix or None, offset=after, chunk_size=_PAGE)
            return next(iter(pages), [])

        is_last = False
        while not is_last:
            page = _repeated(next_page, self._clients, path or ".")
            is_last = len(page) < _PAGE
            for meta in page:
                modified = meta["last_modified"].timestamp()
                yield StoredFile(meta["path"][skipped:], meta["size"], modified, modified)
            after = page[-1]["path"] if page else after

    def exists(self, path: str) -> bool:
        try:
            obstore.head(self._clients.patient, self._key(contained_path(path)))
        except FileNotFoundError:
            return False
        except FAILURES as error:
            raise store_error(error, path) from None
        return True

    def below(self, path: str) -> "ObjectStorage":
        below = ObjectStorage.over(self._clients, self._key(contained_path(path)), self._bucket_uri)
        below.options, below.manifest_store, below._query = self.options, self.manifest_store, self._query
        below.uri += self._query
        return below

    def create_file(self, path: str, *, sync: bool = True, replace: bool = False) -> WritableFile:
        exclusive = self.needs_exclusive_puts
        key = self._key(contained_path(path))
        return NewObject(path, key, self._clients, exclusive=exclusive, replace=replace, later=self._later)

    def putting_later(self, puts: list[Callable[[], None]]) -> Self:
        storage = self._copy()
        storage._later = LatePuts(puts)
        return storage

    def put_if_absent(self, path: str, data: Bytes, *, sync: bool = True) -> str | None:
        key = self._key(contained_path(path))
        return put_if_absent(self._clients, key, data, path, exclusive=self.needs_exclusive_puts)

    def put(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        put(self._clients, self._key(contained_path(path)), memoryview(data).tobytes(), path)

    def delete_file(self, path: str) -> None:
        try:
            obstore.delete(self._clients.patient, self._key(contained_path(path)))
        except FileNotFoundError:
            pass
        except FAILURES as error:
            raise store_error(error, path) from None

    def delete_files(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), _PAGE):
            page = paths[start : start + _PAGE]
            try:
                obstore.delete(self._clients.patient, [self._key(contained_path(path)) for path in page])
            except FileNotFoundError:  # another process removes them too
                for path in page:
                    self.delete_file(path)
            except FAILURES as error:
                raise store_error(error, page[0]) from None

    def delete_directory(self, path: str) -> None:
        files = self.list_files(contained_path(path))
        while page := [file.path for file in itertools.islice(files, _PAGE)]:
            self.delete_files(page)

    def sync_directory(self, path: str) -> None:
        """Do nothing: stores acknowledge a write only when it is durable."""

    def _key(self, path: str) -> str:
        return "/".join(part for part in (self._prefix, path) if part)


class ObjectFile(RemoteFile):
    """One object. Every answer is checked to belong to the same version of the object, with the known
    size.
    """

    def __init__(self, name: str, key: str, clients: Clients, size: int, tag: str | None) -> None:
        super().__init__()
        self.name = name
        self.size = size
        # Names of data files are used once, so the size is enough. Getting the tag would cost a request per
        # file.
        self.identity = tag or str(size)
        self._key = key
        self._tag = tag
        self._tag_lock = threading.Lock()
        self._clients = clients

    def fetch(self, offset: int, length: int) -> pa.Buffer:
        try:
            data, size, tag = _fetch(self._clients, self._key, self.name, (offset, offset + length))
        except StorageError as error:
            raise self._shorter_object() or error from None
        self._check(size, tag)
        return aligned(data)

    def _check(self, size: int, tag: str | None) -> None:
        if size != self.size:
            raise CorruptFileError("file has the wrong size", file=self.name, expected=self.size, found=size)
        with self._tag_lock:
            if self._tag is None:
                self._tag = tag
        if tag != self._tag:
            raise CorruptFileError("file was replaced while open", file=self.name)

    def _shorter_object(self) -> CorruptFileError | None:
        """Return an error if the object is shorter than expected, which explains a failed read; else None."""
        try:
            self._check(obstore.head(self._clients.once, self._key)["size"], self._tag)
        except CorruptFileError as error:
            return error
        except FAILURES:
            pass
        return None


def _fetch(
    clients: Clients, key: str, name: str, span: tuple[int, int] | None = None
) -> tuple[obstore.Bytes, int, str | None]:
    """Return the bytes `[start, end)` of an object, or all bytes, with the object's size and tag.

    All bytes are requested as a range too, because only the answer to a range has the size of the object
    apart from the number of bytes sent. If an answer breaks off or is too short, the request is repeated.

    Raises:
        StorageError: the request failed.
    """

    def ask() -> tuple[obstore.Bytes, int, str | None]:
        try:
            result = obstore.get(clients.patient, key, options={"range": span or {"offset": 0}})
        except FAILURES as error:
            if span or not is_impossible_range(error):
                raise
            result = obstore.get(clients.patient, key)  # an empty object has no range
        meta, found = result.meta, result.range
        start, end = span or (0, meta["size"])
        if found != (start, min(end, max(meta["size"], start))):
            raise StorageError("object store answered another range", file=name, expected=span, found=found)
        data = result.bytes()
        if len(data) != found[1] - found[0]:
            raise _BrokenOffError(
                "object store sent too few bytes", file=name, expected=found[1] - found[0], found=len(data)
            )
        return data, meta["size"], meta["e_tag"]

    return _repeated(ask, clients, name)


class _BrokenOffError(StorageError):
    """The answer to a request ended too early."""


def _repeated(ask: Callable[[], T], clients: Clients, name: str) -> T:
    """Return the result of `ask`. It is repeated if its answer breaks off.

    The client repeats failed requests, but not requests whose answer has begun.
    """
    for attempt in itertools.count():
        try:
            return ask()
        except _BrokenOffError as error:
            problem: LanceError = error
        except LanceError:
            raise
        except FAILURES as error:
            problem = store_error(error, name)
            if not is_broken_off(error):
                raise problem from None
        if attempt == clients.download_retries:
            raise problem
        time.sleep(_FIRST_BACKOFF * 2**attempt * random.uniform(0.5, 1.5))
    raise AssertionError  # the loop never ends by itself
