"""One file per RPC: Flight types in, calls of the service, Flight types out."""
