"""How the command line fails: one line on stderr and exit code 1, never a traceback for what was foreseen."""

import re
from typing import Any

import pyarrow as pa
import typer
from rich.console import Console
from typer.core import TyperGroup

from lance_core.errors import LanceError

stderr = Console(stderr=True, highlight=False)

# What our server says starts with the error's name; gRPC and the binding append how it travelled.
_SERVER_MESSAGE = re.compile(r"\[\w+\] .*?(?=\. Detail: |\. gRPC client debug context: |$)", re.DOTALL)


class ErrorReportingGroup(TyperGroup):
    """Runs a verb; errors of the format, of Flight and of the file system end it with exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (LanceError, pa.ArrowException, OSError) as error:
            stderr.print(f"error: {message_of(error)}", markup=False, soft_wrap=True)
            raise typer.Exit(1) from None


def message_of(error: Exception) -> str:
    """One line that says what went wrong."""
    text = " ".join(str(error).split())
    if isinstance(error, pa.ArrowException) and (server_message := _SERVER_MESSAGE.search(text)):
        return server_message[0]
    return text or type(error).__name__
