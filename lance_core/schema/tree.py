"""Conversion of the flat field list of the format to a tree."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.proto import file_pb2

MAX_DEPTH = 64
"""Largest depth of fields: Arrow's own limit for nested types that cross its C interface."""

Node = TypeVar("Node")


def build_tree(
    messages: Iterable[file_pb2.Field],
    make: Callable[[file_pb2.Field, Sequence[Node]], Node],
    *,
    file: str | None,
) -> Sequence[Node]:
    """Return the top-level nodes of a field list. `make` makes a node from its message and its child nodes.

    The list is in depth-first order. It is read backwards, so that the children of a node are made before it.

    Raises:
        CorruptFileError: an id is used twice, or a field comes before its parent.
        UnsupportedFeatureError: the fields are nested too deeply.
    """
    depths: dict[int, int] = {-1: 0}
    nodes: list[tuple[int, int, file_pb2.Field]] = []
    for message in messages:
        number, parent = message.id, message.parent_id
        if number < 0 or number in depths:
            raise CorruptFileError("field id is negative or used twice", file=file, found=number)
        if parent not in depths:
            raise CorruptFileError(
                "field comes before its parent", file=file, column=message.name, found=parent
            )
        if depths[parent] == MAX_DEPTH:
            raise UnsupportedFeatureError(
                "nesting depth of the schema", file=file, expected=f"at most {MAX_DEPTH}", found="more"
            )
        depths[number] = depths[parent] + 1
        nodes.append((number, parent, message))
    children: dict[int, list[Node]] = {-1: []}
    for number, parent, message in reversed(nodes):
        below = children.pop(number, None)
        node = make(message, below[::-1] if below else ())
        children.setdefault(parent, []).append(node)
    return children[-1][::-1]
