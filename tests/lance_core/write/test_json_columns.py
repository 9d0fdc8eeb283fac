"""JSON columns that we write: the bytes of the reference, by every way in, or refused as it refuses."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.file import LanceFileReader

import lance_core
from lance_core.encodings.json_binary import store_json
from lance_core.errors import InvalidInputError
from support.oracles.comparison import assert_tables_equal
from support.runs.draws import draws
from support.runs.each_case import each_case
from support.twins.json_binary import binary_json

VERSIONS = ["legacy", "2.0", "2.1", "2.2"]


def json_array(documents: list[str | None], text: pa.DataType | None = None) -> pa.Array:
    text = text or pa.string()
    return pa.ExtensionArray.from_storage(pa.json_(text), pa.array(documents, text))


def stored_by_reference(documents: list[str | None], path: Path) -> list[bytes | None]:
    """Return the bytes in the file of the reference."""
    shutil.rmtree(path, ignore_errors=True)
    lance.write_dataset(pa.table({"j": json_array(documents)}), str(path))
    (file,) = (path / "data").iterdir()
    return LanceFileReader(str(file)).read_all().to_table()["j"].to_pylist()


SPECIAL = [
    *(
        "",
        " ",
        "\\n\\t\\r\\x0C1",
        "\f1",
        "[,]",
        "[1,]",
        "[,1]",
        "[ , ]",
        "{a:1,$_b:2}",
        "{'k':'v\"'}",
        "{é:1}",
    ),
    *("nUlL", "TRUE", "False", "NaN", "-Infinity", "+infinity", "[nan,infinity]"),
    *(
        "+1",
        "01",
        "-0",
        "-0.0",
        "1.",
        ".5",
        "-.5",
        "00.50",
        "1e400",
        "-1e400",
        "1e-400",
        "0e999999999999999999999",
    ),
    *(
        "9" * 19,
        "9" * 20,
        "9" * 40,
        "9" * 90,
        "0" * 90 + "7",
        "1." + "9" * 90,
        "1e99999999999999999999",
        "5e-324",
    ),
    *("1" + "0" * 400 + "e-400", "0." + "0" * 400 + "1e400", "1e-99999999999999999999"),
    *("-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616"),
    *("0x1F", "-0x10", "0X0", "0x1.8", "0x0." + "0" * 300 + "1", "0x" + "F" * 32, "-0x8000000000000000"),
    *(
        '"\\u{0041}\\u0042"',
        '"\\ud83d\\ude00"',
        '"\\u{d83d}\\u{de00}"',
        '"\\ud83d"',
        '"\\ude00"',
        '"\\ud83dx"',
    ),
    *('"\\ud83d\\u0041"', '"a\nb\x00"', "'\"'", '"\'"', '"\\/"'),
]

REFUSED = [
    *(
        "{",
        "[",
        "[1",
        "[1 2]",
        '{"a"}',
        '{"a" 1}',
        '{"a":}',
        '{"a":1,}',
        "{,}",
        '{"a":1 "b":2}',
        "{1:2}",
        "{a-b:1}",
    ),
    *(
        "x",
        "nul",
        "1x",
        "1 2",
        "--1",
        "+",
        "-",
        ".",
        "1e",
        "1e+",
        "1..2",
        "0x",
        "0x1.",
        "0x" + "F" * 33,
        "-nan",
    ),
    *('"', '"\\z"', '"\\u12"', '"\\u123x"', '"\\u{123}"', '"\\u{12345}"', "'a\"", "\v1", "\xa01"),
    *('{"a":1,"a":2}', '{"a":{"b":1,b:2}}', "{'a':1,\"\\u0061\":1}"),
]


@each_case("document", SPECIAL)
def test_what_is_more_than_standard_is_stored_as_by_the_reference(tmp_path: Path, document: str) -> None:
    expected = stored_by_reference([document], tmp_path)
    assert store_json(pa.array([document]), "j").to_pylist() == expected


@each_case("document", REFUSED)
def test_what_the_reference_refuses_is_refused(tmp_path: Path, document: str) -> None:
    """T27: by column and value; nothing is left behind."""
    with pytest.raises(OSError, match="encode JSON"):
        stored_by_reference([document], tmp_path / "reference")
    with pytest.raises(InvalidInputError, match=r"value 2 is no JSON.*column j"):
        lance_core.write_dataset(pa.table({"j": json_array(["1", None, document])}), tmp_path / "d")
    assert not list((tmp_path / "d").rglob("*.lance"))


def documents() -> st.SearchStrategy[object]:
    scalars = (
        st.none() | st.booleans() | st.text(max_size=8) | st.floats(allow_nan=False, allow_infinity=False)
    )
    scalars |= st.integers(-(2**70), 2**70) | st.sampled_from(
        [0, 127, 128, -128, -129, 2**63, -(2**63), 2**64 - 1]
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    )


@given(st.lists(st.none() | documents(), min_size=1, max_size=6), st.booleans())
@settings(max_examples=draws(60), deadline=None)
def test_documents_are_stored_as_by_the_reference(values: list[object], ascii_only: bool) -> None:
    with scratch() as path:
        texts = [None if v is None else json.dumps(v, ensure_ascii=ascii_only) for v in values]
        expected = stored_by_reference(texts, path)
        assert store_json(pa.array(texts, pa.string()), "j").to_pylist() == expected
        assert expected == [None if text is None else binary_json(text) for text in texts]


PIECES = [
    *"{}[],:\"'\\01 9-+.eExXaFnk$_é😀",
    *(
        "null",
        "true",
        "NaN",
        "infinity",
        "\\u",
        "\\n",
        "\\ud83d",
        "\\ude00",
        "0041",
        "{0041}",
        '"a"',
        "'b'",
        "e400",
    ),
    *('{"a":1}', "[1,2]", "9" * 20, "\x0c", "\x00"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@settings(max_examples=draws(100), deadline=None)
def test_any_text_is_taken_or_refused_as_by_the_reference(text: str) -> None:
    """T27: any text of a client is accepted or refused as by the reference."""
    with scratch() as path:
        try:
            expected = stored_by_reference([text], path)
        except OSError:
            with pytest.raises(InvalidInputError, match="no JSON"):
                store_json(pa.array([text]), "j")
        else:
            assert store_json(pa.array([text]), "j").to_pylist() == expected


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "d"


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("version", VERSIONS)
def test_written_columns_are_read_by_both(tmp_path: Path, version: str, text: pa.DataType) -> None:
    j = json_array([*SPECIAL, None, '{"b": [1, {}], "a": "x"}'], text).slice(1)
    offsets = pa.array([0, 2, None, 2, 5], pa.int32())
    columns = {"j": j}
    if version != "legacy":
        nulls = pa.array([i % 3 == 0 and version != "2.0" for i in range(len(j))])
        structs = pa.StructArray.from_arrays([j], ["x"], mask=nulls)
        lists = pa.ListArray.from_arrays(offsets, j)
        columns |= {"s": structs, "l": pa.concat_arrays([lists, pa.nulls(len(j) - 4, lists.type)])}
    table = pa.table(columns)
    dataset = lance_core.write_dataset(table, tmp_path / "ours", data_storage_version=version)
    expected = lance.write_dataset(table, str(tmp_path / "theirs"), data_storage_version=version)
    assert dataset.schema.equals(expected.schema, check_metadata=True)
    assert_tables_equal(expected.to_table(), dataset.to_table())
    assert_tables_equal(expected.to_table(), lance.dataset(str(tmp_path / "ours")).to_table())
    dataset.validate()


def test_every_way_in(tmp_path: Path) -> None:
    """Append, update, merge, new columns and compaction give the same result as in the reference."""

    def change(library: object, path: str) -> list[dict[str, object]]:
        table = pa.table({"id": [0, 1, 2], "j": json_array(["1", None, "{a:[1,]}"])})
        dataset = library.write_dataset(table, path)  # type: ignore[attr-defined]
        more = pa.table({"id": [3], "j": json_array(["[true]"], pa.large_string())})
        dataset = library.write_dataset(more, path, mode="append")  # type: ignore[attr-defined]
        source = pa.table({"id": [1, 9], "j": json_array(['{"n":1}', "'new'"])})
        dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)
        dataset.update({"j": "'{\"up\": [1.50]}'"}, where="id = 0")
        dataset.update({"j": "NULL"}, where="id = 3")
        dataset.update({"id": "id + 10", "j": "j"}, where="id = 9")
        k = json_array([str(i) for i in range(dataset.count_rows())])
        dataset.merge(pa.table({"id": dataset.to_table()["id"], "k": k}), "id")
        dataset.optimize.compact_files()
        return sorted(dataset.to_table().to_pylist(), key=lambda row: row["id"])

    expected = change(lance, str(tmp_path / "theirs"))
    assert change(lance_core, str(tmp_path / "ours")) == expected
    written = lance.dataset(str(tmp_path / "ours")).to_table().to_pylist()
    assert sorted(written, key=lambda row: row["id"]) == expected


def test_other_values_are_refused_by_name(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "j": json_array(["1"])})
    dataset = lance_core.write_dataset(table, tmp_path)
    with pytest.raises(InvalidInputError, match=r"another type.*column j"):
        lance_core.write_dataset(pa.table({"id": [1], "j": ["1"]}), tmp_path, mode="append")
    for value, found in (("'{'", "no JSON"), ("1", "int64"), ("true", "bool")):
        with pytest.raises(InvalidInputError, match=found):
            dataset.update({"j": value})


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_columns_with_json_in_them_are_updated(version: str, tmp_path: Path) -> None:
    def structs(documents: list[str | None], numbers: list[int], text: bool = False) -> pa.StructArray:
        inner = pa.array(documents) if text else json_array(documents)
        return pa.StructArray.from_arrays([inner, pa.array(numbers)], ["j", "n"])

    table = pa.table(
        {
            "id": range(3),
            "s": structs(['{"a":1}', "[2]", None], [1, 2, 3]),
            "t": structs(['"x"', "null", "3"], [7, 8, 9]),
            "text": structs(["{b: 2}", "{", "4"], [4, 5, 6], text=True),
            "l": pa.ListArray.from_arrays(pa.array([0, 1, 1, 3], pa.int32()), json_array(["1", "2", "3"])),
        }
    )
    dataset = lance_core.write_dataset(table, tmp_path, data_storage_version=version)
    dataset.update({"s": "t", "l": "l"}, where="id = 1")
    dataset.update({"s": "text"}, where="id = 0")
    expected = [{"j": '{"b":2}', "n": 4}, {"j": "null", "n": 8}, {"j": None, "n": 3}]
    for opened in (lance_core.dataset(tmp_path), lance.dataset(str(tmp_path))):
        found = {row["id"]: row for row in opened.to_table().to_pylist()}
        assert [found[row]["s"] for row in range(3)] == expected
        assert [found[row]["l"] for row in range(3)] == [["1"], [], ["2", "3"]]
    with pytest.raises(InvalidInputError, match="no JSON"):
        dataset.update({"s": "text"}, where="id = 1")
    if version == "2.2":
        dataset.update({"s": "NULL"}, where="id = 2")
        assert lance_core.dataset(tmp_path).to_table(filter="id = 2")["s"].to_pylist() == [None]


def test_binary_json_of_the_caller_is_checked(tmp_path: Path) -> None:
    """T27: the reference stores any bytes, and shows them as text later."""
    field = pa.field("j", pa.large_binary(), metadata={"ARROW:extension:name": "lance.json"})
    good = pa.table([pa.array([binary_json('{"a":1}'), None], pa.large_binary())], schema=pa.schema([field]))
    dataset = lance_core.write_dataset(good, tmp_path / "good")
    assert dataset.to_table()["j"].to_pylist() == ['{"a":1}', None]
    bad = pa.table([pa.array([b"garbage"], pa.large_binary())], schema=pa.schema([field]))
    with pytest.raises(InvalidInputError, match=r"unknown kind.*column j"):
        lance_core.write_dataset(bad, tmp_path / "bad")
