"""Catalog: directories that are datasets, their names, and names that stay inside the root."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from flight_server.catalog.local import Catalog
from flight_server.catalog.store import StoreCatalog
from flight_server.requests.names import DatasetReference
from lance_core.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_core.storage import LocalStorage
from lance_core.table.bases import BlobDirectory
from support.processes.forked import ForkedProcess

CACHE_BYTES = 1 << 20


def write(path: Path, value: int = 1) -> Path:
    lance.write_dataset(pa.table({"x": [value]}), path, mode="overwrite")
    return path


def catalog_of(root: Path) -> Catalog:
    return Catalog(os.path.realpath(root), CACHE_BYTES)


def fragment_rows(catalog: Catalog, name: str) -> int:
    return catalog.open(DatasetReference(name)).manifest.fragments[0].num_rows


def test_in_a_root_that_is_gone_nothing_is_missing(tmp_path: Path) -> None:
    """T40: a mount that is gone, or a lost permission, must not look like datasets that were dropped."""
    catalog = catalog_of(write(tmp_path / "root" / "trips.lance").parent)
    (tmp_path / "root").rename(tmp_path / "away")
    for ask in (catalog.names, lambda: catalog.open(DatasetReference("trips")), lambda: catalog.has("trips")):
        with pytest.raises(StorageError, match="the root cannot be listed: No such file"):
            ask()
    (tmp_path / "away").rename(tmp_path / "root")
    assert list(catalog.names()) == ["trips"]
    assert catalog.has("trips")


def test_names_are_paths_without_the_suffix(tmp_path: Path) -> None:
    for name in ("trips.lance", "plain", "ns/deep/er/x.lance", "ns.lance/y", "a..b"):
        write(tmp_path / name)
    (tmp_path / "nothing" / "here").mkdir(parents=True)
    (tmp_path / "file.lance").write_bytes(b"")
    catalog = catalog_of(tmp_path)
    names = ["a..b", "ns/deep/er/x", "ns.lance/y", "plain", "trips"]
    assert sorted(catalog.names()) == sorted(names)
    for name in names:
        assert fragment_rows(catalog, name) == 1
    for missing in ("nothing", "nothing/here", "file", "ns", "ns/deep", "trips/data", "ns/y", "x"):
        with pytest.raises(DatasetNotFoundError, match=missing):
            catalog.open(DatasetReference(missing))


def test_missing_names_are_answered_with_near_ones(tmp_path: Path) -> None:
    """T8: names are those of datasets in the same namespace. Targets of links out of the root are not
    named.
    """
    root = tmp_path / "root"
    for name in ("trips.lance", "ns/inner.lance", "twice", "twice.lance"):
        write(root / name)
    (root / "tripp").mkdir()
    write(tmp_path / "outside" / "secret.lance")
    (root / "out").symlink_to(tmp_path / "outside")
    for catalog in (
        catalog_of(root),
        StoreCatalog(LocalStorage(str(root)), CACHE_BYTES),
    ):
        for name, near in (("Trip", "trips"), ("ns/iner", "ns/inner"), ("twic", "twice")):
            with pytest.raises(DatasetNotFoundError, match=rf"did you mean '{near}'\?$"):
                catalog.open(DatasetReference(name))
        for name in ("other", "nss/inner", "trips/data"):
            with pytest.raises(DatasetNotFoundError, match=rf"no dataset is named '{name}'$"):
                catalog.open(DatasetReference(name))
        assert not catalog.has("trip")
    with pytest.raises(DatasetNotFoundError, match=r"no dataset is named 'out/secre'$"):
        catalog_of(root).open(DatasetReference("out/secre"))


def test_the_root_is_no_dataset_and_datasets_are_not_searched(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path / "a.lance")
    write(tmp_path / "a.lance" / "tree" / "inner.lance")
    catalog = catalog_of(tmp_path)
    assert list(catalog.names()) == ["a"]
    for name in ("a.lance/tree/inner", "a/tree/inner"):
        with pytest.raises(DatasetNotFoundError):
            catalog.open(DatasetReference(name))


def test_with_and_without_suffix_side_by_side_are_both_refused(tmp_path: Path) -> None:
    write(tmp_path / "ns" / "a")
    write(tmp_path / "ns" / "a.lance")
    write(tmp_path / "ns" / "b.lance")
    catalog = catalog_of(tmp_path)
    with pytest.raises(InvalidInputError, match=r"ambiguous.*'ns/a' and 'ns/a\.lance'"):
        catalog.open(DatasetReference("ns/a"))
    assert list(catalog.names()) == ["ns/a", "ns/b"]


def test_names_that_are_not_allowed_are_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("ok.lance", "-dash.lance", "two.lance.lance", "sp ace", "l\u00f6we.lance"):
        write(tmp_path / name)
    write(tmp_path / "in ner" / "c.lance")
    catalog = catalog_of(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert list(catalog.names()) == ["ok"]
        assert list(catalog.names()) == ["ok"]
    assert len(caplog.records) == 5
    assert all(record.getMessage().isascii() for record in caplog.records)


@pytest.mark.parametrize("kind", [Catalog, StoreCatalog])
def test_the_longest_names_are_listed(tmp_path: Path, kind: type[Catalog]) -> None:
    """A name has the same bounds whether a dataset is asked for or listed: the suffix is no part of it."""
    names = ["x" * 128, "namespace/" + "y" * 124]
    for name in names:
        write(tmp_path / f"{name}.lance")
    write(tmp_path / ("z" * 129 + ".lance"))
    if kind is StoreCatalog:
        catalog: Catalog = StoreCatalog(LocalStorage(str(tmp_path)), CACHE_BYTES)
    else:
        catalog = catalog_of(tmp_path)
    assert sorted(catalog.names()) == sorted(names)
    for name in names:
        assert fragment_rows(catalog, name) == 1


def test_links_out_of_the_root_are_not_followed(tmp_path: Path) -> None:
    """T8: a dataset may be a link inside the root; no link leads out, none is a namespace."""
    root, outside = tmp_path / "root", tmp_path / "root-outside"
    write(outside / "secret.lance")
    write(root / "real.lance")
    links = {
        "alias.lance": root / "real.lance",
        "leak.lance": outside / "secret.lance",
        "relative.lance": Path("..") / "root-outside" / "secret.lance",
        "chain.lance": root / "leak.lance",
        "folder": outside,
        "inside": root,
        "loop": root / "loop",
        "parent": tmp_path,
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    catalog = catalog_of(root)
    assert list(catalog.names()) == ["alias", "real"]
    assert fragment_rows(catalog, "alias") == 1
    for name in ("leak", "relative", "chain", "folder/secret", "inside/real", "loop", "parent/root/real"):
        with pytest.raises(DatasetNotFoundError):
            catalog.open(DatasetReference(name))


# Points one name, again and again, into the root and out of it.
_SWAPPING = {
    "link": """
        for target in (root / "real.lance", outside / "secret.lance"):
            (root / ".fresh").symlink_to(target)
            os.replace(root / ".fresh", root / "x.lance")
    """,
    "directory": """
        os.rename(root / "x.lance", root / ".away")
        (root / "x.lance").symlink_to(outside / "secret.lance")
        (root / "x.lance").unlink()
        os.rename(root / ".away", root / "x.lance")
    """,
}


@pytest.mark.parametrize("swapped", sorted(_SWAPPING))
def test_what_is_swapped_never_leads_out(tmp_path: Path, swapped: str) -> None:
    """T8: 10,000 opens while another process swaps the link, or the directory for a link, to the outside."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    for name in ("real.lance", "x.lance" if swapped == "directory" else "other.lance"):
        write(root / name, 1)
        write(root / name, 2)
    write(outside / "secret.lance", 1)
    loop = "import os, sys\nfrom pathlib import Path\nroot, outside = map(Path, sys.argv[1:])\nwhile True:"
    program = [sys.executable, "-c", loop + _SWAPPING[swapped], str(root), str(outside)]
    catalog = catalog_of(root)
    opened = 0
    with subprocess.Popen(program) as swapping:
        try:
            for _ in range(10_000):
                try:
                    snapshot = catalog.open(DatasetReference("x"))
                except LanceError:
                    continue
                opened += 1
                assert snapshot.manifest.version == 2
            assert swapping.poll() is None
        finally:
            swapping.kill()
    print(f"{opened} of 10000 opens succeeded, all inside")
    assert opened > 100


