"""Requests: the bytes that clients send, as typed commands, tickets and names."""
