"""`lance-flight put`: files into a dataset, here and on a server."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet
from typer.testing import Result

from flight_server.cli.commands.put import _send
from support.clients.command_line import run_verb
from support.clients.puts import files_below
from support.oracles.comparison import assert_tables_equal
from support.servers.server import RunningServer, serving

TABLE = pa.table({"id": range(30_000), "name": [f"n{row}" for row in range(30_000)]})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli-put")


@pytest.fixture(scope="module")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(root, tmp_path_factory.mktemp("log") / "server.log") as server:
        yield server


@pytest.fixture(params=["local", "remote"])
def target(request: pytest.FixtureRequest, root: Path, server: RunningServer) -> Callable[[str], str]:
    """A dataset of the root by its name, as both kinds of target."""
    if request.param == "local":
        return lambda name: str(root / f"{name}-local.lance")
    return lambda name: f"{server.uri}/{name}-remote"


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"t{abs(hash(request.node.nodeid))}"


def put(*arguments: str | Path, code: int = 0) -> Result:
    return run_verb("put", *arguments, code=code)


def written(root: Path, target: str) -> pa.Table:
    return lance.dataset(str(root / f"{Path(target).stem}.lance")).to_table()


def write_arrow(table: pa.Table, path: str) -> None:
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def write_json(table: pa.Table, path: str) -> None:
    Path(path).write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))


WRITERS: dict[str, Callable[[pa.Table, str], Any]] = {
    ".parquet": parquet.write_table,
    ".csv": csv.write_csv,
    ".jsonl": write_json,
    ".json": write_json,
    ".arrow": write_arrow,
    ".feather": feather.write_feather,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_kind_of_file(
    target: Callable[[str], str], name: str, root: Path, tmp_path: Path, suffix: str
) -> None:
    file = tmp_path / f"rows{suffix}"
    WRITERS[suffix](TABLE, str(file))
    done = put(file, target(name), "--mode", "create", "--json")
    result = json.loads(done.stdout)
    assert result["version"] == 1
    assert (result["rows"], result["fragments"]) == (30_000, 1)
    assert result["bytes"] > 100_000
    assert "rows: 30,000" in done.stderr
    assert_tables_equal(TABLE, written(root, target(name)))


def test_text_with_long_lines_and_values_of_several_lines(
    target: Callable[[str], str], name: str, root: Path, tmp_path: Path
) -> None:
    lines = ["a\n\n,b", 'say "x"', "", "y" * 3_000_000, *(f"{row}\n" * 40 for row in range(10_000))]
    table = pa.table({"id": range(len(lines)), "text": lines})
    csv.write_csv(table, tmp_path / "rows.csv")
    write_json(table, str(tmp_path / "rows.json"))
    for file in ("rows.csv", "rows.json"):
        put(tmp_path / file, target(name), "--mode", "overwrite")
        assert_tables_equal(table, written(root, target(name)))


def test_a_field_that_only_late_lines_have_is_not_lost(
    target: Callable[[str], str], name: str, root: Path, tmp_path: Path
) -> None:
    file = tmp_path / "rows.jsonl"
    early = json.dumps({"id": 1, "text": "x" * 1000}) + "\n"
    file.write_text(early * 5_000 + '{"id": 2, "more": 5}\n')
    put(file, target(name), "--mode", "create")
    assert written(root, target(name)).slice(5_000).to_pylist() == [{"id": 2, "text": None, "more": 5}]

    file.write_text(early * 20_000 + '{"id": 2, "more": 5}\n')
    done = put(file, target(name), "--mode", "overwrite", code=1)

    assert "rows.jsonl" in done.stderr.splitlines()[-1]
    assert "unexpected field" in done.stderr.splitlines()[-1]
    assert written(root, target(name)).num_rows == 5_001


def test_text_becomes_what_the_table_has(
    target: Callable[[str], str], name: str, root: Path, tmp_path: Path
) -> None:
    day = datetime(2020, 1, 2, tzinfo=UTC)
    first = {
        "i": pa.array([1], pa.int16()),
        "zip": pa.array(["01234"]),
        "at": pa.array([day], pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal("1.50")], pa.decimal128(8, 2)),
        "kind": pa.array(["a"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
        "left": pa.array([0.5], pa.float32()),
        "b": pa.array([b"x"]),
    }
    parquet.write_table(pa.table(first), tmp_path / "first.parquet")
    (tmp_path / "more.csv").write_text("left,zip,i,at,price,kind,b\n,007,2,2020-01-02T00:00:00Z,2,b,y\n")
    row = {"i": 3, "zip": "1", "at": "2020-01-02T00:00:00Z", "price": "3", "kind": "a", "b": "z"}
    (tmp_path / "more.json").write_text(json.dumps(row))
    put(tmp_path / "first.parquet", target(name), "--mode", "create")

    put(tmp_path / "more.csv", target(name))
    put(tmp_path / "more.json", target(name))

    table = written(root, target(name))
    assert table.schema.types == [column.type for column in first.values()]
    assert table.to_pydict() == {
        "i": [1, 2, 3],
        "zip": ["01234", "007", "1"],
        "at": [day] * 3,
        "price": [Decimal("1.50"), Decimal(2), Decimal(3)],
        "kind": ["a", "b", "a"],
        "left": [0.5, None, None],
        "b": [b"x", b"y", b"z"],
    }
    (tmp_path / "wrong.csv").write_text("i\n70000\n")
    error = put(tmp_path / "wrong.csv", target(name), code=1).stderr.splitlines()[-1]
    assert "wrong.csv" in error
    assert "70000" in error
    (tmp_path / "wider.csv").write_text("i,other\n7,1\n")
    assert "other" in put(tmp_path / "wider.csv", target(name), code=1).stderr.splitlines()[-1]


def test_arrow_files_that_are_streams(
    target: Callable[[str], str], name: str, root: Path, tmp_path: Path
) -> None:
    parts = [pa.table({"id": [1, 2]}), pa.table({"name": ["x"], "id": [3]})]
    for number, part in enumerate(parts):
        with ipc.new_stream(tmp_path / f"{number}.arrow", part.schema) as stream:
            stream.write_table(part)
    write_arrow(pa.table({"id": [4]}), str(tmp_path / "2.arrow"))

    put(tmp_path / "?.arrow", target(name), "--mode", "create")

    expected = pa.table({"id": [1, 2, 3, 4], "name": [None, None, "x", None]})
    assert_tables_equal(expected, written(root, target(name)))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("a.csv", b"n\xff\n1\n"),
        ("a.json", b'{"a": "\xff"}\n'),
        ("a.csv", b""),
        ("a.json", b"{}\n{}\n"),
        ("a.arrow", b""),
        ("a.csv", b"a,a\n1,2\n"),
        ("a.csv", b"a,b\n1\n"),
    ],
)
def test_what_cannot_be_kept_leaves_nothing(
    target: Callable[[str], str], name: str, root: Path, tmp_path: Path, file: str, content: bytes
) -> None:
    (tmp_path / file).write_bytes(content)
    before = {path for path in root.rglob("*") if path.is_file()}

    done = put(tmp_path / file, target(name), "--mode", "create", code=1)

    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert {path for path in root.rglob("*") if path.is_file()} == before


def test_globs_and_modes(target: Callable[[str], str], name: str, root: Path, tmp_path: Path) -> None:
    for number in range(3):
        parquet.write_table(TABLE.slice(number * 10, 10), tmp_path / f"part-{number}.parquet")
    more = TABLE.slice(0, 5).append_column("more", pa.array([1.5] * 5))
    parquet.write_table(more, tmp_path / "wider.parquet")
    aim = target(name)
    assert "30 rows" in put(tmp_path / "part-*.parquet", aim, "--mode", "create").stdout
    put(tmp_path / "part-0.parquet", tmp_path / "part-2.parquet", aim)
    expected = pa.concat_tables([TABLE.slice(0, 40).slice(0, 30), TABLE.slice(0, 10), TABLE.slice(20, 10)])
    assert_tables_equal(expected, written(root, aim))
    put(tmp_path / "part-0.parquet", tmp_path / "wider.parquet", aim, "--mode", "overwrite")
    assert written(root, aim).to_pydict()["more"] == [None] * 10 + [1.5] * 5
    version = ["--mode", "overwrite", "--storage-version", "2.1"]
    put(tmp_path / "part-0.parquet", aim, *version)
    assert lance.dataset(str(root / f"{Path(aim).stem}.lance")).data_storage_version == "2.1"


def test_merges(target: Callable[[str], str], name: str, root: Path, tmp_path: Path) -> None:
    """Update what matches and insert the rest is the default; the other plans are options."""
    (tmp_path / "first.csv").write_text("a,b,x,zip\n1,1,1.5,001\n1,2,2.5,002\n2,1,3.5,003\n")
    (tmp_path / "second.csv").write_text("b,a,x\n2,1,20\n9,9,90\n")
    aim = target(name)
    put(tmp_path / "first.csv", aim, "--mode", "create")
    merge = (tmp_path / "second.csv", aim, "--mode", "merge", "--on", "a,b")

    def rows() -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in written(root, aim).to_pylist())

    done = put(*merge)
    assert "1 row inserted, 1 row updated, 0 rows deleted" in done.stdout
    # Columns that the file lacks keep their values.
    expected = [(1, 1, 1.5, "001"), (1, 2, 20.0, "002"), (2, 1, 3.5, "003"), (9, 9, 90.0, None)]
    assert rows() == expected

    result = json.loads(put(*merge, "--when-matched", "do_nothing", "--json").stdout)
    assert (result["num_inserted_rows"], result["num_updated_rows"], result["num_deleted_rows"]) == (0, 0, 0)
    assert "matches" in put(*merge, "--when-matched", "fail", code=1).stderr
    put(*merge, "--when-matched", "do_nothing", "--when-not-matched", "do_nothing", code=2)
    put(*merge, "--when-matched-condition", "source.x > 50", "--when-not-matched", "do_nothing")
    assert rows() == expected
    bounds = ["--when-not-matched-by-source-condition", "x > 2"]
    put(*merge, "--when-not-matched-by-source", "delete", *bounds)
    assert rows() == [expected[0], expected[1], expected[3]]
    assert "there is no key column" in put(*merge[:-1], "a,nope", code=1).stderr
    assert "key" in put(*merge[:-2], code=1).stderr


def test_failures_leave_nothing(target: Callable[[str], str], name: str, root: Path, tmp_path: Path) -> None:
    good, other, broken = (tmp_path / f"{name}.parquet" for name in ("good", "other", "broken"))
    parquet.write_table(TABLE, good)
    parquet.write_table(pa.table({"id": ["text"]}), other)
    broken.write_bytes(good.read_bytes()[:-100])
    aim = target(name)
    before = files_below(root)
    for arguments, message in (
        ((good, aim), "no dataset"),
        ((broken, aim, "--mode", "create"), "arquet"),
        ((good, other, aim, "--mode", "create"), "id"),
    ):
        done = put(*arguments, code=1)
        assert message in done.stderr.splitlines()[-1]
        assert done.stderr.splitlines()[-1].startswith("error: ")
    assert files_below(root) == before
    put(good, aim, "--mode", "create")
    before = files_below(root)
    assert "exists" in put(good, aim, "--mode", "create", code=1).stderr
    assert "column" in put(other, aim, code=1).stderr
    assert files_below(root) == before


@pytest.mark.parametrize("prefix", ["127.0.0.1:8815", "localhost:8815", "[::1]:8815", "lance-1.example:8815"])
def test_an_address_without_its_scheme_is_no_path(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows for a server must not end in a local folder of its name, which nobody looks into."""
    monkeypatch.chdir(tmp_path)
    parquet.write_table(pa.table({"x": [1]}), "a.parquet")
    before = files_below(tmp_path)
    failed = put("a.parquet", f"{prefix}/trips", "--mode", "create", code=2)
    assert f"grpc://{prefix}/trips" in failed.stderr.replace("\n", "").replace("│", "").replace(" ", "")
    assert files_below(tmp_path) == before
    put("a.parquet", f"./{prefix}/trips", "--mode", "create")
    put("a.parquet", f"{prefix}/trips")  # now there is such a folder


class _Interrupted:
    """Rows during which somebody presses Ctrl-C."""

    schema = pa.schema({"x": pa.int64()})
    num_rows = num_batches = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"x": [1]})
        raise KeyboardInterrupt


def test_ctrl_c_writes_nothing_and_is_quiet(
    root: Path, server: RunningServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """Arrow complains on stderr about a stream that nobody closed."""
    with pytest.raises(KeyboardInterrupt):
        _send(_Interrupted(), f"{server.uri}/interrupted", "create", None, {})  # type: ignore[arg-type]
    gc.collect()
    assert capfd.readouterr().err == ""
    assert not (root / "interrupted.lance").exists()


def test_wrong_usage(target: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "a.parquet").touch()
    (tmp_path / "a.csv").touch()
    (tmp_path / "a.txt").touch()
    for arguments in (
        [tmp_path / "missing.parquet", target("x")],
        [tmp_path / "a.parquet", tmp_path / "a.csv", target("x")],
        [tmp_path / "a.txt", target("x")],
        [tmp_path / "a.parquet", target("x"), "--mode", "upsert"],
        [tmp_path / "a.parquet"],
    ):
        put(*arguments, code=2)
