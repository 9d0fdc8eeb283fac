# %% [markdown]
# # From raw files to rows that everybody can query
#
# A shop has CSV and Parquet files. This script makes datasets on a server of them. DuckDB, Polars, pandas and
# plain Python query the datasets over the network. Readers and writers need `flight_client` only: no Lance
# library, no access to the storage.
#
# Run it as a script, `python docs/examples/raw_to_served.py`, or cell by cell in an editor that knows `# %%`.

# %% The raw files, and a server on an empty folder.
import duckdb
import polars as pl
import pyarrow.compute as pc
import pyarrow.parquet as pq
import shop

import flight_client

folder = shop.new_folder()
raw = folder / "raw"
shop.write_raw_files(raw)
print("raw files:", ", ".join(sorted(path.name for path in raw.iterdir())))

uri = shop.serve(folder / "served")  # elsewhere: lance-flight serve FOLDER
client = flight_client.connect(uri)
print(f"{client} is {client.health()['status']}")

# %% Write the products unchanged.
products = pq.read_table(raw / "products.parquet")
print(client.write("shop/products", products, "create"))


# %% Write the orders. DuckDB reads CSV and Parquet and nests the lines of each order. We add an embedding.
# Every month becomes a version.
def orders_of(month):
    """Return the orders of a month with their items, and one vector per order."""
    orders = duckdb.sql(f"""
        SELECT o.*, sum(i.quantity * i.price) AS total,
               list({{'sku': i.sku, 'quantity': i.quantity, 'price': i.price}} ORDER BY i.line) AS items
        FROM '{raw}/orders-{month}.csv' o JOIN '{raw}/items.parquet' i USING (order_id)
        GROUP BY ALL ORDER BY order_id
    """).to_arrow_table()
    return orders.append_column("embedding", shop.order_embeddings(orders["items"], products))


for month, mode in zip(shop.MONTHS, ("create", "append", "append"), strict=True):
    written = client.write("shop/orders", orders_of(month), mode)
    print(f"{month}: {written.rows} orders are version {written.version}")

# %% List the datasets of the server. A notebook shows a table.
print(client.datasets())
orders = client.dataset("shop/orders")
print(orders)

# %% Filters are SQL or Arrow expressions. By its statistics, the server skips fragments without matches.
scan = orders.scanner(["order_id", "customer", "total"], "order_id BETWEEN 5200 AND 5260 AND total > 700")
print(scan.to_table().to_pandas())
statistics = scan.statistics
print(f"left out: {statistics['fragments_pruned']} of {statistics['fragments_total']} fragments")

returned = pc.field("status") == "returned"
print(f"{orders.count_rows(returned)} of {orders.count_rows()} orders came back")

# %% The server computes columns. Nested fields have dots.
print(
    orders.to_table({"order": "order_id", "euros": "round(total, 0)"}, "country = 'JP'", limit=3).to_pylist()
)

# %% Take single rows by position, in one round trip. A lookup keeps a stream open for the next rows.
print(orders.take([5_990, 17], columns=["order_id", "customer"]).to_pylist())
with orders.lookup(["order_id", "total"]) as lookup:
    for keys in ([3, 1], [4000]):
        print(keys, lookup.take(keys)["total"].to_pylist())

# %% DuckDB requests only the columns and rows that a query needs.
print(
    duckdb.sql("""
        SELECT sku, sum(quantity) AS sold, avg((status = 'returned')::INT) AS returned
        FROM (SELECT status, unnest(items, recursive := true) FROM orders WHERE country = 'PT')
        GROUP BY ALL ORDER BY sold DESC, sku LIMIT 5
    """)
)

# %% Polars, lazily.
print(
    orders.to_polars()
    .filter(pl.col("placed_at") >= pl.datetime(2026, 3, 1))
    .group_by("country")
    .agg(pl.len(), pl.col("total").sum().round(2))
    .sort("country")
    .collect()
)

# %% Every change makes a version. Datasets that are open stay at their version.
fixed = client.update("shop/orders", {"country": "'DE'"}, "country = 'FR' AND order_id < 100")
print(f"version {fixed['version']} changed {fixed['rows']} rows")
now = client.dataset("shop/orders")
print("French orders:", orders.count_rows("country = 'FR'"), "then,", now.count_rows("country = 'FR'"), "now")

client.create_tag("shop/orders", "first-quarter")
january = client.dataset("shop/orders", 1)
tagged = client.dataset("shop/orders", "first-quarter")
print(f"version {tagged.version} is tagged; version {january.version} had {january.count_rows()} rows")
