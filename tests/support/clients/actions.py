"""Actions of the server as a client calls them, and uploads that are staged."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyarrow import flight

from support.clients.puts import descriptor_of, finish_message


def act(client: flight.FlightClient, action: str, **body: Any) -> dict[str, Any]:
    """Return the answer of an action."""
    (answer,) = client.do_action(flight.Action(action, json.dumps(body).encode()))
    return json.loads(answer.body.to_pybytes())  # type: ignore[no-any-return]


def stage(client: flight.FlightClient, table: pa.Table, **command: Any) -> str:
    """Upload a table to be committed later; returns the receipt."""
    writer, reader = client.do_put(descriptor_of({"stage": True, **command}), table.schema)
    answers: dict[str, Any] = {}
    try:
        batches = table.to_batches()
        for batch in batches:
            writer.write_batch(batch)
        writer.write_metadata(finish_message(table.num_rows, len(batches)))
        writer.done_writing()
        while (message := reader.read()) is not None:
            answers |= json.loads(message.to_pybytes())
    finally:
        writer.close()
    (receipt,) = answers["staged"]
    return receipt  # type: ignore[no-any-return]
