"""Samples of rows, and samplers that share rows among processes, compared with the reference."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import sampler as reference

import lance_core
from lance_core.api import sampler
from lance_core.api.sampler import (
    FragmentSampler,
    FullScanSampler,
    PrioritizedItem,
    ShardedBatchSampler,
    ShardedFixedBatchSampler,
    ShardedFragmentSampler,
    maybe_sample,
    reservoir_sampling,
)
from lance_core.api.sampler.sharded_batch_iterator import ShardedBatchIterator
from lance_core.errors import InvalidInputError

NUM_ROWS = 1000


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dataset of ten fragments with deleted rows; every third `tag` is null."""
    path = str(tmp_path_factory.mktemp("sampler") / "d")
    tags = [None if row % 3 == 0 else f"t{row}" for row in range(NUM_ROWS + 40)]
    cells = pa.FixedSizeListArray.from_arrays(pa.array(range(4 * (NUM_ROWS + 40))), 2)
    grid = pa.FixedSizeListArray.from_arrays(cells, 2)
    table = pa.table({"id": range(NUM_ROWS + 40), "tag": tags, "grid": grid})
    lance_core.write_dataset(table, path, max_rows_per_file=104).delete(f"id >= {NUM_ROWS}")
    return path


@pytest.fixture
def dataset(location: str) -> lance_core.LanceDataset:
    return lance_core.dataset(location)


def ids(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return list(chain.from_iterable(batch["id"].to_pylist() for batch in batches))


def assert_grids_fit(batches: list[pa.RecordBatch]) -> None:
    for row in chain.from_iterable(batch.to_pylist() for batch in batches):
        first = 4 * row["id"]
        assert row["grid"] == [[first, first + 1], [first + 2, first + 3]]


@pytest.mark.parametrize("max_takes", [1, 7, 32, 2048])
@pytest.mark.parametrize("n", [0, 1, 128, 999])
def test_samples_have_the_number_of_rows(dataset: lance_core.LanceDataset, n: int, max_takes: int) -> None:
    """The reference returns fewer rows than asked for if `max_takes` does not divide `n`."""
    batches = list(maybe_sample(dataset, n, ["id", "grid"], batch_size=50, max_takes=max_takes))
    chosen = ids(iter(batches))
    assert len(chosen) == len(set(chosen)) == n
    assert all(batch.num_rows == 50 for batch in batches[:-1])
    assert all(batch.schema.names == ["id", "grid"] for batch in batches)
    assert_grids_fit(batches)


def test_a_sample_of_many_rows_reads_runs_from_all_parts(dataset: lance_core.LanceDataset) -> None:
    chosen = np.array(ids(maybe_sample(dataset, 100, "id", max_takes=10)))
    assert np.count_nonzero(np.diff(chosen) != 1) <= 9
    assert np.bincount(chosen // 100, minlength=10).tolist() == [10] * 10


def test_every_row_can_be_in_a_sample(dataset: lance_core.LanceDataset) -> None:
    random.seed(7)
    seen: set[int] = set()
    for _ in range(60):
        seen |= set(ids(maybe_sample(dataset, 500, "id", max_takes=100)))
    assert seen == set(range(NUM_ROWS))


def test_samples_are_repeatable(dataset: lance_core.LanceDataset) -> None:
    def sample(seed: int) -> list[int]:
        random.seed(seed)
        return ids(maybe_sample(dataset, 20, "id"))

    assert sample(1) == sample(1) != sample(2)


def test_a_sample_of_more_rows_than_there_are_is_the_dataset(location: str) -> None:
    assert ids(maybe_sample(Path(location), NUM_ROWS, "id")) == list(range(NUM_ROWS))
    matching = ids(maybe_sample(location, 5000, ["id"], filt="id < 7"))
    assert matching == ids(reference.maybe_sample(location, 5000, ["id"], filt="id < 7")) == list(range(7))


@pytest.mark.parametrize("filt", ["tag is not null", "id % 3 > 0"])
def test_filtered_samples(dataset: lance_core.LanceDataset, filt: str) -> None:
    """The reference samples by no other filter than that the one column is not null."""
    batches = list(maybe_sample(dataset, 200, ["id", "tag"], batch_size=64, filt=filt))
    chosen = ids(iter(batches))
    assert len(set(chosen)) == 200
    assert all(row % 3 for row in chosen)
    assert [batch.num_rows for batch in batches] == [64, 64, 64, 8]
    few = list(maybe_sample(dataset, 800, ["id"], filt=filt))
    assert sorted(ids(iter(few))) == [row for row in range(NUM_ROWS) if row % 3]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({"n": -1}, "n"), ({"batch_size": 0}, "batch_size"), ({"max_takes": 0}, "max_takes")],
)
def test_arguments_of_samples_are_checked(
    dataset: lance_core.LanceDataset, arguments: dict[str, int], named: str
) -> None:
    with pytest.raises(InvalidInputError, match=named):
        maybe_sample(dataset, **{"n": 1, "columns": ["id"], **arguments})


