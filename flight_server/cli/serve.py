"""`lance-flight serve`: run a server."""

import os
from typing import Annotated

import typer

from flight_server.process import run_server
from flight_server.settings import Settings
from lance_core.errors import InvalidInputError

Text = str | None


def serve(
    root: Annotated[
        str, typer.Argument(help="Directory, or URL in an object store, whose Lance datasets are served.")
    ],
    host: Annotated[Text, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[Text, typer.Option(help="Port; 0 takes any free one.")] = None,
    advertise: Annotated[
        list[str] | None,
        typer.Option(help="Location to give to clients, such as grpc://host:8815; repeatable."),
    ] = None,
    memory_limit: Annotated[
        Text, typer.Option(help="Memory for read-ahead and caches of all streams, such as 256MiB.")
    ] = None,
    max_streams: Annotated[Text, typer.Option(help="Streams that may run at the same time.")] = None,
    max_puts: Annotated[Text, typer.Option(help="Uploads that may run at the same time.")] = None,
    max_put_bytes: Annotated[
        Text, typer.Option(help="Decoded bytes that one upload may hold, such as 100GiB.")
    ] = None,
    max_put_seconds: Annotated[Text, typer.Option(help="Seconds that one upload may take.")] = None,
    stage_expiry: Annotated[
        Text, typer.Option(help="Seconds after which staged writes that nobody committed are removed.")
    ] = None,
    max_batch_bytes: Annotated[
        Text, typer.Option(help="Decoded bytes of one uploaded batch, such as 256MiB.")
    ] = None,
    allow_unfinished_append: Annotated[
        bool | None,
        typer.Option(
            "--allow-unfinished-append",
            help="Commit appends of clients that cannot send the finish message; a client that dies then "
            "leaves what it sent so far.",
        ),
    ] = None,
    verify_checksums: Annotated[
        bool | None,
        typer.Option(
            "--verify-checksums",
            help="Hold the pages that scans read against their checksums, in files that have them.",
        ),
    ] = None,
    ticket_key_file: Annotated[
        Text, typer.Option(help="File with the key that signs tickets; the same on every server of the root.")
    ] = None,
    ticket_lifetime: Annotated[Text, typer.Option(help="Seconds until a ticket expires.")] = None,
    allow_base: Annotated[
        list[str] | None,
        typer.Option(help="Directory outside ROOT that tables may have files in (base paths); repeatable."),
    ] = None,
    cache_dir: Annotated[
        Text, typer.Option(help="Directory that keeps statistics of data files for the next server.")
    ] = None,
    cache_dir_limit: Annotated[Text, typer.Option(help="Most bytes in it, such as 256MiB.")] = None,
    storage_options_file: Annotated[
        Text,
        typer.Option(help="JSON file with credentials and settings of the object store that ROOT is in."),
    ] = None,
    drain_grace: Annotated[
        Text, typer.Option(help="Seconds for running streams after a stop signal.")
    ] = None,
    log_level: Annotated[Text, typer.Option(help="debug, info, warning or error.")] = None,
) -> None:
    """Serve the datasets below ROOT until SIGTERM or Ctrl-C.

    The first line on stdout is the URI, printed when the server is ready. Each option can also be given in
    the environment, as LANCE_FLIGHT_HOST and so on.
    """
    arguments = {
        "host": host,
        "port": port,
        "advertise": ",".join(advertise) if advertise else None,
        "memory_limit": memory_limit,
        "max_streams": max_streams,
        "max_puts": max_puts,
        "max_put_bytes": max_put_bytes,
        "max_put_seconds": max_put_seconds,
        "stage_expiry": stage_expiry,
        "max_batch_bytes": max_batch_bytes,
        "allow_unfinished_append": "true" if allow_unfinished_append else None,
        "verify_checksums": "true" if verify_checksums else None,
        "ticket_key_file": ticket_key_file,
        "ticket_lifetime": ticket_lifetime,
        "allow_base": os.pathsep.join(allow_base) if allow_base else None,
        "cache_dir": cache_dir,
        "cache_dir_limit": cache_dir_limit,
        "storage_options_file": storage_options_file,
        "drain_grace": drain_grace,
        "log_level": log_level,
    }
    try:
        settings = Settings.resolve(root, arguments)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from None
    run_server(settings)
