"""Functions that expressions may call, by their names in lower case.

registry.py                          declaration of a function; checks of arguments
text.py, cases.py                    text and bytes; upper and lower case
numbers.py, temporal.py, lists.py    numbers; dates and times; lists
choices.py                           choices among values, such as `coalesce`
"""

from __future__ import annotations

from collections.abc import Sequence

from lance_core.errors import InvalidInputError
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


def call(name: str, arguments: Sequence[Expression]) -> Expression:
    """Return the node of a function call.

    Raises:
        InvalidInputError: there is no such function, or it does not accept these arguments.
    """
    function = FUNCTIONS.get(name)
    if function is None:
        # suggest similar names: there are too many functions to list
        hint = did_you_mean(name, near_names(name, FUNCTIONS))
        raise InvalidInputError(f"there is no function {name!r}{hint}")
    bound, data_type = function.bind(name, arguments)
    return Call(name, tuple(bound), data_type)
