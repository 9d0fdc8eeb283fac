"""`lance-flight put`: rows of Parquet, CSV, JSON and Arrow files into a dataset, here or on a server."""

import glob
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from pyarrow import flight
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from flight_server.cli.errors import stderr
from flight_server.cli.source_files import KINDS, Rows
from flight_server.cli.targets import connect, is_remote, open_target
from flight_server.cli.values import readable_bytes
from flight_server.mutations import written_by
from lance_core.write.dataset import Mode
from lance_core.writing import write_dataset

_BATCH_BYTES = 2 << 20
"""What is sent at once."""


def put(
    sources: Annotated[
        list[str], typer.Argument(help=f"Files or quoted globs; all of one kind: {', '.join(KINDS)}.")
    ],
    target: Annotated[str, typer.Argument(help="grpc://host:port/name or a local path.")],
    mode: Annotated[Mode, typer.Option(help="What becomes of rows that are there.")] = "append",
    data_storage_version: Annotated[
        str | None, typer.Option("--storage-version", help="Of the data files: 0.1, 2.0, 2.1, 2.2 or stable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Write the rows of files as a new version of a dataset: all of them, or none."""
    files = _files(sources)
    # There has to be one to append to, and what text means depends on its columns.
    table = open_target(target).facts().schema if mode == "append" else None
    rows = _Sent(Rows(files, table))
    options = {"data_storage_version": data_storage_version} if data_storage_version else {}
    written = (_send if is_remote(target) else _write)(rows, target, mode, options)
    if as_json:
        print(json.dumps(written))
    else:
        print(
            f"version {written['version']}: {written['rows']:,} rows, {readable_bytes(written['bytes'])} "
            f"in {written['fragments']} new fragments"
        )


def _files(sources: Sequence[str]) -> list[str]:
    files = [found for source in sources for found in sorted(glob.glob(source)) or [source]]
    for file in files:
        if not Path(file).is_file():
            raise typer.BadParameter(f"no such file: {file}")
    kinds = {KINDS.get(Path(file).suffix.lower()) for file in files}
    if len(kinds) != 1 or None in kinds:
        raise typer.BadParameter(f"files have to be of one kind: {', '.join(KINDS)}")
    return files


class _Sent:
    """Rows on their way, with a progress line on stderr; counts what went."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.schema = rows.schema
        self.num_rows = 0
        self.num_batches = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        shown = TextColumn("{task.completed:,} rows, {task.fields[size]}")
        with Progress(shown, BarColumn(), TimeElapsedColumn(), console=stderr) as progress:
            task = progress.add_task("rows", total=self._rows.num_rows, size="0 B")
            num_bytes = 0
            for batch in self._rows.batches():
                for part in _slices(batch):
                    yield part
                    self.num_rows += part.num_rows
                    self.num_batches += 1
                    num_bytes += part.nbytes
                    progress.update(task, completed=self.num_rows, size=readable_bytes(num_bytes))


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    step = max(1, batch.num_rows * _BATCH_BYTES // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _write(rows: _Sent, path: str, mode: Mode, options: dict[str, Any]) -> dict[str, Any]:
    written = write_dataset(rows.batches(), path, schema=rows.schema, mode=mode, **options).snapshot
    result = asdict(written_by(written.storage, written.manifest))
    del result["counts"]  # of merges
    return result


def _send(rows: _Sent, target: str, mode: Mode, options: dict[str, Any]) -> dict[str, Any]:
    client, name = connect(target)
    if not name:
        raise typer.BadParameter(f"{target} names no dataset (grpc://host:port/name)")
    command = {"write": {"dataset": name, "mode": mode, **options}}
    descriptor = flight.FlightDescriptor.for_command(json.dumps(command))
    writer, reader = client.do_put(descriptor, rows.schema)
    answers: dict[str, Any] = {}
    try:
        for batch in rows.batches():
            writer.write_batch(batch)
    except Exception:  # of a file or of the server, which says the same again
        with suppress(pa.ArrowException):
            writer.close()
        raise
    finish = {"rows": rows.num_rows, "batches": rows.num_batches}
    writer.write_metadata(json.dumps({"finish": finish}).encode())
    writer.done_writing()
    while (message := reader.read()) is not None:
        answers |= json.loads(message.to_pybytes())
    writer.close()
    result: dict[str, Any] = answers["result"]
    return result
