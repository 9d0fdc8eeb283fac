"""Output of the command line on terminals: readable in 80 columns, and nothing that a terminal obeys."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from rich.cells import cell_len

from flight_server.cli.rendering import count, print_rows, printable
from support.clients.command_line import run_verb as run
from support.processes.forked import ForkedProcess
from support.servers.served import Root
from support.servers.server import RunningServer

ESCAPE = "\x1b[31mred\x1b[0m"
ODD = pa.table(
    {
        "[/b]": [1, 2],
        "[red]name[/red]": ["[/]", "[link=http://x]y[/link]"],
        f"a{ESCAPE}": [f"b{ESCAPE}", "c\r\nd\te\x9bf\u202eg"],
        "time": pa.array([0, 1], pa.timestamp("us", "Europe/Berlin")),
    }
)
WIDE = pa.table({f"column_{k}": [k, k * 1000] for k in range(30)})


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A dataset whose names and values are markup of rich and escape sequences."""
    lance.write_dataset(ODD, tmp_path / "odd.lance")
    return tmp_path / "odd.lance"


def is_harmless(text: str) -> bool:
    """Return whether a terminal shows the text and does nothing else."""
    return all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize(
    "arguments",
    [
        ("show",),
        ("head",),
        ("head", "-n", "1"),
        ("head", "--json"),
        ("scan",),
        ("scan", "--explain"),
        ("bench", "--runs", "1"),
        ("versions",),
        ("columns", "drop", f"x{ESCAPE}"),
        ("delete", f"x{ESCAPE} = 1"),
        ("tag", "create", f"x{ESCAPE}"),
    ],
)
def test_names_and_values_are_no_markup_and_no_escapes(odd: Path, arguments: tuple[str, ...]) -> None:
    """A name in brackets ended commands with a stack; escape sequences of data reached the terminal."""
    group = 2 if arguments[0] in ("columns", "tag") else 1
    fails = arguments[0] in ("columns", "tag", "delete")
    done = run(*arguments[:group], odd, *arguments[group:], code=int(fails))
    assert is_harmless(done.stdout), done.stdout
    assert is_harmless(done.stderr), done.stderr


def test_names_and_types_are_shown_whole(odd: Path) -> None:
    """Types have brackets, which were taken for markup."""
    shown = run("show", odd).stdout
    assert "timestamp[us, tz=Europe/Berlin]" in shown
    for name in ("[/b]", "[red]name[/red]", r"a\x1b[31mred\x1b[0m"):
        assert name in shown
    assert "[link=http://x]y[/link]" in run("head", odd, "--columns", "[red]name[/red]").stdout
    line = run("head", odd, "--json").stdout.splitlines()[1]
    assert json.loads(line)[f"a{ESCAPE}"] == ODD[2][1].as_py()


def test_a_damaged_file_is_named_without_escapes(tmp_path: Path) -> None:
    """The names of datasets and files come from whoever wrote them."""
    (tmp_path / f"x{ESCAPE}").mkdir()
    failed = run("show", tmp_path / f"x{ESCAPE}", code=1)
    assert is_harmless(failed.stderr)
    assert r"\x1b" in failed.stderr


def test_times_beyond_those_of_python(tmp_path: Path) -> None:
    """Dates beyond the year 9999 ended `head` and `scan` with a stack."""
    table = pa.table(
        {
            "date": pa.array([10**7, None, 0], pa.date32()),
            "time": pa.array([2**62, None, 0], pa.timestamp("s")),
            "span": pa.array([2**62, None, 0], pa.duration("s")),
            "list": pa.array([[{"t": 2**62}], None, []], pa.list_(pa.struct({"t": pa.timestamp("us")}))),
        }
    )
    lance.write_dataset(table, tmp_path / "t")
    far = f"{2**62} s since 1970"
    for verb in ("head", "scan"):
        arguments = ["--json"] if verb == "head" else []
        first, second, third = map(json.loads, run(verb, tmp_path / "t", *arguments).stdout.splitlines())
        assert first == {
            "date": f"{10**7} days since 1970",
            "time": far,
            "span": f"{2**62} s",
            "list": [{"t": f"{2**62} us since 1970"}],
        }
        assert set(second.values()) == {None}
        assert third["date"] == "1970-01-01"
    assert far in run("head", tmp_path / "t", "--columns", "time").stdout


def test_children_of_structs_have_lines(tmp_path: Path) -> None:
    table = pa.table({"place": [{"name": "a", "point": {"x": 1.5}}]})
    lance.write_dataset(table, tmp_path / "t")
    lines = [line.strip("│ \n") for line in run("show", tmp_path / "t").stdout.splitlines()]
    cells = [[cell.strip() for cell in line.split("│")] for line in lines if "│" in line]
    assert [row[:2] for row in cells] == [
        ["place", "struct"],
        ["name", "string"],
        ["point", "struct"],
        ["x", "double"],
    ]


