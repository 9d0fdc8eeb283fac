"""Functions of JSON columns: beside the reference, beside a twin in Python, and what they refuse."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.encodings import json_values
from lance_core.encodings.json_binary import show_text, store_json
from lance_core.errors import CorruptFileError, InvalidInputError
from lance_core.expressions.evaluate import evaluate
from lance_core.expressions.parsing.sql import parse_expression, parse_filter
from support.twins import json_paths

SEED = 22


def text_of(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False)


def table_of(documents: list[str | None]) -> pa.Table:
    data = pa.array(documents, pa.json_())
    nested = pa.StructArray.from_arrays([data, pa.array(range(len(documents)))], ["j", "n"])
    return pa.table({"id": range(len(documents)), "data": data, "s": nested})


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def outcome(run: Callable[[], Any]) -> Any:
    """Return the result of a function, or its exception."""
    try:
        return run()
    except (ValueError, OSError) as error:
        return error


def sorted_keys(value: Any) -> Any:
    """Return the value with the keys of objects in stored order."""
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value, key=str.encode)}
    return [sorted_keys(item) for item in value] if isinstance(value, list) else value


def test_paths_select_what_a_slow_twin_selects() -> None:
    """T23: random documents and paths of every step; numbers of all types, arrays of several results."""
    source = random.Random(SEED)
    found = 0
    for _ in range(120):
        documents = [json_paths.random_document(source) for _ in range(12)]
        column = store_json(pa.array([*map(text_of, documents), None]), "j").slice(1)
        steps = json_paths.random_steps(source)
        path = json_paths.text(steps)
        selected = [json_paths.select(document, steps) for document in documents[1:]]
        texts = [sorted_keys(each[0] if len(each) == 1 else each) if each else None for each in selected]
        shown = show_text(json_values.values_at(column, path)).to_pylist()
        parsed = [None if text is None else json.loads(text) for text in shown]
        assert (parsed, shown[-1]) == ([*texts, None], None), path
        assert [text is not None for text in shown[:-1]] == list(map(bool, selected)), path
        assert json_values.exists(column, path).to_pylist() == [*map(bool, selected), None], path
        lengths = [
            None if not each else len(each[0]) if isinstance(each[0], list) else 0 for each in selected
        ]
        assert json_values.array_length(column, path).to_pylist() == [*lengths, None], path
        found += sum(map(bool, selected))
    assert found > 200


def random_documents(source: random.Random, count: int) -> list[str | None]:
    documents = [json_paths.random_document(source) for _ in range(count)]
    others = ["5", '"text"', "null", "[1,[2],{}]", "{}", "[]", "true", '{"a":null,"b":[null,"x","\\"x\\""]}']
    return [*map(text_of, documents), *others, None]


def test_functions_are_those_of_the_reference(tmp_path: Path) -> None:
    """T20: every function, as a filter and as a computed column, of plain and nested columns."""
    source = random.Random(SEED + 1)
    table = table_of(random_documents(source, 30))
    theirs = lance.write_dataset(table, str(tmp_path / "d"))
    ours = lance_core.dataset(tmp_path / "d")
    values = 0
    for number in range(60):
        # The reference does not end on a range of items of an empty array.
        path = quoted(json_paths.text(json_paths.random_steps(source, ranges=False)))
        column = "s.j" if number % 5 == 0 else "data"
        key = source.choice(["'a'", "'b'", "'k y'", "'0'", "'+1'", "'9'", "1"])
        item = source.choice(["'a'", "'1'", "'2.5'", "'null'", "'[2]'", "'{}'", "2", "'x'"])
        for text in (
            f"json_extract({column}, {path})",
            f"json_exists({column}, {path})",
            f"json_array_length({column}, {path})",
            f"json_array_contains({column}, {path}, {item})",
            f"json_get({column}, {key})",
            f"json_get_string(json_get({column}, {key}), 'a')",
        ):
            expected = outcome(lambda: theirs.to_table(columns={"x": text}))  # noqa: B023
            found = outcome(lambda: ours.to_table(columns={"x": text}))  # noqa: B023
            assert isinstance(expected, pa.Table) == isinstance(found, pa.Table), (text, expected, found)
            if isinstance(expected, pa.Table):
                assert found.equals(expected), text
                values += len(found) - found["x"].null_count
        condition = (
            f"json_exists({column}, {path}) AND {column} IS NOT NULL OR json_array_length(data, '$.b') > 1"
        )
        assert ours.to_table(filter=condition).equals(theirs.to_table(filter=condition)), condition
    assert values > 2000


CONVERTED = [
    *("1e20", "1e16", "1e15", "1.5e-7", "0.00001", "-0.0", "NaN", "Infinity", "-Infinity", "123456789.125"),
    *(
        "2.5",
        "-2.5",
        "0.5",
        "9.3e18",
        "-9223372036854775808",
        "9223372036854775807",
        "18446744073709551615",
        "0",
    ),
    *("true", "false", "null", "[]", "{}", '"abc"', '""', '"7"', '"+7"', '"-7"', '" 7"', '"+-7"', '"0x10"'),
    *(
        '"1."',
        '".5"',
        '"."',
        '"1e3"',
        '"1e"',
        '"1e400"',
        '"-1e-400"',
        '"inf"',
        '"-Infinity"',
        '"nan"',
        '"+NaN"',
    ),
    *(
        '"9223372036854775808"',
        '"9223372036854775807"',
        '"1e18"',
        '"12abc"',
        '"1_0"',
        '"yes"',
        '"NO"',
        '"True"',
    ),
    *(
        '"tRUE"',
        '"1"',
        '"on"',
        '"é"',
        '"99999999999999999999"',
        '"0009"',
        '"1.5e+2"',
        '"1.5E-2"',
        "255",
        "-129",
    ),
]


@pytest.mark.parametrize("kind", ["string", "int", "float", "bool"])
def test_conversions_are_those_of_the_reference(kind: str, tmp_path: Path) -> None:
    """Numbers, texts and truth values become each other by the rules of the reference, or are refused."""
    table = table_of([f'{{"v":{value}}}' for value in CONVERTED])
    theirs = lance.write_dataset(table, str(tmp_path / "d"))
    ours = lance_core.dataset(tmp_path / "d")
    refused = 0
    for row, value in enumerate(CONVERTED):
        text = f"CASE WHEN id = {row} THEN json_get_{kind}(data, 'v') END"
        found = outcome(lambda: ours.to_table(columns={"x": text})["x"][row].as_py())  # noqa: B023
        asked = {"columns": {"x": f"json_get_{kind}(data, 'v')"}, "filter": f"id = {row}"}
        expected = outcome(lambda: theirs.to_table(**asked)["x"][0].as_py())  # noqa: B023
        if isinstance(expected, Exception):
            assert isinstance(found, InvalidInputError), (value, expected, found)
            refused += 1
        else:
            assert repr(found) == repr(expected), value
    assert 0 < refused < len(CONVERTED)


PATHS_OF_ALL_FORMS = [
    *("", "$", " $ ", "a", "a.b", " a [0]"),
    *("$:a", '$."k y"', '$["k y"]', "$.a\\u0062", '$."\\u{0061}"', '$."\\ud83d\\ude00"'),
    *("$.a[0,last]", "$.a[ last - 1 to LAST ]", "$.a[+1]", "$.a[-1]"),
    *("$.a[last+0]", "$.**", "$.**{1}", "$.**{0 TO 1}"),
    *("$.a?(@ > 1)", "$?(exists(@.a))"),
    *('$.a?( @.b starts with "x" )', "$?((@.a == 1) && (@.b<>2) || (@.c == null))"),
    *("$.a?(1 < @)", "$.a?(@ > -1)", "$.a?($.b == @)", "$.a?(true == true)"),
    *("$.ä", "$.a\n", "$.a\t.b", "$.0a", "$.a~b"),
    *("$.", "$..a", "$$", "@.a", "$ . a", "$.a[]"),
    *("$.a[1", "$.a[1 2]", "$.a[99999999999]", "$.a[x]", '$.""', "$['a']"),
    *("$.a?(", "$.a?()", "$.a?(@)", "$.a?(@ = 1)"),
    *("$.a?(@ == )", "$.a?(@ == 1", "$.**{", "$.**{300}"),
    *("$.**{2 to}", "$.a b", "a$", "$.a\\x", "$.a\\u12", "$.a-b"),
    *("$.a[0]b", "[0]", ".a", "$[*", "$[?(@ > 1)]", "?(@.a == 1)"),
]


def test_paths_are_refused_where_the_reference_refuses_them(tmp_path: Path) -> None:
    """T20: the grammar of paths, with the position of the error in the message."""
    table = table_of(
        ['{"a":[1,2,{"b":"x"}],"b":2,"k y":1,"ab":3,"ä":[],"0a":1,"a~b":2,"😀":0}', "[3,[4]]", "7"]
    )
    theirs = lance.write_dataset(table, str(tmp_path / "d"))
    ours = lance_core.dataset(tmp_path / "d")
    accepted = 0
    for path in PATHS_OF_ALL_FORMS:
        text = f"json_extract(data, {quoted(path)})"
        expected = outcome(lambda: theirs.to_table(columns={"x": text}))  # noqa: B023
        if isinstance(expected, pa.Table):
            assert ours.to_table(columns={"x": text}).equals(expected), path
            accepted += 1
        else:
            with pytest.raises(InvalidInputError, match="is no path of JSON"):
                ours.to_table(columns={"x": text})
    assert 30 < accepted < len(PATHS_OF_ALL_FORMS) - 20
    only_here = {"x": "json_extract(data, '$.a[*]?(@ > 1.5)')", "y": "json_extract(data, '$.a[*]?(-1 < @)')"}
    assert ours.to_table(columns=only_here).slice(0, 1).to_pylist() == [{"x": "2", "y": "[1,2]"}]
    with pytest.raises(InvalidInputError, match=r"makes no sense at 'b'"):
        ours.to_table(filter="json_exists(data, '$.a[0]b')")
    with pytest.raises(InvalidInputError, match=r"makes no sense at its end"):
        ours.to_table(filter="json_exists(data, '$.a[0')")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("json_extract(id, '$')", "json_extract takes JSON, not column 'id' of type int64"),
        ("json_extract('{}', '$')", "takes JSON, not literal '{}'"),
        ("json_extract(data)", "takes 2 arguments, not 1"),
        ("json_array_contains(data, '$')", "takes 3 arguments, not 2"),
        ("json_get(data, s.n)", "takes text, not column 's.n'"),
        ("json_exists(data, '$.a') = 3", "have no common type"),
    ],
)
def test_arguments_are_checked(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_expression(text, table_of(["1"]).schema)
    assert message in str(caught.value)


def test_values_that_do_not_fit_are_errors_only_where_they_count(tmp_path: Path) -> None:
    """An operand that is not needed in a row has no error in it, as everywhere in expressions."""
    table = table_of(['{"a":1}', '{"a":[]}', None])
    ours = lance_core.write_dataset(table, tmp_path / "d")
    assert ours.count_rows("id = 0 AND json_get_int(data, 'a') = 1") == 1
    assert ours.count_rows("json_array_length(data, '$.a') = 0 OR json_get_int(data, 'a') = 1") == 2
    with pytest.raises(InvalidInputError, match=r"JSON value 1, \[\], cannot become an integer"):
        ours.count_rows("json_get_int(data, 'a') = 1")


def test_json_is_read_once_and_without_its_text(tmp_path: Path) -> None:
    """A filter reads the stored bytes, whatever form of the column the scan returns."""
    table = table_of(['{"a":1,"b":[1,2]}', '{"a":2}', None, "[5]"])
    ours = lance_core.write_dataset(table, tmp_path / "d")
    condition = "json_get_int(data, 'a') >= 1 AND data IS NOT NULL AND json_exists(s.j, '$.b')"
    assert ours.to_table(filter=condition).equals(table.slice(0, 1))
    assert ours.to_table(filter=condition, columns=["s.j", "id"])["s.j"].to_pylist() == ['{"a":1,"b":[1,2]}']
    renamed = {"data": "data", "text": "CAST(data AS string)", "a": "json_extract(data, '$.a')"}
    assert ours.to_table(columns=renamed)["text"].to_pylist() == table["data"].to_pylist()
    ours.update({"id": "json_get_int(data, 'a') + 10"}, where="json_exists(data, '$.a')")
    assert sorted(ours.to_table()["id"].to_pylist()) == [2, 3, 11, 12]
    ours.add_columns({"b": "json_array_length(data, '$.b')"})
    assert ours.to_table(filter="id = 11")["b"].to_pylist() == [2]
    ours.delete("json_exists(data, '$.a') AND json_get_int(data, 'a') = 2")
    assert ours.count_rows() == 3


@pytest.mark.parametrize(
    "data_type", [pa.json_(), pa.json_(pa.large_string()), pa.large_binary(), pa.binary()], ids=str
)
def test_columns_of_every_form_are_read(data_type: pa.DataType) -> None:
    """Rows that are not in data files hold text."""
    texts = pa.array(['{"a":{"b":7}}', None, "[1]"])
    if isinstance(data_type, pa.JsonType):
        values = pa.ExtensionArray.from_storage(data_type, texts.cast(data_type.storage_type))
    else:
        values = store_json(texts, "j").cast(data_type)
    batch = pa.record_batch({"j": values})
    expression = parse_expression("json_get_int(json_get(j, 'a'), 'b')", batch.schema)
    assert evaluate(expression, batch).to_pylist() == [7, None, None]
    condition = parse_filter("j IS NULL OR json_exists(j, '$[0]')", batch.schema)
    assert evaluate(condition, batch).to_pylist() == [False, True, True]
    nothing = parse_expression("json_extract(j, null)", batch.schema)
    assert evaluate(nothing, batch).to_pylist() == [None] * 3


def test_bytes_that_are_no_json_are_corrupt() -> None:
    """T22: a plain binary column may hold anything."""
    batch = pa.record_batch({"b": pa.array([b"\x20\x00\x00\x01\x10\x00\x00\x05abc"], pa.large_binary())})
    for text in ("json_extract(b, '$')", "json_get_int(b, '0')", "json_exists(b, '$[0]')"):
        with pytest.raises(CorruptFileError, match=r"JSON|slice"):
            evaluate(parse_expression(text, batch.schema), batch)


def test_a_short_path_cannot_select_without_end() -> None:
    """T20, T24: repeated descent through a deep document is refused before it fills the memory."""
    document = json.dumps([[]])
    for _ in range(7):
        document = f"[{document},{document},{document}]"
    column = store_json(pa.array([document]), "j")
    assert json_values.exists(column, "$.**").to_pylist() == [True]
    batch = pa.record_batch({"j": column})
    with pytest.raises(InvalidInputError, match="selects more than 1048576 values"):
        evaluate(parse_expression("json_exists(j, '$.**.**.**.**.**.**')", batch.schema), batch)
    brackets = "$?" + "(" * 100 + "@ == 1" + ")" * 100
    with pytest.raises(InvalidInputError, match="is no path of JSON"):
        parse_expression(f"json_exists(j, '{brackets}')", batch.schema)


def test_values_of_an_index_have_one_type() -> None:
    """An index on a path holds what the typed functions give for the same key."""
    documents = ['{"i":null,"f":1.5,"s":"x","b":true,"l":[1],"u":18446744073709551615,"m":"7"}', None, "[]"]
    documents += ['{"i":5,"f":2,"s":[1,"y"],"b":"no","l":{},"u":1,"m":8}', '{"s":null,"l":null}', '{"s":2.5}']
    column = store_json(pa.array(["0", *documents]), "j").slice(1)
    found = {}
    for key in "ifsblum":
        data_type = json_values.type_at(column, key)
        assert data_type is not None
        found[key] = (str(data_type), json_values.extract(column, f"$.{key}", data_type).to_pylist())
    as_binary = [None, None, None, *store_json(pa.array(["{}"]), "j").to_pylist(), None, None]
    assert found == {
        "i": ("int64", [None, None, None, 5, None, None]),
        "f": ("double", [1.5, None, None, 2.0, None, None]),
        "s": ("string", ["x", None, None, '[1,"y"]', None, "2.5"]),
        "b": ("bool", [True, None, None, False, None, None]),
        "l": ("large_binary", [store_json(pa.array(["[1]"]), "j")[0].as_py(), *as_binary[1:]]),
        "u": ("double", [2.0**64, None, None, 1.0, None, None]),
        "m": ("string", ["7", None, None, "8", None, None]),
    }
    assert json_values.type_at(column, "$.none") is None
    with pytest.raises(InvalidInputError, match=r"values at 's' of type int64: JSON value 0, \"x\", cannot"):
        json_values.extract(column, "s", pa.int64())


def test_only_plain_paths_select_members() -> None:
    """An index answers conditions only if its path selects what they are about in every document."""
    for path in ("a", "$.a", '$["a"]'):
        assert json_values.member_path(path) == ("a",)
    assert json_values.member_path("$.a.b") == ("a", "b")
    for path in ("0", "$.a[0]", "$", "$..a", "$.a.*", "a.b", "$.a.0", "$.a ? (@ > 1)"):
        assert json_values.member_path(path) is None
    documents = [
        '{"a":{"b":1}}',
        '{"a":[{"b":1}]}',
        '[{"a":{"b":1}}]',
        '{"a":null}',
        '{"a":{"b":null}}',
        "{}",
    ]
    column = store_json(pa.array(documents), "j")
    by_keys = json_values.member(json_values.member(column, "a"), "b")
    assert json_values.extract(column, "$.a.b", pa.int64()) == json_values.converted(by_keys, pa.int64())
