"""Writing of local files. A file is never visible before it is complete.

After a power failure, a file of `Storage.syncing_later` may be visible with other bytes.
"""

import contextlib
import errno
import os
from collections.abc import Callable
from functools import partial
from random import SystemRandom  # not `secrets`, whose import loads OpenSSL

from lance_core import kernels
from lance_core.errors import AlreadyExistsError, StorageError
from lance_core.storage.base import Bytes, WritableFile
from lance_core.storage.descriptor import Descriptor, storage_error, sync_descriptor

_GATHERED = 1 << 20
"""Number of bytes up to which small writes are gathered."""
_MAX_SINGLE_WRITE = 1 << 30
"""Linux writes at most about 2 GiB per call."""
_STEP = 4 << 20
"""The disk begins with a file that will be synced whenever so many more bytes of it are written. Otherwise
the system leaves them in its page cache, and the disk is idle until the sync.
"""
_MOST_LATE = 64
"""Most files that stay open to be synced later."""
_NO_UNNAMED_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
"""Error codes of file systems and kernels without O_TMPFILE."""


class NewLocalFile(WritableFile):
    """A file without a name, which is linked into its directory when it is complete.

    If the process is killed, the system frees the file. On file systems without unnamed files (NFS), the file
    is called `{name}#{number}` until it is complete. The object_store library stages files under such names
    too, so readers built on it do not list them.
    """

    def __init__(
        self,
        path: str,
        directory: Descriptor,
        *,
        sync: bool,
        replace: bool = False,
        later: list[Callable[[], None]] | None = None,
    ) -> None:
        """Start a file in a directory. `later` gets the sync of the file, see `Storage.syncing_later`."""
        self.name = path
        self.position = 0
        self._final_name = path.rpartition("/")[2]
        self._staged_name: str | None = None
        self._directory = directory
        self._sync = sync
        self._replace = replace
        self._later = later
        self._is_published = False
        self._process = os.getpid()
        self._gathered = bytearray()
        self._written = 0
        """Bytes that the system has; the others are gathered."""
        self._descriptor: Descriptor | None = self._create()

    def write(self, data: Bytes) -> None:
        if (large := self._gather(data)) is not None:
            self._write_all(large)

    def write_checked(self, data: Bytes, crc: int) -> int:
        large = self._gather(data)
        if large is None:
            return kernels.crc32c(data, crc)

        def write(descriptor: int, part: memoryview) -> int:
            nonlocal crc
            count, crc, number = kernels.write_checked(descriptor, part, crc)
            if number and not count:
                raise OSError(number, os.strerror(number))
            return count

        self._write_all(large, write)
        return crc

    def close(self) -> None:
        if self._is_published:
            return
        descriptor = self._open_descriptor()
        if self._sync and self._later is not None and len(self._later) < _MOST_LATE:
            self._later.append(partial(sync_descriptor, descriptor, self.name))
            self._sync = False
        self.complete()
        try:
            self._publish(descriptor)
        except OSError as error:
            self.abort()
            raise storage_error(error, self.name) from None
        self._release()

    def complete(self) -> None:
        """Make the bytes durable, before the file has its name. Nothing may be written after that.

        Raises:
            StorageError: the disk is full, or failed. The file is aborted.
        """
        self._write_all(self._gathered)
        self._gathered = bytearray()
        if self._sync:
            try:
                sync_descriptor(self._open_descriptor(), self.name)
            except StorageError:
                self.abort()
                raise
            self._sync = False

    def abort(self) -> None:
        self._release()

    def __del__(self) -> None:
        if self._process == os.getpid():  # a forked process must not remove a file of its parent
            self._release()

    def _create(self) -> Descriptor:
        try:
            try:
                number = os.open(
                    ".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=self._directory.number
                )
            except OSError as error:
                if error.errno not in _NO_UNNAMED_FILES:
                    raise
                self._staged_name = _staged_name(self._final_name)
                number = os.open(
                    self._staged_name,
                    os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW,
                    0o666,
                    dir_fd=self._directory.number,
                )
        except OSError as error:
            raise storage_error(error, self.name) from None
        return Descriptor(number)

    def _gather(self, data: Bytes) -> memoryview | None:
        """Gather few bytes and return None; else write the gathered bytes and return the view to be written
        next.
        """
        view = memoryview(data)
        if view.nbytes == 0:
            return None
        view = view.cast("B")
        self._open_descriptor()
        self.position += len(view)
        if len(self._gathered) + len(view) < _GATHERED:
            self._gathered += view
            return None
        gathered, self._gathered = self._gathered, bytearray()
        self._write_all(gathered)
        return view

    def _write_all(
        self, data: bytearray | memoryview, write: Callable[[int, memoryview], int] = os.write
    ) -> None:
        remaining = memoryview(data)
        descriptor = self._open_descriptor()
        while remaining:
            room = _STEP - self._written % _STEP if self._sync else _MAX_SINGLE_WRITE
            try:
                count = write(descriptor.number, remaining[:room])
                if count == 0:
                    raise StorageError("file system takes no more bytes", file=self.name)
                self._written += count
                if self._sync and count == room:
                    self._start_write_back(descriptor)
            except OSError as error:
                self.abort()
                raise storage_error(error, self.name) from None
            kernels.count_write(count)
            remaining = remaining[count:]

    def _start_write_back(self, descriptor: Descriptor) -> None:
        """Let the disk begin with the last step, so that it works while further bytes arrive."""
        error = kernels.start_write_back(descriptor.number, self._written - _STEP, _STEP)
        if error:
            raise OSError(error, os.strerror(error))

    def _publish(self, descriptor: Descriptor) -> None:
        if self._replace:
            directory = self._directory.number
            if self._staged_name is None:
                self._staged_name = _staged_name(self._final_name)
                self._link(f"/proc/self/fd/{descriptor.number}", self._staged_name, follow_links=True)
            os.rename(self._staged_name, self._final_name, src_dir_fd=directory, dst_dir_fd=directory)
            self._staged_name = None
            self._is_published = True
            return
        source = self._staged_name or f"/proc/self/fd/{descriptor.number}"
        try:
            self._link(source, self._final_name, follow_links=self._staged_name is None)
        except FileExistsError:
            # A network file system repeats a call if its answer is lost. The link that it then finds can be
            # our own.
            if os.fstat(descriptor.number).st_nlink != (1 if self._staged_name is None else 2):
                raise AlreadyExistsError("file exists", file=self.name) from None
        self._is_published = True

    def _link(self, source: str, name: str, *, follow_links: bool) -> None:
        directory = self._directory.number
        os.link(source, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=follow_links)

    def _open_descriptor(self) -> Descriptor:
        if self._descriptor is None:
            raise StorageError("file is closed", file=self.name)
        return self._descriptor

    def _release(self) -> None:
        self._descriptor = None
        self._gathered = bytearray()
        if self._staged_name is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._staged_name, dir_fd=self._directory.number)
            self._staged_name = None


def replace_file(path: str, directory: Descriptor, data: Bytes, *, sync: bool) -> None:
    """Write a file under another name, and rename it over an existing file."""
    final = path.rpartition("/")[2]
    staged = _staged_name(final)
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = Descriptor(os.open(staged, flags, 0o666, dir_fd=directory.number))
        try:
            remaining = memoryview(data)
            while remaining:
                remaining = remaining[os.write(descriptor.number, remaining) :]
            if sync:
                os.fsync(descriptor.number)
            os.rename(staged, final, src_dir_fd=directory.number, dst_dir_fd=directory.number)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(staged, dir_fd=directory.number)
            raise
        if sync:
            os.fsync(directory.number)
    except OSError as error:
        raise storage_error(error, path) from None


def _staged_name(final_name: str) -> str:
    """Return a name that nothing has, for a file that is renamed when it is complete."""
    return f"{final_name}#{SystemRandom().getrandbits(63)}"
