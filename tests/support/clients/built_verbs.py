"""The verbs of `lance-flight`, built once in a process.

Typer builds a verb anew at every call. With the options of `serve` this takes longer than most tests of a
verb. It makes the types of options when they are first used, in 25 ms for `serve`.
"""

from __future__ import annotations

from functools import cache

from typer import main, testing

from flight_server.cli import app

main.get_command = testing._get_command = cache(main.get_command)  # type: ignore[attr-defined]
for option in main.get_command(app).commands["serve"].command.params:  # type: ignore[attr-defined]
    option.get_runtime_param()
