"""Datasets of PyTorch, compared with the reference. The tests need PyTorch: `make test-torch`."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.arrow import bfloat16_array
from lance_core.api.sampler import ShardedBatchSampler, ShardedFragmentSampler
from lance_core.errors import InvalidInputError, UnsupportedFeatureError

torch = pytest.importorskip("torch", reason="PyTorch is no requirement; `make test-torch` installs it")
reference = import_module("lance.torch.data")
data = import_module("lance_core.api.torch.data")
dist = import_module("lance_core.api.torch.dist")
ours = import_module("lance_core.api.torch")

NUM_ROWS = 1000


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dataset of ten fragments with deleted rows."""
    path = str(tmp_path_factory.mktemp("torch") / "d")
    num_rows = NUM_ROWS + 40
    table = pa.table(
        {
            "id": range(num_rows),
            "half": bfloat16_array(np.arange(num_rows, dtype="f") / 2),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(4 * num_rows, dtype="f")), 4),
            "flag": pa.array(np.arange(num_rows) % 3 == 0),
        }
    )
    lance_core.write_dataset(table, path, max_rows_per_file=104).delete(f"id >= {NUM_ROWS}")
    return path


def ids(batches: Any) -> list[int]:
    return torch.cat(list(batches)).tolist()


def test_batches_are_tensors_of_all_rows(location: str) -> None:
    batches = list(data.LanceDataset(location, batch_size=64))
    assert [len(batch["id"]) for batch in batches] == [64] * 15 + [40]
    with warnings.catch_warnings(action="ignore"):  # its tensors are of memory that must not be written
        theirs = list(reference.LanceDataset(location, batch_size=64))
    for name in ("id", "half", "vector", "flag"):
        found = torch.cat([batch[name] for batch in batches])
        expected = torch.cat([batch[name] for batch in theirs])
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "arguments",
    [
        {"filter": "id >= 300"},
        {"filter": "flag", "shard_granularity": "fragment"},
        {"sampler": ("ShardedFragmentSampler", 1, 3)},
        {"sampler": ("ShardedBatchSampler", 2, 3)},
        {"sampler": ("ShardedBatchSampler", 2, 3), "filter": "flag"},
        {"shard_granularity": "batch", "with_row_id": True},
    ],
    ids=str,
)
def test_shares_are_those_of_the_reference(location: str, arguments: dict[str, Any]) -> None:
    found = []
    for module, samplers in ((data, import_module("lance_core.api.sampler")), (reference, lance.sampler)):
        given = dict(arguments)
        if "sampler" in given:
            kind, *place = given["sampler"]
            given["sampler"] = getattr(samplers, kind)(*place)
        with warnings.catch_warnings(action="error" if module is data else "ignore"):
            found.append(ids(module.LanceDataset(location, batch_size=25, columns=["id"], **given)))
    assert found[0] == found[1]
    assert found[0]


def test_ranks_are_deprecated_arguments(location: str) -> None:
    with pytest.warns(DeprecationWarning, match="rank"):
        share = data.LanceDataset(location, 100, columns=["id"], rank=1, world_size=4)
    assert ids(share) == ids(
        data.LanceDataset(location, 100, columns=["id"], sampler=ShardedFragmentSampler(1, 4))
    )


def test_expressions_row_ids_and_schemas(location: str) -> None:
    doubled = data.LanceDataset(location, 500, columns={"twice": "id * 2"})
    assert doubled.schema.names == ["twice"]
    assert ids(doubled) == list(range(0, 2 * NUM_ROWS, 2))
    first = next(iter(data.LanceDataset(location, 10, columns=["id"], with_row_id=True)))
    assert first["_rowid"].tolist() == list(range(10))
    raw = next(iter(data.LanceDataset(location, 10, columns=["id"], to_tensor_fn=None)))
    assert isinstance(raw, pa.RecordBatch)
    assert repr(doubled) == repr(reference.LanceDataset(location, 10))


def test_epochs_have_orders_of_their_own(location: str) -> None:
    sampler = ShardedBatchSampler(0, 1, randomize=True, seed=5)
    dataset = data.LanceDataset(location, 20, columns=["id"], sampler=sampler)
    orders = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        orders.append(ids(dataset))
        assert sorted(orders[-1]) == list(range(NUM_ROWS))
        assert ids(dataset) == orders[-1]
    assert orders[0] != orders[1] != orders[2]


@pytest.mark.parametrize("samples", [0, 300])
def test_the_first_pass_is_kept(location: str, samples: int, tmp_path: Path) -> None:
    dataset = data.LanceDataset(location, 64, columns=["id"], cache=tmp_path, samples=samples)
    next(iter(dataset))  # a pass that ends early is none
    first = ids(dataset)
    assert len(set(first)) == (samples or NUM_ROWS)
    dataset.dataset = None  # nothing is read but the file
    dataset._blob_columns = list
    assert ids(dataset) == first
    del dataset
    assert not list(tmp_path.iterdir())


def test_a_pass_without_rows_is_kept(location: str) -> None:
    dataset = data.LanceDataset(location, 64, columns=["id"], filter="id < 0", cache=True)
    assert [*dataset, *dataset] == []


