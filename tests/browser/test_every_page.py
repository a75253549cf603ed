"""Every page, in both themes: axe-core finds nothing serious or critical, nothing moves once it is drawn, the first
view is light, and the browser complains about nothing."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from playground.learn import shelf
from tests.browser.conftest import recorded
from tests.browser.walk import Walk, walking
from ucutlass_web.urls import urlpatterns

# Addresses that are no page: they redirect, or answer with a file or JSON.
NO_PAGES = {"export", "card", "teacher", "mcp", "healthz", "robots", "favicon", "fork"}


@dataclass(frozen=True)
class Page:
    """`route`: the name of its address in ucutlass_web/urls.py; `path`: with the places that `world` fills in; `ready`:
    an element that is there once it is drawn; `after`: what a person does first."""

    route: str
    path: str
    ready: str
    after: Callable[[Walk], None] | None = None


def scrub(walk: Walk) -> None:
    walk.page.locator("#scrub").fill("12")
    walk.page.wait_for_timeout(800)


def join(walk: Walk, name: str = "Ada", ready: str = ".lesson-step") -> None:
    walk.page.get_by_label("Nickname").fill(name)
    walk.page.keyboard.press("Enter")
    walk.page.wait_for_selector(f"#room:not([hidden]) {ready}")


def be_tested(walk: Walk) -> None:
    join(walk, ready=".quiz-item")


def leave(walk: Walk) -> None:
    join(walk, "Lin")
    walk.page.locator("#leave").click()
    walk.page.wait_for_selector("#leaving[open]")


def read_answers(walk: Walk) -> None:
    walk.page.get_by_role("button", name="Answers").first.click()
    walk.page.wait_for_selector("#dialog[open] .seat-answers")


def compare(walk: Walk) -> None:
    walk.page.locator("#diff-with").select_option("1")
    walk.page.wait_for_selector("#diff-pane:not([hidden]) .cm-line")


def more_charts(walk: Walk) -> None:
    walk.page.locator("#more-charts summary").first.click()
    walk.page.wait_for_selector("#policies-plot .main-svg")


def at_other_sizes(walk: Walk) -> None:
    walk.page.locator("#at-sizes summary").click()
    walk.page.wait_for_selector("#sizes")


def share(walk: Walk) -> None:
    walk.page.get_by_role("button", name="Share", exact=True).click()
    walk.page.wait_for_selector("#dialog[open]")


DRAWN = "#history-plot .main-svg"
LED = (
    "agent_residual",
    "rehearsed_cutegen",
    "rehearsed_mucutlass",
    "rehearsed_optiml",
    "rehearsed_two_stage",
    "row_softmax",
)
PAGES = {
    "home": Page("playground", "/", "#editor .cm-line"),
    "a fork": Page("playground", "/s/{session}/fork", "#editor .cm-line"),
    "a session": Page("session", "/s/{session}?trial=2", DRAWN),
    "its replay": Page("session", "/s/{session}", DRAWN, scrub),
    "two trials": Page("session", "/s/{session}?trial=2", DRAWN, compare),
    "all its charts": Page("session", "/s/{session}", DRAWN, more_charts),
    "a module that names its sizes": Page("session", f"/s/{recorded('gelu_and_mul')}", DRAWN, at_other_sizes),
    **{f"the recording {name}": Page("session", f"/s/{recorded(name)}", DRAWN) for name in LED},
    "its owner's page": Page("control", "/c/{control}", DRAWN),
    "sharing it": Page("control", "/c/{control}", DRAWN, share),
    "a session in a frame of ours": Page("framed", "/framed/{session}", DRAWN),
    "a session that was refused": Page("session", "/s/{refused}", ".refusal h2"),
    "a snapshot": Page("session", "/s/{snapshot}", DRAWN),
    "an embedded result": Page("embed", "/embed/{session}?pane=result", "#best-speedup, #best .none"),
    "an embedded chart": Page("embed", "/embed/{session}?pane=roofline", "#roofline-plot .main-svg"),
    "embedded trials": Page("embed", "/embed/{session}?pane=trials", "#timeline .trial"),
    "the gallery and the suite": Page("gallery", "/gallery", ".card"),
    "a problem of the suite": Page("problem", "/gallery/suite/linear_div_gelu?class=f16", "h1"),
    "a problem of KernelBench": Page("kernelbench_problem", "/gallery/kernelbench/level3/4_LeNet5", "h1"),
    "KernelBench": Page("kernelbench", "/gallery/kernelbench", "#suite-table tbody tr"),
    "two sessions side by side": Page("compare", "/gallery/compare?a={session}&b={snapshot}", "h1"),
    "my sessions": Page("mine", "/mine", "h1"),
    "the lessons": Page("learn", "/learn", "h1"),
    "one's own lesson": Page("learn_own", "/learn/own", "h1"),
    **{f"the lesson {one.slug}": Page("learn_lesson", f"/learn/{one.slug}", ".lesson-step") for one in shelf.library()},
    "a lesson in Korean": Page("learn_lesson", "/learn/roofline?lang=ko", ".lesson-step"),
    "workshops": Page("door", "/w", "h1"),
    "a new room": Page("new_room", "/w/new", "h1"),
    "a room before one joins": Page("room", "/w/{room}", "#join:not([hidden])"),
    "a student's room": Page("room", "/w/{room}", "#join:not([hidden])", join),
    "leaving a room": Page("room", "/w/{room}", "#join:not([hidden])", leave),
    "the test of a room": Page("room", "/w/{tested}", "#join:not([hidden])", be_tested),
    "a seat's answers": Page("wall", "/w/{room}/wall/{teacher}", "#wall:not([hidden]) .tile", read_answers),
    "a teacher's wall": Page("wall", "/w/{room}/wall/{teacher}", "#wall:not([hidden]) .tile, #nobody"),
    "a wall without its link": Page("wall", "/w/{room}/wall", "#no-token:not([hidden])"),
    "the language": Page("language", "/language", "h1"),
    "a word of the language": Page("language_word", "/language/tile", "h1"),
    "an error of the language": Page("language_word", "/language/E204", "h1"),
    "the API": Page("api", "/api/docs", "h1"),
    "no page": Page("404", "/nowhere", "h1"),
}


@pytest.fixture(scope="module")
def world(app, finished, recordings) -> dict[str, str]:
    """Sessions, a snapshot and a room to look at."""
    refused = app.submit("import torch\n\nraise RuntimeError('not today')\n")
    app.wait_ended(refused["id"])
    control = finished["control"].rsplit("/", 1)[1]
    other = app.submit(trials=2)  # the finished one has no snapshot, which other tests of this run count on
    app.wait_ended(other["id"])
    token = {"X-Control-Token": other["control_url"].rsplit("/", 1)[1]}
    snapshot = app.post(f"/api/sessions/{other['id']}/snapshots", {}, token)
    room = app.post("/api/rooms", {"title": "Monday", "lessons": ["roofline"]})
    seat = app.post(f"/api/rooms/{room['code']}/seats", {"name": "Grace"})
    answer = {"step": "roofline/which", "answer": "sum"}
    app.post(f"/api/rooms/{room['code']}/answers", answer, {"X-Seat-Token": seat["token"]})
    tested = app.post("/api/rooms", {"title": "Tested", "lessons": ["roofline"], "test": True})
    return {
        "session": finished["id"],
        "control": control,
        "refused": refused["id"],
        "snapshot": snapshot["id"],
        "room": room["code"],
        "tested": tested["code"],
        "teacher": room["teacher_token"],
    }


def test_the_walk_leaves_no_address_out():
    named = {pattern.name for pattern in urlpatterns if getattr(pattern, "name", None)}
    assert named - NO_PAGES == {page.route for page in PAGES.values()} - {"api", "404"}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_offends_nobody(app, browser, world, name):
    page = PAGES[name]
    with walking(browser, color_scheme="light") as walk:
        walk.page.goto(app.url + page.path.format(**world))
        walk.page.wait_for_selector(page.ready, timeout=90_000)
        walk.settled()
        faults = walk.moved() + walk.heavy()
        if page.after:
            page.after(walk)
        for scheme, kind in (("light", ""), ("dark", "color")):  # the themes differ in their colours alone
            walk.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            walk.settled()
            faults += [f"{scheme}: {each}" for each in walk.axe(kind)]
        own = "status of 404" if page.route == "404" else None  # Chromium's line about the page itself
        faults += [each for each in walk.complained() if own is None or own not in each]
        assert not faults, "\n".join(faults)
