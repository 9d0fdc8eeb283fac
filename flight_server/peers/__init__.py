"""Peers: the other servers of the root, which of them are ready, and which server a fragment belongs to."""
