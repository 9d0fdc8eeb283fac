"""`make demo`: start a server on ``demo/data``, query it as any Flight client would, say how to connect.

On a terminal the server then stays until Ctrl-C; otherwise it is stopped after the query.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import indent

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight

DATA = Path(__file__).parent / "data"
DATASET = "timezones"
HOME = "Europe/Lisbon"
README = Path(__file__).parent.parent / "README.md"
README_URI = "grpc://127.0.0.1:8815"
QUERY = {"scan": {"dataset": DATASET, "columns": ["name", "alias_of", "countries", "offsets_h"]}}
STOP_TIMEOUT_S = 30


@contextmanager
def running_server() -> Iterator[str]:
    """A `lance-flight serve` process on a free port: its URI; stopped as a service manager would."""
    program = Path(sys.executable).with_name("lance-flight")
    server = subprocess.Popen(
        [program, "serve", DATA, "--port", "0"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert server.stdout is not None
    try:
        uri = server.stdout.readline().strip()
        if not uri:
            raise SystemExit(f"the server did not start (exit code {server.wait()})")
        yield uri
    finally:
        server.send_signal(signal.SIGTERM)
        exit_code = server.wait(timeout=STOP_TIMEOUT_S)
        server.stdout.close()
        print(f"Server stopped, exit code {exit_code}.")


def list_datasets(client: flight.FlightClient) -> None:
    """Print what the server offers; the figures come from manifests, no data is read for them."""
    for offer in client.list_flights():
        name = "/".join(part.decode() for part in offer.descriptor.path)
        print(f"  {name}: {offer.total_records} rows, {len(offer.schema)} columns")


def fetch(client: flight.FlightClient) -> pa.Table:
    """Plan the query, then stream its endpoints one after the other."""
    began = time.perf_counter()
    info = client.get_flight_info(flight.FlightDescriptor.for_command(json.dumps(QUERY)))
    parts = [client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints]
    table = pa.concat_tables(parts)
    took_ms = (time.perf_counter() - began) * 1000
    print(
        f"  {table.num_rows} rows, {table.nbytes / 1000:.0f} kB in {took_ms:.0f} ms, "
        f"{len(info.endpoints)} endpoints (one per fragment)"
    )
    return table


def print_similar_clocks(table: pa.Table) -> None:
    """Compare the vectors of zones that are no aliases: mean difference in hours to ``HOME``, least first."""
    names = table["name"].to_pylist()
    vectors = as_matrix(table["offsets_h"])
    distance_h = np.abs(vectors - vectors[names.index(HOME)]).mean(axis=1)
    countries, is_place = table["countries"].to_pylist(), table["alias_of"].is_null().to_pylist()
    nearest = [row for row in np.argsort(distance_h, kind="stable") if is_place[row] and names[row] != HOME]
    for row in nearest[:8]:
        where = ", ".join(country["name"] for country in countries[row][:4])
        print(f"  {distance_h[row]:5.2f} h  {names[row]:20} {where}")


def as_matrix(column: pa.ChunkedArray) -> np.ndarray:
    """A fixed_size_list column as a matrix, one row per value."""
    size = column.type.list_size
    return np.concatenate([chunk.flatten().to_numpy().reshape(-1, size) for chunk in column.chunks])


def how_to_connect(uri: str) -> str:
    """The examples of the README's section "Connect", for the server at ``uri``."""
    section = README.read_text(encoding="utf-8").split("\n## Connect\n")[1].split("\n## ")[0]
    # A heading may stand above prose alone.
    pattern = r"^### ([^\n]+)$(?:(?!^### ).)*?^```python\n(.*?)^```"
    examples = re.findall(pattern, section, flags=re.MULTILINE | re.DOTALL)
    text = "\n".join(f"{client}\n{indent(code, '    ')}" for client, code in examples)
    return text.replace(README_URI, uri)


def main() -> None:
    """Run the demo."""
    with running_server() as uri, flight.connect(uri) as client:
        print(f"Server at {uri} on the folder {DATA.relative_to(DATA.parent.parent)}. It offers:")
        list_datasets(client)
        print(f"\nQuery {json.dumps(QUERY)}:")
        table = fetch(client)
        print(f"\nClocks that ran most like those of {HOME} from 1970 on (mean difference):")
        print_similar_clocks(table)
        print(f"\nHow to connect:\n\n{how_to_connect(uri)}")
        if sys.stdout.isatty():
            print("The server keeps running; Ctrl-C stops it.")
            try:
                signal.pause()
            except KeyboardInterrupt:
                print()


if __name__ == "__main__":
    main()
