"""Tags and branches, beside the reference."""

import json
import shutil
from pathlib import Path
from urllib.parse import quote

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptFileError, InvalidInputError, RefNotFoundError, VersionNotFoundError
from lance_core.storage import LocalStorage
from lance_core.table.refs import branch_storage, list_branches, list_tags, read_tag
from support.faults.failing_storage import CallStorage, before
from support.runs.each_case import each_case

BAD_NAMES = ["", ".", "..", "a..b", "../x", "a b", "x.lock", "a\0", "a\\b", "a\nb", "%2e%2e", "x" * 300]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    """Versions 1 to 3 on main; `dev` begins at 2, `feat/one` at version 3 of `dev`; tags on both."""
    path = str(tmp_path_factory.mktemp("refs") / "t.lance")
    dataset = lance.write_dataset(pa.table({"x": range(10)}), path, max_rows_per_file=4)
    dataset.delete("x IN (1, 5)")
    lance.write_dataset(pa.table({"x": range(3)}), path, mode="append")
    dataset = lance.dataset(path)
    dataset.tags.create("gold", 2)
    dataset.tags.create("v1.0", 1)
    dev = dataset.create_branch("dev", 2)
    dev = lance.write_dataset(pa.table({"x": [100]}), dev.uri, mode="append")
    dev.create_branch("feat/one").delete("x = 9")
    dataset.tags.create("of-dev", ("dev", 3))
    return lance.dataset(path)


def assert_same_version(ours: lance_core.LanceDataset, theirs: lance.LanceDataset) -> None:
    assert ours.version == theirs.version
    assert ours.latest_version == theirs.latest_version
    assert [entry["version"] for entry in ours.versions()] == [
        entry["version"] for entry in theirs.versions()
    ]
    columns = ["x", "_rowid", "_rowaddr"]
    assert ours.to_table(columns).equals(theirs.to_table(columns))


def test_lists_are_those_of_the_reference(dataset: lance.LanceDataset) -> None:
    ours = lance_core.dataset(dataset.uri)
    assert ours.tags.list() == dataset.tags.list()
    assert ours.branches.list() == dataset.branches.list()
    for order in (None, "asc", "desc"):
        assert ours.tags.list_ordered(order) == dataset.tags.list_ordered(order)
        assert ours.branches.list_ordered(order) == dataset.branches.list_ordered(order)
    assert ours.tags.get_version("of-dev") == dataset.tags.get_version("of-dev") == 3
    with pytest.raises(InvalidInputError, match="sideways"):
        ours.tags.list_ordered("sideways")


@pytest.mark.parametrize(
    "reference",
    [
        1,
        "gold",
        "v1.0",
        "of-dev",
        ("dev", None),
        ("dev", 2),
        ("feat/one", None),
        (None, None),
        ("main", 1),
        (None, 2),
    ],
    ids=str,
)
def test_every_reference_opens_what_the_reference_opens(
    dataset: lance.LanceDataset, reference: int | str | tuple[str | None, int | None]
) -> None:
    ours = lance_core.dataset(dataset.uri)
    assert_same_version(ours.checkout_version(reference), dataset.checkout_version(reference))
    assert ours.version == 3
    if isinstance(reference, int | str):
        opened = lance_core.dataset(dataset.uri, version=reference)
        assert_same_version(opened, lance.dataset(dataset.uri, version=reference))


def test_a_branch_opened_by_its_path_knows_the_refs_of_its_table(dataset: lance.LanceDataset) -> None:
    path = dataset.uri + "/tree/feat/one"
    ours, theirs = lance_core.dataset(path), lance.dataset(path)
    assert_same_version(ours, theirs)
    assert ours.tags.list() == theirs.tags.list()
    for reference in (4, "gold", ("dev", 3), (None, None)):
        assert_same_version(ours.checkout_version(reference), theirs.checkout_version(reference))


def test_numbers_are_versions_of_the_open_branch(dataset: lance.LanceDataset) -> None:
    dev = lance_core.dataset(dataset.uri).checkout_version(("dev", None))
    assert_same_version(dev.checkout_version(2), dataset.checkout_version(("dev", 2)))
    with pytest.raises(VersionNotFoundError):
        dev.checkout_version(1)


