# %% [markdown]
# # The same shop on Spark
#
# For data that is too large for one machine: executors read and write in parallel, and the driver commits
# once. Every job makes one version, or none. Here Spark runs on this machine; on a cluster only the address
# changes.
#
# Run it as a script: `python docs/examples/shop_on_spark.py`. It needs `pip install 'lance-flight[spark]'`.

# %% Raw files, a server, a session.
import pyarrow as pa
import pyarrow.parquet as pq
import shop

import spark_pipeline
from spark_pipeline import jobs

folder = shop.new_folder()
raw = folder / "raw"
shop.write_raw_files(raw)
uri = shop.serve(folder / "served")
server = jobs.Server.of(uri)
client = server.client()

settings = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
}
spark = spark_pipeline.session("shop", "local[2]", **settings)
spark.sparkContext.addPyFile(shop.__file__)  # executors compute embeddings with it

# %% Ingest: CSV has text only, so every column gets its type. Rows are sorted: filters on time skip pages.
COLUMNS = {
    "order_id": "CAST(order_id AS BIGINT)",
    "customer": "customer",
    "country": "country",
    "placed_at": "CAST(placed_at AS TIMESTAMP_NTZ)",
    "status": "status",
}


def delivery(*months):
    """Return the files of some months as a source."""
    paths = [str(raw / f"orders-{month}.csv") for month in months]
    return jobs.Source(path=paths, options={"header": "true"})


made = jobs.ingest(
    spark,
    server,
    "raw/orders",
    delivery("2026-01", "2026-02"),
    mode="create",
    columns=COLUMNS,
    sort_by=["placed_at"],
)
print(f"ingested {made.rows} orders of January and February")

# %% Transform: SQL over files and datasets. Lines are nested below their orders.
NESTED = """
    SELECT o.order_id, first(o.customer) AS customer, first(o.country) AS country,
           first(o.placed_at) AS placed_at, first(o.status) AS status, sum(i.quantity * i.price) AS total,
           array_sort(collect_list(struct(i.line, i.sku, i.quantity, i.price))) AS items
    FROM orders o JOIN lines i ON o.order_id = i.order_id GROUP BY o.order_id
"""
lines = jobs.Source(path=str(raw / "items.parquet"))
made = jobs.transform(
    spark,
    server,
    "shop/orders",
    NESTED,
    {"orders": "raw/orders", "lines": lines},
    sort_by=["order_id"],
    partitions=2,
)
print(f"nested {made.rows} orders in {made.fragments} fragments")

# %% Backfill: executors compute a new column. Existing files are not written again.
products = pq.read_table(raw / "products.parquet")


def embed(batch):
    """Return the embeddings of a batch of orders."""
    return pa.record_batch({"embedding": shop.order_embeddings(batch["items"], products)})


def backfill(dataset):
    """Compute embeddings for all orders of a dataset."""
    return jobs.backfill(
        spark,
        server,
        dataset,
        function=embed,
        inputs=["items"],
        schema="embedding ARRAY<FLOAT>",
        vectors={"embedding": shop.DIMENSIONS},
    )


made = backfill("shop/orders")
print(f"{made.rows} embeddings are version {made.version}")

# %% Merge: the next delivery repeats some days. Known orders are updated, new ones inserted, in one version.
jobs.ingest(
    spark,
    server,
    "raw/delivery",
    delivery("2026-02", "2026-03"),
    mode="create",
    columns=COLUMNS,
    where="placed_at >= '2026-02-27'",
)
jobs.transform(spark, server, "shop/delivery", NESTED, {"orders": "raw/delivery", "lines": lines})
backfill("shop/delivery")
before = client.dataset("shop/orders")
made = jobs.merge(spark, server, "shop/orders", jobs.Source(dataset="shop/delivery"), on=["order_id"])
after = client.dataset("shop/orders")
print(f"merged {made.rows} orders: {before.count_rows()} became {after.count_rows()}")

# %% Compact: executors ask the server to join small fragments.
made = jobs.compact(spark, server, "shop/orders", target_rows=100_000)
print(f"{len(client.fragments('shop/orders', version=after.version))} fragments became", end=" ")
print(len(client.fragments("shop/orders")))

# %% Verify that these are the orders of all files. Checksums of buckets do not depend on the order of rows.
verified = jobs.verify(
    spark, server, "shop/orders", delivery(*shop.MONTHS), columns=COLUMNS, keys=["order_id"]
)
print(f"{verified.rows} orders, the same as in the files: {verified.details['is_equal']}")
assert verified.details["is_equal"]

# %% Read: only these columns and rows leave the server.
late = spark_pipeline.read(
    spark,
    uri,
    "shop/orders",
    columns=["country", "total"],
    filter="placed_at >= timestamp '2026-03-25 00:00:00'",
)
late.groupBy("country").avg("total").orderBy("country").show()

# %% Other clients see the same rows.
orders = client.dataset("shop/orders")
print(orders)
print(orders.take([5_990], columns=["order_id", "embedding"]).slice(0, 1).to_pylist()[0]["embedding"][:3])
spark.stop()
