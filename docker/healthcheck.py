"""Ask the server of this container whether its process works; the exit code tells the container engine."""

import os
import ssl
import urllib.request
from contextlib import suppress

PORT = os.environ["LANCE_FLIGHT_HTTP_PORT"]
# The certificate names the host that clients know, and loopback needs no proof of who answers.
UNVERIFIED = ssl.create_default_context()
UNVERIFIED.check_hostname = False
UNVERIFIED.verify_mode = ssl.CERT_NONE

for scheme in ("http", "https"):
    url = f"{scheme}://127.0.0.1:{PORT}/healthz"
    # The port speaks the one or the other.
    with suppress(OSError), urllib.request.urlopen(url, timeout=3, context=UNVERIFIED):
        raise SystemExit(0)
raise SystemExit(1)
