"""Filters over Flight pass the rows that DuckDB passes of the same Arrow data."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import flight

import lance_core
from support.clients.raw_flight import scan_json
from support.oracles.comparison import assert_tables_equal
from support.runs.draws import draws
from support.searches.filters import conditions, passing_in_duckdb, random_table
from support.servers.server import serving

TABLE = random_table(3, 5000)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[flight.FlightClient]:
    """A server on the same rows in a file of the reference and in one of ours."""
    root = tmp_path_factory.mktemp("duckdb")
    lance.write_dataset(TABLE, str(root / "theirs.lance"), max_rows_per_file=1200)
    lance_core.write_dataset(TABLE, root / "ours.lance", max_rows_per_file=1200)
    with serving(root, tmp_path_factory.mktemp("log") / "server.log") as server, server.client() as client:
        yield client


@settings(max_examples=draws(25), deadline=None)
@given(text=conditions, name=st.sampled_from(["ours", "theirs"]))
def test_streams_pass_what_duckdb_passes(client: flight.FlightClient, text: str, name: str) -> None:
    with duckdb.connect() as connection:
        connection.register("rows", TABLE)
        expected = TABLE.take(pa.array(passing_in_duckdb(connection, text), pa.int64()))
    command = scan_json(name, filter=text)
    info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
    found = pa.concat_tables([client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints])
    assert_tables_equal(expected, found, label=text)
