"""The scripts of docs/examples run as a newcomer runs them, and print what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

PRINTED = {
    "character_search": [
        "10000 names are version 3",
        "vectors: SNOWMAN WITHOUT SNOW",
        "both: SNOWMAN WITHOUT SNOW",
        "Greek only: GREEK SMALL LETTER ALPHA",
        "recall grows with the partitions: True, up to 1.00",
    ],
    "raw_to_served": [
        "2026-03: 2066 orders are version 3",
        "left out: 2 of 3 fragments",
        "2740 of 6000 orders came back",
        "French orders: 1203 then, 1183 now",
    ],
    "shop_on_spark": [
        "ingested 3934 orders of January and February",
        "3934 embeddings are version 2",
        "3934 became 6000",
        "6000 orders, the same as in the files: True",
    ],
    "training": ["3934 orders to learn from", "epoch 8: loss 0.4", "orders foretold"],
}
"""Texts that the output of each script contains."""

_MARKS = {
    "shop_on_spark": [pytest.mark.long("Spark, minutes"), pytest.mark.timeout(1200)],
    "character_search": [pytest.mark.long],
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=_MARKS.get(name, []),
        )
        for name in PRINTED
    ],
)
def test_a_script_runs(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=1100 if "spark" in name else 100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for promised in PRINTED[name]:
        assert promised in done.stdout
    assert not list(tmp_path.iterdir()), "a script leaves nothing behind"


def test_every_script_is_tested_and_listed() -> None:
    scripts = {path.stem for path in EXAMPLES.glob("*.py")} - {"shop"}
    assert scripts == set(PRINTED)
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"[{name}.py]({name}.py)" in page for name in scripts)
