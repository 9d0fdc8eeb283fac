"""Security: who calls, what proves it, and what the server needs before it listens. Free of Flight types."""
