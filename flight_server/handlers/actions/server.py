"""Actions about the server itself."""

from typing import Any

from flight_server.requests.json_fields import check_fields, parse_object
from flight_server.service import Service


def health(service: Service, body: bytes) -> dict[str, Any]:
    check_fields("health", parse_object(body or b"{}"), {}, required=())
    return service.health()
