"""Files that a test run leaves outside its temporary folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]

_CACHES = {
    *(".cache", ".coverage", ".emulators", ".hypothesis", ".npm", ".pytest_cache", "__pycache__", "build"),
    *(".mypy_cache", ".ruff_cache"),
}
"""Names that tools keep on purpose, in the repository (.gitignore has them) and in the home directory."""


@dataclass(frozen=True)
class Places:
    """Directories in which tests must not write: their entries by directory."""

    entries: dict[str, frozenset[str]]

    @classmethod
    def look(cls) -> Places:
        """List the repository, what git ignores included, the home, root and working directories."""
        folders = {os.path.abspath(os.sep), os.path.expanduser("~"), os.getcwd()} - {str(REPOSITORY)}
        found = {folder: frozenset(_names(folder)) for folder in folders}
        return cls({**found, str(REPOSITORY): frozenset(_changed())})

    def new(self) -> list[str]:
        """Return the paths that were not there when this was made."""
        now = Places.look().entries
        return sorted(
            os.path.join(place, name)
            for place, before in self.entries.items()
            for name in now.get(place, frozenset()) - before
        )


def redirect_temporary_files(folder: Path) -> None:
    """Let this process and those that it starts, Java included, put their temporary files into `folder`.

    They would land in the system's folder, where nobody can tell them from those of other programs.
    """
    folder.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = str(folder)
    os.environ["SPARK_SUBMIT_OPTS"] = f"-Djava.io.tmpdir={folder} -XX:-UsePerfData"
    tempfile.tempdir = None


def _names(folder: str) -> Iterator[str]:
    for entry in os.scandir(folder):
        if entry.name not in _CACHES:
            yield entry.name


def _changed() -> Iterator[str]:
    """Paths of the repository that are new, ignored or changed; none where this is no clone."""
    git = shutil.which("git")
    if git is None or not (REPOSITORY / ".git").exists():
        return
    command = [git, "-C", str(REPOSITORY), "status", "--porcelain", "--ignored", "-z", "--no-renames"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for entry in filter(None, told.split("\0")):
        path = entry[3:]
        if not _CACHES & set(Path(path).parts):
            yield path
