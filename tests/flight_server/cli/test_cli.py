"""The command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyarrow import ipc, parquet
from typer.main import get_command
from typer.testing import Result

from flight_server.cli import app
from flight_server.cli.verbs import VERBS
from support.clients.command_line import run_verb
from support.servers.served import Root
from support.servers.server import RunningServer

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Runs a command in this process; see `test_as_a_process` for the real thing."""
    return run_verb


@pytest.fixture(params=["local", "remote"])
def trips(request: pytest.FixtureRequest, root: Root, server: RunningServer) -> str:
    """The dataset as both kinds of target."""
    return str(root.path / "trips.lance") if request.param == "local" else f"{server.uri}/trips"


SCRIPT = [str(Path(sys.executable).with_name("lance-flight"))]
MODULE = [sys.executable, "-m", "flight_server.cli"]


@pytest.mark.parametrize(
    ("program", "arguments", "code", "stdout", "stderr"),
    [
        (SCRIPT, ["--version"], 0, r"lance-flight \S+\n", ""),
        (SCRIPT, ["launch"], 2, "", r"(?s).*No such command.*"),
        (SCRIPT, ["show", "nowhere"], 1, "", r"error: .*\n"),
        (MODULE, ["show", "nowhere"], 1, "", r"error: .*\n"),
    ],
)
def test_as_a_process(program: list[str], arguments: list[str], code: int, stdout: str, stderr: str) -> None:
    """Exit codes and streams of the installed script; `python -m flight_server.cli` runs the same program."""
    done = subprocess.run([*program, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code
    assert re.fullmatch(stdout, done.stdout)
    assert re.fullmatch(stderr, done.stderr)


def test_every_verb_has_its_line_in_the_list() -> None:
    """The list is shown without importing the verbs, whose help begins with the same line."""
    verbs = get_command(app).commands.values()  # type: ignore[attr-defined]
    assert {verb.name: verb.help for verb in verbs} == VERBS
    for verb in verbs:
        assert verb.command.name == verb.name
        assert " ".join(verb.command.help.partition("\n\n")[0].split()) == verb.help


HEAVY = "flight_server.service grpc lance_core.api pandas pyarrow pyarrow.compute rich sqlglot"
"""Modules that take long to import, each of which some verb does without."""

STARTED = """
import sys
from flight_server.cli import app

try:
    app(sys.argv[2:], prog_name="lance-flight")
finally:
    print(*[name for name in sys.argv[1].split() if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        ("--version", ""),
        ("--help", "rich"),
        ("serve --help", "rich"),
        ("ls SERVER", "pyarrow rich"),
        ("head SERVER/trips -n 1", "pyarrow rich"),
        ("scan SERVER/trips --limit 1", "pyarrow rich"),
        ("head ROOT/ns/vectors.lance -n 1", "lance_core.api pyarrow rich"),
    ],
)
def test_verbs_import_what_they_need(arguments: str, needed: str, root: Root, server: RunningServer) -> None:
    """Importing all of them takes longer than most verbs run."""
    words = [word.replace("SERVER", server.uri).replace("ROOT", str(root.path)) for word in arguments.split()]
    command = [sys.executable, "-c", STARTED, HEAVY, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines()[-1].split() == needed.split(), done.stdout


@pytest.mark.parametrize("arguments", [[], ["launch"], ["head"], ["head", "x", "--rows", "-1"], ["serve"]])
def test_wrong_usage(run: Run, arguments: list[str]) -> None:
    run(*arguments, code=2)


def test_ls(run: Run, root: Root, server: RunningServer) -> None:
    local = [json.loads(line) for line in run("ls", root.path, "--json").stdout.splitlines()]
    remote = [json.loads(line) for line in run("ls", server.uri, "--json").stdout.splitlines()]
    assert local == remote
    trips = next(entry for entry in local if entry["dataset"] == "trips")
    assert (trips["version"], trips["rows"], trips["columns"]) == (2, 2700, 7)
    assert "CorruptFileError" in next(entry for entry in local if entry["dataset"] == "bad/manifest")["error"]
    assert [
        json.loads(line)["dataset"] for line in run("ls", server.uri, "ns/*", "--json").stdout.splitlines()
    ] == ["ns/vectors"]
    assert "ns/vectors" in run("ls", root.path).stdout


def test_show(run: Run, trips: str, root: Root) -> None:
    shown = json.loads(run("show", trips, "--json").stdout)
    assert (shown["version"], shown["rows"], shown["fragments"]) == (2, 2700, 3)
    assert [field["name"] for field in shown["schema"]] == root.trips.schema.names
    assert json.loads(run("show", trips, "--at", "1", "--json").stdout)["rows"] == 3000
    assert "pickup" in run("show", trips).stdout


def test_head(run: Run, trips: str, root: Root) -> None:
    lines = run("head", trips, "-n", "3", "--columns", "id,city,pickup.zone", "--json").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(row["id"], row["city"]) for row in rows] == [(0, "Porto"), (1, "Lund"), (2, "Kyoto")]
    assert "driver 0" in run("head", trips).stdout


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_scan_into_a_file(run: Run, trips: str, root: Root, tmp_path: Path, suffix: str) -> None:
    output = tmp_path / f"x{suffix}"
    done = run(
        "scan", trips, "--output", output, "--columns", "id,fare,city", "--offset", "100", "--limit", "2000"
    )
    assert done.stdout == ""
    table = parquet.read_table(output) if suffix == ".parquet" else ipc.open_file(output).read_all()
    expected = root.trips.select(["id", "fare", "city"]).slice(100, 2000)
    assert repr(table.to_pylist()) == repr(expected.to_pylist())
    assert table.schema.types == expected.schema.types
    assert list(tmp_path.iterdir()) == [output]


def test_scan_to_stdout(run: Run, trips: str, root: Root) -> None:
    lines = run("scan", trips, "--limit", "5").stdout.splitlines()
    rows = [json.loads(line, parse_constant=lambda name: pytest.fail(name)) for line in lines]
    assert [row["id"] for row in rows] == root.trips["id"].slice(0, 5).to_pylist()
    assert rows[1]["stops"] == [0]


def test_failures_are_one_line_and_exit_code_1(
    run: Run, root: Root, server: RunningServer, tmp_path: Path
) -> None:
    for arguments in (
        ["show", root.path / "missing"],
        ["show", f"{server.uri}/missing"],
        ["head", root.path / "bad" / "manifest.lance"],
        ["head", f"{server.uri}/bad/manifest"],
        ["head", f"{server.uri}/trips", "--columns", "nope"],
        ["ls", "grpc://127.0.0.1:1"],
        ["scan", f"{server.uri}/bad/pages", "--output", tmp_path / "x.parquet"],
        ["inspect", root.path / "missing.lance"],
        ["inspect", __file__],
    ):
        done = run(*arguments, code=1)
        assert done.stderr.splitlines()[-1].startswith("error: "), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_targets_that_are_none(run: Run, root: Root, server: RunningServer) -> None:
    for arguments in (
        ["show", "http://127.0.0.1/x"],
        ["show", server.uri],
        ["ls", f"{server.uri}/trips"],
        ["scan", root.path / "trips.lance", "--output", "x.txt"],
        ["scan", root.path / "trips.lance", "--output", "x.parquet.gz"],
        ["scan", root.path / "trips.lance", "--format", "parquet"],
    ):
        run(*arguments, code=2)


def test_inspect(run: Run, tmp_path: Path) -> None:
    words = ["a rather long sentence that repeats itself", "and another one of the kind"] * 5000
    table = pa.table(
        {
            "id": range(10_000),
            "text": pa.array([f"{word} {i}" for i, word in enumerate(words)]),
            "nothing": pa.nulls(10_000, pa.int32()),
            "place": pa.StructArray.from_arrays(
                [pa.array([1.5] * 10_000), pa.array([[1, 2]] * 10_000)], names=["x", "tags"]
            ),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array([0.25] * 10_240_000, pa.float32()), 1024),
        }
    )
    for version in ("2.1", "2.2"):
        path = tmp_path / version
        lance.write_dataset(table, path, data_storage_version=version)
        (file,) = (path / "data").glob("*.lance")
        found = json.loads(run("inspect", file, "--json").stdout)
        assert (found["version"], found["rows"], found["bytes"]) == (version, 10_000, file.stat().st_size)
        columns = {column["name"]: column for column in found["columns"]}
        assert list(columns) == ["id", "text", "nothing", "place.x", "place.tags.item", "vector"]
        assert all(sum(page["rows"] for page in column["pages"]) == 10_000 for column in found["columns"])
        assert columns["id"]["pages"][0]["encodings"]["values"] == "inline bitpacking(64)"
        assert "fsst(variable(" in columns["text"]["pages"][0]["encodings"]["values"]
        assert columns["nothing"]["pages"][0]["layout"] == "constant"
        assert columns["vector"]["pages"][0]["layout"] == "full-zip"
        assert "repetition" in columns["place.tags.item"]["pages"][0]["encodings"]
        text = " ".join(run("inspect", file).stdout.split())
        assert f"version {version}" in text
        assert "full-zip: list of 1024(flat(32))" in text


def test_inspect_2_0(run: Run, tmp_path: Path) -> None:
    """Every field of a 2.0 file has a column."""
    table = pa.table(
        {
            "id": pa.array([1, None, 3], pa.int32()),
            "place": [{"name": "a", "tags": [1, 2]}] * 3,
            "vector": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
            "kind": pa.array(["x", None, "y"]).dictionary_encode(),
        }
    )
    lance.write_dataset(table, tmp_path / "old", data_storage_version="2.0")
    (file,) = (tmp_path / "old" / "data").glob("*.lance")
    found = json.loads(run("inspect", file, "--json").stdout)
    pages = {column["name"]: column["pages"][0]["encodings"]["values"] for column in found["columns"]}
    strings = "binary(ends flat(64), bytes flat(8))"
    assert pages == {
        "id": "some nulls(flat(32))",
        "place": "struct",
        "place.name": strings,
        "place.tags": "lists(ends flat(64), 6 items)",
        "place.tags.item": "flat(64)",
        "vector": "some nulls(list of 2(some nulls(flat(32))))",
        "kind": f"dictionary(flat(32), 3 items {strings})",
    }


def test_inspect_names_the_bytes_of_early_strings(run: Run) -> None:
    """Strings of release 0.12 take two columns, of which only one belongs to a field."""
    folder = Path(__file__).parents[2] / "interop" / "fixtures" / "0.12.3" / "2.0.lance" / "data"
    found = json.loads(run("inspect", next(folder.iterdir()), "--json").stdout)
    names = [column["name"] for column in found["columns"]]
    assert names[9:12] == ["text", "text (bytes)", "city"]
    assert names[-1] == "stops.item.name (bytes)"


def test_inspect_0_1(run: Run, tmp_path: Path) -> None:
    """Every field but structs has pages, one per batch; statistics say what holds for the rows as read."""
    table = pa.table(
        {
            "id": pa.array([1, None, 3, 4], pa.int32()),
            "place": [{"name": "a", "tags": [1, 2]}] * 4,
            "kind": pa.array(["x", None, "y", "x"]).dictionary_encode(),
        }
    )
    lance.write_dataset(table, tmp_path / "old", data_storage_version="0.1", max_rows_per_group=2)
    (file,) = (tmp_path / "old" / "data").glob("*.lance")
    found = json.loads(run("inspect", file, "--json").stdout)
    assert (found["version"], found["rows"], found["bytes"]) == ("0.1", 4, file.stat().st_size)
    pages = {column["name"]: column["pages"] for column in found["columns"]}
    assert {name: [(p["layout"], p["rows"], p["bytes"]) for p in of] for name, of in pages.items()} == {
        "id": [("plain", 2, 8)] * 2,
        "place": [],
        "place.name": [("var-binary", 2, 26)] * 2,
        "place.tags": [("list offsets", 2, 12)] * 2,
        "place.tags.item": [("plain", 4, 32)] * 2,
        "kind": [("dictionary", 2, 8)] * 2,
    }
    unknown = {"null_count": 0, "nan_count": 0, "min": None, "max": None}
    assert [page["statistics"] for page in pages["id"]] == [unknown, {**unknown, "min": "3", "max": "4"}]
    assert "statistics" not in pages["kind"][0]
    assert "min a, max a" in run("inspect", file).stdout


def test_inspect_refuses_other_versions_by_name(run: Run, tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": [1]}), tmp_path / "new")
    (file,) = (tmp_path / "new" / "data").glob("*.lance")
    file.write_bytes(file.read_bytes()[:-8] + b"\x02\x00\x03\x00LANC")
    assert "2.3" in run("inspect", file, code=1).stderr


def test_scan_and_head_filter_and_compute(run: Run, trips: str, root: Root) -> None:
    done = run("scan", trips, "--filter", "id < 5", "--columns", '{"next": "id + 1", "driver": "driver"}')
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows == [{"next": k + 1, "driver": f"driver {k}"} for k in (0, 1, 2, 4)]
    done = run("head", trips, "--filter", "id >= 2000", "-n", "2", "--columns", "id", "--json")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [2000, 2001]


def test_scan_writes_what_passes(run: Run, trips: str, root: Root, tmp_path: Path) -> None:
    output = tmp_path / "some.parquet"
    run("scan", trips, "-o", output, "--filter", "id >= 100 and id < 200")
    assert parquet.read_table(output).num_rows == 90


def test_scan_explains(run: Run, trips: str) -> None:
    arguments = ["scan", trips, "--filter", "id < 5", "--columns", "driver", "--explain"]
    done = run(*arguments, "--analyze", "--json")
    explained = json.loads(done.stdout)
    assert explained["rows_returned"] == 4
    assert {column["name"] for column in explained["fragments"][0]["columns"]} == {"driver", "id"}
    assert "pages pruned" in run(*arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--filter", "idd < 5"], "idd"),
        (["--columns", '{"x": "idd + 1"}'], "idd"),
    ],
)
def test_an_expression_that_cannot_be_used_fails(
    run: Run, trips: str, arguments: list[str], words: str
) -> None:
    assert words in run("scan", trips, *arguments, code=1).stderr


@pytest.mark.parametrize("arguments", [["--columns", "{x}"], ["--columns", '{"x": 1}'], ["--analyze"]])
def test_wrong_usage_of_scan(run: Run, trips: str, arguments: list[str]) -> None:
    run("scan", trips, *arguments, code=2)
