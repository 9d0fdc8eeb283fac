"""The look at the end of a run: what stands outside the temporary folder then, and was not there before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.runs.leftovers import REPOSITORY, Places

_TEST = """
import tempfile
from pathlib import Path

def test_with_a_temporary_file():
    tempfile.mkdtemp()

def test_that_writes_into_the_home_directory():
    Path.home().joinpath("left").touch()
    Path.home().joinpath(".cache").mkdir()
"""


def test_new_entries_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "before").touch()
    places = Places.look()
    (tmp_path / "spark-warehouse").mkdir()
    (tmp_path / "__pycache__").mkdir()
    assert str(tmp_path / "spark-warehouse") in places.new()
    assert {str(tmp_path / "before"), str(tmp_path / "__pycache__")}.isdisjoint(places.new())


@pytest.mark.parametrize(("options", "is_ci"), [((), True), (("-n", "1"), True), ((), False)])
def test_a_run_that_leaves_something_fails_in_ci(
    options: tuple[str, ...], is_ci: bool, tmp_path: Path
) -> None:
    """The summary names the path; elsewhere other programs may have made it, and the run stays green."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (work / "test_it.py").write_text(_TEST)
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment |= {"HOME": str(home), "PYTHONPATH": str(REPOSITORY / "tests")}
    environment |= {"CI": "1"} if is_ci else {}
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", *options, "."]
    command += ["--basetemp", str(tmp_path / "temporary"), "-c", os.devnull, "--rootdir", str(work)]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == (1 if is_ci else 0), done.stdout
    assert str(home / "left") in done.stdout.splitlines()
    assert ".cache" not in done.stdout
    (temporary,) = {path.parent for path in (tmp_path / "temporary").rglob("tmp/*")}
    assert temporary.name == "tmp"
