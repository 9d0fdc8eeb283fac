"""Paths of the HTTP port.

`/healthz`, `/readyz` and `/metrics` need no credentials, as orchestrators and Prometheus expect. Therefore
their answers hold numbers and fixed texts only: no names of datasets, columns or callers, no paths.
"""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from flight_server.http.exposition import exposition
from flight_server.monitoring.monitor import Monitor

_NOT_KEPT = {"cache-control": "no-store"}


def application(monitor: Monitor) -> Starlette:
    """Return the application with all paths."""

    async def healthz(request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=_NOT_KEPT)

    # The others may wait for the storage or for other processes: Starlette runs them in threads.
    def readyz(request: Request) -> Response:
        checks = monitor.checks()
        is_ready = all(check.is_ok for check in checks.values())
        content = {
            "status": "ready" if is_ready else "not ready",
            "checks": {name: "ok" if check.is_ok else check.reason for name, check in checks.items()},
        }
        return JSONResponse(content, 200 if is_ready else 503, headers=_NOT_KEPT)

    def metrics(request: Request) -> Response:
        body, media_type = exposition(monitor.readings(), request.headers.get("accept", ""))
        return Response(body, headers={"content-type": media_type, **_NOT_KEPT})

    return Starlette(
        routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
    )
