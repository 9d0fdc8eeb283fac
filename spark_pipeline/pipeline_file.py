"""Pipelines as files: steps in TOML, run one after the other, and continued where a run ended.

    [pipeline]
    name = "trips"
    uri = "grpc://127.0.0.1:8815"

    [[step]]
    name = "load"
    job = "ingest"
    dataset = "trips"
    source = { path = "raw/*.parquet" }

The keys of a step are the arguments of its job's function. Every step of a run has a transaction id of its
own, made of the names of the pipeline, the run and the step: a step that was done is found and left out.
"""

from __future__ import annotations

import inspect
import json
import time
import tomllib
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import NAMESPACE_URL, uuid5

from pyspark.sql import SparkSession

from flight_client import InvalidInputError, LanceError
from spark_pipeline import jobs
from spark_pipeline.jobs import Outcome, Server

__all__ = ["Pipeline", "Step", "StepError", "StepReport"]

Job = Callable[..., Outcome]

JOBS: Mapping[str, Job] = {
    job.__name__: job
    for job in (
        jobs.ingest,
        jobs.transform,
        jobs.backfill,
        jobs.compact,
        jobs.merge,
        jobs.deduplicate,
        jobs.export,
        jobs.verify,
    )
}

_GIVEN = {"spark", "server", "transaction_id"}
"""Arguments of jobs that the pipeline gives, not the file."""


