"""The matrix really holds what it claims: every layout, layer and encoding occurs in the files it writes."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from support.files.pages import features, page_layouts
from support.oracles.checks import write_case
from support.tables.cases import LARGE_SIZE, Case, all_cases
from support.tables.reference import FILE_VERSIONS

IN_BOTH = {
    "mini_block_layout",
    "full_zip_layout",
    "constant_layout",
    "constant without inline value",
    "dictionary page",
    *(
        f"layer {name}"
        for name in (
            "ALL_VALID_ITEM",
            "ALL_VALID_LIST",
            "NULLABLE_ITEM",
            "NULLABLE_LIST",
            "EMPTYABLE_LIST",
            "NULL_AND_EMPTY_LIST",
        )
    ),
    *(f"levels {name}" for name in ("flat", "flat bits", "inline_bitpacking", "out_of_line_bitpacking")),
    *(
        f"mini-block {name}"
        for name in (
            "flat",
            "flat bits",
            "variable",
            "inline_bitpacking",
            "fsst",
            "rle",
            "byte_stream_split",
            "general LZ4",
            "general ZSTD",
            "fixed_size_list",
            "fixed_size_list with validity",
            "packed_struct",
        )
    ),
    *(
        f"full-zip {name}"
        for name in (
            "flat",
            "variable",
            "fsst",
            "general ZSTD",
            "constant",
            "fixed_size_list",
            "fixed_size_list with validity",
        )
    ),
    *(f"dictionary values {name}" for name in ("flat", "flat bits", "inline_bitpacking", "variable")),
}
ONLY_IN_2_2 = {
    "constant inline value",
    "constant with compressed levels",
    "levels rle",
    "dictionary values general LZ4",
    "dictionary values general ZSTD",
    "full-zip variable_packed_struct",
    *(
        f"full-zip packed {name}"
        for name in ("flat", "variable", "fsst", "fixed_size_list", "fixed_size_list with validity")
    ),
}
EXPECTED = {"2.1": IN_BOTH, "2.2": IN_BOTH | ONLY_IN_2_2}
SEEDS = {"2.1": 1128, "2.2": 2630}
"""Seeds of orders in which all features occur early."""


def _features_of(case: Case, version: str, path: Path) -> set[str]:
    write_case(case, version, path)
    found = {feature for layout in page_layouts(path) for feature in features(layout)}
    shutil.rmtree(path)
    return found


def _written_cases(version: str) -> list[Case]:
    cases = [c for c in all_cases() if version in c.versions and not c.long and c.rows < LARGE_SIZE]
    return random.Random(SEEDS[version]).sample(cases, len(cases))


@pytest.mark.parametrize("version", FILE_VERSIONS)
def test_every_layout_layer_and_encoding_occurs(version: str, tmp_path: Path) -> None:
    """Cases are written in random order until everything was seen."""
    missing = set(EXPECTED[version])
    for case in _written_cases(version):
        if not missing:
            break
        missing -= _features_of(case, version, tmp_path / "case.lance")
    assert not missing, f"never written: {sorted(missing)}"


@pytest.mark.long
@pytest.mark.parametrize("version", FILE_VERSIONS)
def test_nothing_else_occurs(version: str, tmp_path: Path) -> None:
    """A feature that the reference writes and the list lacks must be added to the list."""
    for case in _written_cases(version):
        unexpected = _features_of(case, version, tmp_path / "case.lance") - EXPECTED[version]
        assert not unexpected, f"{case.name} has {sorted(unexpected)}"
