"""A session of `cutegen` shows its workload, the ladder of depths, its profile and what was mended, also replayed."""

from tests.browser.conftest import LINEAR, until

OPTIONS = {"form": "program", "depths": 2, "profile": "always"}


def test_the_page_shows_each_part_of_an_evolving_kernel(app, open_page, complaints):
    session = app.submit(LINEAR, strategy="cutegen", trials=3, title="Evolving", options=OPTIONS, classes=["f16"])
    page = open_page(f"/s/{session['id']}")
    part = page.locator("#turns .evolving")
    part.wait_for(timeout=120_000)
    app.wait_ended(session["id"])
    page.locator("#turns .evolving tbody tr").nth(2).get_by_text("passed:").wait_for(timeout=90_000)

    assert part.locator(".workload").inner_text() == "product"
    text = part.inner_text()
    for words in (
        "linear: 100% of the",
        "Depths (2 of 2)",
        "a program of μCUTLASS",
        "Rules play the model here",
        "Optimisation asked for",
        "tile shape",
        "pipeline of stages",
        "Best so far",
        "Evolving kernel (the last that passed)",
        "Revealed at depth 1",
        "Rehearsed: stage",
        "Fixes: 0. Regenerations: 0.",
        "No candidate failed, so nothing was mended.",
        "Ours: the rule",
    ):
        assert words in text, words
    rungs = part.locator("table").first.locator("tbody tr")
    assert rungs.count() == 3 and "nothing" in rungs.nth(0).inner_text() and "trial 1" in rungs.nth(1).inner_text()
    part.get_by_role("button", name="trial 2").first.click()
    assert "trial=2" in page.url

    # a replay up to the first turn shows the parts as they were then, and says why they are empty
    events = app.get(f"/api/sessions/{session['id']}/events?limit=2000")["events"]
    first = next(e["seq"] for e in events if e["kind"] == "turn.asked")
    page.locator("#scrub").evaluate("(n, v) => { n.value = v; n.dispatchEvent(new Event('input')); }", first)
    part.get_by_text("No candidate has passed yet").wait_for()
    assert "The model sees the profile from depth 1 on (product); depth 0 is reached." in part.inner_text()
    page.set_viewport_size({"width": 360, "height": 800})
    # charts follow the window's size a little later
    until(page, "document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert not complaints
