"""The session that the tests share."""

from __future__ import annotations

import pytest
from pyspark import SparkContext

from support.spark.session import SharedSession


@pytest.mark.long
@pytest.mark.parametrize(("code", "reason"), [(-9, "killed"), (0, "standard input")])
def test_a_java_that_ends_is_named_and_replaced(
    shared_session: SharedSession, code: int, reason: str
) -> None:
    assert shared_session.running().range(3).count() == 3
    java = SparkContext._gateway.proc
    if code == 0:
        java.stdin.close()
    else:
        java.kill()
    java.wait(60)
    ending = shared_session.ending()
    assert ending is not None
    assert f"ended with {code}:" in ending
    assert reason in ending
    assert shared_session.running().range(3).count() == 3
    assert shared_session.ending() is None
    assert SparkContext._gateway.proc is not java
