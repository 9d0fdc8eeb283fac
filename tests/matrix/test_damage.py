"""Damaged data files, manifests and deletion files end in a LanceError or in rows: no crash, no hang."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO

import lance
import pyarrow as pa
import pytest

from support.oracles.checks import write_case
from support.tables.cases import Case, all_cases
from support.tables.cases_0_1 import legacy_cases, write_legacy
from support.tables.cases_2_0 import cases_2_0

DEFAULT_MUTANTS = 600
LONG_MUTANTS = 60_000
MOST_OF_A_WORKER = 2_000
SILENT_SECONDS = 60.0  # wall clock, for deadlocks on a busy machine; a busy loop ends by its CPU time

SEEDS = (
    "leaf-bool-1025",
    "leaf-int32-1025",
    "leaf-decimal128_38__3-2",
    "leaf-string-1025",
    "leaf-large_binary-2",
    "leaf-dictionary_values_string__indices_int8__ordered_0-2",
    "nested-list-string-325",
    "nested-struct-int32-5pages",
    "nested-list_struct_list-int32-325",
    "nested-fsl_fsl-int32-325",
    "nested-fsl_wide-int32-1",
    "nested-map-string-325",
    "nested-fsl_struct-int32-325",
    "encoding-compression=zstd-bss=on-double-nested",
    "encoding-compression=lz4-string-nested",
    "encoding-compression=zstd-rle-threshold=0.9-int64-nested",
    "encoding-dict-values-compression=zstd-string-nested",
    "structural-fullzip-list-string-500",
    "structural-fullzip-fsl2-int32-500",
    "packed0-300",
    "packed4-300",
)

SEEDS_2_0 = (
    "leaf-string-100",
    "leaf-dictionary_values_string__indices_int8__ordered_0-7",
    "nested-list_struct_list-int32-325",
    "nested-fsl_fsl-int32-325",
    "compressed-zstd-string-3pages",
    "compressed-fsst-string-50",
    "packed1-300",
)

SEEDS_0_1 = (
    "leaf-bool-2049",
    "leaf-string-2049",
    "leaf-dictionary_values_string__indices_int8__ordered_0-1",
    "nested-list_struct_list-string-325",
    "nested-struct_fsl-bool-325",
    "nested-list-null-325",
)


def _write_seed(name: str, cases: list[Case], path: Path) -> Path:
    case = next(case for case in cases if case.name == name)
    narrow = Case(case.name, case.columns[:6], case.rows, case.pages, case.versions)
    write_case(narrow, case.versions[len(name) % len(case.versions)], path)
    return path


def _write_legacy_seed(name: str, path: Path) -> Path:
    case = next(case for case in legacy_cases() if case.name == name)
    write_legacy(replace(case, columns=case.columns[:6]), path, rows_per_batch=100)
    return path


def _write_deleted(path: Path, predicate: str) -> Path:
    """With one deletion file: few rows make an Arrow file, many a bitmap."""
    table = pa.table({"id": range(4_000), "text": [f"row {number}" for number in range(4_000)]})
    lance.write_dataset(table, str(path), max_rows_per_file=3_000, enable_stable_row_ids=True).delete(
        predicate
    )
    return path


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("seeds")
    named = [(name, all_cases()) for name in SEEDS] + [(name, cases_2_0()) for name in SEEDS_2_0]
    written = [
        _write_seed(name, cases, folder / f"{number}.lance") for number, (name, cases) in enumerate(named)
    ]
    written += [_write_legacy_seed(name, folder / f"legacy{n}.lance") for n, name in enumerate(SEEDS_0_1)]
    written.append(_write_deleted(folder / "deleted_few.lance", "id % 500 = 3"))
    written.append(_write_deleted(folder / "deleted_many.lance", "id % 3 = 1"))
    return written


def _run(seeds: list[Path], scratch: Path, each: int) -> tuple[Counter[str], list[str]]:
    """Outcomes of all mutants of the seeds, and what went wrong; a dead worker is replaced."""
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    first, count = 0, len(seeds) * each
    while first < count:
        part = min(count - first, MOST_OF_A_WORKER)
        done, problem = _run_worker(seeds, scratch, each, first, part, outcomes, wrong)
        first += done
        if problem:
            wrong.append(f"{scratch / str(first)}.lance: {problem}")
            first += 1
    return outcomes, wrong


def _run_worker(
    seeds: list[Path],
    scratch: Path,
    each: int,
    first: int,
    count: int,
    outcomes: Counter[str],
    wrong: list[str],
) -> tuple[int, str]:
    """(mutants finished, how the worker died or "")."""
    command = [sys.executable, "-m", "support.files.damage", *map(str, (scratch, each, first, count, *seeds))]
    tests = Path(__file__).parents[1]
    # Arrow's own allocator reserves address space ahead, which a limit cannot tell from use.
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    lines: SimpleQueue[str] = SimpleQueue()
    done, begun = 0, False
    with (
        (scratch / "stderr").open("a") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=tests, env=environment
        ) as worker,
    ):
        Thread(target=_forward, args=(worker.stdout, lines), daemon=True).start()
        while done < count:
            try:
                line = lines.get(timeout=SILENT_SECONDS)
            except Empty:
                worker.kill()
                return done, f"silent for {SILENT_SECONDS} s"
            if not line:
                code = worker.wait()
                assert begun, f"the worker did not start, exit code {code}; see {errors.name}"
                return done, f"the worker died with {code}"
            begun = True
            number, _, outcome = line.strip().partition(" ")
            if outcome:
                done += 1
                outcomes[outcome.partition(":")[0]] += 1
                if outcome.startswith("wrong"):
                    wrong.append(f"{scratch / number}.lance: {outcome}")
    return done, ""


def _forward(stream: IO[str], lines: SimpleQueue[str]) -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def _check(seeds: list[Path], part: int, parts: int, mutants: int, scratch: Path) -> None:
    outcomes, wrong = _run(seeds[part::parts], scratch, mutants // len(seeds) + 1)
    print(f"{sum(outcomes.values())} mutants: {dict(outcomes)}")
    assert not wrong, f"{len(wrong)} mutants went wrong:\n" + "\n".join(wrong[:20])
    assert outcomes["refused"] > outcomes.total() // 10, f"the damage is hardly noticed: {outcomes}"


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in (1, 2))])
def test_damaged_files_are_refused_or_read(part: int, seeds: list[Path], tmp_path: Path) -> None:
    """T22, T24: 600 mutants, a third of them by default, under a limit of CPU time and memory."""
    _check(seeds, part, 3, DEFAULT_MUTANTS, tmp_path)


@pytest.mark.long("60,000 mutants")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(8))
def test_many_damaged_files_are_refused_or_read(part: int, seeds: list[Path], tmp_path: Path) -> None:
    """T22, T24: 60,000 mutants."""
    _check(seeds, part, 8, LONG_MUTANTS, tmp_path)
