"""Facts of an index for the action `describe` and the command line."""

from typing import Any

from lance_core.api.serving import IndexDescription


def index_facts(index: IndexDescription, fragment_ids: frozenset[int]) -> dict[str, Any]:
    """Return the facts of an index as plain data.

    Of the fragments that a segment covers, only those in `fragment_ids` are listed: a bitmap of a few bytes
    can name billions of fragments.
    """
    return {
        "name": index.name,
        "type": index.index_type,
        "fields": list(index.field_names),
        "rows": index.num_rows_indexed,
        "bytes": index.total_size_bytes,
        "segments": [
            {
                "uuid": segment.uuid,
                "version": segment.dataset_version_at_last_update,
                "fragments": sorted(number for number in fragment_ids if number in segment.fragment_ids),
            }
            for segment in index.segments
        ],
    }
