"""Indices of the reference over the wire: listed, dropped, and kept by compactions."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import numpy as np
import pyarrow as pa
import pytest

import flight_client
import lance_core
from flight_client import Client
from support.clients.command_line import run_verb as run
from support.processes.forked import ForkedProcess
from support.processes.waiting import wait_until
from support.searches.nearest import vector_table
from support.servers.server import RunningServer, serving


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("indices")


@pytest.fixture(scope="module")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(root, tmp_path_factory.mktemp("log") / "server.log") as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    with flight_client.connect(server.uri) as client:
        yield client


@pytest.fixture
def name(root: Path, request: pytest.FixtureRequest) -> str:
    """Return the name of a dataset with the indices `n_idx` (B-tree) and `m_idx` (zone map)."""
    name = "".join(letter for letter in request.node.name if letter.isalnum())
    table = pa.table({"n": range(40), "m": range(40)})
    dataset = lance.write_dataset(table, str(root / f"{name}.lance"), max_rows_per_file=10)
    dataset.create_scalar_index("n", "BTREE")
    dataset.create_scalar_index("m", "ZONEMAP")
    return name


LOST = {"index": "m_idx", "index_type": "ZoneMap", "num_rows": 40}


COVERAGE = [
    {"index": "m_idx", "index_type": "ZoneMap", "num_rows_before": 40, "num_rows_after": 0},
    {"index": "n_idx", "index_type": "BTree", "num_rows_before": 40, "num_rows_after": 40},
]


def _without_ids(lost: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{key: each[key] for key in each if key != "fragment_ids"} for each in lost]


def test_list_and_drop(client: Client, name: str) -> None:
    found = {index["name"]: (index["type"], index["fields"], index["rows"]) for index in client.indices(name)}
    assert found == {"n_idx": ("BTree", ["n"], 40), "m_idx": ("ZoneMap", ["m"], 40)}
    assert client.drop_index(name, "n_idx") == 4
    assert [index["name"] for index in client.indices(name)] == ["m_idx"]
    assert len(client.indices(name, version=3)) == 2
    with pytest.raises(flight_client.IndexNotFoundError, match=r"index not found.*m_idx"):
        client.drop_index(name, "n_idx")


def test_compactions_tell_what_indices_lose(client: Client, name: str) -> None:
    done = client.compact(name)
    assert _without_ids(done["lost_coverage"]) == [LOST]
    assert done["index_coverage"] == COVERAGE
    assert {index["name"]: index["rows"] for index in client.indices(name)} == {"n_idx": 40, "m_idx": 0}


def test_staged_compactions_tell_it_too(client: Client, name: str, root: Path) -> None:
    receipts = [client.compact_execute(name, task) for task in client.compact_plan(name)]
    done = client.compact_commit(name, receipts)
    assert _without_ids(done["lost_coverage"]) == [LOST]
    assert done["index_coverage"] == COVERAGE
    dataset = lance.dataset(str(root / f"{name}.lance"))
    assert "ScalarIndexQuery" in dataset.scanner(filter="n = 7").explain_plan()
    assert dataset.to_table(filter="n = 7")["m"].to_pylist() == [7]


@pytest.mark.parametrize("is_staged", [False, True])
def test_deferred_compactions(client: Client, name: str, root: Path, is_staged: bool) -> None:
    """Index files stay as they are, at once and in steps, until the indices are optimized."""
    before = {index["name"] for index in client.indices(name)}
    options = {"defer_index_remap": True}
    if is_staged:
        receipts = [client.compact_execute(name, task) for task in client.compact_plan(name, options)]
        done = client.compact_commit(name, receipts)
    else:
        done = client.compact(name, options)
    assert done["index_coverage"] == COVERAGE
    path = str(root / f"{name}.lance")
    assert "__lance_frag_reuse" in {index.name for index in lance.dataset(path).describe_indices()}
    assert client.dataset(name).to_table(filter="n = 7")["m"].to_pylist() == [7]
    client.optimize_indices(name)
    assert {index["name"] for index in client.indices(name)} == before
    assert lance.dataset(path).to_table(filter="n = 7")["m"].to_pylist() == [7]


def test_build_and_extend(client: Client, name: str, root: Path) -> None:
    assert client.create_index(name, "n", "BITMAP", index="mine", parameters={}) == 4
    client.write(name, pa.table({"n": [40], "m": [40]}))
    facts = client.index_statistics(name, "mine")
    assert facts["segments"] == [{"num_bitmaps": 40}]
    assert (facts["num_indexed_rows"], facts["num_unindexed_rows"]) == (40, 1)
    assert client.optimize_indices(name, index_names=["mine"]) == 6
    assert client.index_statistics(name, "mine")["num_unindexed_rows"] == 0
    client.prewarm_index(name, "mine")
    with pytest.raises(flight_client.IndexNotFoundError, match="absent"):
        client.index_statistics(name, "absent")
    with pytest.raises(flight_client.InvalidInputError, match="already exists"):
        client.create_index(name, "m", "BTREE", index="m_idx", replace=False)
    with pytest.raises(flight_client.InvalidInputError, match="there is no column 'o'"):
        client.create_index(name, "o", "BTREE")
    with pytest.raises(flight_client.UnsupportedFeatureError, match="RTREE"):
        client.create_index(name, "n", "RTREE")
    dataset = lance.dataset(str(root / f"{name}.lance"))
    assert "ScalarIndexQuery" in dataset.scanner(filter="n = 40").explain_plan()
    assert dataset.to_table(filter="n = 40").num_rows == 1


def test_segments_of_several_calls_become_one_index(client: Client, name: str, root: Path) -> None:
    ids = [fragment["id"] for fragment in client.fragments(name)]
    parts = [
        client.create_index_segment(name, "n", "BTREE", group, index="parts") for group in (ids[:1], ids[1:])
    ]
    with pytest.raises(flight_client.InvalidInputError, match="does not belong"):
        client.commit(name, parts)
    assert client.commit_index(name, parts) == 4
    dataset = lance.dataset(str(root / f"{name}.lance"))
    (found,) = (index for index in dataset.describe_indices() if index.name == "parts")
    assert [len(set(segment.fragment_ids)) for segment in found.segments] == [1, 3]
    assert dataset.to_table(filter="n = 25").num_rows == 1
    with pytest.raises(flight_client.LanceError):
        client.commit_index(name, parts)
    with pytest.raises(flight_client.InvalidInputError, match="fragment_ids"):
        client.create_index_segment(name, "n", "BTREE", [77])


VECTOR_INDICES: list[tuple[str, dict[str, Any]]] = [
    ("IVF_FLAT", {"num_partitions": 3}),
    ("IVF_PQ", {"num_partitions": 3, "num_sub_vectors": 4, "num_bits": 4}),
    ("IVF_RQ", {"num_partitions": 2, "metric": "cosine"}),
    ("IVF_HNSW_FLAT", {"num_partitions": 2, "m": 8}),
]


@pytest.fixture(scope="module")
def vectors() -> pa.Table:
    return vector_table(np.random.default_rng(4).standard_normal((400, 8)).astype(np.float32))


@pytest.mark.parametrize(("kind", "parameters"), VECTOR_INDICES, ids=str)
def test_a_vector_index_is_trained_once_for_all_segments(
    client: Client, root: Path, vectors: pa.Table, kind: str, parameters: dict[str, Any]
) -> None:
    """Segments with one model find what one segment finds that was trained on the same rows."""
    name = f"trained{kind}"
    local = lance_core.write_dataset(vectors, root / f"{name}.lance", max_rows_per_file=100)
    model = client.train_index(name, "v", kind, parameters=parameters)
    receipts = [
        client.create_index_segment(name, "v", kind, group, index="vectors", model=model)
        for group in ([0, 2], [1], [3])
    ]
    assert client.commit_index(name, receipts) == 2
    assert client.abort(name, [model]) == 1
    assert len(list((root / f"{name}.lance" / "_indices").iterdir())) == 3
    facts = client.index_statistics(name, "vectors")
    assert (facts["num_segments"], facts["num_indexed_rows"]) == (3, 400)
    assert not any("uri" in segment for segment in facts["segments"])  # paths of the host stay there
    nearest = {"column": "v", "q": [0.5] * 8, "k": 30, "nprobes": 3, "ef": 400}
    found = client.dataset(name).to_table(["id"], nearest=nearest)
    local.create_index("v", kind, name="vectors", replace=True, **parameters)
    assert found == lance_core.dataset(root / f"{name}.lance").to_table(["id"], nearest=nearest)


_ASKER = """
import sys
import flight_client

