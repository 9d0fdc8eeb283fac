"""Dictionaries of several pages that outgrow the key type together, below structs and lists."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyarrow import flight

import lance_core
from support.oracles.checks import expected_table, write_case
from support.oracles.comparison import assert_tables_equal
from support.servers.server import RunningServer, serving
from support.tables.arrays import Spec
from support.tables.cases import Case, Column

KEYED = pa.dictionary(pa.uint8(), pa.string())
NESTED = {
    "struct": pa.struct([("f", KEYED)]),
    "list": pa.list_(KEYED),
    "struct_list_struct": pa.struct([("l", pa.list_(pa.struct([("d", KEYED)])))]),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "root").mkdir()
    with serving(folder / "root", folder / "log") as server:
        yield server


@pytest.mark.parametrize("name", NESTED)
def test_batches_end_where_dictionaries_do_not_fit(name: str, server: RunningServer) -> None:
    column = Column(pa.field("c", NESTED[name]), Spec("random", "half"))
    fails = "its dictionaries of several pages outgrow the key type"
    case = Case(name, (column,), 400, 6, ("2.1",), reference_fails=fails)
    path = server.log_file.parent / "root" / f"{name}.lance"
    expected = expected_table(case, path, write_case(case, "2.1", path))

    batches = list(lance_core.dataset(str(path)).to_batches())
    assert_tables_equal(expected, pa.Table.from_batches(batches, expected.schema), label="to_batches")

    with server.client() as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path(name))
        reader = client.do_get(info.endpoints[0].ticket)
        streamed = pa.Table.from_batches([chunk.data for chunk in reader], info.schema)
    assert_tables_equal(expected, streamed, label="DoGet")
