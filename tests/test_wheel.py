"""The wheel: what is in it, and that it works where neither the sources nor their environment are."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from support.runs.leftovers import REPOSITORY

PACKAGES = {"lance_core", "flight_server", "flight_client", "spark_pipeline"}
_IMPORTS = "import lance_core, flight_server, flight_client, spark_pipeline"


def _run(*command: str | Path, cwd: Path) -> str:
    """Run a command outside the repository and return its output; fail with what it says."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, REPOSITORY]
    _run(*build, cwd=folder)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a new environment with the wheel; nothing is downloaded.

    Dependencies come from the environment of the tests. Only its path is added: `.pth` files in it, which
    lead to the sources, are not followed.
    """
    folder = tmp_path_factory.mktemp("installed")
    programs = folder / "bin"
    _run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", programs / "python"]
    _run(*pip, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return programs


@pytest.mark.long("builds a wheel")
@pytest.mark.timeout(900)  # on a machine that compiles the kernels for the first time
def test_the_wheel_holds_the_packages_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES
    sources = {path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py")}
    expected = {path.relative_to(REPOSITORY).as_posix() for path in sources}
    assert {name for name in names if name.endswith(".py")} == expected
    assert not [name for name in names if name.endswith((".cpp", ".hpp", ".h", "CMakeLists.txt"))]
    assert any(name.startswith("lance_core/kernels/_kernels.") and name.endswith(".so") for name in names)
    assert any(name.startswith("flight_server/demo/data/timezones.lance/_versions/") for name in names)
    assert {name for name in names if name.endswith("LICENSE")}


@pytest.mark.long("builds a wheel")
@pytest.mark.timeout(900)
def test_the_packages_work_outside_the_repository(installed: Path, tmp_path: Path) -> None:
    """Every package is the wheel's, and a dataset is written and read."""
    script = f"""
{_IMPORTS}
import sys
import pyarrow as pa

for name in {sorted(PACKAGES)}:
    assert sys.modules[name].__file__.startswith({str(installed.parent)!r}), sys.modules[name].__file__
dataset = lance_core.write_dataset(pa.table({{"id": [1, 2, 3]}}), "t.lance")
print(dataset.to_table(filter="id > 1")["id"].to_pylist(), lance_core.__version__)
"""
    output = _run(installed / "python", "-c", script, cwd=tmp_path)
    version = _run(installed / "lance-flight", "--version", cwd=tmp_path).split()[-1]
    assert output.split("\n")[0] == f"[2, 3] {version}"


@pytest.mark.long("builds a wheel")
@pytest.mark.timeout(900)
def test_the_demo_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    """The demo dataset is part of the wheel."""
    output = _run(installed / "lance-flight", "demo", cwd=tmp_path)
    assert "timezones: 565 rows, 8 columns" in output
    assert "Server stopped, exit code 0." in output
