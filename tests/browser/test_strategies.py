"""The strategy is the person's to choose, with its own options; a fork keeps both."""

import json
import re

from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll, paste

PROGRAM = """program scale(x: f16[64, 128], w: f16[128, 128]) -> f16[64, 128] {
  y = gemm(x, w.T)
  return y
}
"""


def test_a_sweep_is_chosen_with_its_options_and_runs(app, open_page, complaints):
    page = open_page("/")
    page.set_viewport_size({"width": 360, "height": 800})
    expect(page.get_by_role("radio", name=re.compile("^Planner"))).to_be_checked()
    expect(page.locator("#strategy-options")).to_be_hidden()
    page.get_by_role("tab", name="μCUTLASS program").click()
    paste(page, PROGRAM)
    page.get_by_role("radio", name=re.compile("^Sweep")).check()
    page.get_by_label("Order").select_option("listed")
    page.get_by_label("Limit", exact=True).fill("2")
    no_sideways_scroll(page)
    page.get_by_label("Trials").first.fill("4")
    page.get_by_role("button", name=re.compile("^Run")).click()
    page.wait_for_url(re.compile(r"/c/"))
    boot = json.loads(page.locator("#boot").text_content())
    session = boot["session"]["id"]
    app.wait(lambda: app.get(f"/api/sessions/{session}")["summary"].get("end"), 120, "the sweep did not end")
    log = app.get(f"/api/sessions/{session}/events?limit=2000")["events"]
    assert log[0]["data"]["strategy"] == "sweep"
    assert log[0]["data"]["options"] == {"stage": "", "structure": 1, "region": 0, "order": "listed", "limit": 2}
    tried = [e["data"]["change"] for e in log if e["kind"] == "trial.proposed"]
    assert len(tried) == 2 and all(change.startswith("y: tile ") for change in tried)

    page.goto(f"{app.url}/s/{session}/fork")
    expect(page.get_by_role("radio", name=re.compile("^Sweep"))).to_be_checked()
    expect(page.get_by_label("Limit")).to_have_value("2")
    expect(page.get_by_label("Order")).to_have_value("listed")
