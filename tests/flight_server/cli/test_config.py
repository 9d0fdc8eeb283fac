"""`lance-flight config`: what a server would run with, and where it comes from."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from flight_server.settings import Settings
from support.clients.command_line import run_verb


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in fields(Settings):
        monkeypatch.delenv(f"LANCE_FLIGHT_{setting.name.upper()}", raising=False)


def settings(*arguments: str | Path) -> dict[str, dict[str, Any]]:
    described = json.loads(run_verb("config", *arguments, "--json").stdout)
    return {each.pop("name"): each for each in described["settings"]}


def test_every_setting_with_its_default() -> None:
    described = settings()
    defaults = Settings(root="")
    assert list(described) == [setting.name for setting in fields(Settings) if setting.metadata]
    assert {each["from"] for each in described.values()} == {"default"}
    assert described["port"]["value"] == defaults.port
    assert described["memory_limit"]["value"] == defaults.memory_limit
    assert described["advertise"]["value"] == []
    assert described["cache_dir"]["value"] is None


def test_options_come_before_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LANCE_FLIGHT_PORT", "1")
    monkeypatch.setenv("LANCE_FLIGHT_MAX_STREAMS", "9")
    options = ["--port", "0", "--advertise", "grpc://a:1", "--advertise", "grpc://b:2", "--verify-checksums"]
    described = settings(tmp_path, *options, "--memory-limit", "1GiB", "--allow-base", tmp_path)
    assert described["port"] == {"value": 0, "from": "--port"}
    assert described["max_streams"] == {"value": 9, "from": "LANCE_FLIGHT_MAX_STREAMS"}
    assert described["advertise"] == {"value": ["grpc://a:1", "grpc://b:2"], "from": "--advertise"}
    assert described["verify_checksums"] == {"value": True, "from": "--verify-checksums"}
    assert described["memory_limit"] == {"value": 1 << 30, "from": "--memory-limit"}
    assert described["allow_base"] == {"value": [str(tmp_path.resolve())], "from": "--allow-base"}
    assert described["host"]["from"] == "default"


def test_a_settings_file_and_a_misspelled_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_text("max_puts = 3\nport = 1\n")
    monkeypatch.setenv("LANCE_FLIGHT_MAX_PUTTS", "4")
    done = run_verb("config", "--settings", path, "--port", "2", "--json")
    described = {each["name"]: each for each in json.loads(done.stdout)["settings"]}
    assert described["max_puts"] == {"name": "max_puts", "value": 3, "from": f"max_puts in {path}"}
    assert described["port"]["from"] == "--port"
    warning = "LANCE_FLIGHT_MAX_PUTTS is no setting; did you mean LANCE_FLIGHT_MAX_PUTS?"
    assert warning in " ".join(done.stderr.split())


def test_a_table_for_people(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LANCE_FLIGHT_MAX_PUTS", "3")
    lines = run_verb("config", tmp_path, "--memory-limit", "1GiB").stdout.splitlines()
    cells = [line.strip("│").split("│") for line in lines if line.startswith("│")]
    told = {name.strip(): (value.strip(), origin.strip()) for name, value, origin in cells if name.strip()}
    assert told["memory-limit"] == ("1 GiB", "--memory-limit")
    assert told["max-puts"] == ("3", "LANCE_FLIGHT_MAX_PUTS")
    assert told["verify-checksums"] == ("off", "default")
    assert told["root"][1] == "ROOT"
    assert not any("root" in line for line in run_verb("config").stdout.splitlines())


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """T46: the output tells that there is a secret, and its file."""
    canary = "canary-0c5d21-canary"
    key_file = tmp_path / "key"
    key_file.write_text(canary)
    monkeypatch.setenv("LANCE_FLIGHT_SIGNING_KEY", f"{canary}-of-less-weight")
    monkeypatch.setenv("LANCE_FLIGHT_STORAGE_OPTIONS", json.dumps({"aws_secret_access_key": canary}))
    described = settings("--signing-key-file", key_file)
    assert described["signing_key"] == {"value": "(secret)", "from": f"{key_file} (--signing-key-file)"}
    assert described["storage_options"] == {"value": "(secret)", "from": "LANCE_FLIGHT_STORAGE_OPTIONS"}
    root = f"s3://bucket/tables?aws_secret_access_key={canary}"
    collector = f"http://user:{canary}@collector:4318/v1/traces"
    urls = [root, "--trace-endpoint", collector]
    shown = json.loads(run_verb("config", *urls, "--json").stdout)
    assert shown["root"] == "s3://bucket/tables?aws_secret_access_key=***"
    for arguments in ([], ["--json"], ["--signing-key-file", key_file], urls, [*urls, "--json"]):
        done = run_verb("config", *arguments)
        assert canary not in done.stdout + done.stderr
    options_file = tmp_path / "options"
    options_file.write_text(f"{canary} is no JSON")
    done = run_verb("config", "--storage-options-file", options_file, code=2)
    assert canary not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--port", "http"],
        ["--memory-limit", "lots"],
        ["--unknown"],
        ["/no/such/folder"],
        ["--host", "0.0.0.0"],
        ["--tls-cert", __file__],
    ],
)
def test_what_serve_would_refuse_is_wrong_usage(arguments: list[str]) -> None:
    assert run_verb("config", *arguments, code=2).stdout == ""


def test_grants_and_those_of_a_subject(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_text(
        '[[grant]]\nsubject = "ana"\ndatasets = ["sales/*", "trips"]\nrights = ["read", "list"]\n'
        "filter = \"region = 'north'\"\n"
        '[[grant]]\nrole = "analyst"\ndatasets = ["*"]\nrights = ["list"]\n'
    )
    (tmp_path / "accounts.toml").write_text("")
    options = ("--settings", path, "--accounts-file", tmp_path / "accounts.toml")
    ana = {"subject": "ana", "datasets": ["sales/*", "trips"], "rights": ["list", "read"]}
    grants = [
        ana | {"filter": "region = 'north'"},
        {"role": "analyst", "datasets": ["*"], "rights": ["list"]},
    ]
    assert settings(*options)["grant"] == {"value": grants, "from": f"grant in {path}"}
    for subject, roles, expected in (("ana", [], grants[:1]), ("ana", ["analyst"], grants), ("ben", [], [])):
        given = [word for role in roles for word in ("--role", role)]
        done = run_verb("config", *options, "--explain-subject", subject, *given, "--json")
        told = {"subject": subject, "roles": roles, "every_right": False, "grants": expected}
        assert json.loads(done.stdout) == told
    table = run_verb("config", *options, "--explain-subject", "ana").stdout
    assert "sales/*, trips" in table
    assert "list, read" in table
    assert json.loads(run_verb("config", "--explain-subject", "ana", "--json").stdout)["every_right"]
    assert "nothing tells who calls" in run_verb("config", "--settings", path, code=2).stderr
