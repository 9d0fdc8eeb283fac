"""Ports for operators, and the HTTP server behind one of them: health, readiness and metrics."""
