"""A server that is killed at any moment of any change: what a client repeats happens once."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyarrow import flight

from support.clients.actions import act, stage
from support.clients.puts import put
from support.servers.server import RunningServer, start_server

GONE = (flight.FlightUnavailableError, flight.FlightInternalError, flight.FlightTimedOutError)
MERGE = {"dataset": "t", "mode": "merge_insert", "on": ["n"], "when_matched": "update_all",
         "when_not_matched": "insert_all"}  # fmt: skip


def table(rows: dict[int, str]) -> pa.Table:
    return pa.table({"n": pa.array(rows.keys(), pa.int64()), "s": pa.array(rows.values(), pa.string())})


class Changes:
    """Random changes of one dataset, each repeated until it is acknowledged, and what has to come of them."""

    def __init__(self, source: random.Random, uri: list[str]) -> None:
        self._source = source
        self._uri = uri
        self.rows: dict[int, str] = {}
        self.lost = 0

    def repeated(self, change: Callable[[flight.FlightClient], Any]) -> Any:
        while True:
            try:
                with flight.connect(self._uri[0]) as client:
                    return change(client)
            except GONE:
                self.lost += 1
                time.sleep(0.05)

    def some(self, count: int) -> dict[int, str]:
        """Rows that are there and rows that are not."""
        return {self._source.randrange(200): uuid.uuid4().hex for _ in range(count)}

    def fresh(self) -> dict[int, str]:
        return {n: s for n, s in self.some(8).items() if n not in self.rows}

    def change(self) -> str:
        """One change; its name."""
        kinds = [self.append, self.merge, self.delete, self.update, self.staged_append, self.staged_merge,
                 self.compact, self.compact_in_steps]  # fmt: skip
        kind = self._source.choice(kinds)
        kind(str(uuid.uuid4()))
        return kind.__name__

    def append(self, transaction_id: str) -> None:
        rows = self.fresh()
        command = {"dataset": "t", "transaction_id": transaction_id}
        self.repeated(lambda client: put(client, command, table(rows)))
        self.rows |= rows

    def merge(self, transaction_id: str) -> None:
        rows = self.some(8)
        self.repeated(lambda client: put(client, {**MERGE, "transaction_id": transaction_id}, table(rows)))
        self.rows |= rows

    def delete(self, transaction_id: str) -> None:
        rest = self._source.randrange(7)
        body = {"dataset": "t", "predicate": f"n % 7 = {rest}", "transaction_id": transaction_id}
        done = self.repeated(lambda client: act(client, "delete", **body))
        before = len(self.rows)
        self.rows = {n: s for n, s in self.rows.items() if n % 7 != rest}
        assert done["rows"] == before - len(self.rows)

    def update(self, transaction_id: str) -> None:
        rest = self._source.randrange(5)
        body = {"dataset": "t", "updates": {"s": "concat(s, '+')"}, "where": f"n % 5 = {rest}"}
        self.repeated(lambda client: act(client, "update", **body, transaction_id=transaction_id))
        self.rows = {n: s + "+" * (n % 5 == rest) for n, s in self.rows.items()}

    def staged_append(self, transaction_id: str) -> None:
        rows = self.fresh()
        self.stage_and_commit("append", rows, transaction_id, {"dataset": "t"})
        self.rows |= rows

    def staged_merge(self, transaction_id: str) -> None:
        rows = self.some(6)
        self.stage_and_commit("merge_insert", rows, transaction_id, MERGE)
        self.rows |= rows

    def stage_and_commit(
        self, operation: str, rows: dict[int, str], transaction_id: str, command: dict[str, Any]
    ) -> None:
        parts = [dict(list(rows.items())[start::2]) for start in range(2)]
        receipts = [
            self.repeated(lambda client, part=part: stage(client, table(part), **command)) for part in parts
        ]
        body = {"dataset": "t", "operation": operation, "staged": receipts, "transaction_id": transaction_id}
        self.repeated(lambda client: act(client, "commit", **body))

    def compact(self, transaction_id: str) -> None:
        body = {"dataset": "t", "transaction_id": transaction_id, "options": {"target_rows_per_fragment": 50}}
        self.repeated(lambda client: act(client, "compact", **body))

    def compact_in_steps(self, transaction_id: str) -> None:
        body = {"dataset": "t", "options": {"target_rows_per_fragment": 50}}
        tasks = self.repeated(lambda client: act(client, "compact_plan", **body))["tasks"]
        done = [
            self.repeated(lambda client, task=task: act(client, "compact_execute", dataset="t", task=task))
            for task in tasks
        ]
        if done:
            receipts = [each["receipt"] for each in done]
            commit = {"dataset": "t", "receipts": receipts, "transaction_id": transaction_id}
            self.repeated(lambda client: act(client, "compact_commit", **commit))


@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_changes_of_a_server_that_is_killed(tmp_path: Path, kills: int) -> None:
    """T35, T38, T44: after each change the reference reads what a model says, whoever was killed when."""
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    served = tmp_path / "served"
    served.mkdir()
    servers: list[RunningServer] = [start_server(served, tmp_path / "0.log")]
    with servers[0].client() as client:
        command = {"dataset": "t", "mode": "create", "enable_stable_row_ids": bool(seed % 2)}
        put(client, command, table({}))
    uri = [servers[0].uri]
    changes = Changes(random.Random(seed + 1), uri)
    done = threading.Event()

    def kill() -> None:
        for number in range(1, kills + 1):
            time.sleep(source.uniform(0.05, 0.5))
            servers[-1].kill()
            servers.append(start_server(served, tmp_path / f"{number}.log"))
            uri[0] = servers[-1].uri
        done.set()

    thread = threading.Thread(target=kill)
    thread.start()
    made = []
    try:
        while not done.is_set() or len(made) < 8:
            made.append(changes.change())
            found = lance.dataset(served / "t.lance").to_table()
            read = dict(zip(found["n"].to_pylist(), found["s"].to_pylist(), strict=True))
            assert (len(found), read) == (len(changes.rows), changes.rows), (seed, made)
    finally:
        thread.join()
        servers[-1].kill()
    kinds = len(set(made))
    print(f"seed {seed}: {kills} kills, {len(made)} changes of {kinds} kinds, {changes.lost} calls lost")
