"""Options of jobs: one declaration for the function, the file of steps and the command line."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest
import typer
from pyspark.sql import SparkSession
from typer.main import get_command
from typer.testing import CliRunner

from flight_client import InvalidInputError
from spark_pipeline import jobs
from spark_pipeline.__main__ import app
from spark_pipeline.job_commands import command_of
from spark_pipeline.jobs import Outcome, Server, Source
from spark_pipeline.jobs.job import JOBS, Job, JobOptions, about, about_of, is_required
from spark_pipeline.jobs.job import job as job_of
from spark_pipeline.jobs.shared_options import RunOptions
from support.runs.each_case import each_case

URI = "grpc://127.0.0.1:1"


def options_given(name: str, *arguments: str) -> tuple[Server, Any]:
    """Return the server and the options that a command line of a job gives; nothing runs."""
    given: list[tuple[Server, JobOptions]] = []

    def run(context: typer.Context, job: Job, server: Server, options: JobOptions, as_json: bool) -> None:
        given.append((server, options))

    tried = typer.Typer(pretty_exceptions_enable=False)
    tried.command(name)(command_of(JOBS[name], lambda context: Server.of, run))
    done = CliRunner().invoke(tried, arguments, catch_exceptions=False)
    if not given:
        raise ValueError(" ".join(done.output.replace("│", " ").split()))
    return given[0]


def test_every_job_is_in_all_three_places() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert {"run", *JOBS} == set(commands)
    for name, job in JOBS.items():
        assert name in jobs.__all__
        parameters = inspect.signature(getattr(jobs, name)).parameters
        assert [*parameters][:3] == ["spark", "server", "dataset"]
        assert {"spark", "server", *(option.name for option in fields(job.options))} == set(parameters)
        for option in fields(job.options):
            assert f"{option.name}: {about_of(option).help[:20]}" in (getattr(jobs, name).__doc__ or "")


@each_case(
    ("name", "arguments", "expected"),
    [
        (
            "ingest",
            "a.csv b.csv TARGET --format csv --option sep=; --schema id_BIGINT --vector v=128 --vector w=2 "
            "--sort-by id --sort-by day --storage-version 2.1 --no-stable-row-ids --partition-rows 9",
            {
                "source": Source(("a.csv", "b.csv"), "csv", {"sep": ";"}, "id_BIGINT"),
                "vectors": {"v": 128, "w": 2},
                "sort_by": ["id", "day"],
                "data_storage_version": "2.1",
                "enable_stable_row_ids": False,
                "partition_rows": 9,
                "mode": "append",
            },
        ),
        ("ingest", "TARGET --format jdbc", {"source": Source(format="jdbc"), "sort_by": (), "vectors": None}),
        ("ingest", f"{URI}/raw TARGET", {"source": Source(dataset="raw")}),
        (
            "transform",
            "TARGET --sql SELECT --input a=b@12 --input c=d",
            {"sql": "SELECT", "inputs": {"a": "b@12", "c": "d"}, "mode": "create"},
        ),
        ("backfill", "TARGET --column net=fare=tip", {"columns": {"net": "fare=tip"}, "inputs": None}),
        (
            "backfill",
            "TARGET --function a:b --schema x --inputs a,b",
            {"function": "a:b", "schema": "x", "inputs": ["a", "b"]},
        ),
        ("compact", "TARGET --target-rows 7 --transaction-id x", {"target_rows": 7, "transaction_id": "x"}),
        ("merge", "a TARGET --on id --on day", {"on": ["id", "day"], "when_matched": "update_all"}),
        ("deduplicate", "TARGET --key id --keep-by day", {"keys": ["id"], "keep_by": ["day"]}),
        (
            "export",
            "TARGET out --partition-by day --columns a,b --option header=true",
            {"path": "out", "partition_by": ["day"], "columns": ("a", "b"), "options": {"header": "true"}},
        ),
        ("verify", 'a TARGET --columns {"a":"b"}', {"columns": {"a": "b"}, "buckets": 256, "keys": ()}),
    ],
)  # fmt: skip
def test_texts_of_the_command_line(name: str, arguments: str, expected: dict[str, Any]) -> None:
    words = arguments.replace("TARGET", f"{URI}/trips").split()
    server, options = options_given(name, *words)
    assert server.uris == (URI,)
    assert options.dataset == "trips"
    assert {key: getattr(options, key) for key in expected} == expected


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("ingest", "a TARGET --vector v=x", "expected name=128, found 'v=x'"),
        ("ingest", "a TARGET --option sep", "expected name=value, found 'sep'"),
        ("ingest", "a TARGET --partitions 0", "greater than or equal to 1"),
        ("ingest", "a TARGET --partitions 1 --partition-rows 1", "expected one of them, found both"),
        ("ingest", f"{URI}/a b TARGET", "expected one dataset or files as the source"),
        ("ingest", "grpc://other:1/a TARGET", "expected source and target on the same server"),
        ("merge", "a TARGET", "Missing option '--on'"),
    ],
)
def test_wrong_texts_name_the_flag(name: str, arguments: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        options_given(name, *arguments.replace("TARGET", f"{URI}/trips").split())


def test_the_query_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "query.sql").write_text("SELECT 1")
    target = f"{URI}/trips"
    _, options = options_given("transform", target, "--sql", f"@{tmp_path}/query.sql", "--input", "a=b")
    assert options.sql == "SELECT 1"


def test_numbers_below_their_minimum_are_refused_everywhere() -> None:
    with pytest.raises(InvalidInputError, match="target_rows: expected 1 or more, found 0"):
        JOBS["compact"].options(dataset="trips", target_rows=0)  # type: ignore[call-arg]


def test_a_new_job_needs_one_class_and_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of docs/development.md, in short."""
    monkeypatch.setattr("spark_pipeline.jobs.job.JOBS", {})

    @dataclass(frozen=True)
    class CountOptions(RunOptions):
        dataset: str = field(metadata=about("Name of the dataset."))
        where: str | None = field(default=None, kw_only=True, metadata=about("Condition in SQL of Spark."))

    @job_of(CountOptions)
    def count(spark: SparkSession, server: Server, options: CountOptions) -> Outcome:
        """Count the rows of a dataset."""
        return Outcome(options.dataset, details={"where": options.where})

    spark: Any = None
    assert count(spark, Server((URI,)), "trips", where="a").details == {"where": "a"}
    assert "    where: Condition in SQL of Spark." in (count.__doc__ or "")
    assert [option.name for option in fields(CountOptions) if is_required(option)] == ["dataset"]
