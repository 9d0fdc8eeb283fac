"""Messages of the Lance format, generated from protos/lance by scripts/generate_protos.py."""
