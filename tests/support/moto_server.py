"""A moto server whose conditional puts of DynamoDB items are atomic, as those of the real one are.

moto compares and stores without a lock, in many threads: of 1000 races some five had two winners.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from moto.dynamodb.models.table import Table
from moto.server import main

_put_item = Table.put_item
_one_at_a_time = threading.Lock()


def _put_item_alone(*arguments: Any, **named: Any) -> Any:
    with _one_at_a_time:
        return _put_item(*arguments, **named)


if __name__ == "__main__":
    Table.put_item = _put_item_alone  # type: ignore[method-assign]
    main(sys.argv[1:])
