"""Functions of the words of texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.expressions.comparisons import Datum
from lance_core.expressions.functions.registry import Bound, Function, as_constant_text, as_text, expect
from lance_core.expressions.letters import word_characters
from lance_core.expressions.tree import Expression
from lance_core.kernels import WordReader
from lance_core.number_sets import distinct


def _bind_contains_tokens(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2)
    return [as_text(name, arguments[0]), as_constant_text(name, arguments[1])], pa.bool_()


def _contains_tokens(text: Datum, tokens: pa.Scalar) -> Datum:
    """Return whether texts have all words of `tokens`: runs of letters and numbers, in the same case."""
    if tokens.as_py() is None:
        return pa.nulls(len(text), pa.bool_())
    reader = WordReader("letters", word_characters(), 1, 1, False, None, False)
    num_wanted = len(set(_words(reader, pa.array([tokens.as_py()], pa.large_string()))[0].tolist()))
    words, ends = _words(reader, pc.fill_null(text, "").cast(pa.large_string()))
    owners = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    # The words of `tokens` have the first numbers.
    found = distinct(owners[words < num_wanted] * max(num_wanted, 1) + words[words < num_wanted])
    counts = np.bincount(found // max(num_wanted, 1), minlength=len(ends))
    is_valid = pc.is_valid(text).to_numpy(zero_copy_only=False)
    return pa.array(counts == num_wanted, mask=~is_valid)


def _words(reader: WordReader, texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each word, and the end of each text in them."""
    _, offsets, data = texts.buffers()
    bounds = (offsets or pa.py_buffer(bytes(8))).slice(8 * texts.offset)
    numbers, _, ends = reader.read(data, bounds, 64, len(texts), None)
    return np.frombuffer(memoryview(numbers), np.uint32), np.frombuffer(memoryview(ends), np.int64)


FUNCTIONS = {"contains_tokens": Function(_bind_contains_tokens, _contains_tokens)}
