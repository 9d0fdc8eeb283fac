"""Limits on the size of filters and expressions, and the check of them.

Deep trees exhaust stacks and large trees block a server. Both are refused before anything is evaluated.
"""

from __future__ import annotations

from lance_core.errors import InvalidInputError
from lance_core.expressions.tree import Expression, IsIn, Literal

MAX_DEPTH = 256
MAX_NODES = 10_000
MAX_LITERALS = 100_000
MAX_TEXT = 1 << 22
"""Maximum characters of an expression's text, and maximum bytes of a Substrait message."""


def check_limits(expression: Expression) -> Expression:
    """Return the expression. Raise `InvalidInputError` if it exceeds a limit; the message names the limit."""
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
        # A CASE with many branches is one node with many operands, and so is an OR of many conditions.
        stack += [(operand, depth + 1) for operand in node.operands]
    return expression


def check_size(depth: int, nodes: int, literals: int) -> None:
    """Raise `InvalidInputError` if a number exceeds its limit; the message names the limit."""
    if depth <= MAX_DEPTH and nodes <= MAX_NODES and literals <= MAX_LITERALS:
        return
    for what, count, most in (
        ("levels", depth, MAX_DEPTH),
        ("operations", nodes, MAX_NODES),
        ("literals", literals, MAX_LITERALS),
    ):
        if count > most:
            raise InvalidInputError(f"the expression is too large: at most {most} {what} are allowed")
