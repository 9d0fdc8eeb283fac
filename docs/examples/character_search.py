# %% [markdown]
# # Search by vectors and words
#
# Which character has a name like this one? Python ships the names of all Unicode characters. A name becomes a
# vector of its trigrams, so that a misspelled name is near to the right one. A full text index knows the
# words. Both indices are built and searched on a server.
#
# Run it as a script: `python docs/examples/character_search.py`. With `--plot FILE.svg` it draws how the
# recall and the time of a query depend on the number of searched partitions.

# %% The names of 10,000 characters, without those that only have a number.
import argparse
import time
import unicodedata
import zlib

import numpy as np
import pyarrow as pa
import shop

import flight_client
import lance_core

parser = argparse.ArgumentParser(description="Search the names of Unicode characters.")
parser.add_argument("--plot", metavar="FILE.svg", help="draw recall and time of indexed searches")
arguments = parser.parse_args()

names = [(number, unicodedata.name(chr(number), "")) for number in range(0x1F000)]
names = [
    (number, name) for number, name in names if name and not name.startswith(("CJK", "HANGUL SYL", "EGYPT"))
]
names = names[:10_000]


# %% A vector of a name: a random direction per trigram of its words, added up.
DIMENSION = 64
directions = {}


def direction(trigram):
    """Return the direction of a trigram, the same on every machine."""
    if trigram not in directions:
        random = np.random.default_rng(zlib.crc32(trigram.encode()))
        directions[trigram] = random.standard_normal(DIMENSION).astype(np.float32)
    return directions[trigram]


def embed(name):
    """Return the vector of a name, of length 1."""
    trigrams = [f" {word} "[i : i + 3] for word in name.upper().split() for i in range(len(word))]
    vector = np.sum([direction(trigram) for trigram in trigrams], axis=0)
    return vector / np.linalg.norm(vector)


vectors = np.stack([embed(name) for _, name in names])
table = pa.table(
    {
        "character": [chr(number) for number, _ in names],
        "name": [name for _, name in names],
        "vector": pa.FixedSizeListArray.from_arrays(vectors.ravel(), DIMENSION),
    }
)

# %% Write them to a server, with an index of the vectors and one of the words.
folder = shop.new_folder()
client = flight_client.connect(shop.serve(folder))
client.write("characters", table, "create")
client.create_index(
    "characters", "vector", "IVF_PQ", parameters={"num_partitions": 64, "num_sub_vectors": 16}
)
client.create_index("characters", "name", "INVERTED", parameters={"stem": False, "remove_stop_words": False})
characters = client.dataset("characters")
print(f"{characters.count_rows()} names are version {characters.version}")

# %% Three searches for a misspelled name. No word is "snowmann", but trigrams find what looks like it.
asked = "snowmann withot snow"
columns = ["character", "name"]
by_words = characters.search(full_text_query=asked, k=3, columns=columns)
by_vector = characters.search(embed(asked), k=3, columns=columns, refine_factor=10)
by_both = characters.search(
    embed(asked), k=3, columns=columns, refine_factor=10, full_text_query=asked, hybrid={"depth": 30}
)
for how, found in (("words", by_words), ("vectors", by_vector), ("both", by_both)):
    print(f"{how}: {', '.join(found['name'].to_pylist())}")

# %% A filter is evaluated before the search.
greek = characters.search(embed("small letter alfa"), k=2, columns=columns, filter="name LIKE 'GREEK %'")
print(f"Greek only: {', '.join(greek['name'].to_pylist())}")

# %% How many of the ten nearest names does the index find, and in which time?
local = lance_core.dataset(folder / "characters.lance")
queries = [embed(name) + 0.05 for _, name in names[::400]]
exact = [
    set(
        local.to_table(["name"], nearest={"column": "vector", "q": q, "use_index": False})["name"].to_pylist()
    )
    for q in queries
]
points = []
for probes in (1, 2, 4, 8, 16, 32, 64):
    kept, seconds = 0, []
    for q, wanted in zip(queries, exact, strict=True):
        nearest = {"column": "vector", "q": q, "nprobes": probes, "refine_factor": 5}
        begin = time.perf_counter()
        found = local.to_table(["name"], nearest=nearest)
        seconds.append(time.perf_counter() - begin)
        kept += len(wanted & set(found["name"].to_pylist()))
    points.append((probes, kept / sum(map(len, exact)), 1000 * sorted(seconds)[len(seconds) // 2]))
recalls = [recall for _, recall, _ in points]
print(f"recall grows with the partitions: {recalls == sorted(recalls)}, up to {recalls[-1]:.2f}")


# %% The plot, without a library: recall to the right, milliseconds up.
def drawn(points):
    """Return an SVG of points (probes, recall, milliseconds)."""
    low = min(recall for _, recall, _ in points)
    most = max(ms for _, _, ms in points) * 1.1
    places = [
        (60 + 400 * (recall - low) / max(1 - low, 1e-9), 250 - 220 * ms / most, probes, recall, ms)
        for probes, recall, ms in points
    ]
    marks = [
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="4"/>'
        f'<text x="{x:.0f}" y="{y - 9:.0f}" text-anchor="middle">{probes}</text>'
        for x, y, probes, _, _ in places
    ]
    line = " ".join(f"{x:.0f},{y:.0f}" for x, y, *_ in places)
    steps = [low + (1 - low) * i / 4 for i in range(5)]
    below = [
        f'<text x="{60 + 400 * i / 4:.0f}" y="268" text-anchor="middle">{recall:.2f}</text>'
        for i, recall in enumerate(steps)
    ]
    beside = [
        f'<text x="52" y="{254 - 220 * i / 4:.0f}" text-anchor="end">{most * i / 4:.1f}</text>'
        for i in range(5)
    ]
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" width="520" height="300" font-family="sans-serif"',
            ' font-size="11"><rect width="520" height="300" fill="white"/>',
            '<path d="M60 30V250H480" fill="none" stroke="gray"/>',
            f'<polyline points="{line}" fill="none" stroke="steelblue"/>',
            *marks,
            *below,
            *beside,
            '<text x="260" y="290" text-anchor="middle">recall of the ten nearest names</text>',
            '<text x="60" y="20">milliseconds of a query; numbers are searched partitions of 64</text>',
            "</svg>\n",
        ]
    )


if arguments.plot:
    with open(arguments.plot, "w", encoding="utf-8") as file:
        file.write(drawn(points))
client.close()
