"""`lance-flight pipeline` as a user runs it: a process of its own, killed and run again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import spark_pipeline
from flight_client import Client
from support.clients.command_line import run_verb
from support.spark.settings import JAVA_OPTIONS

PIPELINE = [sys.executable, "-m", "flight_server.cli", "pipeline"]
CONF = [f"spark.driver.extraJavaOptions={JAVA_OPTIONS}", "spark.driver.host=127.0.0.1"]
LOCAL = ["--master", "local[2]", *(part for each in CONF for part in ("--conf", each))]
ROOT = Path(spark_pipeline.__file__).parents[1]

SLOW = """
import os, pathlib, time

def label(batch):
    import pyarrow as pa
    import pyarrow.compute as pc
    folder = pathlib.Path(os.environ["TEST_FOLDER"])
    (folder / "started").touch()
    while not (folder / "go").exists():
        time.sleep(0.05)
    return pa.record_batch({"label": pc.cast(batch["id"], pa.string())})
"""

STEPS = """
[pipeline]
name = "resumed"

[spark]
"spark.sql.shuffle.partitions" = "2"

[[step]]
name = "load"
job = "ingest"
dataset = "DATASET"
source = { path = "FOLDER/rows.parquet" }
sort_by = ["id"]
partitions = 2

[[step]]
name = "label"
job = "backfill"
dataset = "DATASET"
function = "slow_labels:label"
schema = "label STRING"
inputs = ["id"]

[[step]]
name = "publish"
job = "export"
dataset = "DATASET"
path = "FOLDER/out"

