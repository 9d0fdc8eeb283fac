"""Credentials of the client, at a server process with TLS that asks who calls; other clients beside ours."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars
import pytest
from pyarrow import flight

import flight_client
from flight_server.security.accounts import hash_token
from support.oracles.comparison import assert_tables_equal
from support.servers.secure_server import Authority
from support.servers.served import Root
from support.servers.server import serving
from support.servers.tokens import (
    AUDIENCE,
    ISSUER,
    OTHER_TOKEN,
    PASSWORD,
    TOKEN,
    Issuer,
    write_accounts,
    write_key_set,
)


@dataclass(frozen=True)
class Secure:
    """A server and the folder of its files."""

    uri: str
    folder: Path
    issuer: Issuer
    authority: Authority

    @property
    def ca(self) -> str:
        return str(self.folder / "ca.pem")

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text()

    def write_accounts(self, text: str) -> None:
        """Replace the accounts, and wait until the server has seen it."""
        before = self.log.count(" reloaded ")
        (self.folder / "accounts.toml").write_text(text)
        for _ in range(100):
            time.sleep(0.1)
            with flight.connect(self.uri, tls_root_certs=self.authority.certificate) as client:
                options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer anything")])
                with pytest.raises(flight.FlightUnauthenticatedError):
                    list(client.list_flights(options=options))
            if self.log.count(" reloaded ") > before:
                return
        raise AssertionError(self.log)


@pytest.fixture(scope="module")
def secure(root: Root, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("secure")
    authority, issuer = Authority.make(), Issuer.make("ES256", "one")
    authority.certificate_of("127.0.0.1").write(folder)
    (folder / "ca.pem").write_bytes(authority.certificate)
    write_accounts(folder / "accounts.toml")
    write_key_set(folder / "keys.json", issuer)
    options = ["--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem")]
    options += ["--accounts-file", str(folder / "accounts.toml"), "--session-lifetime", "3"]
    options += [
        "--jwt-key-file",
        str(folder / "keys.json"),
        "--jwt-issuer",
        ISSUER,
        "--jwt-audience",
        AUDIENCE,
    ]
    with serving(root.path, folder / "server.log", *options, "--log-level", "debug") as server:
        yield Secure(server.uri, folder, issuer, authority)


def test_engines_read_with_a_web_token(secure: Secure, root: Root) -> None:
    """DuckDB, Polars and pandas through the client."""
    client = flight_client.connect(secure.uri, token=secure.issuer.token(), tls_root_certs=secure.ca)
    trips = client.dataset("trips")
    assert_tables_equal(root.trips, trips.to_table())
    connection = duckdb.connect()
    connection.register("trips", trips)
    ((counted,),) = connection.sql("select count(*) from trips where id < 100").fetchall()
    assert counted == trips.count_rows("id < 100")
    found = trips.to_polars().filter(polars.col("id") < 100).collect()
    assert found.height == counted
    assert len(trips.to_pandas(filter="id < 100")) == counted
    client.close()


def test_a_password_is_sent_once_and_its_token_renewed(secure: Secure) -> None:
    """The token of the session ends after three seconds; the client gets another without its caller."""
    with flight_client.connect(
        secure.uri, username="ana", password=PASSWORD, tls_root_certs=secure.ca
    ) as client:
        for _ in range(3):
            assert client.datasets()
            trips = pickle.loads(pickle.dumps(client)).dataset("trips")
            assert trips.take([1]).num_rows == 1
            assert client.write("of_ana", {"a": [1]}, "overwrite").rows == 1
            time.sleep(1.7)
        client.drop_dataset("of_ana")
    with (
        flight_client.connect(secure.uri, username="ana", password="no", tls_root_certs=secure.ca) as client,
        pytest.raises(flight_client.NotAuthenticatedError, match="password"),
    ):
        client.datasets()
    assert PASSWORD not in secure.log


def test_a_token_file_is_read_again(secure: Secure, tmp_path: Path) -> None:
    """In calls, in streams that are opened later, and in actions that are not repeated otherwise."""
    accounts = (secure.folder / "accounts.toml").read_text()
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    with flight_client.connect(secure.uri, token_file=path, tls_root_certs=secure.ca) as client:
        trips = pickle.loads(pickle.dumps(client.dataset("trips")))
        secure.write_accounts(accounts.replace(hash_token(TOKEN), hash_token("another token of ana")))
        try:
            with pytest.raises(flight_client.NotAuthenticatedError):
                trips.take([1])
            path.write_text("another token of ana")
            assert trips.take([1]).num_rows == 1
            assert trips.to_table(columns=["id"]).num_rows > 0
            assert client.write("of_ana", {"a": [1]}, "overwrite").rows == 1
            client.drop_dataset("of_ana")
        finally:
            secure.write_accounts(accounts)
        path.unlink()
        with pytest.raises(flight_client.InvalidInputError, match="cannot be read: No such file"):
            trips.take([1])


def test_names_of_certificates(secure: Secure) -> None:
    """T4: another name is refused, unless it is expected or nothing is verified."""
    _, _, port = secure.uri.rpartition(":")
    by_name = f"grpc+tls://localhost:{port}"
    given = {"token": TOKEN, "tls_root_certs": secure.ca, "attempts": 1}
    with pytest.raises(flight_client.UnavailableError):
        flight_client.connect(by_name, **given).datasets()  # type: ignore[arg-type]
    with flight_client.connect(by_name, **given, override_hostname="127.0.0.1") as client:  # type: ignore[arg-type]
        assert client.datasets()
    with flight_client.connect(by_name, token=TOKEN, disable_server_verification=True) as client:
        assert client.datasets()


def test_credentials_do_not_leave_tls(secure: Secure) -> None:
    """T4: a location without TLS is not asked."""
    client = flight_client.connect(secure.uri, token=TOKEN, tls_root_certs=secure.ca)
    endpoint = flight.FlightEndpoint(b"", ["grpc://127.0.0.1:1", "grpc+tls://127.0.0.1:2"])
    turns = client._connections.turns_of(endpoint, 0)
    assert {turns.next().uri for _ in range(4)} == {"grpc+tls://127.0.0.1:2", secure.uri}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"token": "a", "token_file": "b"}, "token and token_file: expected one of them"),
        ({"token": "a", "username": "b", "password": "c"}, "expected one of them"),
        ({"username": "b"}, "username and password: expected both"),
        ({"password": "c"}, "expected both"),
    ],
)
def test_unclear_credentials(given: dict[str, str], message: str) -> None:
    with pytest.raises(flight_client.InvalidInputError, match=message):
        flight_client.connect("grpc://127.0.0.1:1", **given)  # type: ignore[arg-type]


ADBC = """if True:
    import sys
    import adbc_driver_flightsql.dbapi as flightsql
    from adbc_driver_flightsql import DatabaseOptions
    from adbc_driver_manager import Error

    uri, ca, *logins = sys.argv[1:]
    for kind, secret in zip(logins[::2], logins[1::2]):
        options = {DatabaseOptions.TLS_ROOT_CERTS.value: open(ca).read()}
        if kind == "token":
            options[DatabaseOptions.AUTHORIZATION_HEADER.value] = f"Bearer {secret}"
        else:
            options |= {"username": "ana", "password": secret}
        try:
            with flightsql.connect(uri, db_kwargs=options) as connection, connection.cursor() as cursor:
                cursor.execute("select 1")
        except Error as error:
            print(f"{error.status_code.name}: {str(error)!r}")
"""


DRIVER_LOGINS = (
    ("token", TOKEN, "NOT_IMPLEMENTED"),
    ("password", PASSWORD, "NOT_IMPLEMENTED"),
    ("token", OTHER_TOKEN + "x", "UNAUTHENTICATED"),
    ("password", "battery staple", "UNAUTHENTICATED"),
)


def test_the_flight_sql_driver_of_adbc(secure: Secure) -> None:
    """The server accepts header and handshake of the driver; the commands get a clean refusal.

    In a process of its own: the driver is a Go library, whose signal handlers stay.
    """
    pytest.importorskip("adbc_driver_flightsql", reason="the driver is not installed")
    logins = [word for kind, secret, _ in DRIVER_LOGINS for word in (kind, secret)]
    done = subprocess.run(
        [sys.executable, "-c", ADBC, secure.uri, secure.ca, *logins],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    answers = done.stdout.splitlines()
    assert [answer.partition(":")[0] for answer in answers] == [status for *_, status in DRIVER_LOGINS], done
    assert not [secret for _, secret, _ in DRIVER_LOGINS if secret in done.stdout]
