"""An embedded pane speaks Korean where a lesson asks for it; what has no translation, and the log, stays in English."""

import re

import pytest

from playground import figures, recordings
from playground.conf import ROOT
from playground.learn import catalogue
from playground.models import Session
from playground.sharing import words

SCRIPTS = (
    "chart",
    "session/header",
    "session/replay/scrub",
    "session/words",
    "session/trials/row",
    "session/trials/timeline",
)
TABLE = re.compile(r"const (?:LINK|DEVICE|STATE|DOING|FAILED|VERDICT|ENDED|NO_TIME|SPENT) = \{(.*?)\};", re.S)
UNIT = re.compile(r"ms(, \w+)?|FLOP/byte|TFLOP/s|×")  # the same in every language
TRANSLATED = re.compile(r"""\{% trans ("|')(.*?)\1 %\}""")


def test_no_word_of_a_pane_is_missing_in_korean():
    messages = {*words.SCRIPT, *words.FIGURES, *words.STATES, *words.PAGE}
    messages |= {text for _, text in TRANSLATED.findall((ROOT / "templates/embed.html").read_text())}
    korean, elsewhere = {}, {}
    for path in catalogue.files():
        (korean if "sharing" in path.parts else elsewhere).update(catalogue.read(path.read_text()))
    assert messages - korean.keys() - elsewhere.keys() == set() and all(korean.values())
    assert korean.keys() - messages == {""}
    for english, text in korean.items():
        assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", text)), english


def test_every_text_of_a_panes_scripts_is_in_the_table():
    used, values = set(), set()
    for name in SCRIPTS:
        text = (ROOT / f"static/js/{name}.js").read_text()
        used |= set(re.findall(r'\btr\(\s*"([^"]+)"', text))
        for table in TABLE.findall(text):
            values |= set(re.findall(r': "([^"]+)"', table))
    assert len(used) > 40 and len(values) > 40 and (used | values) - {*words.SCRIPT} == set()


@pytest.mark.django_db
def test_a_pane_speaks_the_language_that_its_frame_asks_for(client):
    session = recordings.load(recordings.FOLDER / "agent_swiglu.jsonl")
    korean = client.get(f"/embed/{session}?pane=trials&lang=ko")
    page = korean.content.decode()
    assert '<html lang="ko">' in page and "연결 중" in page and korean["Content-Language"] == "ko"
    assert words.texts("ko")["wrong result"] == "잘못된 결과"
    for query in ("", "&lang=en", "&lang=xx"):  # not the browser's list: the page around it may be in English
        reply = client.get(f"/embed/{session}?pane=trials{query}", headers={"accept-language": "ko"})
        assert '<html lang="en">' in reply.content.decode() and ">Connecting<" in reply.content.decode()


PATTERNS = [re.compile("^" + re.sub(r"\\{\w+\\}", "(.+?)", re.escape(text)) + "$") for text in words.FIGURES]


@pytest.mark.django_db
@pytest.mark.parametrize("path", sorted(recordings.FOLDER.glob("*.jsonl")), ids=lambda p: p.stem)
def test_what_a_recordings_figures_say_is_in_the_table(path):
    session = Session.objects.get(id=recordings.load(path))
    built = figures.of(session, names=("roofline", "history", "breakdown"))
    for name, figure in built.items():
        layout = figure["figure"]["layout"]
        shown = re.split(r"(?<=\.) (?=[A-Z])", figure["caption"])
        shown += [layout[axis]["title"]["text"] for axis in ("xaxis", "yaxis") if layout[axis]["title"]["text"]]
        shown += [trace["name"] for trace in figure["figure"]["data"] if trace.get("showlegend") is not False]
        shown += [y for trace in figure["figure"]["data"] for y in trace["y"] if isinstance(y, str)]
        shown += figure["rows"][0]
        missing = [text for text in shown if not UNIT.fullmatch(text) and not any(p.match(text) for p in PATTERNS)]
        assert not missing, (name, missing)
