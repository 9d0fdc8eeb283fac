"""Every Python example of the README and of docs/ runs against a real server on the demo dataset."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.spark.settings import JAVA_OPTIONS

ROOT = Path(__file__).parents[2]
URI_IN_EXAMPLES = "grpc://127.0.0.1:8815"
STORE_IN_EXAMPLES = "http://127.0.0.1:9000"


def examples(page: Path) -> list[tuple[int, str]]:
    """Return the page's Python blocks with the line each starts on."""
    text = page.read_text(encoding="utf-8")
    blocks = re.finditer(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, block.start(1)), block[1]) for block in blocks]


PAGES = [
    page.relative_to(ROOT).as_posix()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if examples(page)
]


SPARK_PAGES = [
    page for page in PAGES if any("spark_pipeline.session(" in source for _, source in examples(ROOT / page))
]
"""Pages that start Spark sessions. A process has only one session: that of other tests would be taken and
stopped.
"""


@pytest.mark.parametrize("page", [page for page in PAGES if page not in SPARK_PAGES])
def test_examples_run_in_order(
    page: str, demo_server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The blocks of a page run one after the other, as a reader would type them, in the repository's root."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("LANCE_FLIGHT_SIGNING_KEY", "a server of an example leaves no key in demo/data")
    names: dict[str, object] = {"__name__": "example"}
    for line, source in examples(ROOT / page):
        padded = "\n" * line + source.replace(URI_IN_EXAMPLES, demo_server)
        if STORE_IN_EXAMPLES in padded:
            padded = padded.replace(STORE_IN_EXAMPLES, request.getfixturevalue("s3_endpoint"))
        exec(compile(padded, page, "exec", dont_inherit=True), names)


@pytest.mark.long
@pytest.mark.timeout(900)  # all pages with Spark; a minute on a quiet machine
def test_examples_with_spark_run_in_order(demo_server: str) -> None:
    """One process runs all pages with Spark: starting Java takes longer than what they do with it."""
    script = []
    for page in SPARK_PAGES:
        script.append("names = {'__name__': 'example'}")
        for line, source in examples(ROOT / page):
            padded = "\n" * line + source.replace(URI_IN_EXAMPLES, demo_server)
            script.append(f"exec(compile({padded!r}, {page!r}, 'exec'), names)")
    java_options = f"{os.environ['SPARK_SUBMIT_OPTS']} {JAVA_OPTIONS}"
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(script)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SPARK_SUBMIT_OPTS": java_options},
    )
    assert done.returncode == 0, done.stderr[-5000:]


def test_the_pages_with_examples_are_found() -> None:
    assert {"README.md", "docs/flight-protocol.md", "docs/operations.md"} <= set(PAGES)
    assert "docs/spark.md" in SPARK_PAGES