def test_versions(tmp_path: Path) -> None:
    write(tmp_path / "a.lance")
    catalog = catalog_of(tmp_path)
    assert catalog.open(DatasetReference("a")).manifest.version == 1
    write(tmp_path / "a.lance")
    assert catalog.open(DatasetReference("a")).manifest.version == 2
    assert catalog.open(DatasetReference("a", 1)).manifest.version == 1
    for version in (0, 3, 2**63 - 1):
        with pytest.raises(VersionNotFoundError, match=f"dataset a has no version {version}"):
            catalog.open(DatasetReference("a", version))


def test_manifests_are_kept_and_looked_up_again(tmp_path: Path) -> None:
    """T14: an unchanged manifest is parsed once; one under the same name and version is told apart."""
    path = write(tmp_path / "a.lance")
    catalog = catalog_of(tmp_path)
    first = catalog.open(DatasetReference("a"))
    assert catalog.open(DatasetReference("a")) is first
    shutil.rmtree(path)
    with pytest.raises(DatasetNotFoundError):
        catalog.open(DatasetReference("a"))
    write(path)
    again = catalog.open(DatasetReference("a"))
    assert again.manifest.version == first.manifest.version
    assert again.manifest.identity != first.manifest.identity


def test_the_cache_is_bounded(tmp_path: Path) -> None:
    """T33: the cache keeps less than was requested; the latest entry stays."""
    for number in range(20):
        write(tmp_path / f"d{number}.lance")
    size = catalog_of(tmp_path).open(DatasetReference("d0")).manifest.size
    catalog = Catalog(os.path.realpath(tmp_path), cache_bytes=5 * 8 * (size + 100))
    opened = [catalog.open(DatasetReference(f"d{number}")) for number in range(20)]
    kept = [catalog.open(DatasetReference(f"d{number}")) is opened[number] for number in reversed(range(20))]
    assert kept[:4] == [True] * 4
    assert not any(kept[10:])


