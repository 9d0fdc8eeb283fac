"""Options of the core for the rows of a write command."""

from flight_server.requests.write_command import WriteCommand
from lance_core.api.serving import DatasetWriteOptions, FileLimits, Mode, Snapshot, file_version


def row_mode(command: WriteCommand, base: Snapshot | None) -> Mode:
    """Return the mode with which a `DatasetWriter` writes the rows of a command."""
    if base is None:
        return "create"
    return "append" if command.mode == "append" else "overwrite"


def write_options(command: WriteCommand) -> DatasetWriteOptions:
    """Return the options with which a `DatasetWriter` writes the rows of a command.

    Raises:
        InvalidInputError: there is no such version of data files.
        UnsupportedFeatureError: this version of data files is not stable yet.
    """
    given = {
        "max_rows": command.max_rows_per_file,
        "max_bytes": command.max_bytes_per_file,
    }
    limits = FileLimits(**{name: value for name, value in given.items() if value is not None})
    return DatasetWriteOptions(
        file_version=file_version(command.data_storage_version),
        enable_stable_row_ids=bool(command.enable_stable_row_ids),
        limits=limits,
        transaction_properties=command.properties,
        transaction_id=command.transaction_id,
    )
