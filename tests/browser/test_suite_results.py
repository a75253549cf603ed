"""The gallery shows the suite's results as they were committed: what it comes to, two figures, every problem."""

import json

import pytest
from playwright.sync_api import expect

from engine.bench.report.page import page as page_of
from tests.browser.conftest import ROOT, no_sideways_scroll
from tests.engine.results.test_bench_report import BASE, trial

ROW = {"baselines": BASE, "refused": "", "limits": {"tf32": 0.5, "f16": 0.3}}
TOLD = {
    "gpu": "NVIDIA H200", "driver": "580", "date": "2026-11-21", "command": "python -m engine bench suite59",
    "toolchain": {"torch": "2.11.0"},
    "problems": {
        "matmul_square": {**ROW, "id": "L1/1", "trials": [trial(1.0, "p"), trial(0.7, "p", "f16")]},
        "conv1d_long": {**ROW, "id": "L1/67", "trials": [trial(2.0, "p")]},
    },
}  # fmt: skip


@pytest.fixture
def gallery(open_page):
    """The gallery at a width, with the results above in the place of those committed."""

    def opened(width):
        page = open_page("about:blank", width=width)
        data = json.dumps(page_of(TOLD, "bench.json"))
        page.route("**/data/bench*.json", lambda route: route.fulfill(body=data, content_type="application/json"))
        return page

    return opened


@pytest.mark.parametrize("width", [1440, 360])
def test_the_suite_is_said_drawn_and_listed_for_each_class(gallery, app, complaints, width):
    page = gallery(width)
    page.goto(f"{app.url}/gallery")
    expect(page.locator("#suite-words")).to_contain_text("2 of 2 problems have a right program")
    expect(page.locator("#chart-fast-p .main-svg").first).to_be_visible()
    expect(page.locator("#chart-speedup-gap .main-svg").first).to_be_visible()
    expect(page.locator("#suite-from")).to_contain_text("NVIDIA H200 (driver 580")
    expect(page.locator("#suite-table tbody tr")).to_have_count(2)
    page.get_by_role("button", name="float16").click()
    expect(page.locator("#suite-words")).to_contain_text("f16:")
    expect(page.locator("#suite-table")).to_contain_text("tf32 products")  # f16's entry of the convolution
    no_sideways_scroll(page)
    assert not complaints, complaints


def test_without_committed_results_the_gallery_shows_sessions_alone(open_page, complaints):
    if (ROOT / "static/data/bench.json").exists():
        pytest.skip("results are committed")
    page = open_page("/gallery")
    expect(page.locator("#suite")).to_be_hidden()
    expect(page.get_by_role("heading", level=1)).to_have_text("Gallery")
    assert not complaints, complaints