@pytest.mark.parametrize("reference", ["nope", ("nope", None), ("nope", 1), "dev", ("gold", None)], ids=str)
def test_unknown_refs_are_named(dataset: lance.LanceDataset, reference: str | tuple[str, int | None]) -> None:
    named = reference if isinstance(reference, str) else reference[0]
    with pytest.raises(RefNotFoundError, match=named):
        lance_core.dataset(dataset.uri).checkout_version(reference)


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_names_outside_the_allow_list_reach_no_file(dataset: lance.LanceDataset, name: str) -> None:
    """T9"""
    storage = LocalStorage(dataset.uri)
    with pytest.raises(InvalidInputError, match="name of a tag"):
        read_tag(storage, name)
    with pytest.raises(InvalidInputError, match="name of a branch"):
        branch_storage(storage, name)


def write_tag(root: Path, content: str, name: str = "t.json") -> LocalStorage:
    directory = root / "_refs" / "tags"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text(content, encoding="utf-8")
    return LocalStorage(str(root))


@each_case(
    "content",
    [
        "",
        "[]",
        "null",
        "3",
        "{",
        '{"version": 1}',
        '{"manifestSize": 1}',
        '{"version": -1, "manifestSize": 1}',
        '{"version": true, "manifestSize": 1}',
        '{"version": 1e3, "manifestSize": 1}',
        '{"version": 18446744073709551616, "manifestSize": 1}',
        '{"version": 1, "manifestSize": 1, "branch": 7}',
        '{"version": 1, "manifestSize": 1, "createdAt": "yesterday"}',
        '{"version": 1, "manifestSize": 1, "metadata": {"a": 1}}',
        '{"version": 1, "manifestSize": 1, "metadata": [1]}',
        '{"version": 1, "manifestSize": 1, "more": ' + "[" * 17 + "]" * 17 + "}",
        '{"version": 1, "manifestSize": 1, "more": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"version": 1, "manifestSize": 1, "more": "' + "x" * (1 << 20) + '"}',
    ],
)
def test_a_damaged_ref_is_named(tmp_path: Path, content: str) -> None:
    """T22: size and depth are bounded."""
    storage = write_tag(tmp_path, content)
    with pytest.raises(CorruptFileError, match=r"t\.json"):
        list_tags(storage)


def test_what_is_no_ref_is_not_listed(tmp_path: Path) -> None:
    good = json.dumps({"version": 1, "manifestSize": 0})
    for name in ("t.json", "t.txt", ".json", "..json", "a..b.json", "t.json.tmp"):
        storage = write_tag(tmp_path, good, name)
    (tmp_path / "_refs" / "tags" / "directory.json").mkdir()
    assert list(list_tags(storage)) == ["t"]
    assert list_branches(storage) == {}


def test_a_link_in_place_of_a_branch_leads_nowhere(tmp_path: Path, dataset: lance.LanceDataset) -> None:
    """T8"""
    ours = lance.write_dataset(pa.table({"x": [1]}), str(tmp_path / "t"))
    (tmp_path / "t" / "tree").mkdir()
    (tmp_path / "t" / "tree" / "dev").symlink_to(dataset.uri)
    with pytest.raises(lance_core.StorageError, match="link leaves"):
        lance_core.dataset(ours.uri).checkout_version(("dev", None))


@pytest.mark.parametrize("kind", ["tags", "branches"])
def test_what_is_removed_while_it_is_listed_is_not_listed(
    kind: str, tmp_path: Path, dataset: lance.LanceDataset
) -> None:
    """T41: cleanup beside a branch that was removed at once ended in an error."""
    path = tmp_path / "t.lance"
    shutil.copytree(dataset.uri, path)
    list_all = {"tags": list_tags, "branches": list_branches}[kind]
    left = dict(list_all(LocalStorage(str(path))))
    name = min(left)
    del left[name]
    file = path / "_refs" / kind / f"{quote(name, safe='')}.json"

    storage = CallStorage(path, 0, before(file.unlink), only=f"open _refs/{kind}/{file.name}")
    assert list_all(storage) == left
