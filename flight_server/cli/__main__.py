"""`python -m flight_server.cli` is `lance-flight`."""

from flight_server.cli import app

app(prog_name="lance-flight")
