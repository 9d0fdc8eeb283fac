"""Generate the Python modules of our .proto files, or check that the committed modules are up to date.

`python scripts/generate_protos.py` writes `lance_core/proto/` and `flight_server/proto/`. With `--check` the
script writes nothing. Its exit code is 1 when a generated file differs from the committed one.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"protos/lance": "lance_core/proto", "protos/lance_flight": "flight_server/proto"}


def generate(output: Path) -> list[Path]:
    """Compile every proto below `output` and return the generated files, relative to it.

    Each source folder is mapped to the package it is generated into, so that the imports
    inside the generated modules are the real module names.
    """
    sources = {ROOT / folder: package for folder, package in PACKAGES.items() if (ROOT / folder).is_dir()}
    includes = [f"-I{package}={folder}" for folder, package in sources.items()]
    includes.append(f"-I{Path(grpc_tools.__file__).parent / '_proto'}")
    inputs = [
        f"{package}/{proto.name}"
        for folder, package in sources.items()
        for proto in sorted(folder.glob("*.proto"))
    ]
    code = protoc.main(["protoc", *includes, f"--python_out={output}", f"--pyi_out={output}", *inputs])
    if code:
        sys.exit(code)
    return sorted(
        path.relative_to(output) for path in output.rglob("*_pb2.py*") if path.suffix in (".py", ".pyi")
    )


def committed() -> set[Path]:
    """Return the generated files that are in the source tree, relative to its root."""
    return {
        path.relative_to(ROOT)
        for package in PACKAGES.values()
        for path in (ROOT / package).glob("*_pb2.py*")
        if path.suffix in (".py", ".pyi")
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is out of date")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch)
        generated = {path: (output / path).read_bytes() for path in generate(output)}
    stale = sorted(
        path
        for path in committed() | generated.keys()
        if path not in generated
        or not (ROOT / path).is_file()
        or (ROOT / path).read_bytes() != generated[path]
    )
    if arguments.check:
        for path in stale:
            print(f"out of date: {path}", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        if path in generated:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_bytes(generated[path])
            print(f"wrote {path}")
        else:
            (ROOT / path).unlink()
            print(f"removed {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