# Runs the service under an audit hook that names every path that is opened, listed or looked at.
_AUDITED = """
import json, os, sys
from pathlib import Path
from flight_server.requests.commands import COMMAND_TYPE_URL, parse_command
from flight_server.requests.commands import parse_describe, parse_write
from flight_server.handlers.actions import ACTIONS
from flight_server.requests.names import parse_name, parse_path
from flight_server.proto.command_pb2 import Command, Scan
from flight_server.service import Service
from flight_server.settings import Settings
from flight_server.requests.tickets import Ticket, encode_ticket
from google.protobuf.any_pb2 import Any
from lance_core.errors import LanceError
from lance_core.scan.plan.scan_plan import FragmentScan

root, names = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
settings = Settings.resolve(root, environment={})
service = Service(settings)
seen = []
sys.addaudithook(lambda event, args: seen.append(args[0]) if event in (
    "open", "os.listdir", "os.scandir", "os.mkdir", "os.rename", "os.remove") else None)

def by_protobuf(name):
    value = Command(scan=Scan(dataset=name)).SerializeToString()
    return parse_command(Any(type_url=COMMAND_TYPE_URL, value=value).SerializeToString())

def by_ticket(name):
    ticket = Ticket(name, 1, "x", 2**40, (FragmentScan(0, 0, 1),))
    return service.reads.stream(service.reads.redeem(encode_ticket(ticket, service.signing_key.key)))

def act(action, **body):
    return ACTIONS[action].run(service, json.dumps(body).encode())

def command(name):
    return json.dumps({"scan": {"dataset": name}}).encode()

ways = [
    lambda name: service.reads.plan(parse_command(command(name))),
    lambda name: service.reads.schema(parse_command(command(name))),
    lambda name: service.reads.stream(service.reads.redeem(command(name))),
    lambda name: service.reads.plan(by_protobuf(name)),
    by_ticket,
    lambda name: service.datasets.describe(parse_describe(json.dumps({"dataset": name}).encode())),
    lambda name: service.datasets.describe(parse_name(name)),
    lambda name: service.datasets.describe(parse_path(name.split("/"))),
    lambda name: () if list(service.datasets.summaries(name)) else (),
    lambda name: service.changes.put(parse_write(json.dumps({"write": {"dataset": name}}).encode()), None),
    lambda name: act("delete", dataset=name, predicate="true"),
    lambda name: act("commit", dataset=name, operation="overwrite", staged=["0" * 32]),
    lambda name: act("abort", dataset="trips", branch=name, staged=["0" * 32]),
    lambda name: act("abort", dataset="trips", staged=[name]),
    lambda name: act("create_tag", dataset="trips", tag=name),
    lambda name: act("create_branch", dataset="trips", branch=name),
    lambda name: act("delete_branch", dataset="trips", branch=name),
    lambda name: act("compact_plan", dataset=name),
    lambda name: act("cleanup", dataset="trips", branch=name),
]
tried = accepted = 0
for name in names:
    for way in ways:
        tried += 1
        try:
            accepted += way(name) != ()
        except LanceError:
            pass
        except UnicodeEncodeError:
            pass
paths = [os.fsdecode(path) for path in seen if isinstance(path, (str, bytes))]
# The kind of file system is asked once, of the kernel.
outside = [path for path in paths if not path.startswith(root) and path != "/proc/self/mountinfo"]
print(json.dumps({"tried": tried, "accepted": accepted, "outside": outside, "inside": len(seen)}))
"""


