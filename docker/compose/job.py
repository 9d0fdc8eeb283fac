"""A job of Spark: count the rows of a dataset by region, and write the counts as another dataset.

`job.py URI DATASET`. The variables `LANCE_FLIGHT_TOKEN_FILE` and `LANCE_FLIGHT_TLS_ROOT_CERTS` name the token
and the certificate of the server.
"""

import os
import sys

import spark_pipeline

uri, dataset = sys.argv[1:]
options = {"uri": uri}
for name, variable in (("tokenFile", "TOKEN_FILE"), ("tlsRootCerts", "TLS_ROOT_CERTS")):
    if path := os.environ.get(f"LANCE_FLIGHT_{variable}"):
        options[name] = path

spark = spark_pipeline.session("regions", "local[2]", **{"spark.ui.enabled": "false"})
zones = spark.read.format("lance_flight").options(**options, table=dataset).load()
counts = zones.groupBy("region").count()
to = {"table": f"{dataset}_by_region", "create": "true"}
counts.write.format("lance_flight").options(**options, **to).mode("overwrite").save()
counts.orderBy("region").show()
spark.stop()
