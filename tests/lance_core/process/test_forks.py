"""Processes that are forked while their parent reads: nothing waits for threads that are gone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lance_core
from support.processes.forked import run_script

SCRIPT = """if True:
    import faulthandler, os, sys, threading, warnings
    import lance_core

    warnings.simplefilter("ignore")
    path = sys.argv[1]
    lance_core.set_cache_directory(sys.argv[2])
    dataset = lance_core.dataset(path)
    fragment = dataset.get_fragments()[-1]
    scanner = dataset.scanner(["id"], "id % 3 = 0")
    expected = dataset.count_rows(), scanner.to_table(), dataset.take([5, 190_000]), fragment.to_table()
    batches = dataset.to_batches(batch_size=1000)
    next(batches)

    def read():
        while True:
            lance_core.dataset(path).to_table(filter="id % 7 = 3")
            lance_core.dataset(path).take([1, 2, 190_000])

    for _ in range(3):
        threading.Thread(target=read, daemon=True).start()

    def check():
        found = dataset.count_rows(), scanner.to_table(), dataset.take([5, 190_000]), fragment.to_table()
        assert found == expected
        assert sum(batch.num_rows for batch in lance_core.dataset(path).to_batches()) == expected[0]
        try:
            list(batches)
        except lance_core.UnsupportedFeatureError as error:
            assert "before the process was forked" in str(error)
        else:
            raise AssertionError("a stream of another process")

    for _ in range(int(sys.argv[3])):
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(60, exit=True)
            try:
                check()
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            os._exit(code)
    os._exit(0)
"""


@pytest.mark.parametrize(
    "num_forks", [6, pytest.param(200, marks=pytest.mark.long("200 processes, one after the other"))]
)
def test_forked_processes_read_on(tmp_path: Path, num_forks: int) -> None:
    """Threads of the parent hold locks of caches, pools and kernels when it forks; its children have none."""
    table = pa.table({"id": np.arange(200_000), "word": [f"w{number % 100}" for number in range(200_000)]})
    lance_core.write_dataset(table, tmp_path / "d", max_rows_per_file=50_000)
    arguments = str(tmp_path / "d"), str(tmp_path / "cache"), str(num_forks)
    code = run_script(SCRIPT, *arguments, log=tmp_path / "log")
    assert code == 0, (tmp_path / "log").read_text()[-4000:]
