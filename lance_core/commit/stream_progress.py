"""Progress of a stream of numbered commits, recorded in the table to which it writes.

A stream sends its batches in order, and sends the last one again when it does not know whether it landed. The
id of the transaction tells as long as its version is there; a cleanup removes it. So the number of the last
batch is noted among the settings of the table, by the very manifest that adds the rows:

    lance_flight.stream.<name> = {"batch": 17, "query": "..."}

It gets there as a property of the transaction, which `next_manifest` copies: so it is there exactly if the
rows are, for every operation, and each later version carries it on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from lance_core.errors import CorruptFileError, InvalidInputError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction

PREFIX = "lance_flight.stream."
"""Prefix of settings and of properties of transactions; the name of the stream follows."""


@dataclass(frozen=True)
class StreamBatch:
    """One batch of a stream."""

    name: str
    """Name of the stream."""
    query: str
    """Query that numbers the batches. Another query under the same name would begin with numbers that are
    used.
    """
    batch: int
    """Grows from commit to commit; numbers may be left out."""

    @property
    def properties(self) -> dict[str, str]:
        """Return the properties for the transaction that commits the batch."""
        return {PREFIX + self.name: json.dumps({"batch": self.batch, "query": self.query})}

    def is_committed(self, config: Mapping[str, str]) -> bool:
        """Return whether the table with these settings has the rows of the batch.

        Raises:
            InvalidInputError: another query writes under the name.
            CorruptFileError: what the table says about the stream cannot be read.
        """
        noted = config.get(PREFIX + self.name)
        if noted is None:
            return False
        try:
            values = json.loads(noted)
            query, batch = str(values["query"]), int(values["batch"])
        except (ValueError, KeyError, TypeError):
            raise CorruptFileError(
                "the progress of a stream", expected="an object with batch and query", found=repr(noted)
            ) from None
        if query != self.query:
            raise InvalidInputError(
                f"stream {self.name}: another query wrote under this name, up to its batch {batch}; its "
                f"numbers say nothing about this query. Choose another name, or remove the setting "
                f"{PREFIX}{self.name} from the table",
                expected=f"query {query}",
                found=self.query,
            )
        return self.batch <= batch


def note_progress(message: table_pb2.Manifest, transaction: Transaction) -> None:
    """Copy what a transaction says about its stream to the manifest that it makes."""
    for key, text in transaction.transaction_properties.items():
        if key.startswith(PREFIX):
            message.config[key] = text