def test_no_hostile_name_opens_anything_outside(tmp_path: Path, hostile_names: list[str]) -> None:
    """T7: 500 names in every place a name enters, and 0 paths outside the root."""
    root = tmp_path / "root"
    write(root / "trips.lance")
    write(root / "ns" / "trips.lance")
    write(tmp_path / "etc" / "passwd.lance")
    (tmp_path / "names").write_text(json.dumps(hostile_names))
    arguments = [str(root), str(tmp_path / "names")]
    process = ForkedProcess(arguments, tmp_path / "log", os.environ, _AUDITED)
    with process.stdout as stdout:
        printed = stdout.read()
    assert process.wait(120) == 0, (tmp_path / "log").read_text()
    result = json.loads(printed)
    print(result["tried"], "attempts,", result["inside"], "paths touched")
    assert result["tried"] >= 9500
    assert result["accepted"] == 0
    assert result["outside"] == []
    assert result["inside"] > 0


def test_a_directory_that_contains_the_root_does_not_open_it_for_blobs(tmp_path: Path) -> None:
    """T3, T11: only a directory within the root, allowed by its own name, does."""
    root = tmp_path / "root"
    (root / "media").mkdir(parents=True)
    (tmp_path / "beside").mkdir()
    storage = LocalStorage(str(root))
    for allowed, inside in ((tmp_path, False), (root, False), (root / "media", True)):
        catalog = Catalog(str(root), 1 << 20, (str(allowed),))
        with pytest.raises(UnsupportedFeatureError, match="no setting allows"):
            catalog._open_base(BlobDirectory(f"file://{root}"), storage)
        assert _is_opened(catalog, root / "media", storage) is inside
        assert _is_opened(catalog, tmp_path / "beside", storage) is (allowed == tmp_path)


def _is_opened(catalog: Catalog, directory: Path, storage: LocalStorage) -> bool:
    """Return whether a catalog opens a directory for blobs."""
    try:
        catalog._open_base(BlobDirectory(f"file://{directory}"), storage)
    except UnsupportedFeatureError:
        return False
    return True
