"""Blocks: memory that is reused, and given back beyond a limit."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from lance_core import kernels
from lance_core.kernels import Block

MIB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def _no_garbage() -> None:
    """Free the blocks of other tests. Late in a run, each look for garbage takes half a second."""
    gc.collect()


@pytest.fixture(autouse=True)
def _empty_pool() -> Iterator[None]:
    """Nothing retained before and after; then the default limit again."""
    kernels.set_pool_retention(0)
    kernels.set_pool_retention(256 * MIB)
    yield
    kernels.set_pool_retention(0)
    kernels.set_pool_retention(256 * MIB)


@pytest.mark.parametrize(
    "size", [0, 1, 63, 64, 65, (64 << 10) - 65, (64 << 10) - 64, 64 << 10, MIB - 1, MIB, 3 * MIB + 7]
)
def test_a_block_has_its_size_and_can_be_written(size: int) -> None:
    block = Block(size)
    view = memoryview(block)
    assert len(block) == len(view) == size
    view[:] = b"\xa5" * size
    assert bytes(block) == b"\xa5" * size


@pytest.mark.parametrize("size", [(1 << 46) + 1, 1 << 62, (1 << 64) - 1])
def test_blocks_that_no_machine_has(size: int) -> None:
    """T24: an impossible size is an error, not a wrapped one."""
    with pytest.raises(MemoryError):
        Block(size)


def test_errors_stay_ours_beside_other_native_modules() -> None:
    """DuckDB translates C++ exceptions of every module that shares its nanobind domain; ours shares none."""
    code = "from lance_core.kernels import Block; import duckdb; Block(1 << 62)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert run.stderr.splitlines()[-1].startswith("MemoryError")


def test_use_is_counted() -> None:
    # In a process of its own, where no thread of another test takes blocks or frees them.
    code = (
        "from lance_core.kernels import Block, pool_use\n"
        "before = pool_use()[0]\n"
        "block = Block(3 << 20)\n"
        "assert pool_use()[0] >= before + (3 << 20)\n"
        "del block\n"
        "assert pool_use()[0] == before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_threads_share_the_pool() -> None:
    """Each thread sees only what it wrote, however blocks go around."""
    failed: list[int] = []

    def work(number: int) -> None:
        for i in range(60):
            size = (64 << 10) + 4096 * ((number + i) % 9)
            view = memoryview(Block(size))
            view[:] = bytes([number]) * size
            if bytes(view) != bytes([number]) * size:
                failed.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_free_blocks_are_kept_up_to_a_limit() -> None:
    """T33: retained memory never exceeds the limit, and lowering the limit gives memory back."""
    if not _pools():
        pytest.skip("this build gives every block its own allocation")
    for _ in range(3):
        blocks = [Block(MIB) for _ in range(8)]
        del blocks
    assert 8 * MIB <= kernels.pool_use()[1] <= 256 * MIB
    kernels.set_pool_retention(5 * MIB)
    assert kernels.pool_use()[1] <= 5 * MIB
    blocks = [Block(2 * MIB) for _ in range(8)]
    del blocks
    assert kernels.pool_use()[1] <= 5 * MIB
    kernels.set_pool_retention(0)
    assert kernels.pool_use()[1] == 0


def test_free_blocks_add_little_to_what_was_in_use() -> None:
    """T33: blocks of sizes that are never asked for again make place for others."""
    if not _pools():
        pytest.skip("this build gives every block its own allocation")
    # In a process of its own, since what counts is the most it ever had in use.
    code = (
        "from lance_core.kernels import Block, pool_use\n"
        "for mib in range(2, 80, 2):\n"
        "    block = Block(mib << 20)\n"
        "    used, free = pool_use()\n"
        "    assert free <= 32 << 20, (used, free)\n"
        "    del block\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def _pools() -> bool:
    block = Block(MIB)
    del block
    return kernels.pool_use()[1] > 0
