"""Arguments and options that many verbs have, and how their answers are printed."""

import json
from typing import Annotated, Any

import typer

from flight_server.cli.rendering import print_line

TargetName = Annotated[str, typer.Argument(metavar="TARGET", help="grpc://host:port/name or a local path.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
AsJsonLines = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
At = Annotated[int | None, typer.Option(help="Version of the dataset; the latest one if left out.")]


def print_answer(answer: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print what a verb did: an object for machines, or a line for people."""
    if as_json:
        print(json.dumps(answer))
    else:
        print_line(text)
