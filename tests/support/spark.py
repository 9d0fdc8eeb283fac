"""Settings that make Spark quick and quiet in tests."""

from __future__ import annotations

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "Europe/Lisbon",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.python.authenticate.socketTimeout": "120s",  # a busy machine starts workers slowly
}