def test_columns_in_the_middle_are_left_out_by_name(tmp_path: Path) -> None:
    lance.write_dataset(WIDE, tmp_path / "wide")
    text = run("head", tmp_path / "wide").stdout
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert all(name in lines[1] for name in ("column_0 ", "column_1 ", "column_28 ", "column_29 "))
    left_out = " ".join(text[text.index("... ") :].split())
    names = left_out.partition(": ")[2].split(", ")
    assert left_out.startswith(f"... {len(names)} more columns: column_3, ")
    shown = [name for name in WIDE.schema.names if f"{name} " in lines[1]]
    assert sorted(names + shown) == sorted(WIDE.schema.names)


def test_one_row_is_a_record(tmp_path: Path) -> None:
    lance.write_dataset(WIDE, tmp_path / "wide")
    lines = run("head", tmp_path / "wide", "-n", "1").stdout.splitlines()
    assert [line.split() for line in lines] == [[f"column_{k}", f"{k}"] for k in range(30)]


def test_records_keep_names_beside_long_values(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(["order id", "ordered at", "address"], [[1, "now", "long " * 100]])
    lines = capsys.readouterr().out.splitlines()
    assert [line.rstrip() for line in lines[:2]] == ["order id    1", "ordered at  now"]
    assert lines[2].startswith("address     long long")
    assert lines[2].endswith("…")
    assert len(lines[2]) == 80


@pytest.mark.parametrize(
    "arguments",
    [
        ("scan", "--format", "csv"),
        pytest.param(("scan",), marks=pytest.mark.long),
        pytest.param(("head", "-n", "9999999", "--json"), marks=pytest.mark.long),
    ],
)
def test_a_pipe_that_nobody_reads_any_more_is_no_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """`lance-flight scan ... | head` ends like a program that the signal SIGPIPE ended, without a word."""
    lance.write_dataset(pa.table({"n": range(300_000)}), tmp_path / "t.lance")
    verb, *options = arguments
    command = [sys.executable, "-m", "flight_server.cli", verb, str(tmp_path / "t.lance"), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 128 + signal.SIGPIPE


def test_rows_of_few_long_columns_are_records(capsys: pytest.CaptureFixture[str]) -> None:
    """Every value has one line, which is cut where it does not fit."""
    names = [f"name {k} {'x' * 40}" for k in range(3)]
    print_rows(names, [["y" * 300, None, "日本" * 100], [1, 2, 3]])
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines if line.startswith("row")] == ["row 0", "row 1"]
    assert len(lines) == 8
    assert max(map(cell_len, lines)) <= 80
    assert lines[1].rstrip().endswith("y…")


@pytest.mark.parametrize("num_rows", [0, 1, 3])
def test_rows_without_columns_and_columns_without_rows(
    num_rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    print_rows([], [[]] * num_rows)
    print_rows(["a"], [])
    print_rows([f"name_{k}" for k in range(30)], [])
    assert max(map(cell_len, capsys.readouterr().out.splitlines())) <= 80


def test_ls_fits_and_says_below_what_is_wrong(root: Root) -> None:
    """The column of errors was narrower than a word, under a header without a name."""
    lines = run("ls", root.path).stdout.splitlines()
    header = next(line for line in lines if "dataset" in line)
    assert [cell.strip() for cell in header.strip("┃ ").split("┃")] == [
        "dataset",
        "version",
        "rows",
        "size",
        "columns",
    ]
    table = [line for line in lines if line[0] in "┏┃┡│└├"]
    assert max(map(cell_len, table)) <= 80
    assert any(line.startswith("bad/manifest: [CorruptFileError] ") for line in lines)


@pytest.mark.parametrize(
    ("number", "thing", "text"),
    [(0, "row", "0 rows"), (1, "row", "1 row"), (1200, "row", "1,200 rows"), (2, "branch", "2 branches")],
)
def test_counts(number: int, thing: str, text: str) -> None:
    assert count(number, thing) == text


def test_printable() -> None:
    assert printable("Zürich 日本 \U0001f600") == "Zürich 日本 \U0001f600"
    assert printable("a\nb\x1b\x7f\x9b\u202e\ud800") == r"a\nb\x1b\x7f\x9b\u202e\ud800"


def test_a_server_that_does_not_answer() -> None:
    """A sentence in place of gRPC's text, with the address that was asked."""
    for uri, reason in (
        ("grpc://127.0.0.1:1", "nothing listens on this port"),
        ("grpc://nowhere.invalid:8815", "the name of the host is not known"),
    ):
        for arguments in (("ls", uri), ("show", f"{uri}/trips"), ("validate", f"{uri}/trips")):
            failed = run(*arguments, code=1)
            assert failed.stderr == f"error: no server answers at {uri}: {reason}\n"
            assert failed.stdout == ""


def test_a_port_in_use(server: RunningServer, root: Root, tmp_path: Path) -> None:
    """`serve` says so in one line, whoever has the port."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        for port in (other.getsockname()[1], int(server.uri.rpartition(":")[2])):
            log = tmp_path / str(port)
            process = ForkedProcess(["serve", str(root.path), "--port", str(port)], log, os.environ)
            with process.stdout as stdout:
                assert stdout.read() == ""
            assert process.wait(120) == 1
            assert log.read_text() == (
                f"error: port {port} is in use on 127.0.0.1; give another one with --port\n"
            )
