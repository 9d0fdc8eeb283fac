"""Processes of an image, started as a container engine does: by its configuration, on a read-only root."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

STOP_TIMEOUT_S = 60

# The arguments: the root of the image, its user, its working directory, folders of this machine with their
# places in the image up to `--`, then the environment and the command.
_ENTER = """
root=$1 user=$2 folder=$3; shift 3
mount --bind "$root" "$root"
mount --options remount,bind,ro "$root"
mount --rbind /dev "$root/dev"
mount --types proc proc "$root/proc"
mount --types tmpfs tmpfs "$root/tmp" --options mode=1777
while [ "$1" != -- ]; do mount --bind "$1" "$root$2"; shift 2; done
shift
exec chroot --userspec="$user" "$root" env --ignore-environment --chdir="$folder" "$@"
"""


@dataclass(frozen=True)
class Image:
    """The root directory of an image, and its configuration."""

    root: Path
    configuration: dict[str, Any]

    def command(
        self, *arguments: str, folders: Sequence[tuple[Path, str]] = (), **environment: str
    ) -> list[str]:
        """Return the command that starts the image with arguments, in namespaces of its own.

        Args:
            arguments: arguments of the entry point; without any, those of the image.
            folders: pairs of a folder of this machine and of its path in the image.
            environment: variables in addition to those of the image.
        """
        entry = [*self.configuration["Entrypoint"], *(arguments or self.configuration["Cmd"])]
        return [*self._entered(folders), *self._variables(environment), *entry]

    def other_command(self, *words: str, **environment: str) -> list[str]:
        """Return the command that starts another program of the image."""
        return [*self._entered(()), *self._variables(environment), *words]

    def _entered(self, folders: Sequence[tuple[Path, str]]) -> list[str]:
        user = self.configuration["User"]
        place = [str(self.root), user, self.configuration.get("WorkingDir") or "/"]
        shown = [word for folder, path in folders for word in (str(folder), path)]
        namespaces = ["--mount", "--pid", "--fork"]
        return ["unshare", *namespaces, "sh", "-euc", _ENTER, "sh", *place, *shown, "--"]

    def _variables(self, added: dict[str, str]) -> list[str]:
        return [*self.configuration["Env"], *(f"{name}={value}" for name, value in added.items())]

    def size(self) -> int:
        """Return the bytes of all files."""
        files = (Path(folder, name) for folder, _, names in os.walk(self.root) for name in names)
        return sum(path.lstat().st_size for path in files)


@dataclass(frozen=True)
class Container:
    """A running process of an image, which has the process id 1 there."""

    process: subprocess.Popen[str]
    first_line: str

    @property
    def inner(self) -> psutil.Process:
        """The process with the id 1, as this machine sees it."""
        (child,) = psutil.Process(self.process.pid).children()
        return child

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run another command in the container, with the user and the variables of its process."""
        inner = self.inner
        uid, gid = inner.uids().real, inner.gids().real
        enter = ["nsenter", f"--target={inner.pid}", "--mount", "--pid", "--root", "--wdns=/"]
        enter += [f"--setuid={uid}", f"--setgid={gid}"]
        variables = [f"{name}={value}" for name, value in inner.environ().items()]
        return subprocess.run(
            [*enter, "env", "--ignore-environment", *variables, *words],
            capture_output=True,
            text=True,
            check=False,
        )

    def stop(self) -> int:
        """Send SIGTERM as an engine does, and return the exit code."""
        self.inner.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=STOP_TIMEOUT_S)


@contextmanager
def running(command: Sequence[str], log_file: Path) -> Iterator[Container]:
    """Start a server and wait for its first line; at the end of the block it is gone."""
    with log_file.open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        first_line = process.stdout.readline().strip()
        assert first_line, log_file.read_text()
        yield Container(process, first_line)
    finally:
        # The process inside goes on without `unshare`: a change of its user undoes `unshare --kill-child`.
        with suppress(psutil.NoSuchProcess):
            for inner in psutil.Process(process.pid).children():
                inner.kill()
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def opened_image(buildah: Sequence[str], name: str) -> Iterator[Image]:
    """An image of buildah's store with its root mounted, until the end of the block."""

    def output(*words: str) -> str:
        done = subprocess.run([*buildah, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    described = json.loads(output("inspect", "--type", "image", name))
    container = output("from", "--pull-never", name)
    try:
        yield Image(Path(output("mount", container)), described["Docker"]["config"])
    finally:
        output("rm", container)
