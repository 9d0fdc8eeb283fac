"""The error tree."""

import pytest

from lance_core import errors

BUILT_IN = {
    errors.InvalidInputError: ValueError,
    errors.DatasetNotFoundError: ValueError,
    errors.VersionNotFoundError: ValueError,
    errors.RefNotFoundError: ValueError,
    errors.IndexNotFoundError: RuntimeError,
    errors.DatasetExistsError: OSError,
    errors.RefConflictError: ValueError,
    errors.UnsupportedFeatureError: NotImplementedError,
    errors.CorruptFileError: OSError,
    errors.CommitConflictError: OSError,
    errors.CommitUnknownError: OSError,
    errors.StorageError: OSError,
    errors.FileMissingError: FileNotFoundError,
    errors.AlreadyExistsError: FileExistsError,
    errors.PutUnknownError: OSError,
}


def test_every_error_is_in_this_table() -> None:
    found = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.LanceError)
    }
    assert found - {errors.LanceError} == set(BUILT_IN)


@pytest.mark.parametrize(("kind", "built_in"), BUILT_IN.items())
def test_an_error_is_also_what_the_reference_raises(kind: type[errors.LanceError], built_in: type) -> None:
    assert issubclass(kind, errors.LanceError)
    assert issubclass(kind, built_in)
    assert isinstance(kind.code, int)
    assert isinstance(kind.retryable, bool)


def test_a_message_says_what_and_where_and_what_was_expected() -> None:
    error = errors.CorruptFileError("bad page", file="data/a.lance", column="x", page=0, expected=4, found=0)
    assert str(error) == "bad page (file data/a.lance, column x, page 0, expected 4, found 0)"
    assert (error.file, error.column, error.page, error.expected, error.found) == (
        "data/a.lance",
        "x",
        0,
        4,
        0,
    )


def test_a_message_is_one_short_line() -> None:
    """T46: names and bytes of a hostile file neither break a log line nor flood it."""
    error = errors.CorruptFileError("bad", file="a\nERROR b\x1b[31m", found="x" * 10_000)
    assert "\n" not in str(error)
    assert "\x1b" not in str(error)
    assert len(str(error)) < 500


def test_a_conflict_says_whether_to_retry() -> None:
    assert errors.CommitConflictError("lost", retryable=True).retryable
    assert not errors.CommitConflictError("lost", retryable=False).retryable
