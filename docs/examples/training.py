# %% [markdown]
# # Training on rows that a server gives
#
# Which orders come back? A logistic regression in plain numpy learns it from embeddings that stay on the
# server: every step asks for the rows of a shuffled batch, on one open stream. Any other framework would do
# the same.
#
# Run it as a script: `python docs/examples/training.py`.

# %% The data of the first example, written at once.
import duckdb
import numpy as np
import pyarrow.parquet as pq
import shop

import flight_client

folder = shop.new_folder()
raw = folder / "raw"
shop.write_raw_files(raw)
orders = duckdb.sql(f"""
    SELECT o.order_id, o.placed_at, o.status,
           list({{'sku': i.sku, 'quantity': i.quantity}} ORDER BY i.line) AS items
    FROM '{raw}/orders-*.csv' o JOIN '{raw}/items.parquet' i USING (order_id)
    GROUP BY ALL ORDER BY order_id
""").to_arrow_table()
embeddings = shop.order_embeddings(orders["items"], pq.read_table(raw / "products.parquet"))

client = flight_client.connect(shop.serve(folder / "served"))
client.write("shop/orders", orders.append_column("embedding", embeddings), "create")
orders = client.dataset("shop/orders")
print(orders)

# %% Train on what was ordered before March. Rows lie in the order of time, so these are the first positions.
IN_MARCH = "placed_at >= timestamp '2026-03-01 00:00:00'"
num_training = orders.count_rows(f"NOT ({IN_MARCH})")
print(f"{num_training} orders to learn from, {orders.count_rows(IN_MARCH)} to be asked about")


# %% What a batch is to numpy. Vectors of Arrow are one block of memory: nothing is copied row by row.
def as_numpy(rows):
    """Features and labels of a table or batch of orders."""
    vectors = rows["embedding"]
    vectors = vectors.combine_chunks() if hasattr(vectors, "combine_chunks") else vectors
    features = vectors.flatten().to_numpy().reshape(len(rows), -1).astype(np.float64)
    return features, np.array(rows["status"].to_pylist()) == "returned"


def chance(features, weights):
    """How likely it is that orders come back; the last weight stands alone."""
    return 1 / (1 + np.exp(-(features @ weights[:-1] + weights[-1])))


def loss(features, labels, weights):
    """Mean cross entropy."""
    p = chance(features, weights)
    return -np.log(np.where(labels, p, 1 - p)).mean()


# %% The loop. A lookup is one stream: positions go out, rows come back in that order.
BATCH = 256
EPOCHS = 8
rng = np.random.default_rng(1)
weights = np.zeros(shop.DIMENSIONS + 1)
losses = []
with orders.lookup(["embedding", "status"]) as lookup:
    for epoch in range(EPOCHS):
        shuffled = rng.permutation(num_training)
        seen = []
        for first in range(0, num_training, BATCH):
            features, labels = as_numpy(lookup.take(shuffled[first : first + BATCH]))
            seen.append(loss(features, labels, weights))
            error = chance(features, weights) - labels
            gradient = np.append(features.T @ error, error.sum()) / len(labels)
            weights -= 5 * gradient
        losses.append(float(np.mean(seen)))
        print(f"epoch {epoch + 1}: loss {losses[-1]:.3f}")
assert losses[-1] < losses[0], "nothing was learned"

# %% The answer for March, streamed: batches come in bounded memory, however many rows there are.
right = returned = count = 0
for batch in orders.to_batches(["embedding", "status"], IN_MARCH):
    features, labels = as_numpy(batch)
    right += int(((chance(features, weights) > 0.5) == labels).sum())
    returned += int(labels.sum())
    count += len(labels)
print(
    f"March: {right / count:.0%} of {count} orders foretold; always guessing the same gives "
    f"{max(returned, count - returned) / count:.0%}"
)
assert right > max(returned, count - returned)
