"""Actions on staged writes."""

from typing import Any

from flight_server.handlers.actions.bodies import Done
from flight_server.requests.write_command import parse_abort, parse_commit
from flight_server.rights.needed import rights_to
from flight_server.service import Service


def commit(service: Service, body: bytes) -> Done:
    command = parse_commit(body)
    service = service.needing(*rights_to(command.operation))
    made = service.staged.commit(command)
    return Done({"version": made.version}, {"rows": made.num_rows, "staged": len(command.staged)})


def abort(service: Service, body: bytes) -> dict[str, Any]:
    return {"removed": service.staged.abort(*parse_abort(body))}
