"""Pipelines as files: steps in TOML that run one after the other. A run continues where it ended.

    [pipeline]
    name = "trips"
    uri = "grpc://127.0.0.1:8815"

    [[step]]
    name = "load"
    job = "ingest"
    dataset = "trips"
    source = { path = "raw/*.parquet" }

The keys of a step are the options of its job. Every step of a run has its own transaction id, made of the
names of pipeline, run and step. With this id the job finds out whether the step is done already.
"""

from __future__ import annotations

import json
import time
import tomllib
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import NAMESPACE_URL, uuid5

from pyspark.sql import SparkSession

from flight_client import InvalidInputError, LanceError
from spark_pipeline.jobs import Server
from spark_pipeline.jobs.job import JOBS, JobOptions, about_of, is_required
from spark_pipeline.jobs.shared_options import RunOptions
from spark_pipeline.step_report import StepReport

__all__ = ["Pipeline", "Step", "StepError", "StepReport"]


@dataclass(frozen=True)
class Step:
    """One job with its options."""

    name: str
    job: str
    options: JobOptions


class StepError(LanceError):
    """A step failed. The message names the step, and `__cause__` is the error of the job."""


@dataclass(frozen=True)
class Pipeline:
    """Steps, the server of their datasets, and settings of Spark."""

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
            OSError: the file cannot be read.
            InvalidInputError: the file is no TOML, or a value is invalid. The message names step and key.
        """
        try:
            return _pipeline(tomllib.loads(Path(path).read_text(encoding="utf-8")))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, InvalidInputError) as error:
            raise InvalidInputError(f"{path}: {error}") from None

    def transaction_id(self, run_id: str, step: Step) -> str:
        """Return the transaction id of a step, which is always the same for the same run."""
        names = json.dumps([self.name, run_id, step.name])
        return str(uuid5(NAMESPACE_URL, f"lance-flight-pipeline:{names}"))

    def run(self, spark: SparkSession, server: Server, run_id: str) -> Iterator[StepReport]:
        """Run the steps, and yield the report of each step when it is done. End after a report that is not
        good.

        Args:
            spark: session of Spark.
            server: server of the datasets.
            run_id: name of this run. If a run with this name made the version or the folder of a step, the
                step is skipped. Other steps run from their start.

        Raises:
            StepError: a step failed. The steps before it stay done.
        """
        for step in self.steps:
            start = time.monotonic()
            options = step.options
            if isinstance(options, RunOptions):
                options = replace(options, transaction_id=self.transaction_id(run_id, step))
            try:
                outcome = JOBS[step.job].run(spark, server, options)
            except Exception as error:
                raise StepError(f"step {step.name} ({step.job})") from error
            report = StepReport(step.name, step.job, outcome, time.monotonic() - start)
            yield report
            if not report.is_good:
                return


def _pipeline(content: Mapping[str, Any]) -> Pipeline:
    for key in content:
        if key not in ("pipeline", "spark", "step"):
            raise InvalidInputError(f"{key}: unknown table, expected [pipeline], [spark] or [[step]]")
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
        raise InvalidInputError("step: expected one [[step]] or more, found none")
    parsed = [_step(number, step) for number, step in enumerate(steps, 1)]
    names = [step.name for step in parsed]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInputError(
            f"step {twice[0]}: expected a name of its own, found two steps with this name"
        )
    return Pipeline(steps=parsed, spark=settings, **head)


def _step(number: int, content: Any) -> Step:
    arguments = dict(_table(f"step {number}", content))
    name = _checked(f"step {number}", "name", str, arguments.pop("name", None))
    where = f"step {name}"
    job = arguments.pop("job", None)
    if job not in JOBS:
        raise InvalidInputError(f"{where}: key job: expected one of {', '.join(JOBS)}, found {job!r}")
    try:
        return Step(name, job, _dataclass(where, "", JOBS[job].options, arguments))
    except InvalidInputError as error:
        text = str(error)
        raise InvalidInputError(text if text.startswith(where) else f"{where}: {text}") from None


def _table(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInputError(f"{where}: expected a table, found {value!r}")
    return value


def _check_known(where: str, key: str, known: Collection[str]) -> None:
    if key not in known:
        near = get_close_matches(key, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
        raise InvalidInputError(f"{where}: key {key} is unknown, {hint}")


def _checked(where: str, key: str, kind: Any, value: Any) -> Any:
    """Return the value of a key as a value of type `kind`.

    Raises:
        InvalidInputError: the value has another type.
    """
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _first_fitting(where, key, kind, value)
    if origin is Literal:
        fits = value in get_args(kind)
    elif is_dataclass(kind) and isinstance(kind, type) and isinstance(value, dict):
        return _dataclass(where, f"{key}.", kind, value)
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
    """Return the value of a key as a value of the first type of a union that fits.

    Raises:
        InvalidInputError: no type fits. If the value is a table or a list of a type, the error tells what is
            wrong inside it.
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


def _dataclass(where: str, prefix: str, kind: type[Any], values: Mapping[str, Any]) -> Any:
    """Return the dataclass whose fields are the keys of a table; `prefix` is the path of the table with a
    dot.
    """
    hints = get_type_hints(kind)
    options = [option for option in fields(kind) if about_of(option).in_file]
    known = [f"{prefix}{option.name}" for option in options]
    for name in values:
        _check_known(where, f"{prefix}{name}", known)
    for option, key in zip(options, known, strict=True):
        if is_required(option) and option.name not in values:
            raise InvalidInputError(f"{where}: key {key} is missing")
    checked = {name: _checked(where, f"{prefix}{name}", hints[name], value) for name, value in values.items()}
    return kind(**checked)


def _is_sequence(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Sequence)


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _described(kind: Any) -> str:
    """Return the type in words of TOML; an empty text for types that TOML does not have."""
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
