"""`lance-flight put`: rows of Parquet, CSV, JSON and Arrow files into a dataset, here or on a server."""

import glob
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import typer
from pyarrow import flight
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from flight_server.cli.access import with_access
from flight_server.cli.datasets.opening import connect, is_remote, open_target
from flight_server.cli.errors import stderr
from flight_server.cli.files.compressed import suffixes
from flight_server.cli.files.source_files import COMPRESSIBLE, KINDS, Rows
from flight_server.cli.files.text_options import Column, text_options
from flight_server.cli.rendering import count, printable
from flight_server.cli.values import readable_bytes
from lance_core import dataset, write_dataset
from lance_core.api.serving import MergePlan, merge_stream, written_by
from lance_core.errors import InvalidInputError

PutMode = Literal["create", "append", "overwrite", "merge"]
WhenMatched = Literal["update_all", "do_nothing", "fail", "delete"]
WhenNotMatched = Literal["insert_all", "do_nothing"]
WhenNotMatchedBySource = Literal["keep", "delete"]

_BATCH_BYTES = 2 << 20
"""Bytes of the batches that are sent."""


@with_access
def put(
    sources: Annotated[
        list[str],
        typer.Argument(
            help=f"Files or quoted globs; all of one kind: {', '.join(KINDS)}. Text may be .gz or .zst."
        ),
    ],
    target: Annotated[str, typer.Argument(help="grpc://host:port/name or a local path.")],
    mode: Annotated[PutMode, typer.Option(help="What becomes of rows that are there.")] = "append",
    on: Annotated[
        list[str] | None,
        typer.Option(help="merge: key columns, comma separated; the dataset's primary key if left out."),
    ] = None,
    when_matched: Annotated[
        WhenMatched | None, typer.Option(help="merge: rows with the key of a new one.  [default: update_all]")
    ] = None,
    when_matched_condition: Annotated[
        str | None, typer.Option(help="merge: SQL on source.COLUMN and target.COLUMN; only such pairs.")
    ] = None,
    when_not_matched: Annotated[
        WhenNotMatched | None, typer.Option(help="merge: new rows with a new key.  [default: insert_all]")
    ] = None,
    when_not_matched_by_source: Annotated[
        WhenNotMatchedBySource | None,
        typer.Option(help="merge: rows whose key no new row has.  [default: keep]"),
    ] = None,
    when_not_matched_by_source_condition: Annotated[
        str | None, typer.Option(help="merge: SQL; only such rows are deleted.")
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(help=r"CSV: between cells, such as ';' or '\t'.  [default: comma; tab for .tsv]"),
    ] = None,
    quote: Annotated[str, typer.Option(help="CSV: around cells; '' if there is none.")] = '"',
    nulls: Annotated[
        list[str] | None,
        typer.Option(help="CSV: unquoted cells that are null, comma separated.  [default: the empty cell]"),
    ] = None,
    quoted_nulls: Annotated[
        bool, typer.Option("--quoted-nulls", help="CSV: these cells are null within quotes, too.")
    ] = False,
    types: Annotated[
        list[str] | None,
        typer.Option(help="CSV, JSON: the type of a column: zip=string; repeatable.", metavar="COLUMN=TYPE"),
    ] = None,
    no_infer: Annotated[
        bool, typer.Option("--no-infer", help="CSV: columns without a known type are text.")
    ] = False,
    encoding: Annotated[str, typer.Option(help="CSV, JSON: such as latin-1 or utf-16.")] = "utf-8",
    decimal_point: Annotated[str, typer.Option(help="CSV: of numbers, such as ','.")] = ".",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what the columns become, and write nothing.")
    ] = False,
    data_storage_version: Annotated[
        str | None, typer.Option("--storage-version", help="Of the data files: 0.1, 2.0, 2.1, 2.2 or stable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Write the rows of files as a new version of a dataset: all of them, or none.

    Types of CSV and JSON files are inferred where the dataset and --types do not tell them, and printed
    before anything is written. No value changes without a word; docs/commands.md has the rules.
    """
    files = _files(sources)
    options = text_options(
        _kind(files[0]),
        delimiter=delimiter,
        quote=quote,
        nulls=nulls,
        quoted_nulls=quoted_nulls,
        types=types,
        no_infer=no_infer,
        encoding=encoding,
        decimal_point=decimal_point,
    )
    merge = _merge_plan(
        mode,
        on=tuple(key for keys in on or () for key in keys.split(",")),
        when_matched=when_matched,
        when_matched_condition=when_matched_condition,
        when_not_matched=when_not_matched,
        when_not_matched_by_source=when_not_matched_by_source,
        when_not_matched_by_source_condition=when_not_matched_by_source_condition,
    )
    # There has to be a table to append to or to merge with, and what text means depends on its columns.
    table = open_target(target).facts().schema if mode in ("append", "merge") else None
    source = Rows(files, table, options)
    _show_columns(source.columns)
    columns = [column.as_data() for column in source.columns]
    if dry_run:
        if as_json:
            print(json.dumps({"columns": columns}))
        return
    rows = _Sent(source)
    settings = {"data_storage_version": data_storage_version} if data_storage_version else {}
    written = (_send if is_remote(target) else _write)(rows, target, mode, merge, settings)
    if as_json:
        print(json.dumps(written | ({"columns": columns} if columns else {})))
    else:
        print(
            f"version {written['version']}: {_changes(written)}, "
            f"{readable_bytes(written['bytes'])} in {count(written['fragments'], 'new fragment')}"
        )


def _files(sources: Sequence[str]) -> list[str]:
    files = [found for source in sources for found in sorted(glob.glob(source)) or [source]]
    for file in files:
        if not Path(file).is_file():
            raise typer.BadParameter(f"no such file: {file}")
    kinds = {_kind(file) for file in files}
    if len(kinds) != 1 or None in kinds:
        raise typer.BadParameter(f"expected files of one kind, with names that end in {', '.join(KINDS)}")
    return files


def _kind(file: str) -> str | None:
    """Return the kind of a file by its name; None for unknown and for compressed ones that need no codec."""
    suffix, codec = suffixes(Path(file))
    kind = KINDS.get(suffix)
    return kind if codec is None or kind in COMPRESSIBLE else None


def _merge_plan(mode: str, **fields: Any) -> MergePlan | None:
    given = {name: value for name, value in fields.items() if value not in (None, ())}
    if mode != "merge":
        for name in given:
            hint = f"--{name.replace('_', '-')}"
            raise typer.BadParameter("allowed only with --mode merge", param_hint=hint)
        return None
    plan = MergePlan(**{"when_matched": "update_all", "when_not_matched": "insert_all"} | given)
    try:
        plan.check()
    except InvalidInputError as error:
        raise typer.BadParameter(str(error), param_hint="--mode") from None
    return plan


def _changes(written: Mapping[str, Any]) -> str:
    """Return the number of rows that were written, or the numbers that a merge changed."""
    kinds = [kind for kind in ("inserted", "updated", "deleted") if f"num_{kind}_rows" in written]
    changes = [f"{count(written[f'num_{kind}_rows'], 'row')} {kind}" for kind in kinds]
    return ", ".join(changes) or count(written["rows"], "row")


def _show_columns(columns: Sequence[Column]) -> None:
    """Print the columns of text files to stderr, one line each."""
    cells = [
        (printable(each.name), str(each.type), ": ".join(filter(None, (_SOURCES[each.source], each.example))))
        for each in columns
    ]
    widths = [max((len(row[place]) for row in cells), default=0) for place in range(2)]
    for name, type_name, why in cells:
        line = f"{name:{widths[0]}}  {type_name:{widths[1]}}  {why}"
        stderr.print(printable(line), markup=False, soft_wrap=True)


_SOURCES = {"given": "--types", "dataset": "the dataset", "inferred": "inferred", "text": "stays text"}


class _Sent:
    """Rows that are sent to a server: counts them, and shows a progress line on stderr."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.schema = rows.schema
        self.num_rows = 0
        self.num_batches = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        shown = TextColumn("rows: {task.completed:,}, {task.fields[size]}")
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


def _write(
    rows: _Sent, path: str, mode: PutMode, merge: MergePlan | None, settings: dict[str, Any]
) -> dict[str, Any]:
    if mode != "merge":
        made = write_dataset(rows.batches(), path, schema=rows.schema, mode=mode, **settings).snapshot
    else:
        assert merge is not None
        made = merge_stream(dataset(path).snapshot, rows.batches(), rows.schema, merge)
    written = asdict(written_by(made.storage, made.manifest))
    counts: dict[str, Any] = written.pop("counts")  # of merges, as a server tells them
    return written | counts


def _send(
    rows: _Sent, target: str, mode: PutMode, merge: MergePlan | None, settings: dict[str, Any]
) -> dict[str, Any]:
    client, name = connect(target)
    if not name:
        raise typer.BadParameter(f"{target} names no dataset (grpc://host:port/name)")
    command = {"dataset": name, "mode": mode, **settings}
    if merge is not None:
        command |= {field: value for field, value in asdict(merge).items() if value not in (None, ())}
        command["mode"] = "merge_insert"
    descriptor = flight.FlightDescriptor.for_command(json.dumps({"write": command}))
    writer, reader = client.do_put(descriptor, rows.schema)
    answers: dict[str, Any] = {}
    try:
        for batch in rows.batches():
            writer.write_batch(batch)
    except BaseException:  # of a file, of the server, which says the same again, or Ctrl-C
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
