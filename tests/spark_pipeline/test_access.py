"""Tokens and TLS: the options of the data source reach every server call, of planners and of tasks."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import flight_client
from spark_pipeline import read
from spark_pipeline.arrow_types import spark_schema
from spark_pipeline.data_source import LanceFlightDataSource
from support.servers.secure_server import Authority
from support.servers.served import Root
from support.servers.server import serving
from support.servers.tokens import PASSWORD, TOKEN, write_accounts


@pytest.fixture(scope="module")
def options(served: Root, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The way into a server that asks for a token and a certificate, over TLS."""
    folder = tmp_path_factory.mktemp("access")
    authority = Authority.make()
    authority.certificate_of("127.0.0.1").write(folder)
    (folder / "ca.pem").write_bytes(authority.certificate)
    executor = authority.certificate_of("executor")
    (folder / "client.pem").write_bytes(executor.certificate)
    (folder / "client.key").write_bytes(executor.key)
    (folder / "token").write_text(TOKEN + "\n")
    write_accounts(folder / "accounts.toml")
    asked = ["--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem")]
    asked += ["--tls-client-ca", str(folder / "ca.pem"), "--accounts-file", str(folder / "accounts.toml")]
    with serving(served.path, folder / "server.log", *asked) as server:
        yield {
            "uri": server.uri,
            "tokenFile": str(folder / "token"),
            "tlsRootCerts": str(folder / "ca.pem"),
            "tlsClientCert": str(folder / "client.pem"),
            "tlsClientKey": str(folder / "client.key"),
        }


def rows_of(given: dict[str, str]) -> pa.Table:
    """Return the rows that tasks read; source, reader and partitions are pickled for them."""
    source = LanceFlightDataSource({"table": "trips", "columns": "id", **given})
    schema = source.schema()
    reader = pickle.loads(pickle.dumps(source)).reader(schema)
    reader, partitions = pickle.loads(pickle.dumps((reader, reader.partitions())))
    return pa.Table.from_batches(batch for partition in partitions for batch in reader.read(partition))


def test_reads(options: dict[str, str], served: Root) -> None:
    """The data source takes a file of a token, a token, a password, or only the certificate."""
    certificate = {name: value for name, value in options.items() if name != "tokenFile"}
    password = certificate | {"username": "ana", "password": PASSWORD}
    for given in (options, certificate | {"token": TOKEN}, password, certificate):
        assert rows_of(given)["id"].equals(served.trips["id"])


def test_writes(options: dict[str, str]) -> None:
    rows = pa.record_batch({"a": pa.array([1, 2], pa.int64())})
    source = LanceFlightDataSource({"table": "secured", "create": "true", **options})
    writer = pickle.loads(pickle.dumps(source.writer(spark_schema(rows.schema), overwrite=False)))
    writer.commit([pickle.loads(pickle.dumps(writer.write(iter([rows]))))])
    with flight_client.connect(
        options["uri"],
        token=TOKEN,
        tls_root_certs=Path(options["tlsRootCerts"]),
        cert_chain=options["tlsClientCert"],
        private_key=options["tlsClientKey"],
    ) as client:
        assert client.dataset("secured").to_table()["a"].to_pylist() == [1, 2]
        client.drop_dataset("secured")


def test_wrong_ones_are_refused(options: dict[str, str], tmp_path: Path) -> None:
    """By what is wrong with them, and without showing them."""
    without = {name: value for name, value in options.items() if name != "tokenFile"}
    wrong = {"token": "battery staple"}, {"username": "ana", "password": "battery staple"}
    for given in wrong:
        with pytest.raises(flight_client.NotAuthenticatedError) as error:
            rows_of(without | given)
        assert "battery" not in str(error.value)
    with pytest.raises(flight_client.InvalidInputError, match="/none cannot be read"):
        rows_of(options | {"tokenFile": str(tmp_path / "none")})
    with pytest.raises(flight_client.InvalidInputError, match=r"tls_root_certs: .*No such file"):
        rows_of(options | {"tlsRootCerts": str(tmp_path / "none")})


@pytest.mark.long
def test_spark_reads_and_writes(spark: SparkSession, options: dict[str, str], served: Root) -> None:
    """Access settings also work in tasks of Spark."""
    given = {name: value for name, value in options.items() if name != "uri"}
    rows = read(spark, options["uri"], "trips", ["id"], **given)
    assert sorted(row["id"] for row in rows.collect()) == sorted(served.trips["id"].to_pylist())
    target = {"table": "secured/copy", "create": "true", **options}
    rows.write.format("lance_flight").options(**target).mode("append").save()
    assert read(spark, options["uri"], "secured/copy", **given).count() == rows.count()
