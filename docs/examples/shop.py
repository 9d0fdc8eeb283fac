"""The raw files of a shop, the same on every machine, and a server: all examples begin with them."""

from __future__ import annotations

import atexit
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

NUM_ORDERS = 6_000
NUM_PRODUCTS = 60
DIMENSIONS = 32
MONTHS = ("2026-01", "2026-02", "2026-03")
SEED = 7


def write_raw_files(folder: Path) -> None:
    """Write the raw files of the shop.

    - `orders-2026-01.csv` and so on: order_id, customer, country, placed_at, status; one file per month
    - `items.parquet`: order_id, line, sku, quantity, price; one to five lines per order
    - `products.parquet`: sku, category, title, embedding of the title

    Some products come back often. A model can learn from the embeddings which ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    products = _products(rng)
    pyarrow.parquet.write_table(products, folder / "products.parquet")

    lines = rng.integers(1, 6, NUM_ORDERS)
    order_of_line = np.repeat(np.arange(NUM_ORDERS), lines)
    product_of_line = rng.integers(0, NUM_PRODUCTS, len(order_of_line))
    quantity = rng.integers(1, 4, len(order_of_line))
    items = pa.table(
        {
            "order_id": order_of_line,
            "line": np.arange(len(order_of_line)) - np.repeat(np.cumsum(lines) - lines, lines) + 1,
            "sku": products["sku"].take(product_of_line),
            "quantity": quantity.astype(np.int32),
            "price": np.round(5 + 95 * rng.random(NUM_PRODUCTS), 2)[product_of_line],
        }
    )
    pyarrow.parquet.write_table(items, folder / "items.parquet")

    vectors = np.stack(products["embedding"].to_numpy(zero_copy_only=False))
    taste = _mean_of_rows(vectors[product_of_line], quantity, order_of_line) @ rng.normal(size=DIMENSIONS)
    comes_back = rng.random(NUM_ORDERS) < 1 / (1 + np.exp(0.8 - 3 * taste))
    days = np.datetime64("2026-01-01T00:00:00") + np.arange(NUM_ORDERS) * (90 * 86_400 // NUM_ORDERS)
    orders = pa.table(
        {
            "order_id": np.arange(NUM_ORDERS),
            "customer": [f"customer {number:04}" for number in rng.integers(0, 900, NUM_ORDERS)],
            "country": np.array(["DE", "FR", "PT", "SE", "JP"])[rng.integers(0, 5, NUM_ORDERS)],
            "placed_at": days + rng.integers(0, 600, NUM_ORDERS),
            "status": np.where(comes_back, "returned", "kept"),
        }
    )
    for month in MONTHS:
        of_month = orders.filter(pa.array(days.astype("datetime64[M]").astype(str) == month))
        pyarrow.csv.write_csv(of_month, folder / f"orders-{month}.csv")


def order_embeddings(items: pa.ListArray | pa.ChunkedArray, products: pa.Table) -> pa.FixedSizeListArray:
    """Return one vector per order: the mean of the vectors of its products, weighted by quantity.

    Args:
        items: for each order a list of structs with `sku` and `quantity`.
        products: with `sku` and `embedding`.
    """
    if isinstance(items, pa.ChunkedArray):
        items = items.combine_chunks()
    lines = items.flatten()
    position = pa.compute.index_in(lines.field("sku"), products["sku"].combine_chunks()).to_numpy()
    vectors = np.stack(products["embedding"].to_numpy(zero_copy_only=False))[position]
    order = items.value_parent_indices().to_numpy()
    means = _mean_of_rows(vectors, lines.field("quantity").to_numpy(), order)
    values = pa.array(means.astype(np.float32).ravel())
    return pa.FixedSizeListArray.from_arrays(values, means.shape[1])


def new_folder() -> Path:
    """Return an empty folder, which is removed when this program ends."""
    folder = tempfile.TemporaryDirectory(prefix="shop-", ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    return Path(folder.name)


def serve(folder: Path) -> str:
    """Start `lance-flight serve FOLDER` on a free port until this program ends; return its address."""
    folder.mkdir(parents=True, exist_ok=True)
    program = Path(sys.executable).with_name("lance-flight")
    server = subprocess.Popen(
        [program, "serve", folder, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    atexit.register(server.wait)
    atexit.register(server.terminate)
    assert server.stdout is not None
    uri = server.stdout.readline().strip()
    if not uri:
        raise SystemExit("the server did not start: try `lance-flight serve` by hand")
    return uri


def _products(rng: np.random.Generator) -> pa.Table:
    categories = np.array(["books", "garden", "kitchen", "music", "travel"])
    kind = rng.integers(0, len(categories), NUM_PRODUCTS)
    center = rng.normal(size=(len(categories), DIMENSIONS))
    vectors = center[kind] + rng.normal(size=(NUM_PRODUCTS, DIMENSIONS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    embedding = pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(np.float32).ravel()), DIMENSIONS)
    return pa.table(
        {
            "sku": [f"SKU-{number:03}" for number in range(NUM_PRODUCTS)],
            "category": categories[kind],
            "title": [f"{categories[each]} article {number}" for number, each in enumerate(kind)],
            "embedding": embedding,
        }
    )


def _mean_of_rows(vectors: np.ndarray, weight: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return the weighted mean of the rows of each group; groups are numbered from 0."""
    sums = np.zeros((group.max() + 1, vectors.shape[1]))
    np.add.at(sums, group, vectors * weight[:, None])
    return sums / np.bincount(group, weight)[:, None]
