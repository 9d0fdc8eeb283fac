"""The image of the server, built and started without a container engine: `make test-image`."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

import flight_client
import lance_core
from flight_server.security.accounts import hash_token, make_token
from support.runs.leftovers import REPOSITORY
from support.servers.image import Container, Image, opened_image, running
from support.servers.network import reserved_port
from support.servers.secure_server import Certificate

BUILDER = REPOSITORY / "scripts" / "build_image.py"
MOST_BYTES = 350_000_000
TRIPS = pa.table({"id": range(1000), "fare": [k / 4 for k in range(1000)]})
DATA = "/data"

pytestmark = [
    pytest.mark.long("builds an image"),
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("image"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start an image without a container engine"),
]


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """The image of the sources. Where the machine cannot build it, the tests are skipped."""
    words = [sys.executable, BUILDER, "--print"]
    built = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode == 3:
        pytest.skip("this machine cannot build images, see above")
    assert built.returncode == 0
    *buildah, name = built.stdout.split()
    with opened_image(buildah, name) as image:
        yield image


@pytest.fixture
def served(image: Image, tmp_path: Path) -> Path:
    """A folder with a dataset, which belongs to the user of the image."""
    folder = tmp_path / "served"
    lance_core.write_dataset(TRIPS, folder / "trips.lance")
    uid, gid = map(int, image.configuration["User"].split(":"))
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, uid, gid)
    return folder


@pytest.fixture
def server(image: Image, served: Path, tmp_path: Path) -> Iterator[Container]:
    with reserved_port() as port:
        ports = {"LANCE_FLIGHT_PORT": "0", "LANCE_FLIGHT_HTTP_PORT": str(port)}
        command = image.command(folders=[(served, DATA)], LANCE_FLIGHT_HOST="127.0.0.1", **ports)
        with running(command, tmp_path / "server.log") as container:
            yield container


def health_check(image: Image, server: Container, **environment: str) -> int:
    """Run the health check of the image in a container, and return its exit code."""
    kind, *words = image.configuration["Healthcheck"]["Test"]
    assert kind == "CMD"
    changed = [f"{name}={value}" for name, value in environment.items()]
    return server.run("env", *changed, *words).returncode


def test_the_image_is_small(image: Image) -> None:
    size = image.size()
    print(f"the image has {size / 1e6:.0f} MB")
    assert size < MOST_BYTES


def test_the_server_works_on_a_read_only_root_without_rights(server: Container, image: Image) -> None:
    """Clients read and write; the process is nobody, and can change nothing but the data and /tmp."""
    uid, gid = map(int, image.configuration["User"].split(":"))
    assert uid > 0
    assert set(server.inner.uids()) == {uid}
    assert set(server.inner.gids()) == {gid}
    for path in ("/x", "/etc/x", "/opt/lance-flight/x", "/home/x"):
        assert server.run("touch", path).returncode != 0
    assert server.run("touch", "/tmp/x").returncode == 0
    with flight_client.connect(server.first_line) as client:
        table = client.dataset("trips").to_table(["id"], filter="fare > 200")
        assert table["id"].to_pylist() == [k for k in range(1000) if k / 4 > 200]
        client.write("trips", TRIPS.slice(0, 10), mode="append")
        assert client.dataset("trips").count_rows() == 1010


def test_a_stop_drains_the_server(server: Container) -> None:
    """T34: the signal of an engine reaches the server, which has the process id 1, and the exit code is 0."""
    with flight_client.connect(server.first_line) as client:
        assert client.dataset("trips").count_rows() == 1000
    assert server.stop() == 0


def test_the_health_check_tells_whether_the_server_works(image: Image, server: Container) -> None:
    assert health_check(image, server) == 0
    server.inner.suspend()
    assert health_check(image, server) == 1
    server.inner.resume()
    assert health_check(image, server) == 0


def test_the_image_serves_with_tls_and_tokens(image: Image, served: Path, tmp_path: Path) -> None:
    """With a certificate and accounts the image listens on all addresses; the health check speaks HTTPS."""
    certificate = Certificate.make()
    folder = tmp_path / "secrets"
    folder.mkdir()
    certificate.write(folder)
    token = make_token()
    (folder / "accounts.toml").write_text(f'[[account]]\nsubject = "ana"\ntokens = ["{hash_token(token)}"]\n')
    settings = {
        "LANCE_FLIGHT_PORT": "0",
        "LANCE_FLIGHT_TLS_CERT": "/mnt/cert.pem",
        "LANCE_FLIGHT_TLS_KEY": "/mnt/key.pem",
        "LANCE_FLIGHT_ACCOUNTS_FILE": "/mnt/accounts.toml",
    }
    with ExitStack() as stack:
        settings["LANCE_FLIGHT_HTTP_PORT"] = str(stack.enter_context(reserved_port()))
        command = image.command(folders=[(served, DATA), (folder, "/mnt")], **settings)
        server = stack.enter_context(running(command, tmp_path / "server.log"))
        assert health_check(image, server) == 0
        uri = f"grpc+tls://127.0.0.1:{server.first_line.rpartition(':')[2]}"
        with flight_client.connect(uri, token=token, tls_root_certs=certificate.certificate) as client:
            assert client.dataset("trips").count_rows() == 1000
        with (
            flight_client.connect(uri, tls_root_certs=certificate.certificate) as client,
            pytest.raises(flight_client.NotAuthenticatedError),
        ):
            client.datasets()
        assert server.stop() == 0


def test_the_image_listens_beyond_loopback_and_asks_for_tls(image: Image, served: Path) -> None:
    """T4: the image serves all addresses by default, and does not start without TLS and authentication."""
    done = subprocess.run(
        image.command(folders=[(served, DATA)]), capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "insecure" in done.stderr


def test_nothing_that_only_a_build_needs_is_in_the_image(image: Image) -> None:
    for program in ("gcc", "g++", "cc", "make", "pip", "pip3", "cmake", "git"):
        assert shutil.which(program, path=f"{image.root}/usr/bin:{image.root}/opt/lance-flight/bin") is None
    assert not (image.root / "build").exists()
    assert not list(image.root.glob("root/.cache"))
    installed = [path.name for path in (image.root / "opt").rglob("*.dist-info")]
    assert [name for name in installed if name.startswith("lance_flight-")]
    assert not [name for name in installed if name.startswith(("pylance-", "pytest-", "pip-", "pyspark-"))]
    assert not list(image.root.rglob(".lance-flight-key"))


def test_no_program_of_the_image_gets_rights(image: Image) -> None:
    """Nothing that we add has the set-user bit, or can be written by everybody."""
    for path in (image.root / "opt").rglob("*"):
        if not path.is_symlink():
            mode = path.stat().st_mode
            assert not mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH), path


def test_profiles_and_manifest_stores_of_aws_work(image: Image) -> None:
    """The descriptions of services that botocore needs are still there."""
    script = """
import boto3
for service in ("dynamodb", "sso", "sso-oidc", "sts"):
    boto3.client(service, region_name="eu-central-1")
"""
    done = subprocess.run(
        image.other_command("python", "-c", script, HOME="/tmp"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_modules_are_compiled(image: Image) -> None:
    """A start on a read-only root compiles nothing of the server."""
    done = subprocess.run(
        image.other_command("python", "-v", "-c", "import flight_server.service"),
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if re.match(r"# code object from .*/opt/", line)]
    compiled = [line for line in ours if ".pyc" in line]
    assert len(compiled) > 100
    assert [line for line in ours if line not in compiled] == []
