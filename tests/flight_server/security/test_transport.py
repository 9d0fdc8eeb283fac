"""Requirements that a server checks before it listens, and TLS on the wire."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flight_server.security.transport import Certificates, check_transport, is_loopback
from flight_server.settings import Settings
from lance_core.errors import InvalidInputError
from support.runs.each_case import each_case
from support.servers.secure_server import Certificate
from support.servers.server import start_server


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tls")
    pair, other = Certificate.make(), Certificate.make()
    contents = {
        "tls_cert": pair.certificate,
        "tls_key": pair.key,
        "tls_client_ca": pair.certificate,
        "accounts_file": b"",
        "other_key": other.key,
        "garbage": b"no PEM",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {name: str(folder / name) for name in contents}


@each_case(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("192.0.2.1", False),
        ("no.such.host.invalid", False),
    ],
)
def test_loopback_is_what_the_address_resolves_to(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


BEYOND = {"host": "0.0.0.0"}
TLS = ("tls_cert", "tls_key")


@pytest.mark.parametrize(
    ("given", "named", "message"),
    [
        ({}, (), None),
        ({}, TLS, None),
        ({}, ("accounts_file",), None),
        (BEYOND, (), "no TLS .* and no authentication .*--insecure"),
        (BEYOND, TLS, "has no authentication"),
        (BEYOND, ("accounts_file",), "has no TLS"),
        (BEYOND, (*TLS, "accounts_file"), None),
        (BEYOND, (*TLS, "tls_client_ca"), None),
        (BEYOND | {"insecure": True}, (), None),
        ({"insecure": True}, ("tls_cert",), "--tls-key is missing"),
        ({}, ("tls_key",), "--tls-cert is missing"),
        ({}, ("tls_client_ca",), "--tls-cert and --tls-key are missing"),
        ({"advertise": ("grpc+tls://a:1", "grpc://b:2")}, TLS, "--advertise grpc://b:2"),
        ({"advertise": ("grpc+tls://a:1",)}, TLS, None),
        ({"advertise": ("grpc+tls://a:1",)}, (), None),
    ],
)
def test_what_a_server_needs_before_it_listens(
    files: dict[str, str], given: dict[str, object], named: tuple[str, ...], message: str | None
) -> None:
    """T4: beyond loopback TLS and authentication; half of TLS nowhere."""
    settings = Settings("/", **given, **{name: files[name] for name in named})  # type: ignore[arg-type]
    if message is None:
        check_transport(settings)
    else:
        with pytest.raises(InvalidInputError, match=message):
            check_transport(settings)


@pytest.mark.parametrize(
    "broken", [{"tls_key": "other_key"}, {"tls_cert": "garbage"}, {"tls_client_ca": "garbage"}]
)
def test_files_that_do_not_belong_together(files: dict[str, str], broken: dict[str, str]) -> None:
    """T4: the server says which files, and nothing of the key."""
    names = {name: files[broken.get(name, name)] for name in ("tls_cert", "tls_key", "tls_client_ca")}
    with pytest.raises(InvalidInputError, match="cannot be used") as caught:
        Certificates.load(Settings("/", **names))  # type: ignore[arg-type]
    assert names[next(iter(broken))] in str(caught.value)
    assert "PRIVATE" not in repr(Certificates(b"", Certificate.make().key))


def test_a_server_that_everybody_could_reach_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no URI") as caught:
        start_server(tmp_path, tmp_path.parent / "server.log", "--host", "0.0.0.0")
    assert "0.0.0.0 can be reached from other machines" in " ".join(str(caught.value).split())
    server = start_server(tmp_path, tmp_path.parent / "server.log", "--host", "0.0.0.0", "--insecure")
    assert server.stop() == 0


def test_protocols_and_ciphers(files: dict[str, str], tmp_path: Path) -> None:
    """T4: TLS 1.2 and 1.3 with forward secrecy; nothing older, and no plain text."""
    options = ["--tls-cert", files["tls_cert"], "--tls-key", files["tls_key"]]
    server = start_server(tmp_path, tmp_path.parent / "tls.log", *options)
    try:
        address = server.uri.removeprefix("grpc+tls://")

        def handshake(*arguments: str) -> str:
            command = ["openssl", "s_client", "-connect", address, "-alpn", "h2", *arguments]
            done = subprocess.run(command, input=b"", capture_output=True, timeout=20, check=False)
            return (done.stdout + done.stderr).decode("utf-8", "replace")

        weak = "DEFAULT:@SECLEVEL=0"
        for version in ("-tls1", "-tls1_1"):
            assert "Cipher is (NONE)" in handshake(version, "-cipher", weak)
        assert "Cipher is (NONE)" in handshake(
            "-tls1_2", "-cipher", "AES128-SHA:AES256-SHA:" + weak.split(":")[1]
        )
        assert "Cipher is ECDHE" in handshake("-tls1_2")
        assert "TLSv1.3, Cipher is TLS_" in handshake("-tls1_3")
    finally:
        server.kill()
