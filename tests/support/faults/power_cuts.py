"""Recording what a process does to files, and building the states that a power cut may leave.

What counts are the steps that matter after a power cut: making, linking, renaming and removing names, and
syncing files and directories. A name is certain once its directory was synced after it; the bytes of a file
are certain once it was. What is not certain may be there or not, each name by itself; the file of a name
that is there may be empty, half or whole.
"""

from __future__ import annotations

import hashlib
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

Files = dict[str, bytes]
"""Content by path relative to the root."""


@dataclass
class _Entry:
    """A change of one name: the file that it has from now on, or none; or a directory."""

    directory: str
    name: str
    inode: int | None
    is_directory: bool = False


@dataclass
class Recording:
    """Steps in their order, below one root."""

    root: Path
    steps: list[tuple[str, Any]] = field(default_factory=list)
    contents: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """The bytes of a file as of a step."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """One step at a time, so that steps are recorded in the order in which they are taken."""

    def acknowledge(self, what: object) -> None:
        """The process told somebody that it is done with something."""
        with self._lock:
            self._step("acknowledge", what)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Record what this process does meanwhile."""
        names = ("fsync", "link", "unlink", "mkdir", "rename", "replace")
        with mock.patch.multiple(os, **{name: self._wrapped(name, getattr(os, name)) for name in names}):
            yield

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                before = os.path.realpath(f"/proc/self/fd/{arguments[0]}") if name == "fsync" else None
                done = real(*arguments, **options)
                getattr(self, f"_{name}")(arguments, options, before)
            return done

        return call

    def _fsync(self, arguments: Any, options: Any, path: str) -> None:
        descriptor = arguments[0]
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            self._step("sync directory", self._relative(path))
        else:
            inode = os.fstat(descriptor).st_ino
            self._note("sync file", inode, inode, Path(f"/proc/self/fd/{descriptor}").read_bytes())

    def _link(self, arguments: Any, options: Any, _: object) -> None:
        directory, name = self._place(arguments[1], options.get("dst_dir_fd"))
        path = self.root / directory / name
        inode = path.stat().st_ino
        self._note("name", _Entry(directory, name, inode), inode, path.read_bytes())

    def _step(self, kind: str, what: object) -> None:
        self.steps.append((kind, what))

    def _note(self, kind: str, what: object, inode: int, content: bytes) -> None:
        """A step after which a file has this content."""
        self.contents[len(self.steps), inode] = content
        self._step(kind, what)

    def _unlink(self, arguments: Any, options: Any, _: object) -> None:
        directory, name = self._place(arguments[0], options.get("dir_fd"))
        self._step("name", _Entry(directory, name, None))

    def _mkdir(self, arguments: Any, options: Any, _: object) -> None:
        directory, name = self._place(arguments[0], options.get("dir_fd"))
        self._step("name", _Entry(directory, name, None, is_directory=True))

    def _rename(self, arguments: Any, options: Any, _: object) -> None:
        self._link((arguments[0], arguments[1]), options, None)
        directory, name = self._place(arguments[0], options.get("src_dir_fd"))
        self._step("name", _Entry(directory, name, None))

    _replace = _rename

    def _place(self, name: str, directory: int | None) -> tuple[str, str]:
        above = os.path.dirname(name) if directory is None else f"/proc/self/fd/{directory}"
        return self._relative(os.path.realpath(above)), os.path.basename(name)

    def _relative(self, path: str) -> str:
        relative = os.path.relpath(path, os.path.realpath(self.root))
        return "" if relative == "." else relative


@dataclass
class Crash:
    """A state that a power cut may leave."""

    step: int
    """Steps that were taken before."""
    acknowledged: list[Any]
    files: Files
    directories: set[str]

    @property
    def key(self) -> str:
        """Return a key that is equal for equal states."""
        digest = hashlib.sha256(repr((sorted(self.directories), self.acknowledged[-1:])).encode())
        for path, content in sorted(self.files.items()):
            digest.update(repr((path, len(content))).encode() + hashlib.sha256(content).digest())
        return digest.hexdigest()

    def write(self, target: Path) -> Path:
        """Make the state in a directory."""
        for directory in sorted(self.directories):
            (target / directory).mkdir(parents=True, exist_ok=True)
        for path, content in self.files.items():
            (target / path).touch(0o600)  # a server refuses its key if others may read it
            (target / path).write_bytes(content)
        return target


def files_below(root: Path) -> tuple[Files, set[str]]:
    """Return the files below a folder before the recording, all of which are durable."""
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    directories = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()}
    return files, directories


def crashes(recording: Recording, before: tuple[Files, set[str]], seed: int, tries: int) -> Iterator[Crash]:
    """States after each number of steps: nothing that is uncertain, all of it, and random parts of it."""
    chance = random.Random(seed)
    seen = set()
    for step in range(len(recording.steps) + 1):
        choices: list[Callable[[], bool]] = [lambda: False, lambda: True]
        choices += [lambda: chance.random() < 0.5] * tries
        for is_there in choices:
            crash = _crash(recording, before, step, is_there, chance)
            if crash.key not in seen:
                seen.add(crash.key)
                yield crash


def _crash(
    recording: Recording,
    before: tuple[Files, set[str]],
    step: int,
    is_there: Callable[[], bool],
    chance: random.Random,
) -> Crash:
    steps = recording.steps[:step]
    synced_names = {what: at for at, (kind, what) in enumerate(steps) if kind == "sync directory"}
    synced_files: dict[int, list[int]] = {}
    for at, (kind, what) in enumerate(steps):
        if kind == "sync file":
            synced_files.setdefault(what, []).append(at)
    files, directories = dict(before[0]), set(before[1])
    for at, (kind, entry) in enumerate(steps):
        if kind != "name":
            continue
        is_certain = synced_names.get(entry.directory, -1) > at
        if (entry.directory and entry.directory not in directories) or not (is_certain or is_there()):
            continue
        path = os.path.join(entry.directory, entry.name)
        if entry.is_directory:
            directories.add(path)
        elif entry.inode is None:
            files.pop(path, None)
        else:
            files[path] = _content(recording, entry.inode, at, synced_files, is_there, chance)
    return Crash(step, [what for kind, what in steps if kind == "acknowledge"], files, directories)


def _content(
    recording: Recording,
    inode: int,
    named: int,
    synced: dict[int, list[int]],
    is_there: Callable[[], bool],
    chance: random.Random,
) -> bytes:
    whole = recording.contents[named, inode]
    # Numbers of files that are gone are used again, so that the content tells which file was synced.
    if any(recording.contents[at, inode] == whole for at in synced.get(inode, [])):
        return whole
    return chance.choice([whole, whole[: len(whole) // 2], b""]) if is_there() else b""
