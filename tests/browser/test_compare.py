"""Two recordings are chosen by their checkboxes, shown side by side, and compared where that means something."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll


def test_two_recordings_are_chosen_and_compared_with_the_keyboard(open_page, recordings, complaints):
    page = open_page("/gallery")
    first, second = (
        page.get_by_label("Compare linear_div_gelu", exact=True),
        page.get_by_label("Compare linear_scale_leaky", exact=True),
    )
    first.press("Space")
    expect(page.locator("#picked-text")).to_have_text("linear_div_gelu. Tick one more to compare.")
    expect(page.locator("#picked-compare")).to_be_hidden()
    second.press("Space")
    expect(page.get_by_label("Compare mlp_gelu", exact=True)).to_be_disabled()
    page.reload()
    expect(second).to_be_checked()
    expect(page.locator("#picked-text")).to_have_text("linear_div_gelu and linear_scale_leaky")
    page.locator("#picked-compare").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare two sessions")
    expect(page.locator("#side-A")).to_contain_text("linear_div_gelu")
    expect(page.locator("#side-B")).to_contain_text("linear_scale_leaky")
    expect(page.locator("#no-ratio")).to_contain_text("They optimise different modules.")
    for letter in "AB":
        expect(page.locator(f"#chart-history-of-{letter} .main-svg").first).to_be_visible()
    expect(page.locator(".text-A mark").first).to_contain_text("gelu")
    expect(page.locator(".text-B mark").first).to_contain_text("leaky_relu")
    assert not complaints, complaints


def test_a_choice_is_taken_back(open_page, recordings, complaints):
    page = open_page("/gallery")
    first = page.get_by_label("Compare matmul_square", exact=True)
    first.check()
    page.get_by_role("button", name="Clear", exact=True).press("Enter")
    expect(first).not_to_be_checked()
    expect(page.locator("#picked")).to_be_hidden()
    assert "a=" not in page.url and page.evaluate("document.activeElement.ariaLabel") == "Compare matmul_square"
    assert not complaints, complaints


def test_the_class_is_chosen_and_the_sides_are_swapped(open_page, recordings, complaints):
    page = open_page("/gallery")
    page.get_by_label("Compare linear_div_gelu", exact=True).check()
    page.get_by_label("Compare mlp_gelu", exact=True).check()
    page.locator("#picked-compare").click()
    page.get_by_role("link", name="TF32", exact=True).click()
    expect(page.locator("#best-A")).to_have_text("A Best trial in TF32")
    page.get_by_role("link", name="Swap A and B").click()
    expect(page.locator("#side-A")).to_contain_text("mlp_gelu")
    expect(page.locator("#chart-history-of-B .main-svg").first).to_be_visible()
    assert not complaints, complaints


def test_a_session_leads_to_its_comparison(open_page, finished, recordings, app, complaints):
    other = app.submit(trials=1)
    page = open_page(re.sub(r"^https?://[^/]+", "", other["control_url"]))  # this browser remembers it
    page.goto(app.url + finished["view"])
    page.locator("#compare").click()
    expect(page.locator("#others-title")).to_be_visible()
    recording = page.get_by_role("link", name="matmul_square", exact=True)
    expect(recording).to_have_attribute("href", re.compile(f"a={finished['id']}&b="))
    expect(page.get_by_label("A", exact=True)).to_have_value(finished["id"])
    app.wait_ended(other["id"])
    page.locator("#yours a").click()
    expect(page).to_have_url(re.compile(f"a={finished['id']}&b={other['id']}"))
    expect(page.locator("#side-A, #side-B")).to_have_count(2)
    assert not complaints, complaints


def test_a_session_of_ones_own_is_compared_by_its_link(open_page, finished, recordings, app, complaints):
    page = open_page("/gallery")
    link = page.locator("#cards h3 a", has_text="agent residual").get_attribute("href")
    page.goto(f"{app.url}/gallery/compare")
    page.get_by_label("A", exact=True).fill(f"{app.url}{finished['view']}?trial=2")
    page.get_by_label("B", exact=True).fill(app.url + link)
    page.get_by_role("button", name="Compare").press("Enter")
    expect(page.locator("#side-B")).to_contain_text("agent residual")
    expect(page.locator("#no-ratio")).to_contain_text("They optimise different modules.")
    expect(page.locator(".badge.predicted")).to_have_count(2)
    assert not complaints, complaints


def test_a_charts_table_is_reached_with_the_keyboard(open_page, recordings, complaints):
    page = open_page("/gallery")
    page.get_by_label("Compare linear_div_gelu", exact=True).check()
    page.get_by_label("Compare mlp_gelu", exact=True).check()
    page.locator("#picked-compare").click()
    expect(page.locator("#chart-history-of-A .main-svg").first).to_be_visible()
    page.locator("#chart-history-of-A summary").press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.ariaLabel") == "A Speedup by trial: table"
    assert not complaints, complaints


def test_a_chart_that_does_not_load_says_so(open_page, recordings):
    page = open_page("/gallery")
    page.get_by_label("Compare linear_div_gelu", exact=True).check()
    page.get_by_label("Compare mlp_gelu", exact=True).check()
    page.route("**/api/figures/**", lambda route: route.abort())
    page.locator("#picked-compare").click()
    expect(page.locator("#chart-history-of-A")).to_contain_text("The chart did not load")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_360_px(open_page, recordings, scheme, complaints):
    page = open_page("/gallery", width=360, height=740, color_scheme=scheme)
    page.get_by_label("Compare linear_div_gelu", exact=True).check()
    page.get_by_label("Compare mlp_gelu", exact=True).check()
    no_sideways_scroll(page)
    page.locator("#picked-compare").click()
    expect(page.locator("#chart-history-of-B .main-svg").first).to_be_visible()
    no_sideways_scroll(page)
    assert not complaints, complaints


def test_filters_of_the_recordings_stand_in_the_address(open_page, recordings, complaints):
    page = open_page("/gallery")
    cards = page.locator("#cards .card:visible")
    every = cards.count()
    page.locator("#filter-kind").select_option("predicted")
    predicted = cards.filter(has_text="predicted").count()
    expect(cards).to_have_count(predicted)
    assert 0 < predicted < every
    page.reload()
    expect(cards).to_have_count(predicted)
    expect(page.locator("#filter-kind")).to_have_value("predicted")
    assert not complaints, complaints
