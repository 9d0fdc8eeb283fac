"""Pipeline files: what they say, and how they are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from flight_client import InvalidInputError
from spark_pipeline.jobs import Source
from spark_pipeline.jobs.ingest import IngestOptions
from spark_pipeline.jobs.transform import TransformOptions
from spark_pipeline.pipeline_file import Pipeline
from support.runs.each_case import each_case

GOOD = """
[pipeline]
name = "trips"
uri = "grpc://127.0.0.1:8815"

[spark]
"spark.sql.shuffle.partitions" = "8"

[[step]]
name = "load"
job = "ingest"
dataset = "trips"
source = { path = ["raw/a.csv", "raw/b.csv"], options = { header = "true" } }
columns = { id = "trip", fare = "CAST(total AS DOUBLE)" }
sort_by = ["id"]
partitions = 4

[[step]]
name = "daily"
job = "transform"
dataset = "daily"
sql = "SELECT 1"
inputs = { trips = "trips", zones = { path = "zones.parquet" } }
"""


def read(folder: Path, text: str) -> Pipeline:
    (folder / "pipeline.toml").write_text(text, encoding="utf-8")
    return Pipeline.read(folder / "pipeline.toml")


def test_what_a_file_says(tmp_path: Path) -> None:
    pipeline = read(tmp_path, GOOD)
    assert (pipeline.name, pipeline.uri) == ("trips", "grpc://127.0.0.1:8815")
    load, daily = pipeline.steps
    assert isinstance(load.options, IngestOptions)
    assert load.options.source == Source(path=["raw/a.csv", "raw/b.csv"], options={"header": "true"})
    assert load.options.partitions == 4
    assert isinstance(daily.options, TransformOptions)
    assert daily.options.inputs == {"trips": "trips", "zones": Source(path="zones.parquet")}


def test_ids_belong_to_pipeline_run_and_step(tmp_path: Path) -> None:
    """T44: a step of a run always has the same transaction id, and other steps and runs have other ids."""
    pipeline = read(tmp_path, GOOD)
    load, daily = pipeline.steps
    assert pipeline.transaction_id("monday", load) == read(tmp_path, GOOD).transaction_id("monday", load)
    renamed = read(tmp_path, GOOD.replace('name = "trips"', 'name = "other"', 1))
    ids = [
        each.transaction_id(run, step)
        for each in (pipeline, renamed)
        for run in "ab"
        for step in (load, daily)
    ]
    assert len(set(ids)) == 8


@each_case(
    ("old", "new", "message"),
    [
        ('name = "trips"\n', "", "pipeline: key name is missing"),
        ("[pipeline]", "[pipelines]", "pipelines: unknown table"),
        ("uri = ", "url = ", "pipeline: key url is unknown, did you mean uri"),
        ('"grpc://127.0.0.1:8815"', "8815", "pipeline: key uri: expected a string, found 8815"),
        ('= "8"', "= 8", "spark: key spark.sql.shuffle.partitions: expected a string, found 8"),
        ('job = "ingest"', 'job = "ingets"', "step load: key job: expected one of backfill, .*'ingets'"),
        ("sort_by", "sorted_by", "step load: key sorted_by is unknown, did you mean sort_by"),
        ('dataset = "trips"\n', "", "step load: key dataset is missing"),
        ("partitions = 4", 'partitions = "4"', "step load: key partitions: expected an integer.*, found '4'"),
        ("partitions = 4", "partitions = true", "step load: key partitions: expected an integer"),
        ('["id"]', '["id", 1]', r"step load: key sort_by\[1\]: expected a string, found 1"),
        ("path = [", "paht = [", "step load: key source.paht is unknown, did you mean source.path"),
        ('header = "true"', "header = true", "step load: key source.options.header: expected a string"),
        ("partitions = 4", 'mode = "apend"', "step load: key mode: expected 'create' or 'append'"),
        ("partitions = 4", 'transaction_id = "x"', "step load: key transaction_id is unknown"),
        ('name = "daily"', 'name = "load"', "step load: expected a name of its own, found two steps"),
        ('name = "daily"\n', "", "step 2: key name: expected a string, found None"),
        ("partitions = 4", "partitions = 0", "step load: partitions: expected 1 or more, found 0"),
        ("partitions = 4", "partitions = 4\npartition_rows = 9", "step load: partitions and partition_rows"),
        ("[[step]]", "[step]", "line 18"),
    ],
)  # fmt: skip
def test_errors_name_the_step_and_the_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(InvalidInputError, match=f"pipeline.toml: .*{message}"):
        read(tmp_path, GOOD.replace(old, new, 1))
