"""A representative part of the matrix through a real server: DoGet gives what the reference reads.

By default every type is streamed in one version, and an eighth of the other cases; the whole part in the long
run. Both versions of each type are read locally (`test_local.py`): what is sent is what was read.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import flight

from support.oracles.checks import expected_table, write_case, write_generated
from support.oracles.comparison import assert_tables_equal
from support.runs.draws import draws
from support.runs.products import of_this_run
from support.servers.server import RunningServer, serving
from support.tables.cases import Case, all_cases, sample
from support.tables.cases_2_0 import cases_2_0
from support.tables.matrix_types import EVERY_SIZE_LEAVES
from support.tables.reference import FILE_VERSIONS
from support.tables.strategies import cases

MOST_BATCH_BYTES = 2 << 20
EVERY_NTH_OF_THE_REST = 18
BY_DEFAULT = 8
"""One of so many cases, beside those that have something first."""


def _is_representative(case: Case, number: int) -> bool:
    """Every leaf type once, every nesting with two leaves, pages, huge values, and a sample of all others."""
    group, *_, size = case.name.split("-")
    if case.long:
        return False
    if group == "leaf":
        return size == "1025" or (size == "100000" and case.columns[0].field.type in EVERY_SIZE_LEAVES)
    if group == "nested":
        return size in ("5pages", "long_lists") or ("-int32-325" in case.name) or ("-string-325" in case.name)
    return group in ("huge", "empty_struct") or number % EVERY_NTH_OF_THE_REST == 0


def _parameters() -> list[object]:
    chosen = [case for number, case in enumerate(all_cases()) if _is_representative(case, number)]
    chosen += [case for case in cases_2_0()[::EVERY_NTH_OF_THE_REST] if not case.long]
    by_default = sample(chosen, BY_DEFAULT)
    return of_this_run(
        pytest.param(
            case,
            version,
            id=f"{version}-{case.name}",
            marks=[] if case.name in by_default and version == case.one_version else [pytest.mark.long],
        )
        for case in chosen
        for version in case.default_versions
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("served")
    root = folder / "root"
    root.mkdir()
    with serving(root, folder / "log") as server:
        yield server


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[flight.FlightClient]:
    with server.client() as connected:
        yield connected


@pytest.fixture
def dataset_path(server: RunningServer, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A new name under the served root; the dataset is removed after the test."""
    path = server.log_file.parent / "root" / f"case{abs(hash(request.node.name))}.lance"
    yield path
    shutil.rmtree(path, ignore_errors=True)


def read_all(client: flight.FlightClient, descriptor: flight.FlightDescriptor) -> pa.Table:
    """All endpoints in order; every batch keeps to the size promised."""
    info = client.get_flight_info(descriptor)
    tables = []
    for endpoint in info.endpoints:
        reader = client.do_get(endpoint.ticket)
        batches = [chunk.data for chunk in reader]
        assert all(batch.nbytes <= MOST_BATCH_BYTES or batch.num_rows == 1 for batch in batches)
        tables.append(pa.Table.from_batches(batches, reader.schema))
    table = pa.concat_tables(tables)
    assert table.schema.equals(info.schema, check_metadata=True)
    assert info.total_records == table.num_rows
    return table


@pytest.mark.parametrize(("case", "version"), _parameters())
def test_streams_what_the_reference_wrote(
    case: Case, version: str, dataset_path: Path, client: flight.FlightClient
) -> None:
    source = write_case(case, version, dataset_path)
    expected = expected_table(case, dataset_path, source)
    check_streams(case, dataset_path.stem, expected, client)


def check_streams(case: Case, name: str, expected: pa.Table, client: flight.FlightClient) -> None:
    """The whole dataset and a range of its rows."""
    found = read_all(client, flight.FlightDescriptor.for_path(name))
    assert_tables_equal(expected, found, label=case.name)

    offset, limit = expected.num_rows // 3, expected.num_rows // 2
    command = json.dumps({"scan": {"dataset": name, "offset": offset, "limit": limit}})
    found = read_all(client, flight.FlightDescriptor.for_command(command.encode()))
    assert_tables_equal(expected.slice(offset, limit), found, label=f"{case.name}, rows from {offset}")


@pytest.mark.parametrize("version", FILE_VERSIONS)
def test_generated_tables_stream(version: str, server: RunningServer, client: flight.FlightClient) -> None:
    numbers = count()

    @settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, max_examples=draws(40))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        case = data.draw(cases(version))
        name = f"generated{version[-1]}-{next(numbers)}"
        path = server.log_file.parent / "root" / f"{name}.lance"
        written = write_generated(case, path)
        if written is not None:
            case, expected = written
            check_streams(case, name, expected, client)
        shutil.rmtree(path, ignore_errors=True)

    check()
