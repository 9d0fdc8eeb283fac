"""Definition of a job: a frozen dataclass of options, and a function that takes them.

    @dataclass(frozen=True)
    class CountOptions(JobOptions):
        dataset: str = field(metadata=about("Name of the dataset."))
        where: str | None = field(default=None, kw_only=True, metadata=about("Condition in SQL of Spark."))


    @job(CountOptions)
    def count(spark: SparkSession, server: Server, options: CountOptions) -> Outcome:
        ...

The options are declared once, for three users. Python calls `count(spark, server, "trips", where="fare >
10")`. A file of steps has them as keys (`spark_pipeline.pipeline_file`). The command line has them as
arguments and flags (`spark_pipeline.job_commands`).
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from pyspark.sql import SparkSession

from flight_client import InvalidInputError
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.server import Server

P = ParamSpec("P")
T = TypeVar("T", bound="JobOptions")

_WIDTH = 100
"""Columns of the docstrings that are made of options."""


@dataclass(frozen=True)
class About:
    """Facts about an option besides its name, type and default. See `about`."""

    help: str
    flag: str | None = None
    unit: str | None = None
    minimum: int | None = None
    parse: Callable[[str], Any] | None = None
    is_argument: bool = False
    in_file: bool = True
    in_command: bool = True


def about(
    help: str,
    *,
    flag: str | None = None,
    unit: str | None = None,
    minimum: int | None = None,
    parse: Callable[[str], Any] | None = None,
    is_argument: bool = False,
    in_file: bool = True,
    in_command: bool = True,
) -> Mapping[str, About]:
    """Return the metadata of a field that is an option.

    Args:
        help: one or two sentences for callers, for `--help` and for the docstring of the function.
        flag: name on the command line; the name of the field with dashes if None.
        unit: unit of a number, or form of a text on the command line: `rows`, `name=size`.
        minimum: least value of a number.
        parse: makes a value of the text on the command line; raises ValueError for other text. If None, the
            type of the field decides.
        is_argument: whether the command line has the option as an argument, without a flag.
        in_file: whether the option is a key in a file of steps.
        in_command: whether the command line has the option.
    """
    return {"about": About(help, flag, unit, minimum, parse, is_argument, in_file, in_command)}


def about_of(option: Field[Any]) -> About:
    """Return the facts about an option."""
    facts: About = option.metadata["about"]
    return facts


def options_of(kind: Any) -> list[Field[Any]]:
    """Return the fields of a class of options: first its own fields, then the fields of its base classes."""
    own = inspect.get_annotations(kind)
    return sorted(fields(kind), key=lambda option: option.name not in own)


def is_required(option: Field[Any]) -> bool:
    """Return whether an option has no default."""
    return option.default is MISSING and option.default_factory is MISSING


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Options of a job. Classes of options derive from this class, and from those in `shared_options`."""

    def __post_init__(self) -> None:
        """Check the minimum of each number.

        Raises:
            InvalidInputError: a number is less than its minimum.
        """
        for option in fields(self):
            value, minimum = getattr(self, option.name), about_of(option).minimum
            if minimum is not None and value is not None and value < minimum:
                raise InvalidInputError(f"{option.name}: expected {minimum} or more, found {value}")


@dataclass(frozen=True)
class Job:
    """A job: its name, its class of options and its function."""

    name: str
    options: type[JobOptions]
    run: Callable[[SparkSession, Server, Any], Outcome]

    @property
    def help(self) -> str:
        """The first sentences of the function's docstring, up to the first empty line."""
        return inspect.cleandoc(self.run.__doc__ or "").partition("\n\n")[0]


JOBS: dict[str, Job] = {}
"""All jobs by name, in the order of their imports in `spark_pipeline.jobs`."""


def job(
    options: Callable[P, T],
) -> Callable[
    [Callable[[SparkSession, Server, T], Outcome]], Callable[Concatenate[SparkSession, Server, P], Outcome]
]:
    """Return a decorator that adds a function to `JOBS`, and lets it take its options as arguments.

    Args:
        options: the class of options.
    """

    def decorate(
        function: Callable[[SparkSession, Server, T], Outcome],
    ) -> Callable[Concatenate[SparkSession, Server, P], Outcome]:
        @wraps(function)
        def run(spark: SparkSession, server: Server, *args: P.args, **kwargs: P.kwargs) -> Outcome:
            return function(spark, server, options(*args, **kwargs))

        assert isinstance(options, type)
        added = Job(function.__name__, options, function)
        JOBS[added.name] = added
        run.__signature__ = _signature(function, options)  # type: ignore[attr-defined]
        run.__doc__ = _docstring(function, options)
        return cast(Callable[Concatenate[SparkSession, Server, P], Outcome], run)

    return decorate


def _signature(function: Callable[..., Outcome], kind: type[JobOptions]) -> inspect.Signature:
    """Return the signature with the options in place of the class of options."""
    given = inspect.signature(function)
    spark, server, _ = given.parameters.values()
    taken = inspect.signature(kind).parameters
    ordered = sorted((taken[option.name] for option in options_of(kind)), key=lambda each: each.kind)
    return given.replace(parameters=[spark, server, *ordered])


def _docstring(function: Callable[..., Outcome], kind: type[JobOptions]) -> str:
    """Return the docstring with a section about the arguments, before the section about errors."""
    text, raises, errors = inspect.cleandoc(function.__doc__ or "").partition("Raises:")
    return f"{text.rstrip()}\n\nArgs:\n{''.join(_arguments(kind))}\n{raises}{errors}"


def _arguments(kind: type[JobOptions]) -> Iterator[str]:
    told = {"spark": "Session of Spark.", "server": "Server of the datasets."}
    for name, text in (told | {option.name: about_of(option).help for option in options_of(kind)}).items():
        yield (
            textwrap.fill(f"{name}: {text}", _WIDTH, initial_indent="    ", subsequent_indent=" " * 8) + "\n"
        )
