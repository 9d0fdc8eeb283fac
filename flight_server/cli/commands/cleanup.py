"""`lance-flight cleanup`: old versions and files that no version needs, here or on a server."""

import re
from typing import Annotated

import typer

from flight_server.cli.access import with_access
from flight_server.cli.arguments import AsJson, TargetName, print_answer
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.errors import stderr
from flight_server.cli.rendering import count, print_line
from flight_server.cli.values import readable_bytes

_AGE = re.compile(r"([0-9]{1,9})([smhdw]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}


def _seconds(text: str) -> int:
    match = _AGE.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"not an age: {text!r} (a number and s, m, h, d or w, such as 14d)")
    return int(match[1]) * _SECONDS[match[2]]


@with_access
def cleanup(
    target: TargetName,
    older_than: Annotated[
        int | None,
        typer.Option(
            parser=_seconds, metavar="AGE", help="Only versions of this age: 90s, 30m, 12h, 14d, 2w, 0s."
        ),
    ] = None,
    retain: Annotated[int | None, typer.Option(min=1, help="Newest versions to keep.")] = None,
    version: Annotated[list[int] | None, typer.Option(help="Only this version. Repeatable.")] = None,
    keep_tagged: Annotated[
        bool, typer.Option("--keep-tagged", help="Keep versions with tags; without it, they are an error.")
    ] = False,
    delete_unverified: Annotated[
        bool,
        typer.Option(
            "--delete-unverified",
            help="Remove also files younger than 7 days that no version names. Nobody may be writing.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing; name what would go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove old versions, and files that no version needs.

    Without limits versions go that are older than two weeks. The latest version always stays.
    """
    given = {"older_than_seconds": older_than, "retain_versions": retain, "versions": version or None}
    options = {name: value for name, value in given.items() if value is not None}
    options |= {"delete_unverified": delete_unverified, "error_if_tagged_old_versions": not keep_tagged}
    with stderr.status("looking through files" if dry_run else "removing files"):
        done = open_target(target).cleanup(options | {"dry_run": dry_run})
    versions = count(done["old_versions"], "version")
    files = count(
        sum(number for name, number in done.items() if name.endswith("_files_removed")), "other file"
    )
    size = readable_bytes(done["bytes_removed"])
    if dry_run and not as_json:
        for file in done["files"]:
            print_line(file)
    verb = "would be removed" if dry_run else "removed"
    text = f"{versions} and {files} {verb}, {size}"
    if done["failed_deletes"]:
        text += f"; {count(done['failed_deletes'], 'file')} could not be removed"
    print_answer(done, text, as_json=as_json)
