"""Metrics of several processes together, and their way between processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flight_server.http.exposition import exposition
from flight_server.monitoring.process_monitor import ProcessMonitor
from flight_server.service import Service
from flight_server.settings import Settings
from flight_server.telemetry.meters import CALL_SECONDS, Meters
from flight_server.telemetry.readings import Metric, Readings, from_data, merge, to_data
from support.clients.http import samples


def _metric(readings: Readings, name: str) -> Metric:
    (metric,) = (metric for metric in readings if metric.name == name)
    return metric


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(Settings(str(tmp_path)))


def test_counts_and_durations_of_processes_add_up() -> None:
    processes = []
    for seconds in (0.0001, 0.3, 7200.0):
        meters = Meters()
        meters.call_ended("DoGet", "", "OK", "", seconds)
        meters.call_ended("DoAction", "health", "OK", "", 0.001)
        meters.received("DoPut", 10, 80)
        processes.append(meters.readings())
    merged = merge(processes)
    assert _metric(merged, "lance_flight_calls_total").values == {
        ("DoGet", "", "OK", ""): 3,
        ("DoAction", "health", "OK", ""): 3,
    }
    assert _metric(merged, "lance_flight_received_rows_total").values == {("DoPut",): 30}
    durations = _metric(merged, "lance_flight_call_seconds").histograms["DoGet", ""]
    expected = [0] * (len(CALL_SECONDS) + 1)
    expected[0] = expected[CALL_SECONDS.index(0.5)] = expected[-1] = 1
    assert durations.counts == tuple(expected)
    assert durations.sum == pytest.approx(7200.3001)


def test_a_bucket_holds_its_upper_bound() -> None:
    """The buckets of Prometheus are "less or equal"."""
    meters = Meters()
    meters.call_ended("DoGet", "", "OK", "", 0.001)
    found = samples(exposition(meters.readings(), "")[0].decode())
    buckets = {
        dict(labels)["le"]: value for (name, labels), value in found.items() if name.endswith("_bucket")
    }
    assert (buckets["0.0005"], buckets["0.001"], buckets["+Inf"]) == (0, 1, 1)


def test_states_of_processes_add_up_or_the_largest_counts(service: Service) -> None:
    one, other = ProcessMonitor(service).readings(), ProcessMonitor(service).readings()
    merged = merge([one, other])
    assert [metric.name for metric in merged] == [metric.name for metric in one]
    assert _metric(merged, "lance_flight_processes").values == {(): 2}
    assert _metric(merged, "lance_flight_running_limit").values[("streams",)] == 512
    (info,) = _metric(merged, "lance_flight_build_info").values.values()
    assert info == 1
    assert _metric(merged, "lance_flight_draining").values == {(): 0}
    service.admission.close()
    draining = merge([one, ProcessMonitor(service).readings()])
    assert _metric(draining, "lance_flight_draining").values == {(): 1}


def test_readings_survive_their_way_to_another_process(service: Service) -> None:
    service.meters.call_ended("DoGet", "", "OK", "", 0.2)
    readings = ProcessMonitor(service).readings()
    assert from_data(json.loads(json.dumps(to_data(readings)))) == readings


def test_the_memory_of_the_process_is_told(service: Service) -> None:
    readings = ProcessMonitor(service).readings()
    assert _metric(readings, "process_resident_memory_bytes").values[()] > 10 << 20
    assert _metric(readings, "process_cpu_seconds_total").values[()] > 0
    assert _metric(readings, "process_threads").values[()] >= 1
    assert _metric(readings, "process_start_time_seconds").values[()] > 1_600_000_000
