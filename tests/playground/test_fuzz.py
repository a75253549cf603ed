"""A few hundred random requests (tests/playground/fuzz.py); the command there sends 20,000."""

import pytest

from tests.playground import fuzz


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    house = fuzz.server(tmp_path_factory.mktemp("house"))
    yield house
    house.close()


def test_no_request_breaks_the_server(server):
    report = fuzz.fuzz(server, 300, number=14)
    assert report.faults == [], f"seed {report.seed}"
    assert report.requests == 300 and report.statuses[200] > 30, report.statuses
    assert sum(n for status, n in report.statuses.items() if 400 <= status < 500) > 60, report.statuses
    ordered = sorted(report.healthz)  # other tests run beside this one, so only the middle is judged
    assert ordered[len(ordered) // 2] < fuzz.HEALTHY


def test_a_failure_without_a_cause_is_a_fault():
    request = fuzz.Request("GET", "/x", [], b"")
    assert fuzz.fault_of(request, 500, b"{}") and fuzz.fault_of(request, 503, b"oops")
    assert fuzz.fault_of(request, 503, b'{"error": "busy", "fix": "wait"}') is None
    assert fuzz.fault_of(request, 404, b"") is None