def both(location: str, name: str, *args: Any, **arguments: Any) -> tuple[list[Any], list[Any]]:
    """Return the batches of the sampler of this name, of the reference and of ours."""
    theirs, ours = (getattr(module, name)(*args) for module in (reference, sampler))
    return list(theirs(lance.dataset(location), **arguments)), list(
        ours(lance_core.dataset(location), **arguments)
    )


@pytest.mark.filterwarnings("ignore:with_row_id is not supported")
@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ShardedFragmentSampler", {"columns": ["id"]}),
        ("ShardedFragmentSampler", {"filter": "id % 7 = 0", "with_row_id": True}),
        ("ShardedFragmentSampler", {"columns": {"twice": "id * 2"}, "batch_size": 30}),
        ("ShardedBatchSampler", {"columns": ["tag", "id"], "batch_size": 15}),
        ("ShardedBatchSampler", {"batch_size": 400}),
        ("ShardedBatchSampler", {"columns": ["id"], "filter": "id % 7 = 0", "batch_size": 20}),
        ("ShardedFixedBatchSampler", {"columns": ["id"], "batch_size": 15}),
    ],
)
def test_shares_are_those_of_the_reference(
    location: str, name: str, rank: int, arguments: dict[str, Any]
) -> None:
    theirs, ours = both(location, name, rank, 3, **arguments)
    assert pa.Table.from_batches(ours).equals(pa.Table.from_batches(theirs), check_metadata=True)
    if name != "ShardedFragmentSampler":
        assert [batch.num_rows for batch in ours] == [batch.num_rows for batch in theirs]


def test_a_full_scan(dataset: lance_core.LanceDataset) -> None:
    assert ids(FullScanSampler()(dataset, columns=["id"])) == list(range(NUM_ROWS))


@pytest.mark.parametrize("name", ["ShardedFragmentSampler", "ShardedBatchSampler"])
def test_random_orders_of_the_first_epoch_are_those_of_the_reference(location: str, name: str) -> None:
    theirs, ours = both(location, name, 1, 2, True, 42, columns=["id"], batch_size=50)
    assert ids(iter(ours)) == ids(iter(theirs)) != sorted(ids(iter(ours)))


@pytest.mark.parametrize("filter", [None, "tag is not null"])
@pytest.mark.parametrize("kind", [ShardedFragmentSampler, ShardedBatchSampler])
def test_epochs_have_other_orders_and_processes_share_all_rows(
    dataset: lance_core.LanceDataset, kind: type[ShardedBatchSampler], filter: str | None
) -> None:
    """The orders of the reference are the same in all epochs, but for filtered batches."""

    def share(rank: int, epoch: int) -> list[int]:
        state = random.getstate()
        part = kind(rank, 2, randomize=True, seed=1)
        part.set_epoch(epoch)
        found = ids(part(dataset, columns=["id"], batch_size=16, filter=filter))
        assert random.getstate() == state
        return found

    expected = [row for row in range(NUM_ROWS) if filter is None or row % 3]
    for epoch in (1, 2):
        assert sorted(share(0, epoch) + share(1, epoch)) == expected
    assert share(0, 1) == share(0, 1) != share(0, 2)


def test_filtered_batches_are_shuffled_beyond_those_in_memory(dataset: lance_core.LanceDataset) -> None:
    found = ids(ShardedBatchSampler(0, 1, randomize=True)(dataset, filter="id >= 0", batch_size=2))
    assert sorted(found) == list(range(NUM_ROWS))
    assert found != sorted(found)


def test_shares_with_row_ids(dataset: lance_core.LanceDataset) -> None:
    """The reference yields no row ids from batches."""
    expected = dataset.to_table(columns=["id"], with_row_id=True).to_pydict()
    row_id = dict(zip(expected["id"], expected["_rowid"], strict=True))
    for arguments in ({}, {"columns": ["id"]}, {"columns": {"id": "id"}}, {"filter": "id >= 0"}):
        for batch in ShardedBatchSampler(1, 2)(dataset, with_row_id=True, **arguments):
            assert batch["_rowid"].to_pylist() == [row_id[row] for row in batch["id"].to_pylist()]


def test_every_nth_row_of_nested_lists(dataset: lance_core.LanceDataset) -> None:
    assert_grids_fit(list(ShardedBatchSampler(1, 3)(dataset, filter="id > 5", batch_size=10)))


