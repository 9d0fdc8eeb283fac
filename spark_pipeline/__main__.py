"""The commands of `lance-flight pipeline`, also `python -m spark_pipeline` and a script for spark-submit.

Exit codes: 0 done, 1 failed or rows that differ, 2 wrong usage. Results go to stdout, everything else to
stderr.
"""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from uuid import uuid4

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from flight_client.terminal import count, printable
from spark_pipeline import jobs, session
from spark_pipeline.failures import FORESEEN, message_of
from spark_pipeline.jobs import Outcome, Server, Source
from spark_pipeline.options import parse_columns
from spark_pipeline.pipeline_file import Pipeline, StepReport
from spark_pipeline.progress import shown_progress

stderr = Console(stderr=True, highlight=False)

_QUIET = {
    "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    # Workers whose Unix socket is closed before they are done print tracebacks; jobs have few short tasks.
    "spark.python.unix.domain.socket.enabled": "false",
}
"""Settings that silence Spark: the commands report in one line of their own."""

_MOST_SHOWN = 80
"""Characters of a detail in that line."""


class _ErrorReportingGroup(TyperGroup):
    """Runs a command; errors of Lance, Spark and the file system end it with one line and exit code 1."""

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
        """Return the session of this process; settings of the command line win."""
        # What pyspark logs of each error is said in one line, and pandas 3 does what is needed of it here.
        for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return session(f"lance-flight {name}", self.master, **(_QUIET | dict(conf or {}) | dict(self.conf)))


@app.callback()
def main(
    context: typer.Context,
    master: Annotated[str | None, typer.Option(help="Of Spark: local[4], spark://host:7077, ...")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="A setting of Spark: name=value.")] = None,
    token_file: Annotated[str | None, typer.Option(help="Holds the token for the server.")] = None,
    tls_root_certs: Annotated[str | None, typer.Option(help="PEM file to check servers with.")] = None,
) -> None:
    """Jobs on Spark that read and write datasets of a server.

    A TARGET is grpc://host:port/name; several servers of the same folder: grpc://one:8815,two:8815/name.
    """
    context.obj = Settings(master, _pairs(conf, "--conf"), token_file, tls_root_certs)


AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Target = Annotated[str, typer.Argument(help="grpc://host:port/name")]
Sources = Annotated[
    list[str] | None,
    typer.Argument(help="Files, folders or globs, or one grpc://host:port/name of the same server."),
]
Format = Annotated[str | None, typer.Option(help="As in spark.read.format; else what the ending says.")]
SourceOptions = Annotated[list[str] | None, typer.Option("--option", help="Of the format: name=value.")]
Schema = Annotated[str | None, typer.Option(help="Columns and types of the files: 'id BIGINT, name STRING'.")]


def _columns(text: str) -> tuple[str, ...] | dict[str, str]:
    try:
        return parse_columns(text)
    except ValueError:
        raise typer.BadParameter(
            f"names with commas, or SQL by name in JSON expected, found {text!r}", param_hint="--columns"
        ) from None


Columns = Annotated[
    Any,
    typer.Option(
        parser=_columns, metavar="<str>", help="Names with commas, or JSON: SQL of Spark by the new name."
    ),
]
Where = Annotated[str | None, typer.Option(help="Only rows for which this SQL of Spark is true.")]
SortBy = Annotated[
    list[str] | None, typer.Option(help="Column, perhaps with ' DESC': the order of the rows. Repeatable.")
]
Partitions = Annotated[int | None, typer.Option(min=1, help="Parts that are written at the same time.")]
PartitionRows = Annotated[int | None, typer.Option(min=1, help="Rows of a part, instead of their number.")]
Vectors = Annotated[list[str] | None, typer.Option("--vector", help="List column and its size: name=128.")]
MaxRows = Annotated[int | None, typer.Option("--max-rows-per-file", min=1, help="When a new file begins.")]
StorageVersion = Annotated[str | None, typer.Option("--storage-version", help="2.0, 2.1, 2.2 or stable.")]
StableRowIds = Annotated[bool | None, typer.Option(help="Of a new dataset.")]
Mode = Annotated[
    Literal["create", "append", "overwrite"], typer.Option(help="What becomes of rows that are there.")
]
TransactionId = Annotated[
    str | None, typer.Option(help="A UUID: the same one makes its version once, however often it is run.")
]


