# %% [markdown]
# # Training on rows from a server
#
# Which orders come back? A logistic regression in plain numpy learns it from embeddings on the server. Every
# step requests the rows of a shuffled batch on one open stream. Other frameworks work in the same way.
#
# Run it as a script: `python docs/examples/training.py`.

# %% Write the data of the first example in one step.
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

# %% Train on the orders before March. Rows are in the order of time, so these are the first positions.
IN_MARCH = "placed_at >= timestamp '2026-03-01 00:00:00'"
num_training = orders.count_rows(f"NOT ({IN_MARCH})")
print(f"{num_training} orders to learn from, {orders.count_rows(IN_MARCH)} to be asked about")


# %% A batch as numpy arrays. The vectors of an Arrow array are one block of memory: no row is copied alone.
def as_numpy(rows):
    """Return features and labels of a table or batch of orders."""
    vectors = rows["embedding"]
    vectors = vectors.combine_chunks() if hasattr(vectors, "combine_chunks") else vectors
    features = vectors.flatten().to_numpy().reshape(len(rows), -1).astype(np.float64)
    return features, np.array(rows["status"].to_pylist()) == "returned"


def chance(features, weights):
    """Return the probability that each order comes back; the last weight is the bias."""
    return 1 / (1 + np.exp(-(features @ weights[:-1] + weights[-1])))


def loss(features, labels, weights):
    """Return the mean cross entropy."""
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

# %% Predict the orders of March from a stream. Memory is bounded for any number of rows.
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
