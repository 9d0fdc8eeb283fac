"""Kernels of full text indices, compared with plain Python."""

from __future__ import annotations

import contextlib
import itertools
import random
import struct

import numpy as np
import pytest

from lance_core.kernels import (
    CorruptData,
    Postings,
    TermCollector,
    WordReader,
    best_documents,
    build_map,
    decode_position_lists,
    decode_positions,
    expand_map,
    find_key,
    match_phrase,
    similar_terms,
)

WORDS = ["a", "ab", "abc", "b", "é", "日本", "z" * 300, "t", "te", "tea", "ten", "in", "inn", ""]


def offsets_of(keys: list[bytes]) -> np.ndarray:
    return np.cumsum([0, *map(len, keys)]).astype(np.int64)


def map_of(keys: list[bytes], values: list[int]) -> bytes:
    return bytes(build_map(offsets_of(keys), b"".join(keys), np.array(values, np.uint32)))


def random_keys(chance: random.Random, count: int) -> list[bytes]:
    letters = (
        [bytes([number]) for number in range(256)] if chance.random() < 0.3 else [b"a", b"b", b"t", b"e"]
    )
    return sorted({b"".join(chance.choices(letters, k=chance.randint(0, 6))) for _ in range(count)})


@pytest.mark.parametrize("seed", range(6))
def test_maps_have_their_keys(seed: int) -> None:
    chance = random.Random(seed)
    keys = random_keys(chance, chance.choice([0, 1, 40, 2000]))
    values = [chance.randrange(1 << chance.randint(1, 32)) for _ in keys]
    written = map_of(keys, values)
    offsets, data, found = expand_map(written, 1 << 20)
    starts = np.frombuffer(offsets, np.int64).tolist()
    assert [bytes(data)[start:end] for start, end in itertools.pairwise(starts)] == keys
    assert np.frombuffer(found, np.uint32).tolist() == values
    for key, value in list(zip(keys, values, strict=True))[:50]:
        assert find_key(written, key) == value
    for key in random_keys(chance, 50):
        assert (find_key(written, key) is None) == (key not in keys)


def test_maps_refuse_keys_without_order() -> None:
    for keys in ([b"b", b"a"], [b"a", b"a"], [b"ab", b"a"]):
        with pytest.raises(CorruptData, match="not greater"):
            map_of(keys, [0] * len(keys))


def test_damaged_maps_are_refused_or_read() -> None:
    """T22: any byte of a dictionary may be wrong."""
    chance = random.Random(1)
    written = map_of(random_keys(chance, 300), list(range(len(random_keys(random.Random(1), 300)))))
    for _ in range(3000):
        data = bytearray(written)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        del data[chance.choice([len(data), chance.randrange(len(data))]) :]
        for call in (lambda data=data: expand_map(data, 1 << 16), lambda data=data: find_key(data, b"tea")):
            with contextlib.suppress(CorruptData):
                call()


