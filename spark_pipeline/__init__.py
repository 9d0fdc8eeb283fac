"""Data source `lance_flight` for PySpark: Lance datasets of a lance-flight server.

    import spark_pipeline

    spark = spark_pipeline.session("trips", master="local[4]")
    trips = spark_pipeline.read(spark, "grpc://127.0.0.1:8815", "trips", columns=["id", "fare"])

Driver and executors need `flight_client`, but neither Lance nor access to the storage.
"""

from spark_pipeline.data_source import LanceFlightDataSource, read, register
from spark_pipeline.data_source_options import Options
from spark_pipeline.session import session

__all__ = ["LanceFlightDataSource", "Options", "read", "register", "session"]
