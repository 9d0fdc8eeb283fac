"""Full text indices that several machines build in one directory, by either library."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import lance
import lance.dataset
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.dataset.operations import Index, IndexFile
from lance_core.api.indices import IndexConfig
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.index.progress import IndexProgress
from support.searches.texts import scores_of

QUERY = "beta3 gamma1"


@pytest.fixture
def uri(tmp_path: Path) -> str:
    texts = [f"alpha beta{number % 7} gamma{number % 3}" for number in range(90)]
    table = pa.table({"number": range(90), "text": texts})
    return lance_core.write_dataset(table, tmp_path / "t", max_rows_per_file=30).uri


def stage(library: ModuleType, uri: str, uuid: str, fragment: int, **options: Any) -> None:
    library.dataset(uri).create_scalar_index(
        "text", "INVERTED", name="x", index_uuid=uuid, fragment_ids=[fragment], **options
    )


def found(library: ModuleType, uri: str) -> dict[int, float]:
    return scores_of(library.dataset(uri).to_table(["number", "_score"], full_text_query=QUERY))


@pytest.mark.parametrize("merging", [lance, lance_core], ids=["reference merges", "merged here"])
def test_partitions_of_both_libraries(merging: ModuleType, uri: str) -> None:
    """The index, whose kind the manifest does not say, serves both libraries like one built at once."""
    lance_core.dataset(uri).create_scalar_index("text", "INVERTED")
    expected = found(lance, uri)
    lance_core.dataset(uri).drop_index("text_idx")
    uuid = str(uuid4())
    for fragment, library in enumerate((lance_core, lance, lance_core)):
        stage(library, uri, uuid, fragment)
    stage(lance_core, uri, uuid, 0)  # repeated by a worker that did not see its success
    events: list[IndexProgress] = []
    merging.dataset(uri).merge_index_metadata(uuid, "INVERTED", progress_callback=events.append)
    assert [event.stage for event in events if event.event == "complete"] == [
        "read_partition_metadata",
        "remap_partition_files",
        "write_merged_metadata",
    ]
    lance_core.dataset(uri).merge_index_metadata(uuid, "fts")  # does no harm
    assert not list((Path(uri) / "_indices" / uuid / "staging").glob("*"))

    version = lance_core.dataset(uri).version
    index = Index(uuid, "x", [1], version, {0, 1, 2}, 0)
    operation = lance_core.LanceOperation.CreateIndex(new_indices=[index], removed_indices=[])
    lance_core.LanceDataset.commit(uri, operation, read_version=version)

    assert found(lance_core, uri) == pytest.approx(expected)
    assert found(lance, uri) == pytest.approx(expected)
    ours = lance_core.dataset(uri)
    assert ours.index_statistics("x")["index_type"] == "Inverted"
    ours.optimize.optimize_indices(retrain=True)
    assert lance.dataset(uri).describe_indices()[0].index_type == "Inverted"
    assert found(lance, uri) == pytest.approx(expected)


def test_segments_that_the_reference_staged(uri: str) -> None:
    """The reference leaves the files of a text segment staged until its commit, which may be ours."""
    dataset = lance.dataset(uri)
    segments = []
    for fragment in range(3):
        made = dataset.create_index_uncommitted("text", "INVERTED", name="y", fragment_ids=[fragment])
        files = [IndexFile(file.path, file.size_bytes) for file in made.files or ()]
        assert all(file.path.startswith("staging/") for file in files)
        segments.append(
            Index(
                made.uuid,
                made.name,
                made.fields,
                made.dataset_version,
                set(made.fragment_ids),
                made.index_version,
                files=files,
                index_details=made.index_details,
            )
        )
    ours = lance_core.dataset(uri)
    joined = ours.merge_existing_index_segments(segments[:2])
    ours.commit_existing_index_segments("y", "text", [joined, segments[2]])
    assert len(ours.describe_indices()[0].segments) == 2
    assert found(lance_core, uri) == pytest.approx(found(lance, uri)) != {}


def test_what_is_refused(uri: str) -> None:
    ours = lance_core.dataset(uri)
    uuid = str(uuid4())
    with pytest.raises(InvalidInputError, match="Invalid UUID"):
        ours.merge_index_metadata("no uuid", "INVERTED")
    with pytest.raises(InvalidInputError, match="no partitions"):
        ours.merge_index_metadata(uuid, "INVERTED")
    with pytest.raises(InvalidInputError, match="no longer supports merge_index_metadata"):
        ours.merge_index_metadata(uuid, "BTREE")
    with pytest.raises(UnsupportedFeatureError, match="kind of index"):
        ours.merge_index_metadata(uuid, "NONE")
    for kind in ("ZONEMAP", IndexConfig("zonemap")):
        with pytest.raises(InvalidInputError, match="create_index_uncommitted"):
            ours.create_scalar_index("number", kind, fragment_ids=[0])
    with pytest.raises(InvalidInputError, match="index_uuid is no longer accepted"):
        ours.create_index_uncommitted("number", "BTREE", fragment_ids=[0], index_uuid=uuid)
    with pytest.raises(InvalidInputError, match="fragment_ids"):
        stage(lance_core, uri, uuid, 99)
    stage(lance_core, uri, uuid, 0)
    stage(lance_core, uri, uuid, 1, stem=False)
    with pytest.raises(InvalidInputError, match="different options"):
        ours.merge_index_metadata(uuid, "INVERTED")
    staged = Path(uri) / "_indices" / uuid / "staging"
    assert len(list(staged.glob("part_*"))) == 8
    with pytest.raises(RuntimeError, match="stop"):
        stage(lance_core, uri, uuid, 2, progress_callback=_stop)
    assert len(list(staged.glob("part_*"))) == 8


def _stop(event: IndexProgress) -> None:
    if (event.event, event.stage) == ("start", "write_metadata"):
        raise RuntimeError("stop")


def test_an_error_at_the_end_of_a_stage(uri: str) -> None:
    """The work stops when the next stage begins; after the last stage, the index is there."""
    ours = lance_core.dataset(uri)

    def fail_after(stage_name: str) -> Any:
        def observe(event: IndexProgress) -> None:
            if (event.event, event.stage) == ("complete", stage_name):
                raise RuntimeError(stage_name)

        return observe

    with pytest.raises(RuntimeError, match="tokenize_docs"):
        ours.create_scalar_index("text", "FTS", progress_callback=fail_after("tokenize_docs"))
    assert not ours.has_index
    ours.create_scalar_index("text", "FTS", progress_callback=fail_after("write_metadata"))
    assert ours.has_index


def test_layouts_of_text_indices(uri: str) -> None:
    """An unknown layout is a wrong argument."""
    ours = lance_core.dataset(uri)
    with pytest.raises(InvalidInputError, match="unsupported FTS format version"):
        ours.create_scalar_index("text", "INVERTED", format_version="v3")
    for version in (1, "v1", 2, "v2"):
        ours.create_scalar_index("text", "INVERTED", format_version=version)
        (segment,) = ours.describe_indices()[0].segments
        assert segment.index_version == int(str(version)[-1])
