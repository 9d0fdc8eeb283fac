"""Parts of a process that rooms share: counters, errors of work that runs ahead, state that a fork resets."""
