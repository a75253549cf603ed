"""A module whose launch takes far longer than its limit: the page says so, and gives no multiple of the limit."""

import pytest
from playwright.sync_api import expect

from sol.budget import launch_binds
from sol.model.tiles import LAUNCH_MS

WORDS = """async (limits) => {
  const { launchBinds } = await import("/static/js/session/words.js");
  return limits.map((limit) => launchBinds({ ms: 2 * limit, gap: 2 }));
}"""
TILE = """async (ms) => {
  const { Tiles } = await import("/static/js/rooms/tiles.js");
  const list = document.createElement("ul");
  const tiles = new Tiles(list, {});
  const seat = { number: 1, name: "Ada", answers: {}, at: "" };
  const session = { session: "s", state: "ended", trials: 2, gap: 2, ms, speedup: 1.2, kind: "predicted" };
  const room = { seats: new Map([[1, seat]]), steps: [], open_to: null, projected: null };
  tiles.draw(room, { anonymous: false, online: [1], sessions: { 1: session } });
  return list.querySelector(".tile-gap").textContent;
}"""
TINY = """import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(32, 32)]


def get_init_inputs():
    return []
"""


def test_the_page_and_the_report_agree_on_where_a_launch_binds(checkout):
    limits = [1e-6, LAUNCH_MS / 4 - 1e-6, LAUNCH_MS / 4 + 1e-6, 0.1]
    assert checkout.evaluate(WORDS, limits) == [launch_binds(limit) for limit in limits]


def test_a_seat_on_the_wall_has_no_multiple_of_a_hidden_limit(checkout):
    assert checkout.evaluate(TILE, LAUNCH_MS / 4) == "bound by launches (predicted)"
    assert checkout.evaluate(TILE, 1.0) == "2.00× the limit (predicted)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_tiny_module_is_told_that_the_launch_binds(app, open_page, complaints, scheme):
    session = app.submit(TINY, trials=2)
    app.wait_ended(session["id"])
    page = open_page(f"/s/{session['id']}", color_scheme=scheme)
    expect(page.locator("#chart-roofline .caption")).to_contain_text("Launch binds: starting one kernel takes about")
    expect(page.locator("#chart-breakdown .caption")).to_contain_text("which binds it")
    expect(page.locator("#limit")).to_contain_text("is bound by the launch")
    text = page.locator("main").inner_text()
    assert "Launches bind it" in text and "× limit" not in text and "× the limit" not in text
    assert "times the limit" not in text
    assert not complaints
