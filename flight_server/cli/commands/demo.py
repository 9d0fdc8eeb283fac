"""`lance-flight demo`: a server on the demo dataset, a query by plain Flight, and how to connect."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from textwrap import indent

import numpy as np
import pyarrow as pa
import typer
from pyarrow import flight

from flight_server.cli.errors import stderr
from flight_server.cli.rendering import count

PLACES = [above / "demo" / "data" for above in Path(__file__).parents[2:4]]
"""In an installed package (pyproject.toml puts it there), and in the sources."""
_DATASET = "timezones"
_HOME = "Europe/Lisbon"
_DISTRIBUTION = "lance-flight"
_README_URI = "grpc://127.0.0.1:8815"
_QUERY = {"scan": {"dataset": _DATASET, "columns": ["name", "alias_of", "countries", "offsets_h"]}}
_STOP_TIMEOUT_S = 30


def demo() -> None:
    """Serve the time zones of the world, query them, and say how to connect.

    The server has a copy of the demo dataset, which goes when it stops. On a terminal it stays until Ctrl-C;
    otherwise it is stopped after the query.
    """
    with _served_copy() as uri, flight.connect(uri) as client:
        print(f"Server at {uri} on a copy of the demo dataset. It offers:")
        _list_datasets(client)
        print(f"\nQuery {json.dumps(_QUERY)}:")
        table = _fetch(client)
        print(f"\nClocks that ran most like those of {_HOME} from 1970 on (mean difference):")
        _print_similar_clocks(table)
        print(f"\nHow to connect:\n\n{_how_to_connect(uri)}", flush=True)
        if sys.stdout.isatty():
            _wait_for_interrupt()
            print()


def _wait_for_interrupt() -> None:
    """Say that Ctrl-C stops the server, and wait for it."""
    with suppress(KeyboardInterrupt):  # it may come as soon as the line is there
        print("The server keeps running; Ctrl-C stops it.", flush=True)
        while True:  # a signal between Python's last look and a call that waits for ever would go unseen
            time.sleep(0.2)


@contextmanager
def _served_copy() -> Iterator[str]:
    """Start a `lance-flight serve` process on a free port, yield its URI, and stop it with SIGTERM."""
    source = next((place for place in PLACES if place.is_dir()), None)
    if source is None:
        stderr.print("error: this installation has no demo dataset", markup=False)
        raise typer.Exit(1)
    with tempfile.TemporaryDirectory(prefix="lance-flight-demo-") as folder:
        served = shutil.copytree(source, Path(folder) / "served")  # clients may write
        command = [sys.executable, "-m", "flight_server.cli", "serve", str(served), "--port", "0"]
        command += ["--log-level", "warning"]  # the terminal is for the examples
        # A session of its own: Ctrl-C is for this process, which then stops the server.
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert server.stdout is not None
        try:
            uri = server.stdout.readline().strip()
            if not uri:
                stderr.print(f"error: the server did not start (exit code {server.wait()})", markup=False)
                raise typer.Exit(1)
            yield uri
        finally:
            server.terminate()
            exit_code = server.wait(timeout=_STOP_TIMEOUT_S)
            server.stdout.close()
        print(f"Server stopped, exit code {exit_code}.")


def _list_datasets(client: flight.FlightClient) -> None:
    """Print what the server offers; the figures come from manifests, no data is read for them."""
    for offer in client.list_flights():
        name = "/".join(part.decode() for part in offer.descriptor.path)
        print(f"  {name}: {count(offer.total_records, 'row')}, {count(len(offer.schema), 'column')}")


def _fetch(client: flight.FlightClient) -> pa.Table:
    """Plan the query, then stream its endpoints one after the other."""
    began = time.perf_counter()
    info = client.get_flight_info(flight.FlightDescriptor.for_command(json.dumps(_QUERY)))
    parts = [client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints]
    table = pa.concat_tables(parts)
    took_ms = (time.perf_counter() - began) * 1000
    print(
        f"  {count(table.num_rows, 'row')}, {table.nbytes / 1000:.0f} kB in {took_ms:.0f} ms, "
        f"{count(len(info.endpoints), 'endpoint')} (one per fragment)"
    )
    return table


def _print_similar_clocks(table: pa.Table) -> None:
    """Compare the vectors of zones that are no aliases: mean difference in hours to `_HOME`, least first."""
    names = table["name"].to_pylist()
    vectors = _as_matrix(table["offsets_h"])
    distance_h = np.abs(vectors - vectors[names.index(_HOME)]).mean(axis=1)
    countries, is_place = table["countries"].to_pylist(), table["alias_of"].is_null().to_pylist()
    order = np.argsort(distance_h, kind="stable")
    nearest = [row for row in order if is_place[row] and names[row] != _HOME]
    for row in nearest[:8]:
        where = ", ".join(country["name"] for country in countries[row][:4])
        print(f"  {distance_h[row]:5.2f} h  {names[row]:20} {where}")


def _as_matrix(column: pa.ChunkedArray) -> np.ndarray:
    """Return a fixed_size_list column as a matrix, one row per value."""
    size = column.type.list_size
    return np.concatenate([chunk.flatten().to_numpy().reshape(-1, size) for chunk in column.chunks])


def _how_to_connect(uri: str) -> str:
    """Return the examples of the README's section "Connect", for the server at `uri`.

    The README is part of what an installed distribution tells about itself.
    """
    readme = str(metadata.metadata(_DISTRIBUTION).get_payload())  # type: ignore[attr-defined]
    section = readme.split("\n## Connect\n")[1].split("\n## ")[0]
    # A heading may stand above prose alone.
    pattern = r"^### ([^\n]+)$(?:(?!^### ).)*?^```python\n(.*?)^```"
    examples = re.findall(pattern, section, flags=re.MULTILINE | re.DOTALL)
    text = "\n".join(f"{client}\n{indent(code, '    ')}" for client, code in examples)
    return text.replace(_README_URI, uri)