@dataclass(frozen=True)
class Step:
    """One job with its arguments."""

    name: str
    job: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class StepReport:
    """Result of a step."""

    name: str
    job: str
    outcome: Outcome
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether the pipeline goes on: false for a `verify` that found differences."""
        return bool(self.outcome.details.get("is_equal", True))

    def as_data(self) -> dict[str, Any]:
        """Return the report as plain values."""
        named = {"step": self.name, "job": self.job}
        return named | asdict(self.outcome) | {"seconds": round(self.seconds, 3)}


class StepError(LanceError):
    """A step failed; the message names it, `__cause__` is what went wrong."""


@dataclass(frozen=True)
class Pipeline:
    """Steps, where their datasets are, and settings of Spark."""

    name: str
    steps: Sequence[Step]
    uri: str | None = None
    token_file: str | None = None
    tls_root_certs: str | None = None
    spark: Mapping[str, str] | None = None

    @staticmethod
    def read(path: str | Path) -> Pipeline:
        """Return the pipeline in a file.

        Raises:
            OSError: there is no such file.
            InvalidInputError: it is no TOML, or a step or key of it makes no sense; the message names them.
        """
        try:
            return _pipeline(tomllib.loads(Path(path).read_text(encoding="utf-8")))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, InvalidInputError) as error:
            raise InvalidInputError(f"{path}: {error}") from None

    def transaction_id(self, run_id: str, step: Step) -> str:
        """Return the transaction id of a step, the same each time for the same run."""
        names = json.dumps([self.name, run_id, step.name])
        return str(uuid5(NAMESPACE_URL, f"lance-flight-pipeline:{names}"))

    def run(self, spark: SparkSession, server: Server, run_id: str) -> Iterator[StepReport]:
        """Run the steps; reports come when steps are done. Ends with the first that is not good.

        Args:
            spark: a session.
            server: where the datasets are.
            run_id: names this run. Run again with the same one, steps that made a version, or a folder, are
                left out; the others are run from the start.

        Raises:
            StepError: a step failed; those before it stay done.
        """
        for step in self.steps:
            start = time.monotonic()
            job = JOBS[step.job]
            arguments = dict(step.arguments)
            if "transaction_id" in inspect.signature(job).parameters:
                arguments["transaction_id"] = self.transaction_id(run_id, step)
            try:
                outcome = job(spark, server, **arguments)
            except Exception as error:
                raise StepError(f"step {step.name} ({step.job})") from error
            report = StepReport(step.name, step.job, outcome, time.monotonic() - start)
            yield report
            if not report.is_good:
                return


def _pipeline(content: Mapping[str, Any]) -> Pipeline:
    for key in content:
        if key not in ("pipeline", "spark", "step"):
            raise InvalidInputError(f"{key}: no such table; there are [pipeline], [spark] and [[step]]")
    head = dict(_table("pipeline", content.get("pipeline")))
    known = {each.name: str for each in fields(Pipeline) if each.name not in ("steps", "spark")}
    for key, value in head.items():
        _check_known("pipeline", key, known)
        _checked("pipeline", key, str, value)
    if "name" not in head:
        raise InvalidInputError("pipeline: key name is missing")
    settings = _table("spark", content.get("spark", {}))
    for key, value in settings.items():
        _checked("spark", key, str, value)
    steps = content.get("step", [])
    if not isinstance(steps, list) or not steps:
        raise InvalidInputError("step: one [[step]] or more is needed")
    parsed = [_step(number, step) for number, step in enumerate(steps, 1)]
    names = [step.name for step in parsed]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInputError(f"step {twice[0]}: two steps have this name")
    return Pipeline(steps=parsed, spark=settings, **head)


def _step(number: int, content: Any) -> Step:
    arguments = dict(_table(f"step {number}", content))
    name = _checked(f"step {number}", "name", str, arguments.pop("name", None))
    where = f"step {name}"
    job = arguments.pop("job", None)
    if job not in JOBS:
        raise InvalidInputError(f"{where}: key job: expected one of {', '.join(JOBS)}; found {job!r}")
    function = JOBS[job]
    hints = get_type_hints(function)
    parameters = {
        key: parameter
        for key, parameter in inspect.signature(function).parameters.items()
        if key not in _GIVEN
    }
    checked = {}
    for key, value in arguments.items():
        _check_known(where, key, parameters)
        checked[key] = _checked(where, key, hints[key], value)
    for key, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and key not in checked:
            raise InvalidInputError(f"{where}: key {key} is missing")
    return Step(name, job, checked)


def _table(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInputError(f"{where}: expected a table")
    return value


def _check_known(where: str, key: str, known: Mapping[str, Any]) -> None:
    if key not in known:
        near = get_close_matches(key, known, 1)
        hint = f"{near[0]} is meant?" if near else f"there are {', '.join(known)}"
        raise InvalidInputError(f"{where}: key {key} is unknown; {hint}")


def _checked(where: str, key: str, kind: Any, value: Any) -> Any:
    """Return the value as an argument of type `kind`.

    Raises:
        InvalidInputError: it is of another type.
    """
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _first_fitting(where, key, kind, value)
    if origin is Literal:
        fits = value in get_args(kind)
    elif is_dataclass(kind) and isinstance(kind, type) and isinstance(value, dict):
        return _dataclass(where, key, kind, value)
    elif _is_sequence(origin) and isinstance(value, list):
        (item,) = get_args(kind)
        return [_checked(where, f"{key}[{number}]", item, each) for number, each in enumerate(value)]
    elif _is_mapping(origin) and isinstance(value, dict):
        _, item = get_args(kind)
        return {name: _checked(where, f"{key}.{name}", item, each) for name, each in value.items()}
    else:
        fits = kind is Any or (isinstance(kind, type) and type(value) is kind)
    if not fits:
        raise InvalidInputError(f"{where}: key {key}: expected {_described(kind)}, found {value!r}")
    return value


def _first_fitting(where: str, key: str, kind: Any, value: Any) -> Any:
    """Return the value as one of several types. What is wrong inside a table or list of the right type is
    said.
    """
    errors = []
    for each in get_args(kind):
        try:
            return _checked(where, key, each, value)
        except InvalidInputError as error:
            errors.append(str(error))
    inside = [text for text in errors if not text.startswith(f"{where}: key {key}: ")]
    expected = " or ".join(_described(each) for each in get_args(kind) if _described(each))
    raise InvalidInputError(
        inside[0] if inside else f"{where}: key {key}: expected {expected}, found {value!r}"
    )


def _dataclass(where: str, key: str, kind: type[Any], value: Mapping[str, Any]) -> Any:
    hints = get_type_hints(kind)
    known = {each.name: each for each in fields(kind)}
    arguments = {}
    for name, each in value.items():
        _check_known(where, f"{key}.{name}", {f"{key}.{field}": None for field in known})
        arguments[name] = _checked(where, f"{key}.{name}", hints[name], each)
    for name, field in known.items():
        if field.default is MISSING and field.default_factory is MISSING and name not in arguments:
            raise InvalidInputError(f"{where}: key {key}.{name} is missing")
    return kind(**arguments)


def _is_sequence(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Sequence)


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _described(kind: Any) -> str:
    """Return the type in words of TOML; empty for what no file can say."""
    origin = get_origin(kind)
    if origin is Literal:
        return " or ".join(repr(each) for each in get_args(kind))
    if origin in (Union, types.UnionType):
        return " or ".join(text for each in get_args(kind) if (text := _described(each)))
    if _is_sequence(origin):
        return "an array"
    if _is_mapping(origin) or is_dataclass(kind):
        return "a table"
    return {str: "a string", int: "an integer", bool: "true or false", float: "a number"}.get(kind, "")
