"""The error tree."""

import copy
import pickle

from lance_core import errors
from support.runs.each_case import each_case

BUILT_IN: dict[type[errors.LanceError], tuple[type[Exception], ...]] = {
    errors.InvalidInputError: (ValueError, OSError),
    errors.NegativeRowError: (ValueError, OSError, OverflowError),
    errors.TooLargeError: (ValueError, OSError, OverflowError),
    errors.ArgumentTypeError: (ValueError, OSError, TypeError),
    errors.UnknownColumnError: (ValueError, OSError, KeyError),
    errors.ColumnTypeError: (ValueError, OSError, TypeError),
    errors.DatasetNotFoundError: (ValueError, OSError),
    errors.VersionNotFoundError: (ValueError, OSError),
    errors.RefNotFoundError: (ValueError, OSError),
    errors.IndexNotFoundError: (ValueError, OSError, RuntimeError, KeyError),
    errors.DatasetExistsError: (OSError,),
    errors.RefConflictError: (ValueError, OSError),
    errors.UnsupportedFeatureError: (NotImplementedError, OSError),
    errors.MissingNameError: (NotImplementedError, AttributeError),
    errors.CorruptFileError: (OSError, ValueError),
    errors.CommitConflictError: (OSError,),
    errors.CommitUnknownError: (OSError,),
    errors.StorageError: (OSError,),
    errors.FileMissingError: (FileNotFoundError, ValueError),
    errors.AlreadyExistsError: (FileExistsError,),
    errors.PutUnknownError: (OSError,),
}


def test_every_error_is_in_this_table() -> None:
    found = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.LanceError)
    }
    assert found - {errors.LanceError} == set(BUILT_IN)


@each_case(("kind", "built_in"), BUILT_IN.items())
def test_an_error_is_also_what_the_reference_raises(
    kind: type[errors.LanceError], built_in: tuple[type[Exception], ...]
) -> None:
    assert issubclass(kind, errors.LanceError)
    assert all(issubclass(kind, each) for each in built_in)
    assert isinstance(kind.code, int)
    assert isinstance(kind.retryable, bool)


@each_case("kind", [kind for kind in BUILT_IN if kind is not errors.CommitConflictError])
def test_an_error_stays_the_same_in_another_process(kind: type[errors.LanceError]) -> None:
    """OSError has rules of its own for arguments, text, copies and pickles. None of them changes an error."""
    error = kind("wrong", file="a.lance", column=3, page=0, expected=(1, 2), found="x")
    error.retryable = True
    for twin in (error, copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is kind
        assert str(twin) == "wrong (file a.lance, column 3, page 0, expected (1, 2), found x)"
        assert twin.args == (str(twin),)
        assert vars(twin) == vars(error)
        assert getattr(twin, "errno", None) is None
        assert getattr(twin, "filename", None) is None


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
