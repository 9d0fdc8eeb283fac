"""Writing to object stores."""

import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError as ObjectExistsError
from obstore.exceptions import NotSupportedError, PermissionDeniedError, UnauthenticatedError

from lance_core.errors import AlreadyExistsError, PutUnknownError, StorageError, UnsupportedFeatureError
from lance_core.kernels import count_write
from lance_core.process.deferred import DeferredError
from lance_core.storage.base import Bytes, WritableFile
from lance_core.storage.object_errors import FAILURES, store_error
from lance_core.storage.object_options import Clients

_PART = 10 << 20
"""Bytes of one part of a large upload. Stores accept at most 10,000 parts, which makes 100 GB."""
_PARTS_AT_ONCE = 4
_PARTS_WAITING = 2

_MOST_LATE = 64
"""Most objects that are held in memory to be put later."""
_MOST_LATE_BYTES = 16 << 20
"""Most bytes of these objects."""

_ATTEMPTS = 6
_FIRST_BACKOFF = 0.1
"""Seconds before the first repetition of a conditional put. Doubled each time."""


def tag_of(e_tag: str | None) -> str | None:
    """Return the tag of an object from its entity tag, which Azure quotes only outside listings."""
    return e_tag and e_tag.strip('"')


def put_if_absent(
    clients: Clients, key: str, data: Bytes, name: str, *, exclusive: bool = True
) -> str | None:
    """Create an object unless there is one; see `Storage.put_if_absent`.

    If an answer is lost, the request may have succeeded, or may succeed later. It is repeated. If the store
    then reports an existing object, its bytes tell who created it. Without `exclusive`, a store without
    conditional puts is only asked for the object first, which is enough for names that are used once.
    """
    content = memoryview(data).tobytes()
    lost = False
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_FIRST_BACKOFF * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))
        try:
            made = obstore.put(clients.once, key, content, mode="create", use_multipart=False)
            count_write(len(content))
            return tag_of(made["e_tag"])
        except ObjectExistsError:
            owner = _is_ours(clients, key, content, name)
            if owner is None:  # two concurrent writers: the store asks to try again
                continue
            if owner:
                return None
            raise AlreadyExistsError("file exists", file=name) from None
        except (PermissionDeniedError, UnauthenticatedError) as error:
            if lost:
                break
            raise store_error(error, name) from None
        except (NotSupportedError, NotImplementedError):
            if not exclusive:
                _put_where_none_is_seen(clients, key, content, name)
                return None
            raise UnsupportedFeatureError("object store cannot create files exclusively", file=name) from None
        except FAILURES:
            lost = True
    raise PutUnknownError("the object store did not say whether the file was created", file=name)


def _put_where_none_is_seen(clients: Clients, key: str, content: bytes, name: str) -> None:
    check_absent(clients, key, name)
    put(clients, key, content, name)


def put(clients: Clients, key: str, content: bytes, name: str) -> None:
    """Write an object by one request. It replaces an existing object.

    Raises:
        StorageError: the storage failed.
    """
    try:
        obstore.put(clients.patient, key, content, use_multipart=False)
    except FAILURES as error:
        raise store_error(error, name) from None
    count_write(len(content))


def check_absent(clients: Clients, key: str, name: str) -> None:
    """Check that there is no object with this name.

    Raises:
        AlreadyExistsError: there is one.
        StorageError: the storage failed.
    """
    try:
        obstore.head(clients.patient, key)
    except FileNotFoundError:
        return
    except FAILURES as error:
        raise store_error(error, name) from None
    raise AlreadyExistsError("file exists", file=name)


def _is_ours(clients: Clients, key: str, content: bytes, name: str) -> bool | None:
    """Return whether the object has our content; None if there is no object."""
    try:
        return bytes(obstore.get(clients.patient, key).bytes()) == content
    except FileNotFoundError:
        return None
    except FAILURES as error:
        raise PutUnknownError("the file that exists could not be compared", file=name) from error


class LatePuts:
    """Puts of small objects that wait for a commit, see `Storage.putting_later`. For one thread."""

    def __init__(self, calls: list[Callable[[], None]]) -> None:
        """Add the puts to `calls`."""
        self._calls = calls
        self._num = 0
        self._num_bytes = 0

    def add(self, put: Callable[[], None], num_bytes: int) -> bool:
        """Add a put that holds so many bytes in memory. Return whether there is room for it."""
        if self._num == _MOST_LATE or self._num_bytes + num_bytes > _MOST_LATE_BYTES:
            return False
        self._num += 1
        self._num_bytes += num_bytes
        self._calls.append(put)
        return True


