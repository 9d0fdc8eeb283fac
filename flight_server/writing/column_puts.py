"""Versions made of uploaded columns: new columns, and other values of columns that exist."""

import uuid

from flight_server.requests.write_command import WriteCommand
from flight_server.writing.uploads import Abandonable, Batches, write_all
from lance_core.api.serving import (
    Snapshot,
    Written,
    add_stream,
    commit_staged,
    join_stream,
    stage_columns,
    written_by,
)
from lance_core.errors import CommitUnknownError, LanceError


def put_columns(base: Snapshot, command: WriteCommand, upload: Batches, abandonable: Abandonable) -> Written:
    """Make a version of uploaded columns, of the kind that `mode`, `fragment_id` and `on` of the command say.

    Raises:
        CommitUnknownError: it cannot be determined whether the version was made.
        LanceError: any other error: the columns cannot be written, and nothing was changed.
    """
    transaction_id = command.transaction_id
    if command.fragment_id is None:
        if command.on:
            made = join_stream(
                base, upload.batches(), upload.schema, command.on, transaction_id=transaction_id
            )
        else:
            made = add_stream(base, upload.batches(), upload.schema, transaction_id=transaction_id)
        return written_by(base.storage, made.manifest)
    writer = stage_columns(
        base, command.fragment_id, upload.schema, replace=command.mode == "replace_columns"
    )
    staged = write_all(writer, upload, abandonable)
    try:
        manifest = commit_staged(
            base.storage,
            base,
            [staged],
            transaction_id=transaction_id or str(uuid.uuid4()),
            read_version=staged.read_version,
        )
    except CommitUnknownError:
        raise
    except LanceError:  # it is certain that no version names the file
        staged.discard(base.storage)
        raise
    return written_by(base.storage, manifest)
