"""Functions that expressions may call, by their names in lower case.

registry.py                          declaration of a function; checks of arguments
text.py, cases.py                    text and bytes; upper and lower case
numbers.py, temporal.py, lists.py    numbers; dates and times; lists
choices.py                           choices among values, such as `coalesce`
"""

from __future__ import annotations

from collections.abc import Sequence

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.expressions.functions import choices, lists, numbers, temporal, text
from lance_core.expressions.functions.registry import Function
from lance_core.expressions.tree import Call, Expression
from lance_core.hints import did_you_mean, near_names

FUNCTIONS: dict[str, Function] = {
    **text.FUNCTIONS,
    **numbers.FUNCTIONS,
    **choices.FUNCTIONS,
    **temporal.FUNCTIONS,
    **lists.FUNCTIONS,
}

REFERENCE_ONLY = frozenset(
    {
        *("json_array_contains", "json_array_length", "json_exists", "json_extract", "json_get"),
        *("json_get_bool", "json_get_float", "json_get_int", "json_get_string"),
        *("contains_tokens", "array_distance", "cosine_distance"),
        *("md5", "sha224", "sha256", "sha384", "sha512", "digest", "encode", "decode"),
        *("ascii", "chr", "find_in_set", "levenshtein", "regexp_instr", "string_to_array", "substr_index"),
        *("substring_index", "to_hex", "translate", "uuid"),
        *("cot", "factorial", "gcd", "lcm", "random"),
        *("date_bin", "date_format", "make_date", "to_char", "to_local_time"),
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
