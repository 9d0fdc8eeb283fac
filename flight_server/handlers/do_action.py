"""DoAction and ListActions: everything in the registry of `actions`."""

import json
from collections.abc import Iterator
from contextlib import nullcontext

from pyarrow import flight

from flight_server.handlers.actions import ACTIONS
from flight_server.handlers.rpc import rpc
from flight_server.names import shown
from flight_server.service import Service
from lance_core.errors import UnsupportedFeatureError


@rpc
def do_action(
    service: Service, context: flight.ServerCallContext, action: flight.Action
) -> Iterator[flight.Result]:
    if action.type not in ACTIONS:
        raise UnsupportedFeatureError(
            f"action {shown(action.type)} is not supported; known: {', '.join(ACTIONS)}"
        )
    body = action.body.to_pybytes() if action.body is not None else b""
    asked = ACTIONS[action.type]
    with service.admission.change() if asked.changes else nullcontext():
        result = asked.run(service, body)
    yield flight.Result(result if isinstance(result, bytes) else json.dumps(result).encode())


@rpc
def list_actions(service: Service, context: flight.ServerCallContext) -> list[flight.ActionType]:
    return [flight.ActionType(name, action.description) for name, action in ACTIONS.items()]
