"""Options that many verbs have, declared once and added to each of these verbs."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def add_options(
    command: Callable[..., None],
    verb: Callable[..., None],
    options: Mapping[str, Any],
    *,
    without: str | None = None,
) -> Callable[..., None]:
    """Give `command` the name, the help and the parameters of `verb`, and `options` as further parameters.

    Args:
        command: A function of keyword arguments, which calls `verb`.
        verb: The function of a verb.
        options: Annotations by name, as in the signature of a verb. Options that are not given are None.
        without: A parameter of `verb` that `command` computes, and that is no option.

    Returns:
        `command`.
    """
    command.__name__ = verb.__name__
    command.__doc__ = verb.__doc__
    parameters = dict(inspect.signature(verb).parameters)
    if without is not None:
        del parameters[without]
    for name, annotation in options.items():
        parameters[name] = inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
        )
    command.__annotations__ = {name: each.annotation for name, each in parameters.items()}
    command.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    return command
