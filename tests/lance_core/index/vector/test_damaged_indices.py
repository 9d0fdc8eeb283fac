"""Changed bytes in files of vector indices: an error that names the file, or an answer."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import lance
import numpy as np
import pytest

import lance_core
from lance_core.errors import CorruptFileError, LanceError, UnsupportedFeatureError
from lance_core.index.vector.segment_search import SegmentQuery
from support.searches.vector_indices import KINDS, clustered, vector_segments, vector_table

VECTORS = clustered(400, 16)
QUERY = VECTORS[3] + np.float32(0.1)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a dataset with an index of each kind; the reference built the kinds that are not built here."""
    root = tmp_path_factory.mktemp("damaged")
    paths = {}
    for kind, options in KINDS.items():
        path = root / kind
        paths[kind] = path
        dataset = lance_core.write_dataset(vector_table(VECTORS), str(path))
        builder = lance.dataset(str(path)) if kind in ("IVF_HNSW_PQ", "IVF_RQ") else dataset
        builder.create_index("vector", kind, num_partitions=2, **options)
    return paths


def answer_or_refusal(path: Path) -> str | None:
    """Search all partitions. Return the error, or None. Raise all errors that are none of this package."""
    try:
        for segment in vector_segments(path):
            found = segment.nearest(SegmentQuery(QUERY[np.newaxis], 20, 2, 2, candidates=50))
            assert len(found.keys) <= 20
            assert not np.isnan(found.distances).any()
            assert (found.distances[1:] >= found.distances[:-1]).all()  # also of two that are infinite
    except (CorruptFileError, UnsupportedFeatureError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("mutants", [40, pytest.param(3000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["index.idx", "auxiliary.idx"])
@pytest.mark.parametrize("kind", KINDS)
def test_changed_bytes(tables: dict[str, Path], tmp_path: Path, kind: str, name: str, mutants: int) -> None:
    """T5, T22: no crash, and no error of another library."""
    path = tmp_path / "table"
    shutil.copytree(tables[kind], path)
    (file,) = path.glob(f"_indices/*/{name}")
    original = file.read_bytes()
    chance = random.Random(f"{kind} {name} {mutants}")
    refused = 0
    for _ in range(mutants):
        data = bytearray(original)
        for _ in range(chance.randint(1, 4)):
            # Most descriptions are at the end of the file.
            reach = chance.choice((200, 2000, len(data)))
            place = len(data) - 1 - chance.randrange(min(reach, len(data)))
            data[place] = chance.choice((0, 1, 127, 128, 255, data[place] ^ (1 << chance.randrange(8))))
        file.write_bytes(data)
        refused += answer_or_refusal(path) is not None
    assert refused


@pytest.mark.parametrize("name", ["index.idx", "auxiliary.idx"])
@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_HNSW_SQ"])
def test_missing_and_cut_files(tables: dict[str, Path], tmp_path: Path, kind: str, name: str) -> None:
    """T5: the error names the file."""
    path = tmp_path / "table"
    shutil.copytree(tables[kind], path)
    (file,) = path.glob(f"_indices/*/{name}")
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    with pytest.raises(LanceError, match=name):
        vector_segments(path)
    file.unlink()
    with pytest.raises(LanceError):
        vector_segments(path)
