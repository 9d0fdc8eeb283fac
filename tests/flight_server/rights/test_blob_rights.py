"""Blobs for callers whose grants hide rows or columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyarrow import flight

from flight_server.security.accounts import hash_token
from support.servers.granted import token_of
from support.servers.server import serving

VALUES = [bytes([65 + number]) * (3_000_000 if number == 2 else 10) for number in range(6)]
REGIONS = ["north", "south"] * 3
GRANTS = {"whole": "", "north": "filter = \"region = 'north'\"", "other": 'columns = ["region"]'}

Read = Callable[..., pa.Table]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Read]:
    """Read a command as a subject."""
    folder = tmp_path_factory.mktemp("rights")
    table = pa.table({"region": REGIONS, "b": lance.blob_array(VALUES)})
    dataset = lance.write_dataset(table, str(folder / "root" / "t.lance"), max_rows_per_file=4)
    dataset.delete("b.size = 10 and _rowaddr = 0")
    accounts = [
        f'[[account]]\nsubject = "{each}"\ntokens = ["{hash_token(token_of(each))}"]\n' for each in GRANTS
    ]
    grants = [
        f'[[grant]]\nsubject = "{each}"\ndatasets = ["t"]\nrights = ["read"]\n{limit}\n'
        for each, limit in GRANTS.items()
    ]
    (folder / "accounts.toml").write_text("".join(accounts))
    (folder / "server.toml").write_text('accounts-file = "accounts.toml"\n' + "".join(grants))
    options = ("--settings", str(folder / "server.toml"))
    with serving(folder / "root", folder / "log", *options) as server, server.client() as client:

        def run(subject: str, command: str = "blobs", **fields: Any) -> pa.Table:
            token = f"Bearer {token_of(subject)}".encode()
            call = flight.FlightCallOptions(headers=[(b"authorization", token)])
            asked = json.dumps({command: {"dataset": "t", **fields}})
            info = client.get_flight_info(flight.FlightDescriptor.for_command(asked), call)
            parts = [client.do_get(each.ticket, call).read_all() for each in info.endpoints]
            assert client.do_get(flight.Ticket(asked), call).read_all() == pa.concat_tables(parts)
            return pa.concat_tables(parts)

        yield run


def bytes_of(found: pa.Table) -> list[tuple[int, int]]:
    return [
        (key, len(data))
        for key, data in zip(*found.select(["key", "bytes"]).to_pydict().values(), strict=True)
    ]


def test_hidden_rows_do_not_exist(read: Read) -> None:
    """T3: offsets count the rows that exist for the caller; other keys are as those of deleted rows."""
    assert bytes_of(read("whole", column="b", offsets=[0, 4])) == [(0, 10), (4, 10)]
    (row,) = read("north", column="b", offsets=[1], with_size=True, with_row_address=True).to_pylist()
    assert (row["bytes"], row["size"], row["_rowaddr"]) == (VALUES[4], 10, 1 << 32)
    large = read("north", column="b", offsets=[0], ranges=[[2_999_990, None]])
    assert large.to_pylist() == [{"key": 0, "position": 2_999_990, "bytes": b"C" * 10}]
    whole = read("north", column="b", row_addresses=[2])
    assert b"".join(whole["bytes"].to_pylist()) == VALUES[2]
    refused = []
    for address in (1, 0, 99, 7 << 32):  # hidden, deleted, no row, no fragment
        with pytest.raises(NotImplementedError, match="must not target deleted rows") as caught:
            read("north", column="b", row_addresses=[2, address])
        refused.append(str(caught.value))
    assert len(set(refused)) == 1
    with pytest.raises(ValueError, match="expected less than 2"):
        read("north", column="b", offsets=[2])


def test_hidden_columns_do_not_exist(read: Read) -> None:
    """T3."""
    for command, fields in (("blobs", {"column": "b", "offsets": [0]}), ("scan", {"columns": ["b"]})):
        with pytest.raises(ValueError, match="there is no column 'b'"):
            read("other", command, **fields)
    assert read("other", "scan", blob_handling="all_binary").schema.names == ["region"]


def test_rows_with_bytes(read: Read) -> None:
    found = read("north", "scan", blob_handling="all_binary")
    assert found["b"].to_pylist() == [VALUES[2], VALUES[4]]
    taken = read("north", "take", offsets=[1, 0], columns=["b"], blob_handling="all_binary")
    assert taken["b"].to_pylist() == [VALUES[4], VALUES[2]]
