"""The commands of `lance-flight pipeline`, also `python -m spark_pipeline` and a script for spark-submit.

Exit codes: 0 done, 1 failed or rows that differ, 2 wrong usage. Results go to stdout, everything else to
stderr.
"""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from typer.core import TyperGroup

from flight_client.terminal import printable
from spark_pipeline import session
from spark_pipeline.failures import FORESEEN, message_of
from spark_pipeline.job_commands import Connect, command_of, pairs
from spark_pipeline.jobs import Server
from spark_pipeline.jobs.job import JOBS, Job, JobOptions
from spark_pipeline.pipeline_file import Pipeline
from spark_pipeline.progress import shown_progress
from spark_pipeline.step_report import StepReport, table_of

stderr = Console(stderr=True, highlight=False)

_QUIET = {
    "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    # A Python worker prints a traceback if its Unix socket is closed before it is done. Jobs have few short
    # tasks.
    "spark.python.unix.domain.socket.enabled": "false",
}
"""Settings that silence Spark: the commands report in one line of their own."""


class _ErrorReportingGroup(TyperGroup):
    """Group of commands. Errors of Lance, Spark and the file system end a command with one line and exit code
    1.
    """

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except FORESEEN as error:
            stderr.print(f"error: {printable(message_of(error))}", markup=False, soft_wrap=True)
            raise typer.Exit(1) from None


app = typer.Typer(
    name="pipeline",
    cls=_ErrorReportingGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@dataclass(frozen=True)
class Settings:
    """Settings that all commands share."""

    master: str | None
    conf: Mapping[str, str]
    token_file: str | None
    tls_root_certs: str | None

    def session(self, name: str, conf: Mapping[str, str] | None = None) -> SparkSession:
        """Return the session of this process. Settings of the command line come before those in `conf`."""
        # pyspark logs each error, and the command prints it. The jobs do what pandas 3 needs.
        for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return session(f"lance-flight {name}", self.master, **(_QUIET | dict(conf or {}) | dict(self.conf)))


@app.callback()
def main(
    context: typer.Context,
    master: Annotated[
        str | None, typer.Option(help="Master of Spark: local[4], spark://host:7077, ...")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="A setting of Spark: name=value. Repeatable.")
    ] = None,
    token_file: Annotated[str | None, typer.Option(help="File with the token for the server.")] = None,
    tls_root_certs: Annotated[
        str | None, typer.Option(help="PEM file with certificates that servers are checked with.")
    ] = None,
) -> None:
    """Run jobs on Spark that read and write datasets of a server.

    A TARGET is grpc://host:port/name; several servers of the same folder: grpc://one:8815,two:8815/name.
    """
    context.obj = Settings(master, pairs(conf or (), "--conf"), token_file, tls_root_certs)


@app.command()
def run(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A pipeline in TOML.", exists=True, dir_okay=False)],
    run_id: Annotated[
        str | None,
        typer.Option(help="Name of the run; the same name continues it. Generated if not given."),
    ] = None,
    uri: Annotated[
        str | None, typer.Option(help="grpc://host:port, instead of the server in the file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run the steps of a pipeline file, except those that this run has done already."""
    settings: Settings = context.obj
    pipeline = Pipeline.read(file)
    address = uri or pipeline.uri
    if address is None:
        raise typer.BadParameter(f"{file} names no server, expected grpc://host:port", param_hint="--uri")
    server = Server.of(
        address,
        token_file=settings.token_file or pipeline.token_file,
        tls_root_certs=settings.tls_root_certs or pipeline.tls_root_certs,
    )
    run_id = run_id or uuid4().hex[:12]
    begun = f"run {run_id} of {pipeline.name}; to continue it: --run-id {run_id}"
    stderr.print(printable(begun), markup=False, soft_wrap=True)
    spark = settings.session(pipeline.name, pipeline.spark)
    reports: list[StepReport] = []
    try:
        with shown_progress(spark, stderr):
            for report in pipeline.run(spark, server, run_id):
                reports.append(report)
                stderr.print(report.as_line(), markup=False, soft_wrap=True)
    finally:
        spark.stop()
        if as_json:
            steps = [report.as_data() for report in reports]
            is_done = len(steps) == len(pipeline.steps) and all(report.is_good for report in reports)
            print(json.dumps({"run": run_id, "pipeline": pipeline.name, "done": is_done, "steps": steps}))
        elif reports:
            Console().print(table_of(reports))
    if not reports[-1].is_good:
        raise typer.Exit(1)


def _connect(context: typer.Context) -> Connect:
    settings: Settings = context.obj
    return partial(Server.of, token_file=settings.token_file, tls_root_certs=settings.tls_root_certs)


def _run_job(context: typer.Context, job: Job, server: Server, options: JobOptions, as_json: bool) -> None:
    """Run one job in a session of its own, and print its report."""
    spark = context.obj.session(job.name)
    start = time.monotonic()
    try:
        with shown_progress(spark, stderr):
            outcome = job.run(spark, server, options)
        report = StepReport(job.name, job.name, outcome, time.monotonic() - start)
    finally:
        spark.stop()
    print(json.dumps(report.as_data()) if as_json else report.as_line())
    if not report.is_good:
        raise typer.Exit(1)


for job in JOBS.values():
    app.command(job.name, help=job.help)(command_of(job, _connect, _run_job))


if __name__ == "__main__":
    app(prog_name="spark_pipeline")
