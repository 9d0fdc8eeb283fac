"""Lance schemas and what they mean in Arrow."""

from lance_core.schema.fields import Field, Schema
from lance_core.schema.from_arrow import is_view, schema_from_arrow, storage_type
from lance_core.schema.paths import split_path
from lance_core.schema.physical_columns import leaves, nodes, owns_column

__all__ = [
    "Field",
    "Schema",
    "is_view",
    "leaves",
    "nodes",
    "owns_column",
    "schema_from_arrow",
    "split_path",
    "storage_type",
]
