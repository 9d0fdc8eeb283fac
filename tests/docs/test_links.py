"""Every link of the documents leads somewhere, and so does every reference of the code to them.

Documents link with `[text](path#heading)`. Docstrings and comments refer to a heading of a document as
`docs/format.md, "Levels"`, and to a decision record as `decision 14` or by its path. All of them name files
and folders by their paths, perhaps without the first folders, and modules and their contents
by dotted names.
"""

from __future__ import annotations

import ast
import re
import subprocess
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from support.runs.each_case import each_case

ROOT = Path(__file__).parents[2]
CODE = ("*.py", "*.pyi", "*.cpp", "*.hpp", "*.proto")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"\b((?:docs|benchmarks|demo)/[\w./-]+\.md)\b(?:,? (?:under )?\"([^\"]+)\")?")
DECISION = re.compile(r"\bdecision (\d+)\b", re.IGNORECASE)
NO_TITLE = re.compile(r"Lance (?:file|table) format(?: \d\.\d)?, (?:\"|sections? \d)")
FOLDERS = "lance_core|flight_server|flight_client|spark_pipeline|tests|benchmarks|scripts|protos|docs|demo"
BELOW_A_FOLDER = re.compile(rf"(?<=[`\s(])(?:{FOLDERS})/[\w/.*<>-]+")
FILE_NAME = re.compile(r"`([\w/.*<>-]+\.(?:pyi?|[ch]pp|proto|toml))`")
DOTTED_NAME = re.compile(
    r"`((?:lance_core|flight_server|flight_client|spark_pipeline|support)(?:\.\w+)+)[`(]"
)
NOT_OF_THE_PROJECT = {"flight_server/demo/data", "setup.py", "settings.toml"}
"""Paths that only a wheel or a user has."""
LINE_BREAK = re.compile(r"\n[ \t]*(?://|#)?[ \t]*")


def tracked(*patterns: str) -> list[Path]:
    """Return the files of the repository that match one of the patterns, sorted."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in sorted(listed.stdout.split("\0")) if name and (ROOT / name).is_file()]


PAGES = tracked("README.md", "CHANGELOG.md", "docs/*.md", "docs/**/*.md", "benchmarks/*.md", "demo/*.md")
SOURCES = [path for path in tracked(*CODE) if path != Path(__file__) and "_pb2" not in path.name]


NAMES_OF_OTHERS = {
    "M_ARENA_MAX",
    "M_MMAP_THRESHOLD",
    "M_TOP_PAD",
    "M_TRIM_THRESHOLD",
    "cot",
    "get_",
    "libarrow",
}
"""Names of other libraries, of examples, and beginnings of names."""
ABOUT_THE_CODE = tracked("docs/architecture.md", "docs/development.md", "docs/decisions/*.md")


def without_code_blocks(text: str) -> str:
    """Return a document without its fenced blocks, whose lines may look like headings and links."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@cache
def headings(page: Path) -> tuple[str, ...]:
    """Return the headings of a document as they are written, without `#`."""
    text = without_code_blocks(page.read_text(encoding="utf-8"))
    return tuple(re.findall(r"^#+ (.+?)\s*$", text, flags=re.MULTILINE))