def edit_distance(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for number, letter in enumerate(left, 1):
        above, row = row, [number]
        for place, other in enumerate(right, 1):
            row.append(min(above[place] + 1, row[-1] + 1, above[place - 1] + (letter != other)))
    return row[-1]


@pytest.mark.parametrize("seed", range(4))
def test_similar_terms(seed: int) -> None:
    chance = random.Random(seed)
    terms = sorted(
        {"".join(chance.choices("abé", k=chance.randint(0, 5))) for _ in range(80)}, key=str.encode
    )
    keys = [term.encode() for term in terms]
    for _ in range(30):
        term = "".join(chance.choices("abé", k=chance.randint(0, 5)))
        distance, prefix = chance.randint(0, 3), chance.choice([0, 0, 1, 2])
        limit = chance.choice([3, 1000])
        expected = [
            place
            for place, other in enumerate(terms)
            if edit_distance(term, other) <= distance and keys[place].startswith(term.encode()[:prefix])
        ][:limit]
        data = b"".join(keys)
        found = similar_terms(offsets_of(keys), data, term.encode(), distance, prefix, limit)
        assert found == expected


def words_of(reader: WordReader, texts: list[str]) -> list[list[tuple[str, int]]]:
    data = [text.encode() for text in texts]
    numbers, positions, ends = reader.read(b"".join(data), offsets_of(data), 64, len(data), None)
    offsets, known = reader.words(0)
    starts = np.frombuffer(offsets, np.int64)
    names = [bytes(known)[start:end].decode() for start, end in itertools.pairwise(starts.tolist())]
    words = [
        (names[number], position)
        for number, position in zip(
            np.frombuffer(numbers, np.uint32).tolist(),
            np.frombuffer(positions, np.uint32).tolist(),
            strict=True,
        )
    ]
    bounds = [0, *np.frombuffer(ends, np.int64).tolist()]
    return [words[start:end] for start, end in itertools.pairwise(bounds)]


def test_splitting_at_blanks() -> None:
    reader = WordReader("blanks", None, 1, 1, False, None, True)
    texts = ["A b\tb", "", "  é É  c\n"]
    assert words_of(reader, texts) == [
        [("a", 0), ("b", 1), ("b", 2)],
        [],
        [("é", 0), ("É", 1), ("c", 2)],
    ]


def test_long_words_are_left_out_but_counted() -> None:
    reader = WordReader("blanks", None, 1, 1, False, 3, False)
    assert words_of(reader, ["aaa bb éé c"]) == [[("bb", 1), ("c", 3)]]


def test_ngrams() -> None:
    every = WordReader("ngrams", None, 2, 3, False, None, False)
    assert [word for word, _ in words_of(every, ["aébc"])[0]] == ["aé", "aéb", "éb", "ébc", "bc"]
    first = WordReader("ngrams", None, 2, 3, True, None, False)
    assert [word for word, _ in words_of(first, ["aébc", "a"])[0]] == ["aé", "aéb"]


def test_bytes_that_are_no_text_do_not_end_the_process() -> None:
    """T22: texts of damaged files may have any bytes."""
    chance = random.Random(2)
    letters = bytes(chance.randrange(256) for _ in range(0x110000 // 8))
    for splitting in ("letters", "blanks", "ngrams", "whole"):
        reader = WordReader(splitting, letters, 1, 4, False, 40, True)
        for _ in range(200):
            data = chance.randbytes(chance.randint(0, 40))
            reader.read(data, np.array([0, len(data)], np.int32), 32, 1, None)
    with pytest.raises(CorruptData):
        reader.read(b"abc", np.array([0, 4], np.int32), 32, 1, None)


class Lists:
    """Documents with terms, and posting lists that the kernel made of them."""

    def __init__(self, seed: int, num_documents: int, num_terms: int) -> None:
        chance = random.Random(seed)
        rarity = [chance.random() ** 3 for _ in range(num_terms)]
        self.documents = [
            [
                term
                for term in range(num_terms)
                for _ in range(chance.randint(1, 3))
                if chance.random() < rarity[term]
            ]
            for _ in range(num_documents)
        ]
        for document in self.documents:
            chance.shuffle(document)
        self.documents = [document for document in self.documents if document]
        self.num_terms = num_terms
        collector = TermCollector(True)
        words = np.array([term for document in self.documents for term in document], np.uint32)
        positions = [place for document in self.documents for place in range(len(document))]
        ends = np.cumsum(list(map(len, self.documents))).astype(np.int64)
        numbers = np.arange(num_terms, dtype=np.int32)
        counts = collector.add(words, np.array(positions, np.uint32), ends, numbers)
        assert np.frombuffer(counts, np.uint32).tolist() == list(map(len, self.documents))
        collector.sort(None, numbers.astype(np.uint32))
        encoded = collector.encode(0, num_terms)
        self.data, block_ends, list_ends, self.bounds, lengths, stream, stream_ends, starts, _ = encoded
        ends_of_blocks = np.frombuffer(block_ends, np.int64)
        cuts = [0, *np.frombuffer(list_ends, np.int32).tolist()]
        stream_cuts = [0, *np.frombuffer(stream_ends, np.int64).tolist()]
        self.lengths = np.frombuffer(lengths, np.uint32).tolist()
        self.blocks, self.streams, self.starts = [], [], []
        for term, (first, end) in enumerate(itertools.pairwise(cuts)):
            begin = 0 if first == 0 else int(ends_of_blocks[first - 1])
            last = int(ends_of_blocks[end - 1]) if end > first else begin
            self.blocks.append((bytes(self.data)[begin:last], ends_of_blocks[first:end] - begin))
            self.streams.append(bytes(stream)[stream_cuts[term] : stream_cuts[term + 1]])
            self.starts.append(np.frombuffer(starts, np.uint32)[first:end])

    def postings(self, term: int) -> Postings:
        data, ends = self.blocks[term]
        return Postings(data, ends, self.lengths[term], len(self.documents), 128, False)

    def positions(self, term: int) -> list[list[int]]:
        return [
            [place for place, other in enumerate(document) if other == term]
            for document in self.documents
            if term in document
        ]

    def with_term(self, term: int) -> list[int]:
        return [number for number, document in enumerate(self.documents) if term in document]

    @property
    def norms(self) -> np.ndarray:
        lengths = np.array(list(map(len, self.documents)), np.float32)
        return (1.2 * (0.25 + 0.75 * lengths / lengths.mean())).astype(np.float32)


@pytest.fixture(scope="module")
def lists() -> Lists:
    return Lists(3, 3000, 12)


def test_posting_lists_are_those_of_the_documents(lists: Lists) -> None:
    for term in range(lists.num_terms):
        documents, frequencies = (np.frombuffer(part, np.uint32) for part in lists.postings(term).decode())
        assert documents.tolist() == lists.with_term(term)
        expected = lists.positions(term)
        assert frequencies.tolist() == list(map(len, expected))
        positions = decode_positions(lists.streams[term], lists.starts[term], frequencies, 128, True)
        assert np.frombuffer(positions, np.uint32).tolist() == list(itertools.chain(*expected))


def test_posting_lists_and_positions_of_format_1() -> None:
    """The second document has the first term 300 times, so that its positions fill two blocks."""
    documents = [[0, 1], [0] * 300 + [1], *([1] for _ in range(200))]
    collector = TermCollector(True, 1)
    words = np.array([term for document in documents for term in document], np.uint32)
    places = np.array([place for document in documents for place in range(len(document))], np.uint32)
    ends = np.cumsum(list(map(len, documents))).astype(np.int64)
    collector.add(words, places, ends, np.arange(2, dtype=np.int32))
    collector.sort(None, np.arange(2, dtype=np.uint32))
    for term in range(2):
        data, block_ends, _, _, lengths, strings, string_ends, _, document_ends = collector.encode(
            term, term + 1
        )
        expected = [[n for n, other in enumerate(one) if other == term] for one in documents]
        numbers = [number for number, some in enumerate(expected) if some]
        (length,) = np.frombuffer(lengths, np.uint32).tolist()
        postings = Postings(data, block_ends, length, len(documents), 128, True)
        found, frequencies = (np.frombuffer(part, np.uint32) for part in postings.decode())
        assert found.tolist() == numbers
        assert frequencies.tolist() == [len(expected[number]) for number in numbers]
        positions = decode_position_lists(strings, string_ends, document_ends, frequencies)
        assert np.frombuffer(positions, np.uint32).tolist() == list(itertools.chain(*expected))
    with pytest.raises(ValueError, match="format 3"):
        TermCollector(True, 3)


@pytest.mark.parametrize("is_reversed", [False, True], ids=["in order", "reversed"])
def test_posting_lists_of_many_words_come_in_parts(is_reversed: bool) -> None:
    """Most words are of few terms, and the documents may get another order. Calls may go back."""
    chance = np.random.default_rng(5)
    num_documents, num_terms, per_document = 200_000, 1000, 7
    words = (num_terms * chance.random((num_documents, per_document)) ** 3).astype(np.uint32)
    places = np.tile(np.arange(per_document, dtype=np.uint32), num_documents)
    ends = per_document * np.arange(1, num_documents + 1)
    collector = TermCollector(True)
    collector.add(words.ravel(), places, ends, np.arange(num_terms, dtype=np.int32))
    order = np.arange(num_documents, dtype=np.uint32)[::-1].copy()
    collector.sort(order if is_reversed else None, np.arange(num_terms, dtype=np.uint32))
    in_order = words[order] if is_reversed else words
    calls = 0
    first = 0
    while first < num_terms:
        data, block_ends, list_ends, _, lengths, stream, stream_ends, starts, _ = collector.encode(
            first, num_terms
        )
        calls += 1
        cuts = [0, *np.frombuffer(list_ends, np.int32).tolist()]
        edges = [0, *np.frombuffer(block_ends, np.int64).tolist()]
        stream_cuts = [0, *np.frombuffer(stream_ends, np.int64).tolist()]
        for place, (begin, end) in enumerate(itertools.pairwise(cuts)):
            if first + place > 3 and place not in (0, len(cuts) - 2):
                continue  # it has neither many words nor an end of a part
            has_term = in_order == first + place
            counts = has_term.sum(1)
            length = int(np.frombuffer(lengths, np.uint32)[place])
            block = bytes(data)[edges[begin] : edges[end]]
            ends_inside = np.frombuffer(block_ends, np.int64)[begin:end] - edges[begin]
            postings = Postings(block, ends_inside, length, num_documents, 128, False)
            found, frequencies = (np.frombuffer(part, np.uint32) for part in postings.decode())
            assert np.array_equal(found, np.flatnonzero(counts))
            assert np.array_equal(frequencies, counts[counts > 0])
            strings = bytes(stream)[stream_cuts[place] : stream_cuts[place + 1]]
            block_starts = np.frombuffer(starts, np.uint32)[begin:end]
            positions = decode_positions(strings, block_starts, frequencies, 128, True)
            assert np.array_equal(np.frombuffer(positions, np.uint32), np.nonzero(has_term)[1])
        first += len(cuts) - 1
    assert calls > 3
    assert [bytes(part) for part in collector.encode(3, 4)] == [
        bytes(part) for part in collector.encode(3, 4)
    ]
    again = np.frombuffer(collector.encode(0, 1)[4], np.uint32)
    assert again.tolist() == [int((in_order == 0).any(1).sum())]


def expected_best(
    lists: Lists,
    terms: list[tuple[int, float, int]],
    allowed: np.ndarray | None,
    required: int,
    limit: int | None,
) -> list[tuple[int, float]]:
    found = []
    for number, document in enumerate(lists.documents):
        if allowed is not None and not allowed[number]:
            continue
        hits = [(weight, document.count(term), word) for term, weight, word in terms if term in document]
        if not hits or len({word for _, _, word in hits}) < required:
            continue
        norm = float(lists.norms[number])
        found.append((number, sum(weight * 2.2 * f / (f + norm) for weight, f, _ in hits)))
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:limit]


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(8, 20))]
)
def test_best_documents(lists: Lists, seed: int) -> None:
    chance = random.Random(seed)
    count = chance.choice([1, 1, 2, 3, 5])
    words = sorted(chance.choices(range(3), k=count))
    words = [sorted(set(words)).index(word) for word in words]
    terms = [
        (chance.randrange(lists.num_terms), np.float32(chance.uniform(0.1, 3)).item(), word) for word in words
    ]
    allowed = None
    if chance.random() < 0.5:
        allowed = np.array([chance.random() < 0.3 for _ in lists.documents], np.uint8)
    required = chance.choice([0, len(set(words))])
    limit = chance.choice([None, 0, 1, 10, 1000])
    documents, scores = best_documents(
        [(lists.postings(term), weight, word) for term, weight, word in terms],
        lists.norms,
        1.0,
        allowed,
        required,
        limit,
    )
    expected = expected_best(lists, terms, allowed, required, limit)
    assert len(documents) // 4 == len(expected)
    np.testing.assert_allclose(np.frombuffer(scores, np.float32), [score for _, score in expected], rtol=1e-5)
    if limit is None:
        assert sorted(np.frombuffer(documents, np.uint32)) == sorted(number for number, _ in expected)


