"""Compression that a server chooses while it sends: over a slow network it turns it on, else not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

import flight_client
import lance_core
from flight_server.limits.wire import WireChoice
from support.servers.server import RunningServer, serving
from support.servers.slow_network import slow_network

MIB = 1 << 20
ROWS = 1 << 21
MOST_MB_PER_SECOND = 200
"""Clients that take bytes faster get them uncompressed (`docs/flight-protocol.md`)."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server of 64 MiB that compress well, and of 64 MiB that do not."""
    root = tmp_path_factory.mktemp("root")
    rng = np.random.default_rng(2)
    counted = np.arange(ROWS)
    table = pa.table({f"c{number}": counted // (number + 3) for number in range(4)})
    lance_core.write_dataset(table, root / "even.lance")
    noise = {f"c{number}": rng.integers(-(2**63), 2**63 - 1, ROWS) for number in range(4)}
    lance_core.write_dataset(pa.table(noise), root / "noise.lance")
    with serving(root, tmp_path_factory.mktemp("log") / "server.log") as server:
        yield server


def read_from(port: int, name: str, compression: str) -> pa.Table:
    """Return the rows of two columns of a dataset, in one stream."""
    command = {"scan": {"dataset": name, "columns": ["c0", "c3"], "compression": compression}}
    with flight.connect(f"grpc://127.0.0.1:{port}") as client:
        return client.do_get(flight.Ticket(json.dumps(command))).read_all()


def bytes_over(server: RunningServer, bytes_per_second: float, name: str) -> int:
    """Return the bytes that a slow network carries for the rows."""
    with slow_network(port_of(server), bytes_per_second) as network:
        assert read_from(network.port, name, "auto").equals(read_from(port_of(server), name, "none"))
        return network.num_bytes


def port_of(server: RunningServer) -> int:
    return int(server.address.rpartition(":")[2])


def changes(server: RunningServer) -> list[str]:
    """Return the lines of the log about compression."""
    return [line for line in server.log.splitlines() if " compression " in line]


def test_a_slow_network_gets_compressed_batches(server: RunningServer) -> None:
    """The first batches are plain; those that follow are compressed, and the log says so."""
    before = len(changes(server))
    assert bytes_over(server, 40e6, "even") < 24 * MIB
    (line,) = changes(server)[before:]
    assert re.search(r"compression=(lz4|zstd) mb_per_second=[0-9.]+", line)


def test_bytes_that_do_not_shrink_stay_plain(server: RunningServer) -> None:
    before = changes(server)
    assert bytes_over(server, 40e6, "noise") > 32 * MIB
    assert changes(server) == before


def test_clients_of_the_same_machine_get_plain_batches(server: RunningServer) -> None:
    """A machine at its limits may be as slow as a network. So a change is right if its speed says so."""
    before = len(changes(server))
    found = read_from(port_of(server), "even", "auto")
    assert found["c3"].combine_chunks().equals(pa.array(np.arange(ROWS) // 6))
    speeds = re.findall(
        r"compression=(?:lz4|zstd) mb_per_second=([0-9.]+)", "\n".join(changes(server)[before:])
    )
    assert all(float(speed) <= MOST_MB_PER_SECOND for speed in speeds)


ROWS_THAT_SHRINK = pa.record_batch({"x": np.arange(MIB // 8) // 50})


def sent_at(wire: WireChoice, bytes_per_second: float, num_periods: int) -> list[str]:
    """Send rows at a speed, and return the compression after each period."""
    found = []
    for _ in range(num_periods):
        wire.sent(ROWS_THAT_SHRINK, int(bytes_per_second / 2), 0.5)
        found.append(wire.compression)
    return found


def test_the_choice_follows_the_speed_of_the_client() -> None:
    """Slow clients get compressed bytes; a client that becomes fast gets plain bytes again."""
    wire = WireChoice()
    assert sent_at(wire, 2e9, 4) == ["none"] * 4
    assert sent_at(wire, 20e6, 1) != ["none"]
    assert sent_at(wire, 100e6, 4)[-1] != "none"
    assert sent_at(wire, 20e9, 2)[-1] == "none"


def test_a_client_that_is_busy_itself_gets_plain_bytes_again() -> None:
    """Rows arrive no sooner with fewer bytes, so the network is not what is slow."""
    wire = WireChoice()
    choices = sent_at(wire, 20e6, 12)
    assert choices[1] != "none"
    assert choices[4:] == ["none"] * 8


@pytest.mark.parametrize("compression", ["gzip", 3])
def test_other_names_are_refused(server: RunningServer, compression: str) -> None:
    with flight_client.connect(server.uri) as client, pytest.raises(flight_client.InvalidInputError):
        client.dataset("even").to_table(compression=compression)


def test_a_small_answer_is_plain(server: RunningServer) -> None:
    with flight_client.connect(server.uri) as client:
        assert client.dataset("even").head(3, ["c0"], compression="auto")["c0"].to_pylist() == [0, 0, 0]
