"""`lance-flight pipeline`: jobs on Spark, another package that is imported when they are asked for."""

import typer

from flight_server.cli.errors import stderr

_NEEDED = {"pyspark": "spark", "py4j": "spark", "spark_pipeline": "spark"}
"""Modules that may be missing, and the extra that has them."""


pipeline = typer.Typer(add_completion=False)


# The jobs have commands and options of their own, `--help` included.
@pipeline.command(
    "pipeline",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def run_jobs(context: typer.Context) -> None:
    """Run jobs on Spark: ingest, transform, backfill, merge, export, ...; `pipeline --help` lists them."""
    try:
        from spark_pipeline.__main__ import app
    except ModuleNotFoundError as error:
        extra = _NEEDED.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        stderr.print(f"error: {error.name} is missing: pip install 'lance-flight[{extra}]'", markup=False)
        raise typer.Exit(1) from None
    app(context.args, prog_name="lance-flight pipeline")
