"""Commands of jobs, made of their options: arguments and flags, and the values that they give.

`dataset` becomes the argument TARGET, which names the server, too. A `Source` becomes the argument SOURCES
and the flags of its fields. Every other option becomes a flag: a list may be repeated, and a mapping is
repeated `name=value`. See `about` in `spark_pipeline.jobs.job`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from functools import partial
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import typer

from spark_pipeline.jobs import Server, Source
from spark_pipeline.jobs.job import Job, JobOptions, about_of, is_required, options_of

_SOURCES = "Files, folders or globs, or one grpc://host:port/name of the same server."
_SOURCE_FLAGS = ("format", "options", "schema")
_TARGET = "grpc://host:port/name"
_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

Connect = Callable[[str], Server]
"""Returns the server at an address, with the token and the certificates of the command line."""
Run = Callable[[typer.Context, Job, Server, JobOptions, bool], None]
"""Runs a job and prints its outcome, as JSON if the last argument is true."""


@dataclass(frozen=True)
class _Parameter:
    """A parameter of a command: its place in the signature, and how its value becomes that of an option."""

    name: str
    annotation: Any
    default: Any
    convert: Callable[[Any], Any]

    def in_signature(self) -> inspect.Parameter:
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=self.default, annotation=self.annotation
        )


def command_of(job: Job, connect: Callable[[typer.Context], Connect], run: Run) -> Callable[..., None]:
    """Return the function that typer makes a command of.

    Args:
        job: the job.
        connect: returns the way to servers for the context of a call.
        run: runs the job.
    """
    parameters = {option.name: list(_parameters(job.options, option)) for option in options_of(job.options)}
    arguments = [each for name in ("source", "dataset") for each in parameters.get(name, ())[:1]]
    others = [each for group in parameters.values() for each in group if each not in arguments]

    def command(context: typer.Context, **given: Any) -> None:
        server, options = _options(job.options, parameters, given, connect(context))
        run(context, job, server, options, given["as_json"])

    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    as_json = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_JSON)
    shown = [context, *(each.in_signature() for each in (*arguments, *others)), as_json]
    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    command.__annotations__ = {}
    return command


def target(text: str, connect: Connect) -> tuple[Server, str]:
    """Return the server and the name of the dataset in `grpc://host:port/name`.

    Raises:
        BadParameter: the text has another form.
    """
    parts = urlsplit(text)
    name = parts.path.strip("/")
    if not parts.scheme.startswith("grpc") or not parts.netloc or not name:
        raise typer.BadParameter(f"not a target: {text}, expected {_TARGET}")
    uris = ",".join(f"{parts.scheme}://{address}" for address in parts.netloc.split(","))
    return connect(uris), name


def pairs(texts: Sequence[str], flag: str, value: Callable[[str], Any] = str) -> dict[str, Any]:
    """Return the values by name of texts `name=value`.

    Raises:
        BadParameter: a text has another form.
    """
    found = {}
    for text in texts:
        name, equals, given = text.partition("=")
        try:
            if not equals or not name:
                raise ValueError
            found[name] = value(given)
        except ValueError:
            expected = "name=128" if value is int else "name=value"
            raise typer.BadParameter(f"expected {expected}, found {text!r}", param_hint=flag) from None
    return found


def _options(
    kind: type[JobOptions],
    parameters: Mapping[str, Sequence[_Parameter]],
    given: Mapping[str, Any],
    connect: Connect,
) -> tuple[Server, JobOptions]:
    """Return the server and the options that the values of a command's parameters say."""
    server, dataset = target(given["target"], connect)
    values: dict[str, Any] = {"dataset": dataset}
    for name, group in parameters.items():
        said = {each.name: each.convert(given[each.name]) for each in group if given[each.name] is not None}
        if name == "source":
            values[name] = _source(said, server, connect)
        elif name != "dataset" and said:
            values[name] = said[name]
    try:
        return server, kind(**values)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _source(said: dict[str, Any], server: Server, connect: Connect) -> Source:
    paths = said.pop("sources", None) or ()
    said = {name.removeprefix("source_"): value for name, value in said.items()}
    if not paths or not paths[0].startswith("grpc"):
        return Source(path=paths, **said)
    if len(paths) > 1:
        raise typer.BadParameter(f"expected one dataset or files as the source, found {' '.join(paths)}")
    other, name = target(paths[0], connect)
    if other.uris != server.uris:
        raise typer.BadParameter("expected source and target on the same server")
    return Source(dataset=name, **said)


def _parameters(kind: type[Any], option: Field[Any]) -> Iterator[_Parameter]:
    """Yield the parameters for one option; none if the command line does not have it."""
    if option.name == "dataset":
        yield _Parameter("target", Annotated[str, typer.Argument(help=_TARGET)], inspect.Parameter.empty, str)
    elif get_type_hints(kind)[option.name] is Source:
        yield _Parameter("sources", Annotated[list[str] | None, typer.Argument(help=_SOURCES)], None, tuple)
        for each in fields(Source):
            if each.name in _SOURCE_FLAGS:
                yield _flag(Source, each, f"source_{each.name}")
    elif about_of(option).in_command:
        yield _flag(kind, option, option.name)


def _flag(kind: type[Any], option: Field[Any], name: str) -> _Parameter:
    about = about_of(option)
    flag = about.flag or "--" + option.name.replace("_", "-")
    taken, convert = _taken(get_type_hints(kind)[option.name], flag, about.parse)
    is_list = get_origin(taken) is list
    text = about.help + " Repeatable." * is_list
    facts: Any
    if about.is_argument:
        facts = typer.Argument(help=text)
    else:
        facts = typer.Option(flag, help=text, min=about.minimum, metavar=about.unit and f"<{about.unit}>")
    if is_required(option):
        return _Parameter(name, Annotated[taken, facts], inspect.Parameter.empty, convert)
    # A list that is not given is None: the class of options knows the default.
    default = None if is_list or option.default == () else option.default
    default = default if isinstance(default, str | int | None) else None
    return _Parameter(name, Annotated[taken | None, facts], default, convert)


def _taken(kind: Any, flag: str, parse: Callable[[str], Any] | None) -> tuple[Any, Callable[[Any], Any]]:
    """Return the type that typer parses for an option of type `kind`, and the conversion to the option."""
    if parse is not None:
        return str, partial(_parsed, parse, flag)
    for member in (kind, *get_args(kind)):
        origin = get_origin(member)
        if member in (str, int, bool) or origin is Literal:
            return member, _same
        if isinstance(origin, type) and issubclass(origin, Mapping):
            value = int if get_args(member)[1] is int else str
            return list[str], partial(pairs, flag=flag, value=value)
        if isinstance(origin, type) and issubclass(origin, Sequence):
            return list[str], list
    raise TypeError(f"{flag}: the command line has no form for {kind}")


def _same(value: Any) -> Any:
    return value


def _parsed(parse: Callable[[str], Any], flag: str, text: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=flag) from None