def test_shares_without_rows(dataset: lance_core.LanceDataset) -> None:
    """The reference fails if no row matches."""
    assert ids(ShardedFragmentSampler(49, 50)(dataset)) == []
    assert ids(ShardedBatchSampler(49, 50)(dataset)) == []
    assert ids(ShardedBatchSampler(0, 2)(dataset, filter="id < 0")) == []


def test_own_samplers(dataset: lance_core.LanceDataset) -> None:
    class Backwards(FragmentSampler):
        def iter_fragments(
            self, dataset: lance_core.LanceDataset, *args: Any, **kwargs: Any
        ) -> Iterator[lance_core.LanceFragment]:
            yield from dataset.get_fragments()[: -kwargs["number"] - 1 : -1]

    assert ids(Backwards()(dataset, number=2)) == [*range(936, 1000), *range(832, 936)]


@pytest.mark.parametrize(
    ("rank", "world_size", "batch_size", "num_rows"),
    [
        (0, 4, 250, 1000),
        (3, 4, 250, 1000),
        (0, 2, 128, 500),
        (0, 1, 250, 100),
        (0, 2, 1, 4),
        (1, 3, 2, 10),
        (2, 3, 2, 10),
    ],
)
def test_fixed_batches_are_those_of_the_reference(
    rank: int, world_size: int, batch_size: int, num_rows: int
) -> None:
    for randomize in (False, True):
        theirs, ours = (
            module.ShardedFixedBatchSampler(rank, world_size, randomize, 3, batch_size, num_rows)
            for module in (reference, sampler)
        )
        assert len(ours) == len(list(ours)) == len(list(theirs))
        assert sorted(ours) == sorted(theirs)
        assert randomize or list(ours) == list(theirs)


def test_fixed_batches_without_rows() -> None:
    """The reference gives a length of 1 to a share that has no rows."""
    for empty in (
        ShardedFixedBatchSampler(2, 4, batch_size=10, total_num_rows=2),
        ShardedFixedBatchSampler(0, 4),
    ):
        assert len(empty) == 0
        assert list(empty) == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((2, 2), "rank"), ((-1, 2), "rank"), ((0, 0), "world_size"), ((0, 1, False, 0, 0, 5), "batch_size")],
)
def test_arguments_of_samplers_are_checked(arguments: tuple[int, ...], named: str) -> None:
    with pytest.raises(InvalidInputError, match=named):
        ShardedFixedBatchSampler(*arguments)


@pytest.mark.filterwarnings("ignore:ShardedBatchIterator is deprecated")
def test_iterators_of_older_scripts(location: str, dataset: lance_core.LanceDataset) -> None:
    fragments = ids(ShardedBatchIterator(location, 1, 2, columns=["id"]))
    assert fragments == ids(ShardedFragmentSampler(1, 2)(dataset))
    batches = ids(ShardedBatchIterator(dataset, 1, 2, batch_size=15, granularity="batch"))
    assert batches == ids(ShardedBatchSampler(1, 2)(dataset, batch_size=15))
    with pytest.raises(InvalidInputError, match="granularity"):
        ShardedBatchIterator(dataset, 0, 1, granularity="row")  # type: ignore[arg-type]


def test_processes_of_torch(dataset: lance_core.LanceDataset, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="samplers ask torch for the process; it is no requirement")
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'processes'}", rank=0, world_size=1
    )
    try:
        for kind in (ShardedFragmentSampler, ShardedBatchSampler):
            assert sorted(ids(kind.from_torch(randomize=True)(dataset))) == list(range(NUM_ROWS))
        fixed = ShardedFixedBatchSampler.from_torch(300, NUM_ROWS)
        loader = torch.utils.data.DataLoader(list(range(NUM_ROWS)), batch_sampler=fixed)
        assert [len(batch) for batch in loader] == [300, 300, 300, 100]
    finally:
        torch.distributed.destroy_process_group()


def test_a_reservoir_is_a_uniform_choice_of_one_pass() -> None:
    assert sorted(reservoir_sampling(iter(range(3)), 5)) == [0, 1, 2]
    random.seed(7)
    counts = np.zeros(10)
    for _ in range(2000):
        chosen = reservoir_sampling(iter(range(10)), 3)
        assert len(set(chosen)) == 3
        counts[chosen] += 1
    assert abs(counts - 600).max() < 100  # five standard deviations
    with pytest.raises(InvalidInputError, match="k"):
        reservoir_sampling([1], 0)


def test_heaps_compare_priorities_only() -> None:
    for module in (sampler, reference):
        assert module.PrioritizedItem(1, "b") < module.PrioritizedItem(2, "a")
    assert PrioritizedItem(1, object()) == PrioritizedItem(1, object())
