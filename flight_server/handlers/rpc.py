"""The one way into a handler: admission before it, translation of its errors after it."""

import inspect
import logging
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar

from pyarrow import flight

from flight_server.errors import TRAILER, flight_error, log_error, report_error
from flight_server.service import Service

_log = logging.getLogger(__name__)

Handler = TypeVar("Handler", bound=Callable[..., Any])


def rpc(handler: Handler) -> Handler:
    """Wrap a handler `(service, context, ...)`, a function or a generator, as every RPC must be.

    The call counts as running while it lasts, is refused while the server drains, and leaves with nothing but
    Flight errors (threat T45).
    """
    name = handler.__name__

    @wraps(handler)
    def call(service: Service, context: flight.ServerCallContext, *arguments: Any) -> Any:
        with TranslatedErrors(service, context, name), service.admission.call():
            return handler(service, context, *arguments)

    @wraps(handler)
    def generate(service: Service, context: flight.ServerCallContext, *arguments: Any) -> Iterator[Any]:
        with TranslatedErrors(service, context, name), service.admission.call():
            yield from handler(service, context, *arguments)

    return generate if inspect.isgeneratorfunction(handler) else call  # type: ignore[return-value]


class TranslatedErrors:
    """Turn every error of the block into the Flight error a client may see; the trailer has the report.

    A class, since every call comes by.
    """

    __slots__ = ("_call", "_context", "_service")

    def __init__(self, service: Service, context: flight.ServerCallContext, call: str) -> None:
        self._service = service
        self._context = context
        self._call = call

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, GeneratorExit):  # all is well, or the client left
            return
        if isinstance(error, flight.FlightError):  # a write failed, which it does only when the client left
            _log.info("%s ended: %s", self._call, error)
            return
        report = report_error(error, self._service.settings.root)
        log_error(self._call, report, error)
        self._context.add_trailer(TRAILER, report.to_json())
        raise flight_error(report, error) from None
