"""Lance schemas and what they mean in Arrow."""

from lance_core.schema.columns import leaves, nodes, owns_column
from lance_core.schema.fields import Field, Schema
from lance_core.schema.paths import split_path

__all__ = ["Field", "Schema", "leaves", "nodes", "owns_column", "split_path"]
