"""The facade: names, arguments and results of the reference."""

import inspect
import pathlib
from datetime import UTC, datetime, timedelta

import duckdb
import lance
import numpy as np
import polars
import pyarrow as pa
import pytest

import lance_core
from support.oracles.comparison import assert_tables_equal


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Versions: 1 create, 2 append, 3 delete."""
    path = str(tmp_path_factory.mktemp("facade") / "facade.lance")
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"unit": "none"}),
            pa.field("text", pa.string()),
        ],
        metadata={"made by": "a test"},
    )

    def rows(first, last):
        numbers = range(first, last)
        return pa.table({"id": numbers, "text": [f"row {k}" for k in numbers]}, schema=schema)

    dataset = lance.write_dataset(rows(0, 100), path, max_rows_per_file=40, data_storage_version="2.1")
    dataset = lance.write_dataset(rows(100, 130), path, mode="append")
    dataset.delete("id % 10 = 0")
    return dataset


@pytest.fixture
def ours(reference):
    return lance_core.dataset(reference.uri)


def test_properties_are_those_of_the_reference(reference, ours):
    assert ours.uri == reference.uri
    assert ours.version == reference.version == 3
    assert ours.latest_version == reference.latest_version
    for found, expected in zip(ours.versions(), reference.versions(), strict=True):
        # The reference computes its times with floats, which are off by up to a microsecond.
        assert abs(found.pop("timestamp") - expected.pop("timestamp")) <= timedelta(microseconds=1)
        assert found == expected
    assert ours.schema.equals(reference.schema, check_metadata=True)
    assert ours.data_storage_version == reference.data_storage_version
    assert ours.has_stable_row_ids == reference.has_stable_row_ids
    assert ours.count_rows() == reference.count_rows()


def test_every_version_can_be_opened(reference):
    for version in (1, 2, 3):
        expected = reference.checkout_version(version)
        ours = lance_core.dataset(reference.uri, version=version)
        assert (ours.version, ours.latest_version) == (version, 3)
        assert_tables_equal(expected.to_table(), ours.to_table())
        assert ours.checkout_version(4 - version).version == 4 - version
        assert ours.version == version
        ours.checkout_latest()
        assert ours.version == 3


def test_a_commit_is_seen_by_what_is_opened_after_it(tmp_path):
    path = str(tmp_path / "d")
    lance.write_dataset(pa.table({"id": [1]}), path)
    opened = lance_core.dataset(path)
    lance.write_dataset(pa.table({"id": [2]}), path, mode="append")
    assert (opened.version, opened.latest_version, opened.count_rows()) == (1, 2, 1)
    assert lance_core.dataset(path).count_rows() == 2
    opened.checkout_latest()
    assert opened.to_table()["id"].to_pylist() == [1, 2]


def test_asof_opens_the_last_version_before_a_time(reference):
    times = [entry["timestamp"] for entry in reference.versions()]
    just_after = timedelta(microseconds=50)  # the times of the reference are off by up to one
    for version, time in enumerate(times, start=1):
        for asof in (time + just_after, str(time + just_after), (time + just_after).astimezone(UTC)):
            assert lance_core.dataset(reference.uri, asof=asof).version == version
    assert lance.dataset(reference.uri, asof=times[1] + just_after).version == 2
    for library in (lance, lance_core):
        with pytest.raises(ValueError, match="earlier than the first version"):
            library.dataset(reference.uri, asof=datetime(2000, 1, 1))
    with pytest.raises(lance_core.InvalidInputError, match="yesterday"):
        lance_core.dataset(reference.uri, asof="yesterday")
    with pytest.raises(TypeError, match="int"):
        lance_core.dataset(reference.uri, asof=5)


def test_missing_datasets_and_versions(tmp_path, reference):
    for library in (lance, lance_core):
        with pytest.raises(ValueError, match="missing"):
            library.dataset(str(tmp_path / "missing"))
        with pytest.raises(ValueError, match="9"):
            library.dataset(reference.uri, version=9)
    with pytest.raises(lance_core.DatasetNotFoundError):
        lance_core.dataset(tmp_path / "missing")
    with pytest.raises(lance_core.DatasetNotFoundError, match="9"):
        lance_core.dataset(reference.uri).checkout_version(9)
    with pytest.raises(lance_core.RefNotFoundError, match="gold"):
        lance_core.dataset(reference.uri, version="gold")


def test_fragments(reference, ours):
    for expected, found in zip(reference.get_fragments(), ours.get_fragments(), strict=True):
        assert found.fragment_id == expected.fragment_id
        assert found.count_rows() == expected.count_rows()
        assert found.physical_rows == expected.physical_rows
        assert found.num_deletions == expected.num_deletions
        assert found.deletion_file() == expected.deletion_file()
        found.validate()
        assert found.schema.equals(expected.schema, check_metadata=True)
        assert [vars(file) for file in found.data_files()] == [
            {name: getattr(file, name) for name in vars(found.data_files()[0])}
            for file in expected.data_files()
        ]
        assert_tables_equal(expected.to_table(columns=["text"]), found.to_table(["text"]))
        assert_tables_equal(expected.head(3), found.head(3))
        assert pa.Table.from_batches(found.to_batches()).num_rows == expected.count_rows()
    assert ours.get_fragment(2).fragment_id == 2
    assert ours.get_fragment(77) is None


def test_arguments_of_opening_are_those_of_the_reference(tmp_path):
    path = tmp_path / "d"
    lance_core.write_dataset(pa.table({"a": range(3)}), path)
    known = list(inspect.signature(lance.dataset).parameters)
    parameters = inspect.signature(lance_core.dataset).parameters
    by_keyword = [name for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY]
    names = [name for name in parameters if name not in by_keyword]
    assert names == known[: len(names)]
    assert set(by_keyword) <= set(known)
    sizes = {name: 1 << 20 for name in names if name.endswith(("_size", "_bytes"))}
    del sizes["index_cache_size"]  # it is deprecated
    opened = lance_core.dataset(path, 1, **sizes, session=lance_core.Session(), read_params={})
    assert opened.count_rows() == 3


def test_a_fragment_is_validated_alone(tmp_path):
    """T26"""
    dataset = lance_core.write_dataset(pa.table({"a": range(10)}), tmp_path / "d", max_rows_per_file=5)
    first, second = dataset.get_fragments()
    file = tmp_path / "d" / "data" / second.data_files()[0].path
    data = bytearray(file.read_bytes())
    data[3] ^= 1
    file.write_bytes(data)
    first.validate()
    with pytest.raises(lance_core.CorruptFileError, match=file.name):
        second.validate()


def test_scanners(reference, ours):
    expected = reference.scanner(columns=["text"], limit=50, offset=20)
    found = ours.scanner(columns=["text"], limit=50, offset=20)
    assert found.projected_schema.equals(expected.projected_schema, check_metadata=True)
    assert found.dataset_schema.equals(reference.schema, check_metadata=True)
    assert_tables_equal(expected.to_table(), found.to_table())
    assert_tables_equal(expected.to_table(), found.to_reader().read_all())
    assert_tables_equal(expected.to_table(), pa.Table.from_batches(found.to_batches()))
    assert_tables_equal(expected.head(7), found.head(7))
    assert found.count_rows() == 50
    assert_tables_equal(reference.head(7), ours.head(7))
    assert_tables_equal(reference.head(7, columns=["id"]), ours.head(7, columns=["id"]))


@pytest.mark.parametrize(
    "arguments",
    [
        {"row_addr_allowlist": b"0"},
    ],
    ids=lambda arguments: next(iter(arguments)),
)
def test_arguments_of_the_reference_that_are_missing_are_refused_by_name(ours, arguments):
    with pytest.raises(lance_core.UnsupportedFeatureError, match=next(iter(arguments))):
        ours.scanner(**arguments)


def test_hints_change_nothing_and_unknown_arguments_are_refused(ours):
    hints = {"batch_readahead": 4, "fragment_readahead": 2, "scan_in_order": False, "use_stats": True}
    assert ours.to_table(**hints).equals(ours.to_table())
    with pytest.raises(TypeError, match="wrong"):
        ours.scanner(wrong=1)


@pytest.mark.parametrize("columns", ["id", ("id",), [1]], ids=repr)
def test_columns_of_the_wrong_kind_are_refused_as_by_the_reference(reference, ours, columns):
    for dataset in (reference, ours):
        with pytest.raises(TypeError, match="columns"):
            dataset.to_table(columns=columns)


@pytest.mark.parametrize("arguments", [{"limit": -1}, {"offset": -1}, {"batch_size": 0}], ids=str)
def test_numbers_out_of_range_are_refused_as_by_the_reference(reference, ours, arguments):
    for dataset in (reference, ours):
        with pytest.raises(ValueError, match=r"(?i)limit|offset|batch"):
            dataset.to_table(**arguments)


@pytest.mark.parametrize("name", ["limit", "offset"])
def test_numbers_beyond_64_bits_are_refused_by_name(reference, ours, name):
    with pytest.raises(OverflowError):
        reference.to_table(**{name: 1 << 63})
    with pytest.raises(lance_core.InvalidInputError, match="must be at most 9223372036854775807"):
        ours.to_table(**{name: 1 << 63})
    assert ours.to_table(**{name: (1 << 63) - 1}).schema == ours.schema


@pytest.mark.parametrize("name", ["limit", "offset", "batch_size", "batch_size_bytes"])
@pytest.mark.parametrize("value", ["3", 1.5], ids=repr)
def test_what_is_no_integer_is_refused_by_name(ours, name, value):
    with pytest.raises(TypeError, match=f"^{name} must be an integer"):
        ours.scanner(**{name: value})


def test_integers_may_be_of_numpy(ours):
    assert ours.to_table(limit=np.int64(3), offset=np.uint8(1)) == ours.to_table(limit=3, offset=1)


def test_public_names():
    assert lance_core.__all__ == sorted(lance_core.__all__)
    assert all(hasattr(lance_core, name) for name in lance_core.__all__)
    assert set(lance_core.__all__) <= set(dir(lance_core))


def test_a_dataset_has_a_length(reference, ours, tmp_path: pathlib.Path) -> None:
    assert len(ours) == len(reference) == 117
    empty = lance_core.write_dataset(pa.table({"id": pa.array([], pa.int64())}), tmp_path / "d")
    assert len(empty) == 0


def test_an_empty_dataset_is_written_through_its_object(tmp_path: pathlib.Path) -> None:
    """The object is false, and its session and storage are used all the same."""
    session = lance_core.Session()
    rows = pa.table({"id": pa.array([], pa.int64())})
    lance_core.write_dataset(rows, tmp_path / "d")
    empty = lance_core.dataset(tmp_path / "d", session=session)
    written = lance_core.write_dataset(pa.table({"id": [1]}), empty, mode="append")
    assert written.session() is session
    appended = lance_core.LanceOperation.Append(
        lance_core.api.fragment.write_fragments(pa.table({"id": [2]}), empty)
    )
    assert len(lance_core.LanceDataset.commit(written, appended, read_version=written.version)) == 2
    assert len(lance_core.LanceDataset.commit(empty, lance_core.LanceOperation.Restore(1))) == 0


def test_others_read_datasets_and_scanners_as_streams(reference, ours) -> None:
    scanner = ours.scanner(columns=["id"], filter="id >= 120")
    for dataset in (reference, ours):
        with duckdb.connect() as connection:
            connection.register("t", dataset).register("s", scanner)
            counts = connection.sql("SELECT count(*), max(text) FROM t WHERE id > 100")
            assert counts.fetchall() == [(27, "row 129")]
            assert connection.sql("SELECT count(*) FROM t JOIN s USING (id)").fetchall() == [(9,)]
    assert pa.table(ours).cast(ours.schema) == reference.to_table()
    assert polars.DataFrame(scanner)["id"].to_list() == list(range(121, 130))


def test_a_dataset_is_dropped(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "d"
    lance_core.write_dataset(pa.table({"id": [1]}), path).create_branch("dev")
    lance_core.LanceDataset.drop(path)
    assert not path.exists() or not any(path.rglob("*"))
    with pytest.raises(lance_core.DatasetNotFoundError):
        lance_core.LanceDataset.drop(path)
    lance_core.LanceDataset.drop(path, ignore_not_found=True)


def test_what_is_no_fragment_is_refused(reference, ours):
    for dataset in (reference, ours):
        with pytest.raises(TypeError, match=r"^fragments must be"):
            dataset.scanner(fragments=[0])


def test_samples(tmp_path: pathlib.Path) -> None:
    """Rows at random, none twice; the arguments are the reference's."""
    lance.write_dataset(pa.table({"n": range(1000)}), tmp_path / "t", max_rows_per_file=300)
    opened = lance_core.dataset(tmp_path / "t")
    drawn = opened.sample(50)["n"].to_pylist()
    assert len(set(drawn)) == 50
    assert drawn != sorted(drawn)
    ordered = opened.sample(999, columns=["n"], randomize_order=False)["n"].to_pylist()
    assert ordered == sorted(ordered)
    assert opened.sample(0).num_rows == 0
    with pytest.raises(lance_core.InvalidInputError, match="num_rows"):
        opened.sample(1001)
