"""Peak memory of one read of a whole table in a process that does nothing else.

python -m benchmarks.peak_memory ours|pylance PATH

The output is JSON, in bytes: resident memory before the read, at the peak, and size of the result.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import peak_bytes_of
from benchmarks.touch import touch_table

MODULES = {"ours": "lance_core", "pylance": "lance"}


def measure(path: Path) -> dict[str, dict[str, int]]:
    """Return {"idle", "peak", "result"} in bytes for both libraries."""
    return {
        name: json.loads(
            subprocess.run(
                [sys.executable, "-m", "benchmarks.peak_memory", name, str(path)],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for name in MODULES
    }


def main() -> None:
    name, path = sys.argv[1:]
    library = importlib.import_module(MODULES[name])
    idle = peak_bytes_of("self")
    table = library.dataset(path).to_table()
    touch_table(table)
    print(json.dumps({"idle": idle, "peak": peak_bytes_of("self"), "result": table.nbytes}))


if __name__ == "__main__":
    main()
