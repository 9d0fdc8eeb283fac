"""Stop words: frequent words that full text indices leave out.

`stop_words.json` has the words of each language that the reference leaves out. They come from the lists of
the Snowball project and of the Natural Language Toolkit, without words that negate.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of one of `LANGUAGES`."""
    text = files("lance_core.index.text").joinpath("stop_words.json").read_text(encoding="utf-8")
    return frozenset(json.loads(text)[language].split())
