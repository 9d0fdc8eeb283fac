"""Many small cases in one test.

Beside its own work, a test takes 5 ms of a processor: each worker process collects the test, and its reports
travel between processes. Cases of a few milliseconds share one test.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

SHOWN_CHARACTERS = 300


def each_case(
    names: str | Sequence[str], cases: Iterable[Any], *, ids: Iterable[str] = ()
) -> Callable[[Callable[..., None]], Any]:
    """Return a decorator that calls a test with every case, like `pytest.mark.parametrize`, but in one test.

    The first case that fails ends the test, and a note of its error names the case: by its id if there are
    `ids`, else by its values. If the test takes `tmp_path`, each case gets a directory of its own.
    """
    names = (names,) if isinstance(names, str) else tuple(names)
    values = [dict(zip(names, case if len(names) > 1 else (case,), strict=True)) for case in cases]
    labels = list(ids)
    assert values, f"no cases of {', '.join(names)}"
    assert len(labels) in (0, len(values)), f"{len(values)} cases and {len(labels)} ids"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(*arguments: Any, **fixtures: Any) -> None:
            for number, case in enumerate(values):
                try:
                    test(*arguments, **_with_own_directory(fixtures, number), **case)
                except BaseException as error:
                    error.add_note(f"case: {labels[number] if labels else _shown(case)}")
                    raise

        others = [parameter for name, parameter in signature.parameters.items() if name not in names]
        assert len(others) == len(signature.parameters) - len(names), f"the test takes no {names}"
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run

    return decorate


def _with_own_directory(fixtures: dict[str, Any], number: int) -> dict[str, Any]:
    path: Path | None = fixtures.get("tmp_path")
    if path is None:
        return fixtures
    own = path / str(number)
    own.mkdir()
    return fixtures | {"tmp_path": own}


def _shown(case: dict[str, Any]) -> str:
    text = ", ".join(f"{name}={value!r}" for name, value in case.items())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}... ({len(text)} characters)"
