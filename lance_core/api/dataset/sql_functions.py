"""Functions of filters for SQL queries, which the engine lacks: those of JSON, and `contains_tokens`.

The engine gets JSON columns as text. So `json_get` gives text there, too, instead of binary JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.encodings.json_binary import show_text
from lance_core.errors import InvalidInputError
from lance_core.expressions.functions import json, words

if TYPE_CHECKING:
    from datafusion import SessionContext

_FUNCTIONS = json.FUNCTIONS | words.FUNCTIONS
_NUM_TEXTS = dict.fromkeys(_FUNCTIONS, 1) | {"json_array_contains": 2}
_RESULTS = {
    "contains_tokens": pa.bool_(),
    "json_exists": pa.bool_(),
    "json_array_contains": pa.bool_(),
    "json_array_length": pa.int64(),
    "json_get_int": pa.int64(),
    "json_get_float": pa.float64(),
    "json_get_bool": pa.bool_(),
}
"""Types of the results that are not text."""


def register_functions(context: SessionContext) -> None:
    """Let the queries of a context call these functions."""
    from datafusion import udf

    for name, num_texts in _NUM_TEXTS.items():
        types = [pa.string()] * (1 + num_texts)
        result = _RESULTS.get(name, pa.string())
        context.register_udf(udf(_function(name), types, result, "immutable", name))


def _function(name: str) -> Callable[..., pa.Array]:
    function = _FUNCTIONS[name]

    def run(documents: pa.Array, *texts: pa.Array) -> pa.Array:
        """Compute the function for arrays of rows; the engine repeats constants."""
        constants = [text.unique() for text in texts]
        if any(len(values) > 1 for values in constants):
            raise InvalidInputError(f"{name} takes a constant text here")
        if not len(documents):
            return pa.nulls(0, _RESULTS.get(name, pa.string()))
        found = function.compute(documents, *(values[0] for values in constants))
        return show_text(found) if pa.types.is_large_binary(found.type) else found

    return run