@app.command()
def run(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A pipeline in TOML.", exists=True, dir_okay=False)],
    run_id: Annotated[
        str | None, typer.Option(help="Names the run; the same again continues it. Made up if not given.")
    ] = None,
    uri: Annotated[str | None, typer.Option(help="grpc://host:port instead of that of the file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the steps of a pipeline file, leaving out those that this run has done already."""
    settings: Settings = context.obj
    pipeline = Pipeline.read(file)
    where = uri or pipeline.uri
    if where is None:
        raise typer.BadParameter(f"{file} names no server", param_hint="--uri")
    server = Server.of(
        where,
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
                stderr.print(_line(report.name, report.outcome, report.seconds), markup=False, soft_wrap=True)
    finally:
        spark.stop()
        if as_json:
            steps = [report.as_data() for report in reports]
            is_done = len(steps) == len(pipeline.steps) and all(report.is_good for report in reports)
            print(json.dumps({"run": run_id, "pipeline": pipeline.name, "done": is_done, "steps": steps}))
        elif reports:
            Console().print(_summary(reports))
    if not reports[-1].is_good:
        raise typer.Exit(1)


@app.command()
def ingest(
    context: typer.Context,
    sources: Sources,
    target: Target,
    format: Format = None,
    option: SourceOptions = None,
    schema: Schema = None,
    columns: Columns = None,
    where: Where = None,
    mode: Mode = "append",
    sort_by: SortBy = None,
    partitions: Partitions = None,
    partition_rows: PartitionRows = None,
    vector: Vectors = None,
    max_rows_per_file: MaxRows = None,
    storage_version: StorageVersion = None,
    stable_row_ids: StableRowIds = None,
    transaction_id: TransactionId = None,
    as_json: AsJson = False,
) -> None:
    """Write rows of files, databases or any source of Spark as one version."""
    server, dataset = _target(context.obj, target)
    source = _source(sources, server, format, option, schema)

    def job(spark: SparkSession) -> Outcome:
        return jobs.ingest(
            spark,
            server,
            dataset,
            source,
            mode=mode,
            columns=columns,
            where=where,
            sort_by=sort_by or (),
            partitions=partitions,
            partition_rows=partition_rows,
            vectors=_sizes(vector),
            max_rows_per_file=max_rows_per_file,
            data_storage_version=storage_version,
            enable_stable_row_ids=stable_row_ids,
            transaction_id=transaction_id,
        )

    _run(context.obj, "ingest", job, as_json)


@app.command()
def transform(
    context: typer.Context,
    target: Target,
    sql: Annotated[str, typer.Option(help="A query in Spark's SQL, or @FILE.")],
    input: Annotated[list[str], typer.Option(help="View and dataset: trips=trips@12. Repeatable.")],
    mode: Mode = "create",
    sort_by: SortBy = None,
    partitions: Partitions = None,
    partition_rows: PartitionRows = None,
    vector: Vectors = None,
    max_rows_per_file: MaxRows = None,
    storage_version: StorageVersion = None,
    stable_row_ids: StableRowIds = None,
    transaction_id: TransactionId = None,
    as_json: AsJson = False,
) -> None:
    """Write the result of a query over datasets as one version of another."""
    server, dataset = _target(context.obj, target)
    inputs = _pairs(input, "--input")
    query = Path(sql[1:]).read_text(encoding="utf-8") if sql.startswith("@") else sql

    def job(spark: SparkSession) -> Outcome:
        return jobs.transform(
            spark,
            server,
            dataset,
            query,
            inputs,
            mode=mode,
            sort_by=sort_by or (),
            partitions=partitions,
            partition_rows=partition_rows,
            vectors=_sizes(vector),
            max_rows_per_file=max_rows_per_file,
            data_storage_version=storage_version,
            enable_stable_row_ids=stable_row_ids,
            transaction_id=transaction_id,
        )

    _run(context.obj, "transform", job, as_json)


@app.command()
def backfill(
    context: typer.Context,
    target: Target,
    column: Annotated[
        list[str] | None, typer.Option(help="New column and SQL of Spark: net='fare - tip'. Repeatable.")
    ] = None,
    function: Annotated[
        str | None, typer.Option(help="module:name, from a batch of the inputs to one of the new columns.")
    ] = None,
    schema: Annotated[str | None, typer.Option(help="Columns that the function makes: 'net DOUBLE'.")] = None,
    inputs: Annotated[str | None, typer.Option(help="Columns that are read, with commas.")] = None,
    vector: Vectors = None,
    transaction_id: TransactionId = None,
    as_json: AsJson = False,
) -> None:
    """Add columns that executors compute, fragment by fragment; other files stay."""
    server, dataset = _target(context.obj, target)
    if (column is None) == (function is None) or (function is None) != (schema is None):
        raise typer.BadParameter("either --column, or --function and --schema")

    def job(spark: SparkSession) -> Outcome:
        return jobs.backfill(
            spark,
            server,
            dataset,
            _pairs(column, "--column") if column else None,
            function=function,
            schema=schema,
            inputs=inputs.split(",") if inputs else None,
            vectors=_sizes(vector),
            transaction_id=transaction_id,
        )

    _run(context.obj, "backfill", job, as_json)


@app.command()
def compact(
    context: typer.Context,
    target: Target,
    target_rows: Annotated[
        int | None, typer.Option(min=1, help="Fragments with fewer rows are joined with their neighbours.")
    ] = None,
    transaction_id: TransactionId = None,
    as_json: AsJson = False,
) -> None:
    """Join small fragments and leave out deleted rows; executors ask the servers to."""
    server, dataset = _target(context.obj, target)
    _run(
        context.obj,
        "compact",
        lambda spark: jobs.compact(
            spark, server, dataset, target_rows=target_rows, transaction_id=transaction_id
        ),
        as_json,
    )


@app.command()
def merge(
    context: typer.Context,
    sources: Sources,
    target: Target,
    on: Annotated[list[str], typer.Option(help="Column whose values make rows match. Repeatable.")],
    format: Format = None,
    option: SourceOptions = None,
    schema: Schema = None,
    columns: Columns = None,
    where: Where = None,
    keep_by: Annotated[
        list[str] | None,
        typer.Option(help="Of source rows with the same key the first in this order counts. Repeatable."),
    ] = None,
    when_matched: Annotated[
        Literal["update_all", "do_nothing", "fail", "delete"], typer.Option(help="Rows that are in both.")
    ] = "update_all",
    when_not_matched: Annotated[
        Literal["insert_all", "do_nothing"], typer.Option(help="Rows that only the source has.")
    ] = "insert_all",
    when_not_matched_by_source: Annotated[
        Literal["keep", "delete"], typer.Option(help="Rows that only the dataset has.")
    ] = "keep",
    transaction_id: TransactionId = None,
    as_json: AsJson = False,
) -> None:
    """Update, insert or delete rows by their keys, as one version."""
    server, dataset = _target(context.obj, target)
    source = _source(sources, server, format, option, schema)

    def job(spark: SparkSession) -> Outcome:
        return jobs.merge(
            spark,
            server,
            dataset,
            source,
            on=on,
            columns=columns,
            where=where,
            keep_by=keep_by or (),
            when_matched=when_matched,
            when_not_matched=when_not_matched,
            when_not_matched_by_source=when_not_matched_by_source,
            transaction_id=transaction_id,
        )

    _run(context.obj, "merge", job, as_json)


@app.command()
def deduplicate(
    context: typer.Context,
    target: Target,
    key: Annotated[list[str], typer.Option(help="Column that makes rows the same. Repeatable.")],
    keep_by: Annotated[
        list[str] | None, typer.Option(help="The first row in this order stays. Repeatable.")
    ] = None,
    transaction_id: TransactionId = None,
    as_json: AsJson = False,
) -> None:
    """Delete all rows but one of each key."""
    server, dataset = _target(context.obj, target)
    _run(
        context.obj,
        "deduplicate",
        lambda spark: jobs.deduplicate(
            spark, server, dataset, keys=key, keep_by=keep_by or (), transaction_id=transaction_id
        ),
        as_json,
    )


@app.command()
def export(
    context: typer.Context,
    target: Target,
    path: Annotated[str, typer.Argument(help="The folder that is made.")],
    format: Annotated[str, typer.Option(help="parquet, orc, csv, json, ...")] = "parquet",
    option: SourceOptions = None,
    columns: Columns = None,
    where: Where = None,
    filter: Annotated[str | None, typer.Option(help="A condition that the server evaluates.")] = None,
    partition_by: Annotated[
        list[str] | None, typer.Option(help="Column that becomes folders. Repeatable.")
    ] = None,
    sort_by: SortBy = None,
    partitions: Partitions = None,
    mode: Annotated[
        Literal["error", "overwrite"], typer.Option(help="What becomes of a folder that is there.")
    ] = "error",
    transaction_id: TransactionId = None,
    as_json: AsJson = False,
) -> None:
    """Write the rows of one version to a folder of files."""
    server, dataset = _target(context.obj, target)

    def job(spark: SparkSession) -> Outcome:
        return jobs.export(
            spark,
            server,
            dataset,
            path,
            format=format,
            options=_pairs(option, "--option"),
            columns=columns,
            where=where,
            filter=filter,
            partition_by=partition_by or (),
            sort_by=sort_by or (),
            partitions=partitions,
            mode=mode,
            transaction_id=transaction_id,
        )

    _run(context.obj, "export", job, as_json)


@app.command()
def verify(
    context: typer.Context,
    sources: Sources,
    target: Target,
    format: Format = None,
    option: SourceOptions = None,
    schema: Schema = None,
    columns: Columns = None,
    where: Where = None,
    key: Annotated[list[str] | None, typer.Option(help="Column that names a row. Repeatable.")] = None,
    buckets: Annotated[int, typer.Option(min=1, help="Parts that have a checksum each.")] = 256,
    as_json: AsJson = False,
) -> None:
    """Compare the rows of a dataset with those of a source; exit code 1 where they differ."""
    server, dataset = _target(context.obj, target)
    source = _source(sources, server, format, option, schema)

    def job(spark: SparkSession) -> Outcome:
        return jobs.verify(
            spark,
            server,
            dataset,
            source,
            columns=columns,
            where=where,
            keys=key or (),
            buckets=buckets,
        )

    _run(context.obj, "verify", job, as_json)


def _run(settings: Settings, name: str, job: Callable[[SparkSession], Outcome], as_json: bool) -> None:
    """Run one job in a session of its own and print what it did."""
    spark = settings.session(name)
    start = time.monotonic()
    try:
        with shown_progress(spark, stderr):
            report = StepReport(name, name, job(spark), time.monotonic() - start)
    finally:
        spark.stop()
    print(json.dumps(report.as_data()) if as_json else _line(name, report.outcome, report.seconds))
    if not report.is_good:
        raise typer.Exit(1)


def _target(settings: Settings, text: str) -> tuple[Server, str]:
    parts = urlsplit(text)
    name = parts.path.strip("/")
    if not parts.scheme.startswith("grpc") or not parts.netloc or not name:
        raise typer.BadParameter(f"not a target: {text} (grpc://host:port/name)")
    uris = ",".join(f"{parts.scheme}://{address}" for address in parts.netloc.split(","))
    files = {"token_file": settings.token_file, "tls_root_certs": settings.tls_root_certs}
    return Server.of(uris, **files), name


def _source(
    sources: list[str] | None,
    server: Server,
    format: str | None,
    options: list[str] | None,
    schema: str | None,
) -> Source:
    if sources and sources[0].startswith("grpc"):
        if len(sources) > 1:
            raise typer.BadParameter("one dataset, or files")
        other, name = _target(Settings(None, {}, None, None), sources[0])
        if other.uris != server.uris:
            raise typer.BadParameter("source and target have to be on the same server")
        return Source(dataset=name)
    return Source(path=sources or (), format=format, options=_pairs(options, "--option"), schema=schema)


def _pairs(given: Iterable[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"expected name=value, found {text!r}", param_hint=option)
        pairs[name] = value
    return pairs


def _sizes(given: list[str] | None) -> dict[str, int]:
    try:
        return {name: int(size) for name, size in _pairs(given, "--vector").items()}
    except ValueError:
        raise typer.BadParameter("expected name=128", param_hint="--vector") from None


def _line(name: str, outcome: Outcome, seconds: float) -> str:
    """One line for people."""
    parts = [outcome.target if outcome.version is None else f"{outcome.target} version {outcome.version}"]
    if outcome.was_done:
        parts.append("done before")
    parts += [count(outcome.rows, "row")] * bool(outcome.rows)
    parts += [count(outcome.bytes, "byte")] * (outcome.bytes > 0)
    parts += [count(outcome.fragments, "new fragment")] * bool(outcome.fragments)
    parts += [
        f"{key} {_short(value)}"
        for key, value in outcome.details.items()
        if value is False or value not in ([], {}, 0)
    ]
    return printable(f"{name}: {', '.join(parts)}; {seconds:.1f} s")


def _short(value: Any) -> str:
    """Return a detail, without the end of a long list; `--json` has all of it."""
    text = str(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _summary(reports: Iterable[StepReport]) -> Table:
    table = Table("step", "job", "target", "version", "rows", "bytes", "seconds", "")
    for report in reports:
        outcome = report.outcome
        state = "done before" if outcome.was_done else "done" if report.is_good else "differs"
        version = "" if outcome.version is None else str(outcome.version)
        numbers = (f"{outcome.rows:,}", f"{outcome.bytes:,}", f"{report.seconds:.1f}")
        cells = (report.name, report.job, outcome.target, version, *numbers, state)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


if __name__ == "__main__":
    app(prog_name="spark_pipeline")
