"""Telemetry: what a process counts and measures about its calls, in plain data."""
