"""Searches of nearest rows by callers whose grants hide rows or columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import flight

from flight_server.security.accounts import hash_token
from support.searches.nearest import lattice, vector_table
from support.servers.granted import token_of
from support.servers.server import serving

GRANTS = {"whole": "", "third": 'filter = "group = 3"', "other": 'columns = ["id", "group"]'}
QUERY = [1.0, 0.0, -1.0, 2.0, 0.0, 1.0]

Read = Callable[..., pa.Table]


@pytest.fixture(scope="module", params=[False, True], ids=["exact", "indexed"])
def read(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Read]:
    """Read a scan as a subject."""
    folder = tmp_path_factory.mktemp("rights")
    path = str(folder / "root" / "t.lance")
    words = pa.array(["red fox" if number % 3 else "fox" for number in range(700)])
    rows = vector_table(lattice(700, 6)).append_column("text", words)
    dataset = lance.write_dataset(rows, path, max_rows_per_file=300)
    if request.param:
        dataset.create_index("v", index_type="IVF_FLAT", num_partitions=2)
        dataset.create_scalar_index("text", "INVERTED")
    accounts = [
        f'[[account]]\nsubject = "{each}"\ntokens = ["{hash_token(token_of(each))}"]\n' for each in GRANTS
    ]
    grants = [
        f'[[grant]]\nsubject = "{each}"\ndatasets = ["t"]\nrights = ["read"]\n{limit}\n'
        for each, limit in GRANTS.items()
    ]
    (folder / "accounts.toml").write_text("".join(accounts))
    (folder / "server.toml").write_text('accounts-file = "accounts.toml"\n' + "".join(grants))
    options = ("--settings", str(folder / "server.toml"))
    with serving(folder / "root", folder / "log", *options) as server, server.client() as client:

        def run(subject: str, **fields: Any) -> pa.Table:
            token = f"Bearer {token_of(subject)}".encode()
            call = flight.FlightCallOptions(headers=[(b"authorization", token)])
            asked = json.dumps({"scan": {"dataset": "t", **fields}})
            info = client.get_flight_info(flight.FlightDescriptor.for_command(asked), call)
            parts = [client.do_get(each.ticket, call).read_all() for each in info.endpoints]
            assert client.do_get(flight.Ticket(asked), call).read_all() == pa.concat_tables(parts)
            return pa.concat_tables(parts)

        yield run


def test_hidden_rows_are_never_found_and_take_no_place(read: Read) -> None:
    """T3: the nearest rows are those among the rows that exist for the caller, whatever the filter."""
    nearest = {"column": "v", "q": QUERY, "k": 20}
    shown = ["id", "group"]
    expected = read("whole", columns=shown, nearest=nearest, filter="group = 3", prefilter=True)
    assert expected.num_rows == 20
    assert read("third", columns=shown, nearest=nearest) == expected
    assert read("third", columns=shown, nearest=nearest, split_search=True) == expected
    assert read("third", columns=shown, nearest=nearest, filter="group = 4").num_rows == 0
    for prefilter in (False, True):
        some = read("third", columns=shown, nearest=nearest, filter="id > 350", prefilter=prefilter)
        whole = read("whole", columns=shown, nearest=nearest, filter="id > 350 AND group = 3", prefilter=True)
        kept = expected.filter(pc.greater(expected["id"], 350)) if not prefilter else whole
        assert some == kept


def test_hidden_rows_are_in_no_ranking(read: Read) -> None:
    """T3: neither the rows nor the ranks of a hybrid search depend on rows that are hidden."""
    both = {
        "nearest": {"column": "v", "q": QUERY, "k": 12},
        "full_text_query": {"match": {"terms": "red", "column": "text"}},
        "hybrid": {"depth": 30},
    }
    shown = ["id", "_relevance_score"]
    expected = read("whole", columns=shown, filter="group = 3", prefilter=True, **both)
    found = read("third", columns=shown, **both)
    assert found.select(shown) == expected.select(shown)
    assert set(found["id"].to_numpy() % 7) == {3}
    with pytest.raises(pa.ArrowInvalid, match="there is no column 'v'"):
        read("other", columns=["id"], **both)


@pytest.mark.parametrize("search_filter", ["text", "vector"])
@pytest.mark.parametrize("prefilter", [True, False])
def test_hidden_rows_pass_no_search(read: Read, search_filter: str, prefilter: bool) -> None:
    """T3: a search that is a filter of another one finds no hidden rows, and they do not displace others."""
    both = {
        "nearest": {"column": "v", "q": QUERY, "k": 12},
        "full_text_query": {"match": {"terms": "red", "column": "text"}},
        "search_filter": search_filter,
    }
    shown = ["id", "_distance" if search_filter == "text" else "_score"]
    found = read("third", columns=shown, prefilter=prefilter, **both)
    # Searches of the whole table give the expected rows, without those that are hidden.
    group = {"filter": "group = 3", "prefilter": True}
    red = read("whole", columns=["id"], full_text_query=both["full_text_query"], **group)["id"]
    near = read("whole", columns=["id"], nearest={**both["nearest"], "k": 1000}, **group)["id"].to_pylist()
    is_first = (search_filter == "text") == prefilter
    if is_first:
        expected = [each for each in near if each in set(red.to_pylist())][:12]
    else:
        expected = [each for each in near[:12] if each in set(red.to_pylist())]
    assert sorted(found["id"].to_pylist()) == sorted(expected)
    assert expected
    with pytest.raises(pa.ArrowInvalid, match="there is no column 'v'"):
        read("other", columns=["id"], prefilter=prefilter, **both)


def test_a_hidden_column_cannot_be_searched(read: Read) -> None:
    """T3: the distances would tell its values."""
    with pytest.raises(pa.ArrowInvalid, match="there is no column 'v'"):
        read("other", columns=["id"], nearest={"column": "v", "q": QUERY})
