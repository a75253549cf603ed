"""A session led by a model keeps the triage of every iteration, and says what its time went to."""

import pytest


@pytest.fixture(scope="module")
def session(app):
    options = {"iterations": 2, "hypotheses": 1, "attempts": 1, "triage": False}
    started = app.submit(strategy="mucutlass", trials=2, title="Two iterations", options=options)
    app.wait_ended(started["id"])
    return f"/s/{started['id']}"


def test_each_iterations_triage_can_be_read_and_a_phase_that_is_off_says_so(open_page, session, complaints):
    page = open_page(session)
    latest = page.locator(".turns-part", has=page.locator("summary", has_text="Triage").first).first
    latest.locator("tbody tr").first.wait_for()
    assert "Iteration 2" in latest.inner_text() and "switched off" in latest.inner_text()
    earlier = page.locator(".turns-part", has_text="Triage of earlier iterations (1)")
    earlier.locator("summary").click()
    earlier.locator("tbody tr").first.wait_for()
    assert "Iteration 1" in earlier.inner_text()
    assert not complaints


def test_the_time_of_model_build_and_checks_stands_beside_the_studys(open_page, session):
    page = open_page(session)
    page.locator(".turns-time").wait_for()
    text = page.locator(".turns-time").inner_text()
    assert all(word in text for word in ("model", "building", "verifying and timing", "profiling", "21%", "79%"))
