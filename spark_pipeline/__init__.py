"""Lance datasets of a lance-flight server in PySpark: the data source `lance_flight`.

    import spark_pipeline

    spark = spark_pipeline.session("trips", master="local[4]")
    trips = spark_pipeline.read(spark, "grpc://127.0.0.1:8815", "trips", columns=["id", "fare"])

It needs `flight_client` on the driver and on the executors, neither Lance nor access to the storage.
"""

from spark_pipeline.data_source import LanceFlightDataSource, read, register
from spark_pipeline.data_source_options import Options
from spark_pipeline.session import session

__all__ = ["LanceFlightDataSource", "Options", "read", "register", "session"]
