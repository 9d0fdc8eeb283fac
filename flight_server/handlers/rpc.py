"""The one way into a handler: admission before it, translation of its errors after it."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from pyarrow import flight

from flight_server.errors import TRAILER, flight_error, log_error, report_error
from flight_server.service import Service

Handler = TypeVar("Handler", bound=Callable[..., Any])


def rpc(handler: Handler) -> Handler:
    """Wrap a handler `(service, context, ...)`, a function or a generator, as every RPC must be.

    The call counts as running while it lasts, is refused while the server drains, and leaves with nothing but
    Flight errors (threat T45).
    """
    name = handler.__name__

    @wraps(handler)
    def call(service: Service, context: flight.ServerCallContext, *arguments: Any) -> Any:
        with translated_errors(service, context, name), service.admission.call():
            return handler(service, context, *arguments)

    @wraps(handler)
    def generate(service: Service, context: flight.ServerCallContext, *arguments: Any) -> Iterator[Any]:
        with translated_errors(service, context, name), service.admission.call():
            yield from handler(service, context, *arguments)

    return generate if inspect.isgeneratorfunction(handler) else call  # type: ignore[return-value]


@contextmanager
def translated_errors(service: Service, context: flight.ServerCallContext, call: str) -> Iterator[None]:
    """Turn every error of the block into the Flight error a client may see; the trailer has the report."""
    try:
        yield
    except GeneratorExit:  # the client left
        raise
    except BaseException as error:
        report = report_error(error, service.settings.root)
        log_error(call, report, error)
        context.add_trailer(TRAILER, report.to_json())
        raise flight_error(report, error) from None
