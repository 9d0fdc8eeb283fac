"""The HTTP port: health, readiness and metrics for operators."""
