"""Numbers of cases that Hypothesis draws: a part in the default run, all in a run that has the long tests."""

from __future__ import annotations

from hypothesis import settings

DEFAULT_RUN = "default run"
WHOLE_RUN = "whole run"
PART = 4
"""The default run draws one of so many cases."""
FEWEST = 3
"""The least that a test draws, unless all its cases are fewer."""


def is_default_run() -> bool:
    """Return whether the long tests are left out of this run."""
    return settings.get_current_profile_name() == DEFAULT_RUN


def draws(cases: int) -> int:
    """Return the number of cases that a test draws in this run, of those in the whole run."""
    if is_default_run():
        return max(min(cases, FEWEST), cases // PART)
    return cases


def choose_profile(*, whole_run: bool) -> None:
    """Decide how many cases are drawn, before tests are imported."""
    every = settings.get_profile("default").max_examples
    settings.register_profile(WHOLE_RUN, max_examples=every, deadline=None)
    settings.register_profile(DEFAULT_RUN, max_examples=max(FEWEST, every // PART), deadline=None)
    settings.load_profile(WHOLE_RUN if whole_run else DEFAULT_RUN)
