"""DoAction and ListActions: everything in the registry of `actions`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from pyarrow import flight

from flight_server.handlers.actions import ACTIONS, Action
from flight_server.handlers.actions.bodies import Done
from flight_server.handlers.call import Call, named_in
from flight_server.handlers.rpc import rpc
from flight_server.requests.names import shown
from flight_server.service import Service
from lance_core.errors import UnsupportedFeatureError


@rpc
def do_action(service: Service, call: Call, action: flight.Action) -> Iterator[flight.Result]:
    call.describe(lambda: {"action": shown(action.type)[1:-1]})
    if action.type not in ACTIONS:
        raise UnsupportedFeatureError(
            f"action {shown(action.type)} is not supported; known: {', '.join(ACTIONS)}"
        )
    body = action.body.to_pybytes() if action.body is not None else b""
    asked = ACTIONS[action.type]
    call.action = action.type
    call.describe(lambda: named_in(body))
    with _slot(service, call, asked):
        result: dict[str, Any] | bytes | Done = asked.run(service.needing(*asked.needs), body)
    facts: dict[str, object] = {}
    if isinstance(result, Done):
        facts, result = result.facts, result.answer
    if asked.changes and isinstance(result, dict):
        call.changed(result | facts)
    elif asked.is_probe:
        call.leave_out()
    yield flight.Result(result if isinstance(result, bytes) else json.dumps(result).encode())


@contextmanager
def _slot(service: Service, call: Call, asked: Action) -> Iterator[None]:
    """Keep the slot of an action while it runs. A change is finished, even if the client leaves."""
    if asked.changes:
        with service.admission.change(call.caller):
            yield
        return
    slot = service.admission.stream(call.caller) if asked.reads_rows else nullcontext()
    with slot, call.reader().waiting():
        yield


@rpc
def list_actions(service: Service, call: Call) -> list[flight.ActionType]:
    return [flight.ActionType(name, action.description) for name, action in ACTIONS.items()]
