"""Calls to servers: what reads and writes have in common.

connection        one server: calls, streams, and their errors as errors of this package
connections       all servers of a client: which one a call tries next
retries           how often a call is repeated, and how long to wait
endpoints         the rows of the endpoints of a plan: resumed, in parallel, in bounded memory
credentials       tokens and passwords
trace_context     headers that continue a trace of the caller
received_memory   the memory in which batches arrive
pickling          pickles of the Flight types of Arrow
"""