def test_blobs_are_files_for_the_function_of_the_caller(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("image", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    table = pa.table([range(40), [bytes([row]) * (row + 1) for row in range(40)]], schema=schema)
    location = str(lance_core.write_dataset(table, tmp_path / "d", data_storage_version="2.1").uri)

    def first_bytes(batch: Any, **arguments: Any) -> Any:
        assert arguments["use_blob_api"]
        files = batch["image"]
        return (
            torch.tensor([file.read(1)[0] for file in files]),
            [file.size() for file in files],
            batch["_rowid"],
        )

    for module in (data, reference):
        batches = list(module.LanceDataset(location, 15, to_tensor_fn=first_bytes))
        assert torch.cat([batch[0] for batch in batches]).tolist() == list(range(40))
        assert [size for batch in batches for size in batch[1]] == list(range(1, 41))
        assert pa.chunked_array([batch[2] for batch in batches]).to_pylist() == list(range(40))
        with pytest.raises(NotImplementedError, match="to_tensor_fn"):
            next(iter(module.LanceDataset(location, 15)))
    with pytest.raises(UnsupportedFeatureError, match="'image'"):
        next(iter(data.LanceDataset(location, 15, samples=10)))


def test_arguments_are_checked(location: str) -> None:
    with pytest.raises(InvalidInputError, match="shard_granularity"):
        data.LanceDataset(location, 10, shard_granularity="row")
    with pytest.raises(InvalidInputError, match="batch_size"):
        data.LanceDataset(location, 0)


@pytest.mark.parametrize("start", ["fork", "forkserver", "spawn"])
def test_workers_share_the_rows(location: str, start: str) -> None:
    """Each worker reads its own fragments, in every epoch."""
    lance_core.dataset(location).to_table(columns=["id"])  # threads and locks of this process
    dataset = data.LanceDataset(location, 50, columns=["id"])
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context=start, persistent_workers=True
    )
    for _ in range(2):
        assert sorted(ids(loader)) == list(range(NUM_ROWS))


def read_share(rank: int, location: str, meeting: str, results: str) -> None:
    """Read the share of one process of two, by way of workers that were not forked."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    assert (dist.get_global_rank(), dist.get_global_world_size()) == (rank, 2)
    dataset = data.LanceDataset(location, 50, columns=["id"])
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context="spawn"
    )
    np.save(f"{results}/{rank}.npy", torch.cat(list(loader)).numpy())
    torch.distributed.destroy_process_group()


def test_processes_and_their_workers_share_the_rows(location: str, tmp_path: Path) -> None:
    """Workers that are started anew know the process of `torch.distributed` that they work for."""
    context = torch.multiprocessing.get_context("spawn")
    arguments = (location, str(tmp_path / "meeting"), str(tmp_path))
    processes = [context.Process(target=read_share, args=(rank, *arguments)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    shares = [np.load(tmp_path / f"{rank}.npy").tolist() for rank in range(2)]
    assert sorted(shares[0] + shares[1]) == list(range(NUM_ROWS))
    assert all(400 < len(share) < 600 for share in shares)


def test_rows_for_samplers_of_torch(location: str, tmp_path: Path) -> None:
    dataset = data.SafeLanceDataset(location)
    assert len(dataset) == NUM_ROWS
    assert dataset[7]["id"] == 7
    assert [row["id"] for row in dataset.__getitems__([5, 3])] == [5, 3]
    table = pa.table({"id": range(96), "name": [f"n{row}" for row in range(96)]})
    version = lance_core.write_dataset(table, tmp_path / "d")
    pinned = data.SafeLanceDataset(str(tmp_path / "d"))
    lance_core.write_dataset(table.slice(90), tmp_path / "d", mode="overwrite")
    loader = data.get_safe_loader(pinned, batch_size=16, num_workers=2, shuffle=True)
    rows = [(number, name) for batch in loader for number, name in zip(*batch.values(), strict=True)]
    assert sorted((int(number), name) for number, name in rows) == [(row, f"n{row}") for row in range(96)]
    older = data.SafeLanceDataset(tmp_path / "d", dataset_options={"version": version.version})
    assert len(older) == 96
    alone = data.get_safe_loader(older, num_workers=0)
    assert sum(len(batch["id"]) for batch in alone) == 96


def test_batches_of_tensors() -> None:
    values = np.arange(10.0).reshape(5, 2)
    for given in (values, torch.from_numpy(values)):
        batches = data.TensorDataset(given, batch_size=2)
        assert [len(batch) for batch in batches] == [2, 2, 1]
        assert len(batches) == 3


def test_outside_of_workers_there_is_one_process() -> None:
    names = ("dist_rank", "dist_world_size", "mp_rank", "mp_world_size", "global_rank", "global_world_size")
    assert [getattr(dist, f"get_{name}")() for name in names] == [0, 1, 0, 1, 0, 1]


def test_devices() -> None:
    assert ours.preferred_device("cpu") == torch.device("cpu")
    assert ours.preferred_device() == import_module("lance.torch").preferred_device()
