"""`storage_options` and environment variables."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import obstore
import pytest
from obstore.exceptions import BaseError

from lance_core.errors import InvalidInputError
from lance_core.storage import object_options, storage_for
from lance_core.storage.object_options import _AWS, _AZURE, _CLIENT_KEYS, _GOOGLE, _by_name, _resolve
from support.s3 import S3

STORES = {"s3": _AWS, "gs": _GOOGLE, "az": _AZURE}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in list(os.environ):
        if key.lower().startswith(("aws_", "google_", "azure_")) or key.lower() in _CLIENT_KEYS:
            monkeypatch.delenv(key)


NAMES = [(scheme, name) for scheme, keys in STORES.items() for name in sorted(set(keys.values()))]


@pytest.mark.parametrize(("scheme", "name"), NAMES)
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
    """As the reference does; the log has the name but not the value."""
    with caplog.at_level(logging.DEBUG, logger="lance_core"):
        assert _resolve("s3", {"aws_acces_key_id": "secret-value"}) == {}
    assert "aws_acces_key_id" in caplog.text
    assert "secret-value" not in caplog.text


@pytest.mark.parametrize(
    ("uri", "options", "match"),
    [
        ("s3://bucket/x", {"timeout": "soon-secret"}, "timeout"),
        ("s3://bucket/x", {"client_max_retries": "many"}, "client_max_retries"),
        ("s3://bucket/x", {"aws_access_key_id": "secret-id"}, "SecretAccessKey.*aws_access_key_id"),
        ("az://container/x", {}, "Account"),
        ("gs://bucket/x", {"service_account_key": "secret-key"}, "google_service_account_key"),
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
