"""`lance-flight branch`: lines of versions beside the main one, here or on a server."""

import json
from typing import Annotated

import typer

from flight_server.cli.access import with_access
from flight_server.cli.arguments import AsJson, AsJsonLines, At, TargetName, print_answer
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.rendering import print_table

BranchName = Annotated[str, typer.Argument(metavar="BRANCH", help="Name of the branch.")]

branch = typer.Typer(no_args_is_help=True, add_completion=False)


@branch.command("list")
@with_access
def list_(target: TargetName, as_json: AsJsonLines = False) -> None:
    """List the branches of a dataset with the versions that they began with."""
    found = open_target(target).branches()
    if as_json:
        for name, content in found.items():
            print(json.dumps({"branch": name, **content}))
        return
    rows = [
        (name, content["parent_branch"] or "main", str(content["parent_version"]))
        for name, content in found.items()
    ]
    print_table(("branch", "began with", "version"), rows, folded=("branch", "began with"))


@branch.command()
@with_access
def create(target: TargetName, name: BranchName, at: At = None, as_json: AsJson = False) -> None:
    """Begin a branch with a version. No data is copied."""
    version = open_target(target, at).create_branch(name)
    text = f"branch {name} begins with version {version}"
    print_answer({"branch": name, "version": version}, text, as_json=as_json)


@branch.command()
@with_access
def delete(target: TargetName, name: BranchName, as_json: AsJson = False) -> None:
    """Delete a branch with all its versions."""
    open_target(target).delete_branch(name)
    print_answer({"branch": name}, f"branch {name} deleted", as_json=as_json)
