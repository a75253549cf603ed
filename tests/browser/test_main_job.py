"""Issue 2 in a browser: paste a module, press Ctrl-Enter, watch trials arrive, share the link, reload in the middle."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import MODULE, no_sideways_scroll, paste, timeline


def test_paste_run_watch_share_reload(app, open_page, complaints):
    page = open_page("/")
    paste(page, MODULE)
    page.get_by_label("Trials").first.fill("10")
    page.get_by_label("Stop within").fill("0")
    page.locator("#editor .cm-content").click()
    page.keyboard.press("Control+Enter")

    page.wait_for_url(re.compile(r"/c/"))
    expect(page.locator("#link-state")).to_have_text("Live")
    expect(page.locator("#device")).to_contain_text(re.compile(r"^PREDICTED · .*H200"))

    # Trials arrive one after the other, while the page is open.
    page.wait_for_selector("#timeline .trial", timeout=90_000)
    first = len(timeline(page))
    expect(page.locator("#timeline .trial").nth(2)).to_be_attached(timeout=90_000)
    assert len(timeline(page)) > first, "the trials came live, not all at once"

    # The view link in another context: the same trials, and nothing to control them with.
    page.locator("#copy-view").wait_for()
    view_url = page.evaluate("JSON.parse(document.getElementById('boot').textContent).view_url")
    other = open_page(view_url)
    expect(other.locator("#timeline .trial").nth(2)).to_be_attached()
    assert other.locator("#owner button").count() == 0
    assert other.locator("#copy-control").count() == 0
    token = page.url.rsplit("/", 1)[-1]
    assert token not in other.content()
    assert page.locator("#pause, #stop, #raise, #try").count() == 4

    # Both reload in the middle; nothing is lost and nothing comes twice.
    before = timeline(page)
    page.reload()
    other.reload()
    expect(page.locator("#timeline .trial").nth(4)).to_be_attached(timeout=120_000)
    assert timeline(page)[: len(before)] == before

    for one in (page, other):
        expect(one.locator("#link-state")).to_have_text("Ended", timeout=180_000)
    session_id = view_url.rsplit("/", 1)[-1]
    logged = app.get(f"/api/sessions/{session_id}/events?limit=2000")["events"]
    assert [e["seq"] for e in logged] == list(range(1, len(logged) + 1))
    proposed = [e["data"]["trial"] for e in logged if e["kind"] == "trial.proposed"]
    assert len(proposed) >= 5
    expect(page.locator("#loaded")).to_have_text(f"{len(logged)} events")
    assert timeline(page) == timeline(other) == proposed

    # The best is a prediction and says so, with its baseline and its precision class.
    best = page.locator("#best")
    expect(page.locator("#best-speedup")).to_have_attribute("data-kind", "predicted")
    expect(best).to_contain_text(re.compile(r"\d\.\d\d×"))
    expect(best).to_contain_text(re.compile(r"predicted · over PyTorch eager"))
    expect(page.locator("#gap")).to_contain_text("of the speed of light")
    assert page.locator("#timeline").get_by_text("measured", exact=False).count() == 0
    assert not complaints, complaints
    no_sideways_scroll(page)


def test_generated_code_of_both_back_ends(open_page, finished):
    page = open_page(finished["view"])
    backends = {b for e in finished["events"] if e["kind"] == "trial.generated" for b in e["data"]["sources"]}
    assert backends == {"cute", "cpp"}
    for backend, mark in (("cpp", "cutlass/"), ("cute", "quack")):
        trial = next(
            e["data"]["trial"]
            for e in finished["events"]
            if e["kind"] == "trial.generated" and backend in e["data"]["sources"]
        )
        page.locator(f'#timeline .trial[data-trial="{trial}"]').click()
        page.locator(f'#code [role=tab][data-tab="{backend}"]').click()
        expect(page.locator("#program-code")).to_contain_text("program ")
        expect(page.locator("#generated-code")).to_contain_text(mark)
        coloured = page.locator("#generated-code .cm-line span[class]", has_text=re.compile("^(import|from|#include)"))
        expect(coloured.first).to_be_attached()  # C++ is a file that comes with its first text
        assert f"tab={backend}" in page.url


def test_the_error_of_a_trial_names_the_family_of_inputs_on_which_it_is_the_largest(open_page, finished):
    validated = next(e["data"] for e in finished["events"] if e["kind"] == "trial.validated")
    worst = max(validated["checks"], key=lambda c: c["error"])["family"]
    page = open_page(f"{finished['view']}#trial={validated['trial']}")
    page.wait_for_selector("#timeline .trial")
    page.locator(f'#timeline .trial[data-trial="{validated["trial"]}"]').click()
    family = {"own": "the module’s own"}.get(worst, worst.replace("_", "-"))
    expect(page.locator("#code")).to_contain_text(
        f" on {family} inputs, the most of {len(validated['checks'])} rounds ("
    )


def test_the_lines_of_program_and_code_are_linked(open_page, finished):
    page = open_page(finished["view"])
    line = page.locator("#program-code .cm-line", has_text="epilogue")
    expect(line.first).to_be_visible()
    page.wait_for_selector("#generated-code .cm-line")
    linked = page.locator("#program-code .cm-linked")
    for _ in range(20):  # charts that load meanwhile move the line from under the pointer
        page.mouse.move(0, 0)
        line.first.hover()
        expect(page.locator("#generated-code .cm-linked").first).to_be_visible()
        if "epilogue" in linked.first.inner_text():
            return
        page.wait_for_timeout(250)
    raise AssertionError(linked.all_inner_texts())


def test_the_roofline_has_the_baseline_pinned_and_hollow_predictions(open_page, finished):
    page = open_page(finished["view"])
    page.wait_for_selector("#roofline-plot .scatterlayer path.point")
    texts = page.locator("#roofline-plot .annotation-text").all_text_contents()
    assert any(t.startswith("PyTorch") for t in texts), texts
    legend = " ".join(page.locator("#roofline-plot .legendtext").all_text_contents())
    assert "predicted" in legend and "measured" not in legend
    fills = page.locator("#roofline-plot .scatterlayer path.point").evaluate_all(
        "nodes => nodes.map(n => getComputedStyle(n).fillOpacity * (getComputedStyle(n).fill === 'none' ? 0 : 1))"
    )
    assert fills and not any(fills), "a prediction is drawn hollow"


def test_every_chart_is_a_table_too(open_page, finished):
    page = open_page(finished["view"])
    for name in ("roofline", "history", "breakdown"):
        chart = page.locator(f"#chart-{name}")
        chart.locator("summary").click()
        expect(chart.locator("tbody tr").nth(1)).to_be_attached()
        expect(chart.locator("table")).to_contain_text("predicted")


def test_a_diff_names_both_sides(open_page, finished):
    judged = [e["data"]["trial"] for e in finished["events"] if e["kind"] == "trial.judged"]
    a, b = judged[0], judged[-1]
    page = open_page(f"{finished['view']}?trial={b}&diff={a}")
    heads = page.locator("#diff-pane .diff-heads span")
    expect(heads.nth(0)).to_contain_text(f"Trial {a}")
    expect(heads.nth(1)).to_contain_text(f"Trial {b}")
    expect(page.locator("#diff-pane .cm-changedText").first).to_be_visible()
    page.locator("#diff-with").select_option("0")
    expect(page.locator("#program-code")).to_be_visible()
    assert "diff=" not in page.url
