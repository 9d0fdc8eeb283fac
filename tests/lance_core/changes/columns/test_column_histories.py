"""Random histories of columns and compactions, by us on one copy and by the reference on another."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_core
from support.oracles.two_copies import TwoCopies
from support.runs.draws import draws

STRUCT = pa.struct([("x", pa.int64()), ("y", pa.string())])


def rows(first: int, count: int, schema: pa.Schema | None = None) -> pa.Table:
    numbers = range(first, first + count)
    table = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "f": pa.array([None if n % 6 == 1 else n / 4 for n in numbers], pa.float64()),
            "t": pa.array([None if n % 4 == 2 else f"text {n}" for n in numbers], pa.string()),
            "s": pa.array([None if n % 5 == 3 else {"x": n, "y": str(n)} for n in numbers], STRUCT),
        }
    )
    if schema is None:
        return table
    known = {"id": table["id"]}
    arrays = [known[f.name].cast(f.type) if f.name in known else pa.nulls(count, f.type) for f in schema]
    return pa.table(arrays, schema=schema)


class History:
    """Steps that both libraries take; each is drawn from what the schema has by then."""

    def __init__(self, path: Path, generator: random.Random, *, stable_row_ids: bool, version: str) -> None:
        self.both = TwoCopies(path / "ours", path / "theirs")
        self.generator = generator
        self.next_id = 30
        lance.write_dataset(
            rows(0, 30),
            str(path / "ours"),
            max_rows_per_file=generator.choice([7, 10, 30]),
            enable_stable_row_ids=stable_row_ids,
            data_storage_version=version,
        )
        shutil.copytree(path / "ours", path / "theirs")
        self.number = 0

    def schema(self) -> pa.Schema:
        return lance.dataset(str(self.both.theirs)).schema

    def columns(self, *kinds: Any) -> list[str]:
        """Return the columns beside the id, of some types."""
        return [
            f.name for f in self.schema() if f.name != "id" and (not kinds or any(k(f.type) for k in kinds))
        ]

    def new_name(self) -> str:
        self.number += 1
        return f"c{self.number}"

    def step(self, kind: str) -> str:
        """Take one step, and say which."""
        choose, name = self.generator.choice, self.new_name()
        match kind:
            case "expression":
                text = choose(["id * 3", "id + 1", "id % 4 = 1", "-id", *self.columns()])
                self.both.do(lambda d: d.add_columns({name: text}))
                return f"{name} = {text}"
            case "function":
                self.both.do(lambda d: d.add_columns(doubled(name), read_columns=["id"], batch_size=3))
            case "stream":
                count = lance.dataset(str(self.both.theirs)).count_rows()
                values = pa.table({name: pa.array([f"v{n}" for n in range(count)], pa.string())})
                self.both.do(lambda d: d.add_columns(values.to_reader(max_chunksize=5)))
            case "nulls":
                field = pa.field(name, choose([pa.int8(), pa.string(), STRUCT, pa.list_(pa.float32())]))
                self.both.do(lambda d: d.add_columns(field))
            case "join":
                keys = self.generator.sample(range(self.next_id), 8)
                other = pa.table({"k": pa.array(keys, pa.int64()), name: [f"k{key}" for key in keys]})
                self.both.do(lambda d: d.merge(other, "id", "k"))
            case "drop" if len(self.columns()) > 1:
                dropped = choose(self.columns())
                self.both.do(lambda d: d.drop_columns([dropped]))
                return f"drop {dropped}"
            case "rename" if self.columns():
                old = choose(self.columns())
                self.both.do(lambda d: d.alter_columns({"path": old, "name": name}))
            case "cast" if self.columns(pa.types.is_floating):
                column = choose(self.columns(pa.types.is_floating))
                wanted = choose([pa.float32(), pa.float64()])
                self.both.do(lambda d: d.alter_columns({"path": column, "data_type": wanted}))
            case "cast text" if self.columns(pa.types.is_string):
                column = choose(self.columns(pa.types.is_string))
                self.both.do(lambda d: d.alter_columns({"path": column, "data_type": pa.large_string()}))
            case "compact":
                target = choose([5, 12, 40])
                self.both.do(lambda d: d.optimize.compact_files(target_rows_per_fragment=target))
                return f"compact {target}"
            case "delete":
                rest = choose(range(5))
                for path in (self.both.ours, self.both.theirs):
                    lance.dataset(str(path)).delete(f"id % 7 = {rest}")
            case "append":
                data = rows(self.next_id, 9, self.schema())
                self.next_id += 9
                for path in (self.both.ours, self.both.theirs):
                    lance.dataset(str(path)).insert(data)
        return kind


def doubled(name: str) -> Any:
    """Return a function from batches to a column of this name."""

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pc.multiply(batch.column("id"), 2)], [name])

    return function


KINDS = [
    "expression", "function", "stream", "nulls", "join", "drop", "rename", "cast", "cast text",
    "compact", "compact", "delete", "delete", "append",
]  # fmt: skip


def run(path: Path, seed: int, kinds: list[str], version: str) -> None:
    generator = random.Random(seed)
    history = History(path, generator, stable_row_ids=seed % 2 == 0, version=version)
    for number, kind in enumerate(kinds):
        step = history.step(kind)
        try:
            history.both.check(compare_versions=False)
        except AssertionError as error:
            raise AssertionError(f"step {number}: {step}") from error
    if seed % 2 == 0:
        columns = ["id", "_rowid", "_row_created_at_version"]
        tables = [
            library.dataset(str(place)).to_table(columns=columns)
            for library, place in (
                (lance_core, history.both.ours), (lance, history.both.ours), (lance, history.both.theirs)
            )
        ]  # fmt: skip
        assert tables[0].equals(tables[1])
        assert tables[0]["id"].equals(tables[2]["id"])
        assert tables[0]["_rowid"].equals(tables[2]["_rowid"])


@given(data=st.data())
@settings(max_examples=draws(6), deadline=None)
def test_histories(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    kinds = data.draw(st.lists(st.sampled_from(KINDS), min_size=3, max_size=8), label="steps")
    seed = data.draw(st.integers(0, 10_000), label="seed")
    run(tmp_path_factory.mktemp("history"), seed, kinds, data.draw(st.sampled_from(["2.1", "2.2"])))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_long_histories(seed: int, tmp_path: Path) -> None:
    kinds = random.Random(1000 + seed).choices(KINDS, k=25)
    run(tmp_path, seed, kinds, "2.2" if seed % 3 else "2.1")