uri, transaction_id = sys.argv[1:]
with flight_client.connect(uri) as client:
    client.create_index(
        "abandoned", "text", "INVERTED", parameters={"memory_limit": 1}, transaction_id=transaction_id
    )
print("done")
"""


def test_a_build_outlives_the_client_that_asked(
    client: Client, server: RunningServer, root: Path, tmp_path: Path
) -> None:
    """T30: the server finishes the index, and whoever repeats the call with its id gets that version."""
    path = root / "abandoned.lance"
    words = np.random.default_rng(3).integers(0, 30_000, (30_000, 20)).astype(str)
    texts = pa.array([" ".join(row) for row in words.tolist()])
    lance_core.write_dataset(pa.table({"text": texts}), path)
    transaction_id = str(uuid4())
    asker = ForkedProcess([server.uri, transaction_id], tmp_path / "log", os.environ, _ASKER)
    try:
        wait_until((path / "_indices").exists, "the first part of the index is written")
        server.process.send_signal(signal.SIGSTOP)  # it would need three seconds for the other parts
        assert asker.poll() is None
        is_committed = lance_core.dataset(path).version > 1
    finally:
        asker.kill()
        with asker.stdout as stdout:
            printed = stdout.read()
        server.process.send_signal(signal.SIGCONT)
    assert not printed
    assert not is_committed
    wait_until(lambda: lance_core.dataset(path).version > 1)
    given: dict[str, Any] = {"parameters": {"memory_limit": 1}, "transaction_id": transaction_id}
    assert client.create_index("abandoned", "text", "INVERTED", **given) == 2
    (index,) = client.indices("abandoned")
    assert (index["name"], index["rows"], len(index["segments"])) == ("text_idx", 30_000, 1)
    assert len(list((path / "_indices").iterdir())) == 1
    found = client.dataset("abandoned").search(full_text_query=words[7, 0], k=30_000, fast_search=True)
    assert found.num_rows == int((words == words[7, 0]).any(axis=1).sum())


def test_given_centroids_and_codebooks(client: Client, root: Path, vectors: pa.Table) -> None:
    lance_core.write_dataset(vectors, root / "given.lance", max_rows_per_file=200)
    random = np.random.default_rng(1)
    centroids = random.standard_normal((2, 8)).astype(np.float32)
    codebook = pa.array(random.standard_normal(8 << 4).astype(np.float32))
    given = {"ivf_centroids": centroids, "pq_codebook": codebook, "num_sub_vectors": 4, "num_bits": 4}
    receipts = [client.create_index_segment("given", "v", "IVF_PQ", [n], parameters=given) for n in (0, 1)]
    client.commit_index("given", receipts)
    apart = client.dataset("given").to_table(["id"], nearest=(asked := {"column": "v", "q": [0.1] * 8}))
    client.create_index("given", "v", "IVF_PQ", index="v_idx", parameters=given)
    assert client.dataset("given").to_table(["id"], nearest=asked) == apart


def test_models_are_for_their_index_only(client: Client, root: Path, vectors: pa.Table) -> None:
    """T13: a model is no segment, and a segment is no model."""
    table = vectors.append_column("w", vectors["v"])
    lance_core.write_dataset(table, root / "models.lance", max_rows_per_file=200)
    asked: dict[str, Any] = {"parameters": {"num_partitions": 2}}
    model = client.train_index("models", "v", "IVF_FLAT", fragment_ids=[1], **asked)
    segment = client.create_index_segment("models", "v", "IVF_FLAT", [0], model=model)
    wrong = flight_client.InvalidInputError
    with pytest.raises(wrong, match="does not belong to this operation"):
        client.commit_index("models", [segment, model])
    with pytest.raises(wrong, match="receipt of a model"):
        client.create_index_segment("models", "v", "IVF_FLAT", [1], model=segment)
    for column, kind in (("w", "IVF_FLAT"), ("v", "IVF_SQ")):
        with pytest.raises(wrong, match="another kind of index, or of another column"):
            client.create_index_segment("models", column, kind, [1], model=model)
    with pytest.raises(wrong, match="those of the model"):
        client.create_index_segment("models", "v", "IVF_FLAT", [1], model=model, **asked)
    with pytest.raises(wrong, match="needs fragment_ids"):
        client.action(
            "create_index", {"dataset": "models", "columns": ["v"], "index_type": "IVF_FLAT", "model": model}
        )
    with pytest.raises(flight_client.UnsupportedFeatureError, match="without training"):
        client.train_index("models", "id", "BTREE")
    with pytest.raises(wrong, match="too few rows to train"):
        client.train_index("models", "v", "IVF_PQ", parameters={"num_sub_vectors": 4}, fragment_ids=[1])
    with pytest.raises(wrong, match="nothing is staged"):
        client.create_index_segment("models", "v", "IVF_FLAT", [1], model="0" * 32)
    assert client.abort("models", [model, segment]) == 2
    assert not list((root / "models.lance" / "_indices").iterdir())


@pytest.mark.parametrize("place", ["local", "remote"])
def test_command_line(place: str, server: RunningServer, name: str, root: Path) -> None:
    target = str(root / f"{name}.lance") if place == "local" else f"{server.uri}/{name}"
    lines = run("index", "list", target, "--json").stdout.splitlines()
    assert [(found["name"], found["rows"]) for found in map(json.loads, lines)] == [
        ("m_idx", 40),
        ("n_idx", 40),
    ]
    assert "ZoneMap" in run("index", "list", target).stdout
    assert "index m_idx (ZoneMap) does not cover 40 of these rows" in run("compact", target).stdout
    assert json.loads(run("index", "drop", target, "m_idx", "--json").stdout)["index"] == "m_idx"
    left = run("index", "list", target, "--json").stdout.splitlines()
    assert [json.loads(line)["name"] for line in left] == ["n_idx"]
    assert "index not found" in run("index", "drop", target, "m_idx", code=1).stderr
    options = '{"rows_per_zone": 7}'
    made = run("index", "create", target, "m", "--type", "zonemap", "--parameters", options, "--json")
    assert json.loads(made.stdout)["version"] == 7
    facts = json.loads(run("index", "stats", target, "m_idx").stdout)
    assert facts["segments"] == [{"num_zones": 6, "rows_per_zone": 7}]
    assert "cover all rows" in run("index", "optimize", target, "--merge", "1", "m_idx").stdout
    run("index", "prewarm", target, "m_idx")
    assert "already exists" in run("index", "create", target, "m", "--keep", code=1).stderr
    assert "no JSON" in run("index", "create", target, "m", "--parameters", "x", code=2).stderr
