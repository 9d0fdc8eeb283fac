"""Lance schemas and their Arrow types.

fields: a schema as a tree of fields. tree: builds it from the flat list of messages.
logical_types, arrow_types: names of types <-> Arrow types. from_arrow: Arrow schemas -> Lance schemas.
json_form: Arrow schemas as data for JSON. blobs: fields of blob columns.
physical_columns: fields that own a column of a file. paths: dotted paths of columns.
"""

from lance_core.schema.fields import Field, Schema
from lance_core.schema.from_arrow import is_view, schema_from_arrow, storage_type
from lance_core.schema.paths import join_path, shown_path, split_path
from lance_core.schema.physical_columns import leaves, nodes, owns_column

__all__ = [
    "Field",
    "Schema",
    "is_view",
    "join_path",
    "leaves",
    "nodes",
    "owns_column",
    "schema_from_arrow",
    "shown_path",
    "split_path",
    "storage_type",
]
