"""JSON documents as the terms that a full text index has: `path,type,value` for each value and each word.

The path of a value has the names of members with dots between, and nothing for arrays. Texts are divided into
words by the rules of the index; numbers, truth values and nulls are one term each. A query has such terms
itself, with `;` between. Positions count the terms of a document.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.encodings.json_binary import column_buffers, store_json
from lance_core.errors import CorruptFileError, InvalidInputError
from lance_core.index.text.analyzer import LEFT_OUT, Analyzer, Token, Words
from lance_core.index.text.arrays import int64s, uint32s
from lance_core.index.text.parameters import TextParameters
from lance_core.kernels import Block, CorruptData, json_leaves

_Numbers = npt.NDArray[np.int64]

_SCALAR = 1 << 31
"""Bit of the number of a value that is no word of a text."""
_TEXT = ",str,"
_SCALAR_TYPES = ("number", "bool", "null")


class JsonAnalyzer:
    """Divider of JSON documents into terms. Not thread-safe. It has the attributes of `Analyzer`."""

    def __init__(self, parameters: TextParameters) -> None:
        """Prepare to divide documents. Errors are those of `Analyzer`."""
        self._words = Analyzer(replace(parameters, lance_tokenizer="text"))
        self._labels: dict[str, int] = {}
        self._scalars: dict[str, int] = {}
        self._known: dict[int, int] = {}
        self._known_terms: dict[str, int] = {}
        self.vocabulary: list[str] = []
        self.terms = np.empty(0, np.int32)

    @property
    def num_bytes(self) -> int:
        """Estimated memory of the words and terms."""
        return self._words.num_bytes + 300 * len(self.vocabulary)

    def read(self, documents: pa.Array) -> Words:
        """Divide documents: binary JSON or its text. Nulls have no words.

        Raises:
            CorruptFileError: A value is no binary JSON.
        """
        if isinstance(documents, pa.ExtensionArray):
            documents = documents.storage
        if not pa.types.is_large_binary(documents.type):
            documents = store_json(documents, "JSON")
        try:
            ends, labels, name_offsets, names, offsets, data = json_leaves(*column_buffers(documents))
        except CorruptData as error:
            raise CorruptFileError(str(error)) from None
        shown = _strings(name_offsets, names).to_pylist()
        label = uint32s(labels)
        number = np.array([_number_in(self._labels, name) for name in shown], np.int64)[label] << 32
        is_text = np.array([name.endswith(_TEXT) for name in shown], np.bool_)[label]
        values = _strings(offsets, data)
        texts, others = np.flatnonzero(is_text), np.flatnonzero(~is_text)
        leaves, words = self._words_of(values.filter(pa.array(is_text)))
        leaves = np.concatenate([texts[leaves], others])
        words = np.concatenate([words, self._scalars_of(values.filter(pa.array(~is_text)))])
        order = np.argsort(leaves, kind="stable")
        leaves = leaves[order]
        document_ends = np.searchsorted(leaves, int64s(ends)).astype(np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), document_ends])[: len(document_ends)]
        positions = np.arange(len(leaves)) - np.repeat(starts, document_ends - starts)
        numbers = self._numbers_of(number[leaves] | words[order])
        return Words(
            numbers.astype(np.uint32).data,
            positions.astype(np.uint32).data,
            document_ends.data,
        )

    def number(self, term: str) -> int | None:
        """Return the number of a term; None if no document had it so far."""
        return self._known_terms.get(term)

    def query_tokens(self, text: str) -> list[Token]:
        """Return the terms of a query such as `title,str,red fox;year,number,2024`, in order.

        Raises:
            InvalidInputError: The query has another form.
        """
        terms: list[tuple[str, int]] = []
        for part in text.split(";"):
            path, _, rest = part.partition(",")
            kind, comma, value = rest.partition(",")
            if not comma or kind not in ("str", *_SCALAR_TYPES):
                raise InvalidInputError(
                    "full text query of JSON", expected="path,str|number|bool|null,value", found=part
                )
            label = f"{path},{kind},"
            words = [value] if kind != "str" else [each.term for each in self._words.query_tokens(value)]
            terms += [(label + word, len(label)) for word in words]
        return [Token(term, place, fixed) for place, (term, fixed) in enumerate(terms)]

    def _words_of(self, texts: pa.Array) -> tuple[_Numbers, _Numbers]:
        """Return the words of texts that are terms: the number of the text, and of the term, of each."""
        words = self._words.read(texts)
        owners = np.repeat(np.arange(len(texts)), np.diff(int64s(words.ends), prepend=0))
        terms = self._words.terms[uint32s(words.numbers)].astype(np.int64)
        kept = terms != LEFT_OUT
        return owners[kept], terms[kept]

    def _scalars_of(self, texts: pa.Array) -> _Numbers:
        encoded = texts.dictionary_encode()
        values = [_number_in(self._scalars, text) for text in encoded.dictionary.to_pylist()]
        numbers: _Numbers = np.array(values, np.int64)[encoded.indices.to_numpy()] | _SCALAR
        return numbers

    def _numbers_of(self, keys: _Numbers) -> _Numbers:
        """Return the numbers of terms, from the number of a label and of a value of each."""
        distinct, inverse = np.unique(keys, return_inverse=True)
        new = [key for key in distinct.tolist() if key not in self._known]
        if new:
            labels, scalars = list(self._labels), list(self._scalars)
            for key in new:
                value = key & (_SCALAR - 1)
                shown = scalars[value] if key & _SCALAR else self._words.vocabulary[value]
                term = labels[key >> 32] + shown
                self._known[key] = _number_in(self._known_terms, term)
            self.vocabulary = list(self._known_terms)
            self.terms = np.arange(len(self.vocabulary), dtype=np.int32)
        known = np.array([self._known[key] for key in distinct.tolist()], np.int64)
        return known[inverse]


AnyAnalyzer = Analyzer | JsonAnalyzer


def analyzer_of(parameters: TextParameters) -> AnyAnalyzer:
    """Return the analyzer of texts or of JSON, whichever the parameters are for.

    Raises:
        UnsupportedFeatureError: There is no stemmer for the language.
    """
    return JsonAnalyzer(parameters) if parameters.lance_tokenizer == "json" else Analyzer(parameters)


def _number_in(known: dict[str, int], text: str) -> int:
    return known.setdefault(text, len(known))


def _strings(offsets: Block, data: Block) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(int64s(offsets)) - 1, buffers)
