"""`lance-flight validate`: whether the files of a dataset are whole, here or on a server."""

import typer

from flight_server.cli.access import with_access
from flight_server.cli.arguments import AsJson, At, TargetName, print_answer
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.errors import stderr
from flight_server.cli.rendering import count


@with_access
def validate(target: TargetName, at: At = None, as_json: AsJson = False) -> None:
    """Check every file of a version: checksums of all bytes where files have them, else that values decode.

    The exit code is 1 if anything is wrong. Of a local dataset every damaged file is named, of one on a
    server the first.
    """
    with stderr.status("checking files"):
        findings = open_target(target, at).damage()
    lines = [f"{target}: {count(len(findings), 'finding')}", *findings] if findings else ["no damage found"]
    for line in lines if not as_json else lines[:1]:
        print_answer({"findings": findings}, line, as_json=as_json)
    if findings:
        raise typer.Exit(1)
