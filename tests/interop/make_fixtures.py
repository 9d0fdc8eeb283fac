"""Writes the datasets below `fixtures/` with releases of the reference, each in an environment of its own.

    python tests/interop/make_fixtures.py FOLDER [RELEASE ...]

FOLDER takes the environments; they are kept, so a second run installs nothing. For each release and each
version of the file format that it writes there is a small dataset and, beside it, what that same release
reads from it as an Arrow stream. The script runs itself inside the environments, so everything below
`Inside an environment` has to work with each of them.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Release:
    """Packages that are installed with the reference, and the datasets that it writes (name -> writer)."""

    requirements: tuple[str, ...]
    datasets: Mapping[str, Callable[[Path], None]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help=", ".join(RELEASES))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for name in arguments.releases or RELEASES:
        if arguments.inside:
            for dataset, write in RELEASES[name].datasets.items():
                write(FIXTURES / name / dataset)
            continue
        python = environment(arguments.folder / name, name)
        shutil.rmtree(FIXTURES / name, ignore_errors=True)
        (FIXTURES / name).mkdir(parents=True)
        subprocess.run([python, __file__, arguments.folder, name, "--inside"], check=True)


def environment(folder: Path, release: str) -> Path:
    """Return the Python of an environment with the release, made if there is none.

    Releases that write no fixtures are installed beside the Arrow that was there with them.
    """
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        known = RELEASES.get(release)
        requirements = [f"pylance=={release}", *(known.requirements if known else ("pyarrow<24",))]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True)
    return python


# --- Inside an environment ------------------------------------------------------------------------

ROWS = 110
"""Per fragment. From 100 rows on 2.0 writers keep strings with few distinct values as a dictionary."""


def _write(
    without: tuple[str, ...] = (), *, delete: bool = True, merge: bool = False, **options: Any
) -> Callable[[Path], None]:
    """Return a writer of two fragments, without the columns that the release cannot write.

    `delete` deletes rows, `merge` adds columns in files of their own afterwards. `options` are those of the
    release's `write_dataset`.
    """

    def write(path: Path) -> None:
        import lance

        target = f"{path}.lance"
        lance.write_dataset(_table(0).drop(list(without)), target, **options)
        dataset = lance.write_dataset(_table(1).drop(list(without)), target, mode="append", **options)
        if delete:
            dataset.delete("id % 7 = 3")
        if merge:
            dataset = lance.dataset(target)
            dataset.merge(_more_columns(), "id")
        _expect(lance.dataset(target), path)

    return write


def _expect(dataset: Any, path: Path) -> None:
    """Keep what the release reads."""
    import pyarrow as pa

    table = dataset.to_table()
    with pa.ipc.new_stream(f"{path}.arrows", table.schema) as stream:
        stream.write_table(table)


def _more_columns() -> Any:
    """Columns that are added to both fragments."""
    import pyarrow as pa

    ids = range(2 * ROWS)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "note": [f"note {i}" * (i % 2) for i in ids],
            "spot": [{"row": i, "column": [i, -i]} for i in ids],
        }
    )


def _table(fragment: int) -> Any:
    """Rows of many types, with nulls where every version of the format has them."""
    import pyarrow as pa

    ids = range(fragment * ROWS, (fragment + 1) * ROWS)

    def column(make: Callable[[int], Any], data_type: Any) -> Any:
        return pa.array([make(i) for i in ids], data_type)

    point = pa.struct([("x", pa.float64()), ("label", pa.string())])
    stop = pa.struct([("n", pa.int16()), ("name", pa.string())])
    start = datetime.datetime(2020, 2, 29)
    return pa.table(
        {
            "id": column(lambda i: i, pa.int64()),
            "small": column(lambda i: None if i % 4 == 1 else i - 100, pa.int16()),
            "flag": column(lambda i: None if i % 9 == 2 else i % 3 == 0, pa.bool_()),
            "ratio": column(lambda i: i / 8, pa.float32()),
            "nothing": column(lambda i: None, pa.float64()),
            "price": column(lambda i: decimal.Decimal(i * 37 - 999) / 100, pa.decimal128(12, 2)),
            "day": column(lambda i: None if i % 6 == 5 else start.date(), pa.date32()),
            "at": column(lambda i: start + datetime.timedelta(microseconds=i**4), pa.timestamp("us", "UTC")),
            "code": column(lambda i: bytes([i % 251, 1, 2]), pa.binary(3)),
            "text": column(lambda i: None if i % 5 == 0 else f"row {i} é" * (i % 3), pa.string()),
            "city": column(lambda i: ("Porto", "Lund", None, "")[i % 4], pa.string()),
            "raw": column(lambda i: None if i % 8 == 7 else bytes(range(i % 7)), pa.binary()),
            "kind": column(lambda i: ("a", "bb", None)[i % 3], pa.string()).dictionary_encode(),
            "vector": column(lambda i: [i, i + 0.5, -i, 0.0], pa.list_(pa.float32(), 4)),
            "numbers": column(lambda i: None if i % 10 == 9 else list(range(i % 4)), pa.list_(pa.int32())),
            "words": column(lambda i: [f"w{i}", None][: i % 3], pa.list_(pa.string())),
            "point": column(lambda i: {"x": i / 3, "label": f"p{i}" if i % 2 else None}, point),
            "stops": column(lambda i: [{"n": k, "name": f"s{k}"} for k in range(i % 3)], pa.list_(stop)),
        }
    )


RELEASES: Mapping[str, Release] = {
    # The oldest one that still installs: no deletions, no statistics, no versions in manifests.
    "0.3.19": Release(
        ("pyarrow==14.0.2", "numpy<2"),
        {"0.1": _write(("kind",), delete=False)},  # it refuses to append to dictionary columns
    ),
    # Before 0.8: row counts are not in the manifest, page tables of added columns begin with field 0.
    "0.7.5": Release(
        ("pyarrow==14.0.2", "numpy<2"),
        {"0.1": _write(), "0.1-merged": _write(merge=True)},
    ),
    "0.10.0": Release(
        ("pyarrow==14.0.2", "numpy<2"),
        {"0.1": _write(), "0.1-merged": _write(merge=True)},
    ),
    # Among the first releases with 2.0 files: strings are lists of bytes, nothing is aligned.
    "0.12.3": Release(
        ("numpy<2",),
        {"0.1": _write(), "2.0": _write(("kind",), use_legacy_format=False)},
    ),
    "0.20.0": Release(
        ("pyarrow==17.0.0", "numpy<2"),
        {"0.1": _write(data_storage_version="legacy"), "2.0": _write(data_storage_version="2.0")},
    ),
    "0.30.0": Release(
        ("pyarrow==19.0.1",),
        {"0.1": _write(data_storage_version="legacy"), "2.0": _write(data_storage_version="2.0")},
    ),
    "8.0.1": Release(
        ("pyarrow<24",),
        {
            "0.1": _write(data_storage_version="legacy"),
            "2.0": _write(data_storage_version="2.0"),
            "2.1": _write(data_storage_version="2.1"),
            "2.2": _write(data_storage_version="2.2"),
        },
    ),
}

if __name__ == "__main__":
    sys.exit(main())
