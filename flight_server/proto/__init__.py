"""Messages of the server's commands, generated from protos/lance_flight by scripts/generate_protos.py."""
