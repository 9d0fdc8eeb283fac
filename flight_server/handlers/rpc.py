"""Entry of all handlers: admission before the handler, translation of its errors and the log after it."""

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from pyarrow import flight

from flight_server.handlers.call import Call
from flight_server.service import Service

_OF_SCANS = ("DoGet", "GetFlightInfo")
"""Calls that are not short if they belong to a scan. The stream tells when it is known."""

P = ParamSpec("P")
R = TypeVar("R")


def rpc(
    handler: Callable[Concatenate[Service, Call, P], R],
) -> Callable[Concatenate[Service, flight.ServerCallContext, P], R]:
    """Turn a handler `(service, call, ...)`, a function or a generator, into a method of an RPC.

    The RPC is called with `(service, context, ...)`. It counts as running while it lasts, is refused while
    the server drains, and raises only Flight errors (threat T45). The handler gets the service of its caller.
    """
    name = handler.__name__.title().replace("_", "")
    is_short = name not in _OF_SCANS

    @wraps(handler)
    def run(service: Service, context: flight.ServerCallContext, *arguments: P.args, **named: P.kwargs) -> R:
        call = Call(service, context, name)
        if is_short:
            service.processors.note_call()
        with call, service.admission.call():
            return handler(service.on_behalf_of(call.identity), call, *arguments, **named)

    @wraps(handler)
    def generate(
        service: Service, context: flight.ServerCallContext, *arguments: P.args, **named: P.kwargs
    ) -> Iterator[Any]:
        call = Call(service, context, name)
        if is_short:
            service.processors.note_call()
        with call, service.admission.call():
            yield from handler(service.on_behalf_of(call.identity), call, *arguments, **named)  # type: ignore[misc]

    return generate if inspect.isgeneratorfunction(handler) else run  # type: ignore[return-value]