def anchor(heading: str) -> str:
    """Return the anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken_link(page: Path, target: str) -> str | None:
    """Return what is wrong with a link of a document, or None if it leads to a file and a heading."""
    if re.match(r"[a-z]+:", target):
        return None
    path, _, fragment = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return "no such file"
    if fragment and fragment not in map(anchor, headings(file)):
        return "no such heading"
    return None


def broken_references(text: str) -> list[str]:
    """Return the references of a source file or a document to headings and decisions that do not exist."""
    flat = LINE_BREAK.sub(" ", text)
    broken = [match[0] for match in NO_TITLE.finditer(flat)]
    for match in PATH.finditer(flat):
        page = ROOT / match[1]
        if not page.is_file() or (match[2] and match[2] not in headings(page)):
            broken.append(match[0])
    for match in DECISION.finditer(flat):
        if not list((ROOT / "docs" / "decisions").glob(f"{int(match[1]):04d}-*.md")):
            broken.append(match[0])
    return broken


@cache
def paths() -> frozenset[str]:
    """Return every file and folder of the repository, and each without its first folders."""
    found = set()
    for path in tracked():
        inside = path.relative_to(ROOT)
        for each in (inside, *inside.parents):
            found |= {"/".join(each.parts[start:]) for start in range(len(each.parts))}
    return frozenset(found)


def is_path(name: str) -> bool:
    """Return whether a file or folder has the name; `*` and `<verb>` stand for any text."""
    name = re.sub(r"<\w+>", "*", name.rstrip("/."))
    return name in paths() or ("*" in name and any(fnmatchcase(path, name) for path in paths()))


def is_in_sources(module: str, member: str) -> bool:
    """Return whether a module of this project has a submodule of a name, or defines the name."""
    path = ROOT.joinpath(*module.split("."))
    if path.is_dir():
        return (path / f"{member}.py").is_file() or (path / member).is_dir()
    tree = ast.parse(path.with_suffix(".py").read_text(encoding="utf-8"))
    return member in {getattr(node, "name", None) for node in tree.body}


@cache
def is_defined(name: str) -> bool:
    """Return whether a dotted name is that of a module, or of something in a module."""
    module, _, member = name.rpartition(".")
    if not module:
        return find_spec(name) is not None
    if not is_defined(module):
        return False
    if name.startswith("lance_core.api.torch"):  # the default tests run without PyTorch
        return is_in_sources(module, member)
    try:
        return bool(import_module(name))
    except (ModuleNotFoundError, FileNotFoundError):  # an editable install knows files that were renamed
        owner: object = import_module(name.split(".")[0])
        for part in name.split(".")[1:-1]:
            owner = getattr(owner, part, None)
        return hasattr(owner, member) or member in getattr(owner, "__annotations__", ())


def unknown_names(text: str) -> list[str]:
    """Return the paths and dotted names of a text that are none of the project."""
    flat = LINE_BREAK.sub(" ", text)
    named = set(BELOW_A_FOLDER.findall(flat)) | set(FILE_NAME.findall(flat))
    unknown = {name for name in named if not is_path(name)} - NOT_OF_THE_PROJECT
    return sorted(unknown | {name for name in DOTTED_NAME.findall(flat) if not is_defined(name)})


def test_there_are_documents_and_sources() -> None:
    assert ROOT / "docs" / "format.md" in PAGES
    assert ROOT / "docs" / "decisions" / "0001-packaging.md" in PAGES
    assert ROOT / "lance_core" / "kernels" / "pages" / "levels.hpp" in SOURCES


@each_case("page", PAGES)
def test_every_link_of_a_document_leads_somewhere(page: Path) -> None:
    text = without_code_blocks(page.read_text(encoding="utf-8"))
    broken = {target: wrong for target in LINK.findall(text) if (wrong := broken_link(page, target))}
    assert not broken
    assert not broken_references(re.sub(LINK, "", text))


def test_the_list_of_documents_has_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / path).resolve() for path in LINK.findall(index.read_text(encoding="utf-8"))}
    missing = [page for page in PAGES if page.is_relative_to(ROOT / "docs") and page not in {*linked, index}]
    assert not missing


def test_every_reference_of_the_code_to_a_document_leads_somewhere() -> None:
    broken = {
        path.relative_to(ROOT).as_posix(): found
        for path in SOURCES
        if (found := broken_references(path.read_text(encoding="utf-8")))
    }
    assert not broken


def test_the_code_names_a_heading_of_the_format() -> None:
    """The format page is long: a reference of the packages to it names the heading."""
    bare = [
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        if path.is_relative_to(ROOT / "lance_core")
        for match in PATH.finditer(LINE_BREAK.sub(" ", path.read_text(encoding="utf-8")))
        if match[1] == "docs/format.md" and not match[2]
    ]
    assert not bare


def test_every_path_and_module_that_a_text_names_is_there() -> None:
    texts = [page for page in PAGES if page.name != "CHANGELOG.md"] + SOURCES
    unknown = {
        path.relative_to(ROOT).as_posix(): found
        for path in texts
        if (found := unknown_names(path.read_text(encoding="utf-8")))
    }
    assert not unknown


@cache
def words_of_the_code() -> frozenset[str]:
    """Return the words of the hand-written sources and of the files that build and check the project."""
    files = [*SOURCES, *tracked("Makefile", "pyproject.toml", "CMakeLists.txt", ".ci/*")]
    return frozenset(word for path in files for word in re.findall(r"\w+", path.read_text(encoding="utf-8")))


@each_case("page", ABOUT_THE_CODE)
def test_the_names_on_pages_about_the_code_are_in_the_code(page: Path) -> None:
    """Functions, classes and variables that a page names in backticks still have these names."""
    text = without_code_blocks(page.read_text(encoding="utf-8"))
    named = {name.rpartition(".")[2] for name in re.findall(r"`([A-Za-z_][\w.]*\w)(?:\(\))?`", text)}
    assert named <= words_of_the_code() | NAMES_OF_OTHERS


def test_unknown_names_are_found() -> None:
    assert unknown_names("see `lance_core/file/writer.py` and `file/writer.py`, in lance_core/file.") == []
    assert unknown_names("`lance_core/nothing.py` `nothing.hpp`") == ["lance_core/nothing.py", "nothing.hpp"]
    assert unknown_names("`flight_server/cli/<verb>.py`, `tests/*/conftest.py`") == []
    assert unknown_names("`lance_core.scan.scanner.LanceScanner.explain`") == []
    assert unknown_names("`lance_core.scan.no.Such` `lance_core.Nothing`") == [
        "lance_core.Nothing",
        "lance_core.scan.no.Such",
    ]


def test_broken_references_are_found() -> None:
    assert broken_references('# see docs/format.md,\n# "Levels"') == []
    assert broken_references('docs/format.md, "No heading"') == ['docs/format.md, "No heading"']
    assert broken_references("docs/nowhere.md") == ["docs/nowhere.md"]
    assert broken_references("decision 1 and decision 99") == ["decision 99"]
    assert broken_references('Lance file format 2.1, "Pages"') == ['Lance file format 2.1, "']
    assert broken_link(ROOT / "README.md", "docs/format.md#mini-block-pages") is None
    assert broken_link(ROOT / "README.md", "docs/format.md#nothing") == "no such heading"
    assert broken_link(ROOT / "README.md", "docs/nothing.md") == "no such file"
