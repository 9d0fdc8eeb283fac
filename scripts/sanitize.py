"""Build the kernels with the address and undefined-behaviour sanitizers, and run tests on that build.

`python scripts/sanitize.py [pytest arguments]`; without a path, the tests of the kernels and encodings run.
The build is in `build/sanitized`; the installed module stays as it is. The first report ends the run. The
script needs GCC.
"""

import importlib.util
import os
import resource
import subprocess
import sys
import sysconfig
from pathlib import Path

import nanobind

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "sanitized"
MODULE = "lance_core.kernels._kernels"
FLAGS = "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"
STACK_BYTES = 64 << 20
"""Stack size in bytes. Frames of this build are several times as large, and values may be nested 2048 deep.
"""
TESTS = ["tests/lance_core/kernels", "tests/lance_core/encodings"]


def build() -> Path:
    """Compile changed files and return the file of the module."""
    configure = [
        "cmake",
        *("-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja"),
        "-DCMAKE_BUILD_TYPE=None",
        f"-DCMAKE_CXX_FLAGS={FLAGS}",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-Dnanobind_DIR={nanobind.cmake_dir()}",
    ]
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": tools}
    subprocess.run(configure, check=True, env=environment, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(BUILD)], check=True, env=environment)
    return BUILD / f"_kernels{sysconfig.get_config_var('EXT_SUFFIX')}"


def library(name: str) -> str:
    """Return the path of one of the compiler's libraries."""
    found = subprocess.run(["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def run_in_new_process(module: Path, arguments: list[str]) -> int:
    """Run this script again, with the sanitizer's library loaded before everything else."""
    environment = os.environ | {
        # The sanitizer wraps exceptions, so the library that throws them must be loaded when it starts.
        "LD_PRELOAD": f"{library('libasan.so')} {library('libstdc++.so')}",
        # Python keeps objects until it ends, and a refused allocation must reach the code that made it.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_segv=2",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    command = [sys.executable, __file__, "--module", str(module), *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def run_tests(module: Path, arguments: list[str]) -> int:
    """Run pytest with `module` in the place of the installed kernels."""
    import pytest

    spec = importlib.util.spec_from_file_location(MODULE, module)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[MODULE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[MODULE])
    # Reports go to the real stderr, and the sanitizer handles crashes.
    return int(pytest.main(["--capture=sys", "-p", "no:xdist", *arguments]))


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--module"]:
        return run_tests(Path(arguments[1]), arguments[2:])
    if not any((ROOT / argument.split("::")[0]).exists() for argument in arguments):
        arguments += TESTS
    return run_in_new_process(build(), arguments)


if __name__ == "__main__":
    sys.exit(main())
