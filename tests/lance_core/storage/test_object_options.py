"""`storage_options` and environment variables."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import BaseError

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.storage import object_options, storage_for
from lance_core.storage.aws_profile import profile_credentials
from lance_core.storage.object_options import _AWS, _AZURE, _CLIENT_KEYS, _GOOGLE, _by_name, _resolve
from support.runs.each_case import each_case
from support.stores.s3 import KEY, S3, SECRET

STORES = {"s3": _AWS, "gs": _GOOGLE, "az": _AZURE}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in list(os.environ):
        if key.lower().startswith(("aws_", "google_", "azure_")) or key.lower() in _CLIENT_KEYS:
            monkeypatch.delenv(key)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)  # not those of whoever runs the tests


NAMES = [(scheme, name) for scheme, keys in STORES.items() for name in sorted(set(keys.values()))]


@each_case(("scheme", "name"), NAMES)
def test_every_name_is_one_that_the_client_knows(scheme: str, name: str) -> None:
    """The client may refuse the value, but not the name."""
    needed = {"azure_storage_account_name": "x"} if scheme == "az" else {}
    message = ""
    try:
        obstore.store.from_url(f"{scheme}://bucket", config=needed | _by_name(scheme, {name: "true"}))
    except BaseError as error:
        message = str(error)
    assert "Configuration key" not in message


def test_names_in_any_case_with_and_without_prefix() -> None:
    assert _resolve("s3", {"Region": "a"}) == _resolve("s3", {"AWS_REGION": "a"}) == {"aws_region": "a"}
    assert _resolve("s3", {"aws_region": "exact", "region": "other", "REGION": "x"}) == {
        "aws_region": "exact"
    }
    assert _resolve("s3", {"endpoint_url": "a"}) == _resolve("s3", {"aws_endpoint": "a"})
    assert _resolve("s3", {"request_timeout": "5s"}) == {"timeout": "5s"}
    assert _resolve("s3", {"aws_allow_http": "true"}) == {"allow_http": "true"}
    assert _resolve("az", {"account_key": "k"}) == {"azure_storage_account_key": "k"}
    assert _resolve("gs", {"google_storage_token": "t"}) == {"bearer_token": "t"}


def test_the_environment_comes_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "from-environment")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv("TIMEOUT", "60s")
    monkeypatch.setenv("REGION", "of something else")
    monkeypatch.setenv("GOOGLE_BASE_URL", "http://other")
    expected = {"aws_region": "given", "aws_session_token": "token", "timeout": "60s"}
    assert _resolve("s3", {"region": "given"}) == expected


def test_unknown_options_are_ignored_and_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Unknown options are ignored, as by the reference; the log has the name but not the value."""
    with caplog.at_level(logging.DEBUG, logger="lance_core"):
        assert _resolve("s3", {"aws_acces_key_id": "secret-value"}) == {}
    assert "aws_acces_key_id" in caplog.text
    assert "secret-value" not in caplog.text


@each_case(
    ("uri", "options", "match"),
    [
        ("s3://bucket/x", {"timeout": "soon-secret"}, "timeout"),
        ("s3://bucket/x", {"client_max_retries": "many"}, "client_max_retries"),
        ("s3://bucket/x", {"aws_access_key_id": "secret-id"}, "SecretAccessKey.*aws_access_key_id"),
        ("az://container/x", {}, "Account"),
        ("gs://bucket/x", {"service_account_key": "secret-key"}, "google_service_account_key"),
        ("s3://bucket/x", {"aws_endpoint": "secret:9000"}, "aws_endpoint is not a URL"),
        ("s3://bucket/x", {"endpoint_url": "http://secret:99999"}, "aws_endpoint is not a URL"),
        ("s3://bucket/x", {"endpoint": "http://sec ret"}, "aws_endpoint is not a URL"),
        ("s3://bucket/x", {"endpoint": "http://[::1"}, "aws_endpoint is not a URL"),
        ("s3://bucket/x", {"endpoint": "ftp://secret"}, "aws_endpoint is not a URL"),
        ("gs://bucket/x", {"google_base_url": "//secret"}, "google_base_url is not a URL"),
        ("az://bucket/x", {"account_name": "a", "azure_endpoint": "secret:1"}, "azure_endpoint is not a URL"),
        ("s3://bucket/x?versionId=1", {}, "not the URI"),
        ("s3://bucket/../x", {}, "leaves its root"),
        ("s3://bucket/a/%2e%2e/x", {}, "leaves its root"),
    ],
)
def test_what_cannot_be_used_is_refused_without_its_value(
    uri: str, options: dict[str, str], match: str
) -> None:
    """T46"""
    with pytest.raises(InvalidInputError, match=match) as caught:
        storage_for(uri, options)
    assert "secret" not in str(caught.value)


def test_clients_are_shared() -> None:
    """A client has a pool of connections."""
    options = {"aws_region": "r", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    one, other = (object_options.connect("s3", "bucket", dict(options)) for _ in range(2))
    assert one is other
    assert object_options.connect("s3", "bucket", options | {"aws_region": "q"}) is not one


def write_profiles(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = f"aws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    (directory / "credentials").write_text(f"[default]\n{credentials}\n[other]\n{credentials}")
    (directory / "config").write_text("[default]\nregion = us-east-1\n[profile other]\nregion = us-east-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(directory / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(directory / "config"))


@pytest.mark.parametrize("profile", [None, "other"])
def test_profiles_give_credentials(
    s3: S3, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str | None
) -> None:
    write_profiles(tmp_path, monkeypatch)
    if profile:
        monkeypatch.setenv("AWS_PROFILE", profile)
    options = {"aws_endpoint": s3.endpoint, "allow_http": "true"}
    for region in ({}, {"aws_region": "us-east-1"}):
        storage = storage_for(f"s3://{bucket}/profile-{profile}", options | region)
        storage.put_if_absent(f"file-{len(region)}", b"x")
        assert storage.read_file(f"file-{len(region)}") == b"x"


def test_options_count_before_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_profiles(tmp_path, monkeypatch)
    assert profile_credentials({}) is not None
    assert profile_credentials({"aws_access_key_id": "a"}) is None
    assert profile_credentials({"aws_skip_signature": "true"}) is None
    (tmp_path / "credentials").unlink()
    assert profile_credentials({}) is None
    monkeypatch.setenv("AWS_PROFILE", "none")
    with pytest.raises(InvalidInputError, match="none"):
        storage_for("s3://bucket/x")


def test_a_profile_without_boto3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_profiles(tmp_path, monkeypatch)
    monkeypatch.setitem(sys.modules, "obstore.auth.boto3", None)
    with pytest.raises(UnsupportedFeatureError, match="boto3"):
        storage_for("s3://no-boto3/x")


def test_a_forked_process_is_told_instead_of_waiting_for_ever(s3: S3, bucket: str) -> None:
    """In a process of its own, since the reference warns of forks."""
    program = f"""
import os, signal
from lance_core.errors import StorageError
from lance_core.storage import storage_for
storage = storage_for("s3://{bucket}/forked", {s3.options()!r})
storage.put_if_absent("file", b"x")
child = os.fork()
if child == 0:
    signal.alarm(20)
    try:
        storage.read_file("file")
    except StorageError as error:
        os._exit(0 if "forked" in str(error) else 2)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
assert storage.read_file("file") == b"x"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