def has_phrase(document: list[int], phrase: list[tuple[int, int]], slop: int) -> bool:
    """Whether positions less their place in the phrase do not decrease, nor grow by more than `slop`."""
    reachable = None
    for term, place in phrase:
        own = {position - place for position, other in enumerate(document) if other == term}
        if reachable is not None:
            own = {here for here in own if any(0 <= here - before <= slop for before in reachable)}
        reachable = own
    return bool(reachable)


@pytest.mark.parametrize("seed", range(8))
def test_phrases(lists: Lists, seed: int) -> None:
    chance = random.Random(seed)
    places = sorted(chance.sample(range(4), chance.randint(1, 3)))
    phrase = [(chance.randrange(lists.num_terms), place) for place in places]
    slop = chance.choice([0, 0, 1, 3])
    parts = []
    for term, place in phrase:
        documents, frequencies = lists.postings(term).decode()
        positions = decode_positions(lists.streams[term], lists.starts[term], frequencies, 128, True)
        parts.append((documents, frequencies, positions, place))
    found = np.frombuffer(match_phrase(parts, slop), np.uint32).tolist()
    assert found == [
        number for number, document in enumerate(lists.documents) if has_phrase(document, phrase, slop)
    ]


def test_damaged_posting_lists_are_refused_or_read(lists: Lists) -> None:
    """T22: any byte of a posting list may be wrong."""
    chance = random.Random(4)
    term = max(range(lists.num_terms), key=lists.lengths.__getitem__)
    written, ends = lists.blocks[term]
    for _ in range(2000):
        data = bytearray(written)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        size = chance.choice([128, 256])
        fixed = chance.random() < 0.3
        try:
            list_ = Postings(data, ends, lists.lengths[term], len(lists.documents), size, fixed)
            best_documents([(list_, 1.0, 0), (lists.postings(0), 1.0, 1)], lists.norms, 1.0, None, 0, 10)
            _, frequencies = list_.decode()
            decode_positions(lists.streams[term], lists.starts[term], frequencies, 128, True)
        except CorruptData:
            pass


