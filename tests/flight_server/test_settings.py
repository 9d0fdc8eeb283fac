"""Settings: where each comes from, what is refused, and that secrets stay out of sight."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import lance_core
from flight_server.cli.server_options import _OPTIONS
from flight_server.configuration.values import parse_bytes
from flight_server.settings import Settings
from lance_core.errors import InvalidInputError
from support.runs.each_case import each_case


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1048576", 1 << 20),
        ("256MiB", 256 << 20),
        ("256mib", 256 << 20),
        ("1 GiB", 1 << 30),
        ("64k", 64_000),
        ("64Ki", 65_536),
        ("2GB", 2 * 10**9),
        ("7B", 7),
    ],
)
def test_sizes(text: str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5GiB", "MiB", "5 parsecs", "1e9", "0x10"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(InvalidInputError, match="not a size"):
        parse_bytes(text)


def test_argument_before_environment_before_default(tmp_path: Path) -> None:
    environment = {"LANCE_FLIGHT_PORT": "1", "LANCE_FLIGHT_HOST": "::1", "LANCE_FLIGHT_MEMORY_LIMIT": "3MiB"}
    settings = Settings.resolve(str(tmp_path), {"port": "2", "host": None}, environment)
    assert (settings.port, settings.host, settings.memory_limit) == (2, "::1", 3 << 20)
    assert settings.max_streams == Settings.resolve(str(tmp_path), environment={}).max_streams
    assert settings.signing_key is None


def test_the_environment_is_really_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_FLIGHT_ADVERTISE", "grpc://a:1, grpc+tls://b:2")
    assert Settings.resolve(str(tmp_path)).advertise == ("grpc://a:1", "grpc+tls://b:2")


@each_case(
    ("name", "text"),
    [
        ("port", "65536"),
        ("port", "http"),
        ("http_port", "-1"),
        ("trace_endpoint", "collector:4318"),
        ("health_port", "70000"),
        ("max_streams", "0"),
        ("max_streams", "many"),
        ("max_search_rows", "0"),
        ("memory_limit", "lots"),
        ("advertise", "host:8815"),
        ("peers", "host:8815"),
        ("peer_check_interval", "0.01"),
        ("peer_ca", "/nowhere/ca.pem"),
        ("workers", "0"),
        ("workers", "257"),
        ("worker_port", "70000"),
        ("ticket_lifetime", "-1"),
        ("drain_grace", "soon"),
        ("log_level", "loud"),
        ("log_format", "xml"),
        ("signing_key", "short"),
    ],
)
def test_bad_values_name_the_setting(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        Settings.resolve(str(tmp_path), {name: text}, {})
    with pytest.raises(InvalidInputError, match=name):
        Settings.resolve(str(tmp_path), {}, {f"LANCE_FLIGHT_{name.upper()}": text})


def test_unknown_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="memroy_limit"):
        Settings.resolve(str(tmp_path), {"memroy_limit": "1GiB"}, {})


def test_the_root_is_a_directory_without_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert Settings.resolve(str(tmp_path / "link"), environment={}).root == str(tmp_path / "real")
    for root in (str(tmp_path / "missing"), "ftp://host"):
        with pytest.raises(InvalidInputError):
            Settings.resolve(root, environment={})


def test_a_dataset_is_no_root(tmp_path: Path) -> None:
    """A server on the folder of a dataset would start and serve nothing."""
    lance_core.write_dataset({"x": [1]}, tmp_path / "t.lance")
    with pytest.raises(InvalidInputError, match="is a dataset"):
        Settings.resolve(str(tmp_path / "t.lance"), environment={})
    assert Settings.resolve(str(tmp_path), environment={}).root == str(tmp_path)


def test_the_signing_key_stays_out_of_sight(tmp_path: Path) -> None:
    """T46."""
    canary = "canary-7b1f0c-canary"
    key_file = tmp_path / "key"
    key_file.write_text(f"{canary}\n")
    for arguments, environment in (
        ({"signing_key_file": str(key_file)}, {}),
        ({}, {"LANCE_FLIGHT_SIGNING_KEY": canary}),
        ({}, {"LANCE_FLIGHT_SIGNING_KEY_FILE": str(key_file)}),
    ):
        settings = Settings.resolve(str(tmp_path), arguments, environment)
        assert settings.signing_key == canary.encode()
        assert canary not in repr(settings)
    short = {"LANCE_FLIGHT_SIGNING_KEY": "canary-short"}
    with pytest.raises(InvalidInputError) as caught:
        Settings.resolve(str(tmp_path), {}, short)
    assert "canary" not in str(caught.value)


def test_the_file_on_the_page_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "signing-key").write_text("k" * 32)
    (text,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    settings = Settings.resolve(str(tmp_path), {"settings": written(tmp_path, text)}, {})
    assert (settings.memory_limit, settings.signing_key) == (2 << 30, b"k" * 32)


def test_every_setting_is_an_option_and_on_the_page() -> None:
    """A secret is given by a file: its option and its line on the page end in `-file`."""
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    section = page.split("### Settings")[1].split("\n### ")[0]
    on_the_page = {
        name
        for row in re.findall(r"^[|-] (.*?)[|:]", section, re.MULTILINE)
        for name in re.findall(r"`([a-z-]+)`", row)
    }
    for setting in fields(Settings):
        if not setting.metadata:
            continue
        told = setting.name if setting.repr else f"{setting.name}_file"
        assert told in _OPTIONS, f"{told} has no option in flight_server/cli/server_options.py"
        assert told.replace("_", "-") in on_the_page, f"{told} is not on docs/operations.md"


FILE = """
host = "0.0.0.0"
max-streams = 7
memory_limit = "3MiB"
max_put_seconds = 1.5
verify_checksums = true
advertise = ["grpc://a:1", "grpc://b:2"]
allow_base = ["bases"]
signing_key_file = "key"