[[step]]
name = "check"
job = "verify"
dataset = "DATASET"
source = { path = "FOLDER/out" }
keys = ["id"]
"""


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PIPELINE, *arguments], capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["ingest", "a.parquet", "no-target"], 2, "not a target: no-target"),
        (["ingest", "a.parquet", "grpc://localhost:1/t", "--mode", "merge"], 2, "'merge' is not one of"),
        (
            ["export", "grpc://localhost:1/t", "f", "--columns", '{"a": 1}'],
            2,
            "names with commas, or SQL by name in JSON",
        ),
        (["backfill", "grpc://localhost:1/t"], 2, "expected either columns, or function and schema"),
        (["run", "no-such-file.toml"], 2, "does not exist"),
        (["run", "pyproject.toml"], 1, "error: pyproject.toml: build-system: unknown table"),
    ],
)
def test_wrong_usage(arguments: list[str], code: int, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = run_verb("pipeline", *arguments, code=code)
    assert done.stdout == ""
    assert message in " ".join(done.stderr.replace("│", " ").split())


def test_wrong_usage_of_a_process() -> None:
    done = run("ingest", "a.parquet", "no-target")
    assert (done.returncode, done.stdout) == (2, "")
    assert "not a target: no-target" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_spark_the_extra_is_named() -> None:
    """Other verbs do without; this one says what is missing."""
    program = "import sys; sys.modules['pyspark'] = None\nfrom flight_server.cli import app; app()"
    for arguments, code, message in (
        (["pipeline", "compact", "grpc://localhost:1/t"], 1, "pip install 'lance-flight[spark]'"),
        (["--version"], 0, ""),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, cwd=ROOT
        )
        assert done.returncode == code
        assert message in done.stderr
        assert len(done.stderr.splitlines()) <= 1


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_killed_run_goes_on(client: Client, uri: str, tmp_path: Path) -> None:
    """T44: kill -9 in the middle of a step, and after it; run again, every row is there once."""
    dataset = f"jobs/r{uuid4().hex}"
    rows = pa.table({"id": pa.array(range(5000), pa.int64()), "x": [number / 7 for number in range(5000)]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    (tmp_path / "slow_labels.py").write_text(SLOW)
    steps = STEPS.replace("DATASET", dataset).replace("FOLDER", str(tmp_path))
    (tmp_path / "pipeline.toml").write_text(steps)
    client.write(dataset, rows.slice(0, 0), "create")
    command = [*LOCAL, "run", str(tmp_path / "pipeline.toml"), "--uri", uri, "--run-id", "monday", "--json"]
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "TEST_FOLDER": str(tmp_path)}

    with (tmp_path / "killed").open("w") as log:
        killed = subprocess.Popen(
            [*PIPELINE, *command], stdout=log, stderr=log, cwd=ROOT,
            env={**os.environ, **environment}, start_new_session=True,
        )  # fmt: skip
        deadline = time.monotonic() + 300
        while not (tmp_path / "started").exists():
            assert killed.poll() is None, (tmp_path / "killed").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
    assert client.dataset(dataset).count_rows() == 5000
    (tmp_path / "go").touch()

    done = run(*command, **environment)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [step["was_done"] for step in report["steps"]] == [True, False, False, False]
    assert report["done"]
    table = client.dataset(dataset).to_table()
    assert table["id"].to_pylist() == list(range(5000))
    assert table["label"].to_pylist() == [str(number) for number in range(5000)]
    version = client.dataset(dataset).version

    again = run(*command, **environment)
    assert [step["was_done"] for step in json.loads(again.stdout)["steps"]] == [True, True, True, False]
    assert client.dataset(dataset).version == version

    client.delete(dataset, "id = 7")
    differs = run(*[each for each in command if each != "--json"], **environment)
    assert differs.returncode == 1
    assert "differs" in differs.stdout
    assert "is_equal False" in differs.stderr
    assert "Traceback" not in differs.stderr


@pytest.mark.long
@pytest.mark.timeout(900)
def test_failures_are_one_line(client: Client, uri: str, tmp_path: Path) -> None:
    dataset = f"jobs/f{uuid4().hex}"
    client.write(dataset, pa.table({"id": pa.array([1], pa.int64())}), "create")
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "a.parquet")
    (tmp_path / "p.toml").write_text(
        '[pipeline]\nname = "p"\n[[step]]\nname = "load"\njob = "ingest"\n'
        f'dataset = "{dataset}"\nsource = {{ path = "{tmp_path}/a.parquet" }}\n'
    )
    done = run(*LOCAL, "run", str(tmp_path / "p.toml"), "--uri", uri, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["done"] is False
    errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
    assert len(errors) == 1
    assert errors[0].startswith("error: step load (ingest): column 'id': int64 cannot hold it")
    assert "Traceback" not in done.stderr
    assert "\tat " not in done.stderr
    missing = run(*LOCAL, "ingest", f"{tmp_path}/nothing.parquet", f"{uri}/{dataset}")
    assert missing.returncode == 1
    assert "PATH_NOT_FOUND" in missing.stderr.splitlines()[-1]
    unknown = run(*LOCAL, "deduplicate", f"{uri}/{dataset}", "--key", "id", "--keep-by", "nothing")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "nothing" in unknown.stderr.splitlines()[-1]
    assert "\\tat " not in unknown.stderr, "what pyspark logs has the stack of Java"


JOBS = {
    "ingest": ["FOLDER/a.parquet", "TARGET", "--mode", "create", "--sort-by", "id"],
    "backfill": ["TARGET", "--column", "half=id / 2", "--column", "word=concat('w', id)"],
    "merge": ["FOLDER/b.parquet", "TARGET", "--on", "id", "--keep-by", "half DESC"],
    "transform": ["TARGET/odd", "--input", "t=DATASET", "--sql", "SELECT id FROM t WHERE id % 2 = 1"],
    "deduplicate": ["TARGET", "--key", "word", "--keep-by", "id"],
    "compact": ["TARGET", "--target-rows", "100"],
    "export": ["TARGET", "FOLDER/out", "--partition-by", "word"],
    "verify": ["FOLDER/out", "TARGET", "--key", "id"],
}
"""Every command, in an order in which each has something to do."""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_spark_submit(client: Client, uri: str, tmp_path: Path) -> None:
    """All jobs, each a command that spark-submit runs."""
    dataset = f"jobs/s{uuid4().hex}"
    pq.write_table(pa.table({"id": pa.array([2, 1], pa.int64())}), tmp_path / "a.parquet")
    more = pa.table({"id": pa.array([3, 1, 1], pa.int64()), "half": [None, 5.0, 6.0], "word": ["w2"] * 3})
    pq.write_table(more, tmp_path / "b.parquet")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    script = Path(spark_pipeline.__file__).parent / "__main__.py"
    words = {"FOLDER": str(tmp_path), "TARGET": f"{uri}/{dataset}", "DATASET": dataset}
    reports = {}
    for job, arguments in JOBS.items():
        for word, meant in words.items():
            arguments = [argument.replace(word, meant) for argument in arguments]
        done = subprocess.run(
            [str(submit), *LOCAL, str(script), job, *arguments, "--json"],
            capture_output=True, text=True, cwd=tmp_path,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        reports[job] = json.loads(done.stdout.splitlines()[-1])
    versions = {job: report["version"] for job, report in reports.items()}
    assert versions.pop("transform") == 1
    assert list(versions.values()) == [1, 2, 3, 4, 5, 5, 5]
    assert client.dataset(f"{dataset}/odd").to_table()["id"].to_pylist() == [1, 3]
    assert reports["deduplicate"]["details"]["deleted"] == 2
    assert client.dataset(dataset).to_table().to_pylist() == [{"id": 1, "half": 6.0, "word": "w2"}]
    assert reports["verify"]["details"]["is_equal"]
