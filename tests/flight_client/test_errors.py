"""The errors of the client beside those of `lance_core`."""

import builtins
import copy
import pickle

from flight_client import errors as of_client
from lance_core import errors as of_core
from support.runs.each_case import each_case

SHARED = sorted(
    name
    for name in of_client.__all__
    if name != "LanceError" and isinstance(getattr(of_core, name, None), type)
)


def test_errors_are_shared() -> None:
    assert len(SHARED) == 12


@each_case("name", SHARED)
def test_an_error_is_the_same_built_in_errors_as_that_of_the_core(name: str) -> None:
    """A script catches the errors of a server by the clauses that it has for local datasets."""
    ours, core = (
        {kind for kind in getattr(module, name).__mro__ if kind.__module__ == builtins.__name__}
        for module in (of_client, of_core)
    )
    assert ours == core


@each_case("name", SHARED)
def test_an_error_stays_the_same_in_another_process(name: str) -> None:
    error = getattr(of_client, name)("wrong", code=7, retryable=True, error_id="5f0c")
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(twin), str(twin), vars(twin)) == (type(error), "wrong", vars(error))
