"""Damaged files: mutations of one file of a dataset, and a worker process that reads mutant after mutant.

    python -m support.files.damage SCRATCH EACH FIRST COUNT SEED_DATASET...

reads mutants, of which each seed dataset has EACH: number 2 * EACH is the first of the third. It prints one
line per mutant when it starts ("3") and one when it is done ("3 ok", "3 refused", "3 wrong: why"),
so that the process that watches knows which one killed or hung the worker.
"""

from __future__ import annotations

import random
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

CPU_SECONDS = 2.0
MEMORY_BYTES = 512 << 20  # above what the process has when it begins
INTERESTING_BYTES = (0, 1, 127, 128, 255)
INTERESTING_NUMBERS = (0, 1, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
METADATA_SHARE = 0.6
METADATA_BYTES = 1_500

# What `validate(full=True)` says about values, not about the structure of arrays: damaged values are values.
ABOUT_VALUES = ("UTF8", "precision", "within the acceptable range", "does not represent a whole number")


def _position(random_source: random.Random, size: int) -> int:
    """Mostly in the last bytes, where metadata lies; damage to plain values is rarely of interest."""
    if random_source.random() < METADATA_SHARE:
        return max(0, size - 1 - random_source.randrange(min(size, METADATA_BYTES)))
    return random_source.randrange(size)


def _set_bytes(data: bytearray, source: random.Random) -> None:
    for _ in range(source.choice((1, 1, 1, 2, 4))):
        data[_position(source, len(data))] = source.choice((*INTERESTING_BYTES, source.randrange(256)))


def _flip_bit(data: bytearray, source: random.Random) -> None:
    data[_position(source, len(data))] ^= 1 << source.randrange(8)


def _set_number(data: bytearray, source: random.Random) -> None:
    width = source.choice((2, 4, 8))
    start = _position(source, len(data)) // width * width
    number = source.choice(INTERESTING_NUMBERS) % (1 << (8 * width))
    data[start : start + width] = number.to_bytes(width, "little")[: len(data) - start]


def _truncate(data: bytearray, source: random.Random) -> None:
    del data[_position(source, len(data)) :]


def _remove(data: bytearray, source: random.Random) -> None:
    start = _position(source, len(data))
    del data[start : start + source.choice((1, 2, 8, 64))]


def _insert(data: bytearray, source: random.Random) -> None:
    start = _position(source, len(data))
    data[start:start] = source.randbytes(source.choice((1, 2, 8, 64)))


def _splice(data: bytearray, source: random.Random) -> None:
    length = source.choice((1, 4, 16, 100))
    start, target = _position(source, len(data)), _position(source, len(data))
    data[target : target + length] = data[start : start + length]


MUTATIONS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _set_bytes,
    _set_bytes,
    _flip_bit,
    _set_number,
    _set_number,
    _truncate,
    _remove,
    _insert,
    _splice,
)


def mutate(dataset: Path, seed: str) -> Path:
    """Damage one file that a reader opens, chosen and changed by `seed`; returns its path."""
    source = random.Random(seed)
    kinds = ("data", "data", "data", "_versions", "_deletions")
    folders = [dataset / kind for kind in kinds if (dataset / kind).is_dir()]
    path = source.choice(sorted(source.choice(folders).iterdir()))
    data = bytearray(path.read_bytes())
    source.choice(MUTATIONS)(data, source)
    path.write_bytes(data)
    return path


def read(dataset: Path) -> str:
    """Return the result of reading: "ok", "refused" (a LanceError) or "wrong: ..."."""
    import lance_core

    try:
        opened = lance_core.dataset(str(dataset))
        table = opened.to_table()
        opened.to_table(offset=table.num_rows // 2, limit=3)
        taken = opened.take(sorted({0, table.num_rows // 3, table.num_rows - 1}) if table.num_rows else [])
        table.validate(full=True)
        taken.validate(full=True)
    except lance_core.LanceError as error:
        return "refused" if str(error) else "wrong: an error without words"
    except pa.ArrowInvalid as error:
        if any(words in str(error) for words in ABOUT_VALUES):
            return "ok"
        return f"wrong: {error!r}"
    except BaseException as error:
        return f"wrong: {error!r}"
    return "ok"


def _data_bytes() -> int:
    """Private writable memory of this process, which RLIMIT_DATA bounds."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData:"))


def main() -> None:
    """Read mutants `first` to `first + count` of the seed datasets, one after the other."""
    scratch, (each, first, count) = Path(sys.argv[1]), map(int, sys.argv[2:5])
    seeds = [Path(argument) for argument in sys.argv[5:]]
    read(seeds[0])  # imports and thread pools come before the limits
    limit = _data_bytes() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, whatever native code it is in
    for number in range(first, first + count):
        seed_dataset, dataset = seeds[number // each], scratch / f"{number}.lance"
        shutil.copytree(seed_dataset, dataset)
        mutate(dataset, f"{seed_dataset.name} {number % each}")
        print(number, flush=True)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        outcome = read(dataset)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(number, outcome.replace("\n", " "), flush=True)
        if not outcome.startswith("wrong"):
            shutil.rmtree(dataset)


if __name__ == "__main__":
    main()
