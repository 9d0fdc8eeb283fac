"""`lance-flight tag`: names for versions of a dataset, here or on a server."""

import json
from typing import Annotated

import typer

from flight_server.cli.access import with_access
from flight_server.cli.arguments import AsJson, AsJsonLines, At, TargetName, print_answer
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.rendering import print_table

TagName = Annotated[str, typer.Argument(metavar="TAG", help="Name of the tag.")]

tag = typer.Typer(no_args_is_help=True, add_completion=False)


@tag.command("list")
@with_access
def list_(target: TargetName, as_json: AsJsonLines = False) -> None:
    """List the tags of a dataset with their versions."""
    found = open_target(target).tags()
    if as_json:
        for name, content in found.items():
            print(json.dumps({"tag": name, **content}))
        return
    rows = [(name, str(content["version"]), content["branch"] or "main") for name, content in found.items()]
    print_table(("tag", "version", "branch"), rows, folded=("tag", "branch"))


@tag.command()
@with_access
def create(target: TargetName, name: TagName, at: At = None, as_json: AsJson = False) -> None:
    """Name a version. It is an error if the tag exists. The version is kept while it has a tag."""
    version = open_target(target, at).create_tag(name)
    print_answer({"tag": name, "version": version}, f"tag {name} names version {version}", as_json=as_json)


@tag.command()
@with_access
def update(target: TargetName, name: TagName, at: At = None, as_json: AsJson = False) -> None:
    """Let a tag name another version."""
    version = open_target(target, at).update_tag(name)
    print_answer({"tag": name, "version": version}, f"tag {name} names version {version}", as_json=as_json)


@tag.command()
@with_access
def delete(target: TargetName, name: TagName, as_json: AsJson = False) -> None:
    """Delete a tag. The version that it named stays."""
    open_target(target).delete_tag(name)
    print_answer({"tag": name}, f"tag {name} deleted", as_json=as_json)
