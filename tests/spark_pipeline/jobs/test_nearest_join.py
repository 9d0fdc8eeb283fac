"""Nearest rows with Spark: the option of the data source, and the job."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import spark_pipeline
from flight_client import Client, InvalidInputError
from spark_pipeline.jobs import Server, Source, nearest_join
from support.searches.nearest import expected_ids, lattice, vector_table

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_rows_are_joined_with_their_nearest_rows(
    spark: SparkSession, client: Client, uri: str, tmp_path: Path
) -> None:
    """The result of the job is that of a search for each row, and the option of the source that of one."""
    name = f"jobs/nearest-{uuid4().hex}"
    table = vector_table(lattice(500, 6))
    client.write(name, table, mode="create")
    queries = lattice(30, 6, seed=5)
    vectors: list[list[float] | None] = queries.tolist()
    vectors[7] = None
    asked = pa.table({"key": range(30), "q": pa.array(vectors, pa.list_(pa.float32()))})
    pq.write_table(asked, tmp_path / "queries.parquet")
    server = Server.of(uri)
    outcome = nearest_join(
        spark,
        server,
        f"{name}-pairs",
        Source(path=str(tmp_path / "queries.parquet")),
        searched=name,
        vector="q",
        k=4,
        filter="group < 5",
        found_columns=["id"],
    )
    assert outcome.rows == 29 * 4
    pairs = client.dataset(f"{name}-pairs").to_table().sort_by([("key", "ascending"), ("rank", "ascending")])
    assert pairs.column_names == ["key", "q", "rank", "distance", "nearest_id"]
    some = table.filter(pc.less(table["group"], 5))
    expected = [
        each
        for key, query in enumerate(queries)
        if key != 7
        for each in expected_ids(some, np.asarray(query), "l2", 4)
    ]
    assert pairs["nearest_id"].to_pylist() == expected
    nearest = json.dumps({"q": queries[0].tolist(), "k": 3})
    frame = spark_pipeline.read(spark, uri, name, columns=["id"], nearest=nearest)
    assert frame.columns == ["id", "_distance"]
    found = [row.id for row in frame.collect()]
    assert found == expected_ids(table, queries[0], "l2", 3)
    texts = table.append_column("text", pa.array(["red fox" if n % 3 else "fox" for n in range(500)]))
    client.write(f"{name}-texts", texts, mode="create")
    frame = spark_pipeline.read(
        spark,
        uri,
        f"{name}-texts",
        columns=["id"],
        nearest=json.dumps({"q": queries[0].tolist(), "k": 8}),
        fullTextQuery=json.dumps({"match": {"terms": "red", "column": "text"}}),
        hybrid='{"depth": 20}',
        filter="group < 5",
        prefilter=True,
    )
    found = client.dataset(f"{name}-texts").search(
        queries[0],
        k=8,
        columns=["id"],
        full_text_query={"match": {"terms": "red", "column": "text"}},
        hybrid={"depth": 20},
        filter="group < 5",
    )
    assert [tuple(row) for row in frame.collect()] == [tuple(row.values()) for row in found.to_pylist()]
    red = {"match": {"terms": "red", "column": "text"}}
    both = {"nearest": json.dumps({"q": queries[0].tolist(), "k": 8}), "fullTextQuery": json.dumps(red)}
    for search_filter, column in (("text", "_distance"), ("vector", "_score")):
        frame = spark_pipeline.read(
            spark, uri, f"{name}-texts", columns=["id"], searchFilter=search_filter, prefilter=True, **both
        )
        assert frame.columns == ["id", column]
        found = client.dataset(f"{name}-texts").search(
            queries[0], k=8, columns=["id"], full_text_query=red, search_filter=search_filter
        )
        assert found.num_rows
        rows = [tuple(row) for row in frame.collect()]
        assert rows == [tuple(row.values()) for row in found.to_pylist()]
    client.create_index(name, "v", "IVF_FLAT", parameters={"num_partitions": 1})
    client.write(name, table.slice(0, 50), mode="append")
    (index,) = client.describe(name)["indices"]
    (segment,) = index["segments"]
    frame = spark_pipeline.read(
        spark,
        uri,
        name,
        columns=["id"],
        nearest=json.dumps({"q": queries[0].tolist(), "k": 600}),
        indexSegments=segment["uuid"],
    )
    assert frame.count() == 500
    with pytest.raises(InvalidInputError, match="vector: expected a column with lists"):
        nearest_join(
            spark,
            server,
            f"{name}-none",
            Source(path=str(tmp_path / "queries.parquet")),
            searched=name,
            vector="key",
        )