[storage_options]
aws_region = "eu-1"
"""


def written(folder: Path, text: str) -> str:
    (folder / "server.toml").write_text(text)
    return str(folder / "server.toml")


def test_a_file_after_options_and_variables(tmp_path: Path) -> None:
    """Paths in the file are relative to the file."""
    (tmp_path / "bases").mkdir()
    (tmp_path / "key").write_text("a key of enough bytes")
    path = written(tmp_path, FILE)
    environment = {"LANCE_FLIGHT_SETTINGS": path, "LANCE_FLIGHT_MAX_STREAMS": "8"}
    for arguments, variables in (({"settings": path}, {}), ({"host": "::1"}, environment)):
        settings = Settings.resolve(str(tmp_path), arguments, variables)
        assert settings.host == ("::1" if variables else "0.0.0.0")
        assert settings.max_streams == (8 if variables else 7)
        assert settings.memory_limit == 3 << 20
        assert settings.max_put_seconds == 1.5
        assert settings.verify_checksums
        assert settings.advertise == ("grpc://a:1", "grpc://b:2")
        assert settings.allow_base == (str(tmp_path.resolve() / "bases"),)
        assert settings.signing_key == b"a key of enough bytes"
        assert settings.storage_options == (("aws_region", "eu-1"),)
    given = Settings.given({"settings": path}, {})
    assert given["max_streams"].origin == f"max-streams in {path}"
    assert given["signing_key"].origin == f"{tmp_path / 'key'} (signing_key_file in {path})"


@each_case(
    ("text", "message"),
    [
        ("max_stream = 1", "unknown setting max_stream; did you mean max_streams?"),
        ("[grants]\nsubject = 'x'", "unknown setting grants; did you mean grant?"),
        ("[grant]\nsubject = 'x'", "grant: expected tables"),
        ("[[grant]]\nsubject = 'x'", r"grant\[0\]: the field datasets is missing"),
        ("port = '8815'\nport = 2", "no TOML"),
        ("max-puts = 1\nmax_puts = 1", "max_puts is given twice"),
        ("port = true", "port: expected an integer or a text"),
        ("host = 1", "host: expected a text"),
        ("verify_checksums = 'true'", "verify_checksums: expected true or false"),
        ("advertise = [1]", "advertise: expected a list of texts"),
        ("storage_options = 'secret'", "storage_options: expected a table"),
        ("storage_options = {a = 1}", "storage_options"),
        ("max_put_bytes = 2026-01-01", "max_put_bytes: expected"),
        ("port = 70000", r"setting port \(port in .*server.toml\): not a TCP port: '70000'"),
        ("signing_key_file = 'nowhere'", "nowhere cannot be read: No such file"),
    ],
)
def test_a_bad_file_names_the_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Settings.resolve(str(tmp_path), {"settings": written(tmp_path, text)}, {})


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"missing\.toml cannot be read: No such file"):
        Settings.resolve(str(tmp_path), {"settings": str(tmp_path / "missing.toml")}, {})


def test_names_of_earlier_releases(tmp_path: Path) -> None:
    for arguments, environment in (
        ({"ticket_key": "k" * 20}, {}),
        ({}, {"LANCE_FLIGHT_TICKET_KEY": "k" * 20}),
        ({"settings": written(tmp_path, f"ticket_key = '{'k' * 20}'")}, {}),
    ):
        assert Settings.resolve(str(tmp_path), arguments, environment).signing_key == b"k" * 20


def test_misspelled_variables_are_found() -> None:
    environment = dict.fromkeys(
        [
            "LANCE_FLIGHT_MAX_STREAM",
            "LANCE_FLIGHT_XYZZY",
            "LANCE_FLIGHT_PORT",
            "LANCE_FLIGHT_TICKET_KEY",
            "PATH",
        ]
    )
    assert list(Settings.unknown_variables(environment)) == [
        "the environment variable LANCE_FLIGHT_MAX_STREAM is no setting; "
        "did you mean LANCE_FLIGHT_MAX_STREAMS?",
        "the environment variable LANCE_FLIGHT_XYZZY is no setting",
    ]


def test_grants_of_the_file_are_read_again(tmp_path: Path) -> None:
    """T3: also in a process that got the settings as texts; other settings stay."""
    grant = "[[grant]]\nsubject = 'ana'\ndatasets = ['*']\nrights = ['read']\n"
    path = written(tmp_path, "port = 1\n" + grant)
    first = Settings.resolve(str(tmp_path), {"settings": path}, {})
    worker = Settings.resolve(str(tmp_path), Settings.texts({"settings": path}), {})
    assert worker.grant == first.grant
    assert worker.port == 1
    written(tmp_path, "port = 1\n" + grant.replace("ana", "ben"))
    for settings in (first, worker):
        assert [each.subject for each in settings.read_again().grant] == ["ben"]
