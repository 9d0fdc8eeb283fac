"""Limits of filters and expressions, and the one check of them.

Deep trees exhaust stacks and huge ones stall a server, so that both are refused before anything is evaluated.
"""

from __future__ import annotations

from lance_core.errors import InvalidInputError
from lance_core.expressions.tree import Expression, IsIn, Literal

MAX_DEPTH = 256
MAX_NODES = 10_000
MAX_LITERALS = 100_000
MAX_TEXT = 1 << 22
"""Most characters of an expression's text, bytes of a Substrait message."""


def check_limits(expression: Expression) -> Expression:
    """Return the expression, or refuse it by the name of the limit that it exceeds."""
    nodes = literals = 0
    stack = [(expression, 1)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, Literal):
            literals += 1
        else:
            nodes += 1
        if isinstance(node, IsIn):
            literals += len(node.values)
        check_size(depth, nodes, literals)
        # A CASE of many branches is one node with many operands, as an OR of many conditions is.
        stack.extend((operand, depth + 1) for operand in node.operands)
    return expression


def check_size(depth: int, nodes: int, literals: int) -> None:
    """Refuse what exceeds a limit, by its name."""
    for what, count, most in (
        ("levels", depth, MAX_DEPTH),
        ("operations", nodes, MAX_NODES),
        ("literals", literals, MAX_LITERALS),
    ):
        if count > most:
            raise InvalidInputError(f"the expression is too large: at most {most} {what} are allowed")
