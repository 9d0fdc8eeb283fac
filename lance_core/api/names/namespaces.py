"""Arguments of the reference that name a table in a namespace, which this package cannot open."""

from __future__ import annotations

from lance_core.errors import UnsupportedFeatureError


def refuse_namespaces(client: object, table_id: object) -> None:
    """Refuse the arguments that only namespaces need.

    Raises:
        UnsupportedFeatureError: One of the arguments is given.
    """
    for name, value in (("namespace_client", client), ("table_id", table_id)):
        if value is not None:
            raise UnsupportedFeatureError(
                f"argument {name!r}: namespaces are not supported, give a path or URL"
            )
