"""A moto server whose conditional puts of DynamoDB items are atomic, as those of the real one are.

moto compares and stores without a lock, in many threads: of 1000 races some five had two winners. At every
request it lists its own modules on disk and parses the date of every key of a listing: both results are kept.
Its listings have a fifth of the keys of a real page, so that a test of several pages needs few objects.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import lru_cache
from typing import Any

from moto import backends
from moto.core import serialize
from moto.dynamodb.models.table import Table
from moto.server import main

KEYS_PER_PAGE = 200

_put_item = Table.put_item
_one_at_a_time = threading.Lock()


def _put_item_alone(*arguments: Any, **named: Any) -> Any:
    with _one_at_a_time:
        return _put_item(*arguments, **named)


if __name__ == "__main__":
    Table.put_item = _put_item_alone  # type: ignore[method-assign]
    modules = tuple(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: modules
    serialize.parse_to_aware_datetime = lru_cache(1 << 16)(serialize.parse_to_aware_datetime)
    os.environ["MOTO_S3_DEFAULT_MAX_KEYS"] = str(KEYS_PER_PAGE)
    main(sys.argv[1:])