def test_position_lists_of_format_1() -> None:
    """T22: positions are read from byte strings, and wrong bytes are refused or give other positions."""
    chance = random.Random(9)
    documents = [[chance.randrange(1 << 20) for _ in range(chance.choice([1, 3, 127]))] for _ in range(20)]
    strings: list[bytes] = []
    document_ends = []
    for positions in documents:
        strings += [struct.pack("<I", len(positions)), struct.pack(f"<{len(positions)}I", *positions)]
        document_ends.append(len(strings))
    given = [
        b"".join(strings),
        np.cumsum([len(each) for each in strings]).astype(np.int64).tobytes(),
        np.array(document_ends, np.int64).tobytes(),
        np.array([len(each) for each in documents], np.uint32).tobytes(),
    ]
    found = np.frombuffer(decode_position_lists(*given), np.uint32)
    assert found.tolist() == [position for positions in documents for position in positions]
    for _ in range(3000):
        changed = [bytearray(each) for each in given]
        for _ in range(chance.randint(1, 3)):
            part = chance.choice(changed)
            part[chance.randrange(len(part))] = chance.choice((0, 1, 127, 128, chance.randrange(256)))
        with contextlib.suppress(CorruptData):
            decode_position_lists(*(bytes(each) for each in changed))
    for size in range(len(given[0])):
        with pytest.raises(CorruptData):
            decode_position_lists(given[0][:size], *given[1:])
