"""The verbs of `lance-flight`, built once in a process.

Typer builds all of them anew at every call, which takes 75 ms of a processor: longer than most tests of a
verb, and half of the start of a forked server. It makes the types of options when they are first used, in
25 ms for `serve`.
"""

from __future__ import annotations

from functools import cache

from typer import main, testing

from flight_server.cli import app

main.get_command = testing._get_command = cache(main.get_command)  # type: ignore[attr-defined]
for option in main.get_command(app).commands["serve"].params:  # type: ignore[attr-defined]
    option.get_runtime_param()
