"""Transform: write the result of SQL over datasets to another dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from spark_pipeline.data_source import read
from spark_pipeline.jobs.job import about, job
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.shared_options import ABOUT_MODE, RunOptions, WriteMode, WriteOptions
from spark_pipeline.jobs.source import Source
from spark_pipeline.jobs.write_rows import write_arranged


def _text_or_file(text: str) -> str:
    """Return the text, or the content of the file that `@FILE` names."""
    return Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text


@dataclass(frozen=True)
class TransformOptions(RunOptions, WriteOptions):
    """Options of `transform`."""

    dataset: str = field(metadata=about("Name of the written dataset, perhaps with a branch: `daily@dev`."))
    sql: str = field(metadata=about("Query in SQL of Spark.", parse=_text_or_file, unit="text or @FILE"))
    inputs: Mapping[str, str | Source] = field(
        metadata=about(
            "Datasets, perhaps with a version, or other sources, by the name of their view in the query.",
            flag="--input",
            unit="view=dataset",
        )
    )
    mode: WriteMode = field(default="create", kw_only=True, metadata=ABOUT_MODE)


@job(TransformOptions)
def transform(spark: SparkSession, server: Server, options: TransformOptions) -> Outcome:
    """Write the result of a query over datasets as one version of another dataset.

    The query reads each dataset at one version. Views of the session that have the names of inputs are
    replaced.

    Raises:
        InvalidInputError: the options contradict each other or the dataset.
        LanceError: the server reported an error.
        PySparkException: Spark cannot run the query.
    """
    try:
        for name, given in options.inputs.items():
            if isinstance(given, Source):
                frame = given.frame(spark, server)
            else:
                frame = read(spark, server.uris, given, **server.read_options)
            frame.createOrReplaceTempView(name)
        return write_arranged(
            server, options.dataset, spark.sql(options.sql), options, options.transaction_id
        )
    finally:
        for name in options.inputs:
            spark.catalog.dropTempView(name)
