"""While one types: the error under the caret, the code a program becomes, and a text that survives a reload."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import ROOT, paste

PROGRAM = (ROOT / "dsl/examples/linear_gelu_f16.ucutlass").read_text()


def program_tab(page):
    page.get_by_role("tab", name="μCUTLASS program").click()


def test_a_rejected_program_is_marked_where_it_is_wrong(open_page, complaints):
    page = open_page("/")
    program_tab(page)
    paste(page, PROGRAM)
    expect(page.locator("#check-state")).to_have_text("The program is correct")
    tile = re.search(r"tile\s+\S+", PROGRAM)
    wrong = (
        PROGRAM.replace(tile[0], "tile 256x256x256")
        if tile
        else PROGRAM.replace("epilogue", "tile 256x256x256\n    epilogue")
    )
    paste(page, wrong)
    expect(page.locator("#check-state")).to_have_attribute("data-state", "bad")
    line = next(i for i, row in enumerate(wrong.splitlines(), 1) if "256x256x256" in row)
    mark = page.locator("#diagnostics .diagnostic").first
    expect(mark).to_contain_text(re.compile(r"E\d{3}"))
    expect(mark).to_contain_text(f"line {line}")
    expect(page.locator("#editor .cm-lintRange-error").first).to_contain_text("256")
    mark.click()
    assert page.evaluate("document.activeElement.closest('#editor') !== null")
    assert not complaints, complaints


def test_a_correct_program_shows_what_it_becomes(open_page):
    page = open_page("/")
    program_tab(page)
    paste(page, PROGRAM)
    preview = page.locator("#preview")
    expect(preview).to_be_visible()
    expect(preview.locator("#preview-report")).to_contain_text("Predicted")
    preview.get_by_role("tab", name="cpp").click()
    expect(preview.locator("#preview-code")).to_contain_text("#include")
    preview.get_by_role("tab", name="cute").click()
    expect(preview.locator("#preview-code")).to_contain_text("import")


def test_the_first_visit_begins_with_an_example_and_a_typed_module_shows_its_limit(open_page, complaints):
    page = open_page("/")
    limit = page.locator("#limit")
    expect(page.locator("#editor .cm-content")).to_contain_text("class Model(nn.Module)")
    expect(limit.locator(".sentence")).to_contain_text("no kernel on NVIDIA H200", timeout=90_000)
    expect(limit.get_by_role("row", name="NVIDIA H100 PCIe 80GB")).to_be_visible()
    expect(limit.locator("#limit-plot .main-svg").first).to_be_visible(timeout=90_000)
    examples = page.evaluate("JSON.parse(document.getElementById('boot').text).examples")
    text = next(one["text"] for one in examples if one["kind"] == "module")
    paste(page, text.replace("self.linear(x)", "self.lin(x)"))
    expect(page.locator("#diagnostics .diagnostic")).to_contain_text("has no attribute 'lin'", timeout=90_000)
    expect(limit).to_contain_text("No limit yet")
    paste(page, text)
    expect(limit.locator(".sentence")).to_be_visible(timeout=90_000)
    expect(page.locator("#diagnostics")).to_be_hidden()
    program_tab(page)
    expect(limit).to_be_hidden()
    assert not complaints, complaints


def test_the_text_of_each_way_in_survives_a_reload(open_page):
    page = open_page("/")
    paste(page, "# my module\nimport torch\n")
    program_tab(page)
    paste(page, "# my program\n")
    page.wait_for_timeout(400)
    page.reload()
    expect(page.locator("#editor .cm-content")).to_contain_text("# my program")
    page.get_by_role("tab", name="PyTorch module").click()
    expect(page.locator("#editor .cm-content")).to_contain_text("# my module")


def test_examples_are_one_click_away(open_page, app):
    page = open_page("/")
    example = next(e for e in app.get("/api/examples")["examples"] if e["kind"] == "module")
    page.locator("#examples button").first.click()
    expect(page.locator("#editor .cm-content")).to_contain_text(example["text"].splitlines()[0])
    expect(page.locator("#examples select option:checked")).to_have_text(example["name"])


def test_all_examples_are_one_stop_of_the_tab_key(open_page, app):
    """There are more than sixty; a button for each would stand between the keyboard and the editor."""
    page = open_page("/")
    modules = [e for e in app.get("/api/examples")["examples"] if e["kind"] == "module"]
    assert page.locator("#examples button").count() <= 8 < len(modules)
    last = modules[-1]
    page.get_by_label("All examples").select_option(label=last["name"])
    expect(page.locator("#editor .cm-content")).to_contain_text(last["text"].splitlines()[0])


def test_the_list_of_examples_goes_by_arrow_keys(open_page, app):
    """A closed list chooses at every press, so it must keep the focus that the second press needs."""
    page = open_page("/")
    modules = [e for e in app.get("/api/examples")["examples"] if e["kind"] == "module"]
    expect(page.get_by_label("All examples")).to_be_visible()
    page.get_by_label("All examples").focus()  # which stands at the first one: the page begins with it
    text, featured = {e["name"]: e["text"] for e in modules}, [e["name"] for e in modules if e["featured"]]
    names = page.locator("#examples option:not([value=''])").all_text_contents()
    first = names.index(modules[0]["name"])
    for name in names[first + 1 : first + 4]:
        page.keyboard.press("ArrowDown")
        expect(page.locator("#editor .cm-content")).to_contain_text(text[name].splitlines()[0])
        expect(page.locator("#examples button[aria-pressed=true]")).to_have_count(int(name in featured))


def test_an_empty_budget_field_is_told_and_means_no_number(open_page):
    """An empty "Stop within" was sent as 0%, which never stops early: the opposite of what the field said before."""
    page = open_page("/")
    paste(page, "import torch")
    for label, field in (("Stop within", "eps"), ("Trials", "trials"), ("or after", "window")):
        before = page.locator(f"#{field}").input_value()
        page.locator(f"#{field}").fill("")
        page.locator("#run").click()
        expect(page.locator("#form-error")).to_contain_text(f"“{label}” is empty")
        assert page.evaluate("document.activeElement.id") == field
        page.locator(f"#{field}").fill(before)
    page.locator("#eps").fill("")
    page.wait_for_timeout(300)
    page.reload()
    expect(page.locator("#eps")).to_have_value("")


def test_a_text_of_the_other_language_is_told_where_it_belongs(open_page):
    page = open_page("/")
    paste(page, PROGRAM)
    expect(page.locator("#check-state")).to_contain_text("This is a μCUTLASS program")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#form-error")).to_contain_text("Choose “μCUTLASS program” above")
    program_tab(page)
    paste(page, "import torch\nfrom torch import nn\n")
    expect(page.locator("#check-state")).to_contain_text("This is Python")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#form-error")).to_contain_text("Choose “PyTorch module” above")


def test_the_target_says_that_times_are_predicted(open_page):
    page = open_page("/")
    expect(page.locator("#devices .badge")).to_have_text("predicted")
