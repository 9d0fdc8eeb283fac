"""The jobs of a pipeline: functions that read and write datasets of a server with Spark.

Each job writes everything as one version, or nothing. With a `transaction_id`, a job that runs again finds
its earlier result and does nothing. The imports below add the jobs to `spark_pipeline.jobs.job.JOBS`, in the
order of the command line.
"""

from spark_pipeline.jobs.backfill import backfill
from spark_pipeline.jobs.compact import compact
from spark_pipeline.jobs.deduplicate import deduplicate
from spark_pipeline.jobs.export import export
from spark_pipeline.jobs.index import index
from spark_pipeline.jobs.ingest import ingest
from spark_pipeline.jobs.merge import merge
from spark_pipeline.jobs.nearest_join import nearest_join
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.source import Source
from spark_pipeline.jobs.transform import transform
from spark_pipeline.jobs.verify import verify

__all__ = [
    "Outcome",
    "Server",
    "Source",
    "backfill",
    "compact",
    "deduplicate",
    "export",
    "index",
    "ingest",
    "merge",
    "nearest_join",
    "transform",
    "verify",
]
