"""Monitoring: the state of a server for operators and orchestrators."""
