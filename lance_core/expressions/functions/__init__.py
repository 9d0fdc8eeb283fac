"""Functions that expressions may call, by their names in lower case.

registry.py             declaration of a function; checks of arguments
text.py, cases.py       text and bytes; upper and lower case
words.py                words of texts
digests.py              digests, and bytes as text
numbers.py              numbers
temporal.py             dates and times: their parts, truncation, conversions
calendar.py             dates from numbers, intervals of time, times as text
lists.py, distances.py  lists; distances between lists of numbers
choices.py              choices among values, such as `coalesce`
json.py                 values of JSON documents
"""

from __future__ import annotations

from collections.abc import Sequence

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.expressions.functions import (
    calendar,
    choices,
    digests,
    distances,
    json,
    lists,
    numbers,
    temporal,
    text,
    words,
)
from lance_core.expressions.functions.registry import Function
from lance_core.expressions.tree import Call, Expression
from lance_core.hints import did_you_mean, near_names

FUNCTIONS: dict[str, Function] = {
    **text.FUNCTIONS,
    **numbers.FUNCTIONS,
    **choices.FUNCTIONS,
    **temporal.FUNCTIONS,
    **lists.FUNCTIONS,
    **json.FUNCTIONS,
    **digests.FUNCTIONS,
    **calendar.FUNCTIONS,
    **distances.FUNCTIONS,
    **words.FUNCTIONS,
}

REFERENCE_ONLY = frozenset(
    {
        *("find_in_set", "regexp_instr", "string_to_array", "translate", "uuid", "random"),
        *("array_append", "array_distinct", "array_slice", "array_sort", "array_to_string", "flatten"),
        *("list_slice", "map", "named_struct", "range", "struct"),
        *("arrow_typeof", "version"),
    }
)
"""Functions that the reference has and this package lacks."""


def call(name: str, arguments: Sequence[Expression]) -> Expression:
    """Return the node of a function call.

    Raises:
        InvalidInputError: there is no such function, or it does not accept these arguments.
        UnsupportedFeatureError: only the reference has the function.
    """
    function = FUNCTIONS.get(name)
    if function is None and name in REFERENCE_ONLY:
        raise UnsupportedFeatureError(f"function {name!r} of the reference is not supported")
    if function is None:
        # suggest similar names: there are too many functions to list
        hint = did_you_mean(name, near_names(name, FUNCTIONS))
        raise InvalidInputError(f"there is no function {name!r}{hint}")
    bound, data_type = function.bind(name, arguments)
    return Call(name, tuple(bound), data_type)
