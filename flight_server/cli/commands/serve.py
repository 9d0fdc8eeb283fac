"""`lance-flight serve`: run a server."""

from typing import Annotated

import typer

from flight_server.cli.server_options import Arguments, resolve, with_settings
from flight_server.settings import Settings


@with_settings
def serve(
    root: Annotated[
        str, typer.Argument(help="Directory, or URL in an object store, whose Lance datasets are served.")
    ],
    given: Arguments,
) -> None:
    """Serve the datasets below ROOT until SIGTERM or Ctrl-C.

    The first line on stdout is the URI, printed when the server is ready. Each option can also be given in
    the environment, as LANCE_FLIGHT_HOST and so on; `lance-flight config` tells what comes from where.
    """
    settings = resolve(root, given)
    # Late: the options are known without a server, and a server without the supervisor of workers.
    if settings.workers == 1:
        from flight_server.process import run_server

        run_server(settings)
    else:
        from flight_server.workers.supervisor import run_workers

        run_workers(settings, Settings.texts(given))
