"""Makes a change over and over, each time in a process that is killed at another call to the storage.

    python -m support.killing FOLDER MODULE CHANGE BEFORE|AFTER

`FOLDER/before`, if there is one, is copied to `FOLDER/0`, `FOLDER/1`, ... and the function `make_change` of
the module makes the change there, killed before or after call 0, 1, ... of those that change something in the
storage, until one change comes to its end. Prints the number of copies.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from support.faults import FaultStorage, kills, kills_after


def kill_at_every_call(folder: Path, module: str, change: str, when: str) -> int:
    """Run this program; returns the number of copies, the last of which has the whole change."""
    run = subprocess.run(
        [sys.executable, "-m", "support.killing", str(folder), module, change, when],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


def main(folder: Path, make_change: Callable[[FaultStorage, str], object], change: str, when: str) -> None:
    """Kill at every call."""
    fault = kills_after if when == "AFTER" else kills
    for number in range(1000):
        target = folder / str(number)
        if (folder / "before").exists():
            shutil.copytree(folder / "before", target, copy_function=os.link)
        child = os.fork()
        if child == 0:
            try:
                make_change(FaultStorage(target, number, fault), change)
            except BaseException as error:
                print(repr(error), file=sys.stderr)
                os._exit(1)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if status == 0:
            print(number + 1)
            return
        if os.WIFEXITED(status):
            raise SystemExit(f"change {number} failed instead of being killed")


if __name__ == "__main__":
    main(Path(sys.argv[1]), import_module(sys.argv[2]).make_change, sys.argv[3], sys.argv[4])
