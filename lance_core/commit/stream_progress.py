"""Progress of a stream of numbered commits, recorded in the table to which the stream writes.

A stream sends its batches in order. It sends the last batch again if it does not know whether the batch
landed. The id of the transaction answers this only until a cleanup removes the version. Therefore the
manifest that adds the rows also records the number of the batch among the settings of the table:

  lance_flight.stream.<name> = {"batch": 17, "query": "..."}

The number is a property of the transaction, and `next_manifest` copies it to the settings. So it is recorded
exactly if the rows are committed, by every operation, and all later versions keep it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from lance_core.errors import CorruptFileError, InvalidInputError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction

PREFIX = "lance_flight.stream."
"""Prefix of the settings and of the transaction properties; the name of the stream follows."""


@dataclass(frozen=True)
class StreamBatch:
    """Batch of a stream."""

    name: str
    """Name of the stream."""
    query: str
    """Query that numbers the batches. Another query with the same stream name would start with
    used numbers.
    """
    batch: int
    """Number of the batch. Numbers grow from commit to commit and may have gaps."""

    @property
    def properties(self) -> dict[str, str]:
        """Properties of the transaction that commits the batch."""
        return {PREFIX + self.name: json.dumps({"batch": self.batch, "query": self.query})}

    def is_committed(self, config: Mapping[str, str]) -> bool:
        """Return whether the table with the settings `config` contains the rows of the batch.

        Raises:
            InvalidInputError: another query has written under the name of the stream.
            CorruptFileError: the recorded progress cannot be parsed.
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
    """Copy the stream progress from the properties of a transaction to the settings of its manifest."""
    for key, text in transaction.transaction_properties.items():
        if key.startswith(PREFIX):
            message.config[key] = text