class NewObject(WritableFile):
    """An object that is being written. A large object is uploaded in parts meanwhile, a small one by one
    request.

    For a large object, only a check at the beginning finds an existing object, because not all stores have
    exclusive uploads in parts. Names of data files are used once.
    """

    def __init__(
        self,
        path: str,
        key: str,
        clients: Clients,
        *,
        exclusive: bool = True,
        replace: bool = False,
        later: LatePuts | None = None,
    ) -> None:
        """Start an object. `exclusive` has the meaning of `put_if_absent`. With `replace` it may exist.

        `later` gets the put of a small object.
        """
        self.name = path
        self._later = later
        self._replace = replace
        self._exclusive = exclusive
        self.position = 0
        self._key = key
        self._clients = clients
        self._gathered = bytearray()
        self._upload: _Upload | None = None
        self._state = "open"

    def write(self, data: Bytes) -> None:
        view = memoryview(data)
        if view.nbytes == 0:
            return
        view = view.cast("B")
        self._check_open()
        self.position += len(view)
        while len(view):
            room = _PART - len(self._gathered)
            self._gathered += view[:room]
            view = view[room:]
            if len(self._gathered) == _PART:
                self._send()

    def close(self) -> None:
        if self._state == "closed":
            return
        self._check_open()
        try:
            if self._upload is not None:
                self._send()
                self._upload.finish()
            elif self._replace:
                put(self._clients, self._key, bytes(self._gathered), self.name)
            elif self._later is None or not self._later.add(self._put, len(self._gathered)):
                self._put()
        except BaseException:
            self.abort()
            raise
        self._state = "closed"

    def _put(self) -> None:
        gathered, exclusive = self._gathered, self._exclusive
        put_if_absent(self._clients, self._key, gathered, self.name, exclusive=exclusive)

    def abort(self) -> None:
        if self._state == "open":
            self._state = "aborted"
            self._gathered = bytearray()
            if self._upload is not None:
                self._upload.abort()

    def _check_open(self) -> None:
        if self._state != "open":
            raise StorageError("file is closed", file=self.name)

    def _send(self) -> None:
        part, self._gathered = self._gathered, bytearray()
        try:
            if self._upload is None:
                if not self._replace:
                    check_absent(self._clients, self._key, self.name)
                self._upload = _Upload(self._clients, self._key, self.name)
            self._upload.send(part)
        except BaseException:
            self.abort()
            raise


class _AbortedError(Exception):
    """Raised into the client, which then discards the uploaded parts."""


class _Upload:
    """An upload in parts. A thread takes the parts from a short queue."""

    def __init__(self, clients: Clients, key: str, name: str) -> None:
        self._name = name
        self._parts: queue.Queue[bytearray | None] = queue.Queue(_PARTS_WAITING)
        self._is_aborted = False
        self._error = DeferredError(BaseException)  # obstore raises panics of its own code, too
        self._thread = threading.Thread(
            target=self._run, args=(clients.patient, key), name="lance-upload", daemon=True
        )
        self._thread.start()

    def send(self, part: bytearray) -> None:
        """Wait until the queue has room for the part. If the upload failed, raise its error."""
        while True:
            if not self._thread.is_alive():
                self._raise()
            try:
                self._parts.put(part, timeout=0.1)
                return
            except queue.Full:
                pass

    def finish(self) -> None:
        """Complete the upload."""
        self.send_end()
        self._thread.join()
        if self._error.error is not None:
            self._raise()

    def abort(self) -> None:
        """Discard the upload."""
        self._is_aborted = True
        self.send_end()
        self._thread.join()

    def send_end(self) -> None:
        while self._thread.is_alive():
            try:
                self._parts.put(None, timeout=0.1)
                return
            except queue.Full:
                pass

    def _run(self, store: Any, key: str) -> None:
        with self._error, suppress(_AbortedError):
            obstore.put(
                store,
                key,
                self._take_parts(),
                use_multipart=True,
                chunk_size=_PART,
                max_concurrency=_PARTS_AT_ONCE,
            )

    def _take_parts(self) -> Iterator[bytearray]:
        while (part := self._parts.get()) is not None:
            count_write(len(part))
            yield part
        if self._is_aborted:
            raise _AbortedError

    def _raise(self) -> None:
        error = self._error.error
        if isinstance(error, FAILURES):
            raise store_error(error, self._name) from None
        raise StorageError("the upload ended early", file=self._name) from error
