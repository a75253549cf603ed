"""An embedded pane and a projected session speak Korean where the page around them asks for it; what has no
translation, and the log, stays in English."""

import ast
import inspect
import json
import re

import pytest

from engine.session.fold import next_step, profile
from playground import figures, recordings
from playground.conf import ROOT
from playground.learn import catalogue
from playground.models import Session
from playground.sharing import mine_words, sentence_words, session_words, words
from sol import levers
from tests.playground.source_texts import texts_in

SCRIPTS = (
    "chart",
    "session/header",
    "session/replay/scrub",
    "session/words",
    "session/trials/row",
    "session/trials/timeline",
)
# The scripts of the whole page that a room can show: no model writes in its sessions (see session_words).
WHOLE = (
    *SCRIPTS,
    *(f"session/{name}" for name in ("session", "code", "charts", "limit", "regions", "report", "help")),
    *(f"session/trials/{name}" for name in ("order", "trial_tree", "trials_as")),
    *(f"session/replay/{name}" for name in ("what_if", "what_if_button", "stairs")),
    "profile",
    "sizes",
    "sharing/at_sizes",
    "refusal",
)
TABLE = re.compile(r"const (?:LINK|DEVICE|STATE|DOING|FAILED|VERDICT|ENDED|NO_TIME|SPENT) = \{(.*?)\};", re.S)
UNIT = re.compile(r"ms(, \w+)?|FLOP/byte|TFLOP/s|×")  # the same in every language
TRANSLATED = re.compile(r"""\{% trans ("|')(.*?)\1 %\}""")


def test_no_word_of_a_pane_is_missing_in_korean():
    messages = {*words.SCRIPT, *words.FIGURES, *words.STATES, *words.PAGE}
    messages |= {*session_words.SCRIPT, *session_words.PAGE, *sentence_words.ALL}
    messages |= {*mine_words.SCRIPT, *mine_words.PAGE}
    for name in ("embed", "session", "mine"):
        messages |= {text for _, text in TRANSLATED.findall((ROOT / f"templates/{name}.html").read_text())}
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


CONSTANT = "HOW|MODELS|SOURCES|NAMES|AS|KEYS|ORDERS|SHOWS|HEAD|LIVE|MORE"
CONSTANTS = re.compile(rf"const (?:{CONSTANT}) = [\[{{](.*?)\n?[\]}}];", re.S)


def test_every_text_of_a_whole_pages_scripts_is_in_the_table():
    used, values = set(), set()
    for name in WHOLE:
        text = (ROOT / f"static/js/{name}.js").read_text()
        used |= set(re.findall(r'\b(?:tr|around)\(\s*"([^"]+)"', text))
        used |= {one for pair in re.findall(r'\bcounted\(\w+, "([^"]+)", "([^"]+)"', text) for one in pair}
        for table in CONSTANTS.findall(text):  # of names and sentences; a key of a page is one word in quotes too
            values |= {one for one, is_key in re.findall(r'"([^"]*)"(:?)', table) if " " in one and not is_key}
    table = {*words.SCRIPT, *session_words.SCRIPT}
    assert len(used) > 150 and len(values) > 20 and (used | values) - table == set()


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


def patterns(texts) -> list[re.Pattern]:
    return [re.compile("^" + re.sub(r"\\{\w+\\}", "(.+?)", re.escape(text)) + "$") for text in texts]


PANES = patterns(words.FIGURES)
PAGES = patterns((*words.FIGURES, *sentence_words.ALL))


def unknown(figure: dict, known: list[re.Pattern]) -> list[str]:
    """What a figure shows beside numbers and names, and no pattern has."""
    layout = figure["figure"]["layout"]
    shown = re.split(r"(?<=\.) (?=[A-Z])", figure["caption"])
    shown += [layout[axis]["title"]["text"] for axis in ("xaxis", "yaxis") if layout[axis]["title"]["text"]]
    shown += [trace["name"] for trace in figure["figure"]["data"] if trace.get("showlegend") is not False]
    shown += figure["rows"][0]
    return [text for text in shown if not UNIT.fullmatch(text) and not any(p.match(text) for p in known)]


@pytest.mark.django_db
@pytest.mark.parametrize("path", sorted(recordings.FOLDER.glob("*.jsonl")), ids=lambda p: p.stem)
def test_what_a_recordings_figures_say_is_in_the_table(path):
    session = Session.objects.get(id=recordings.load(path))
    built = figures.of(session, names=("roofline", "history", "breakdown"))
    for name, figure in built.items():
        units = [y for trace in figure["figure"]["data"] for y in trace["y"] if isinstance(y, str)]
        missing = unknown(figure, PANES) + [unit for unit in units if not any(p.match(unit) for p in PANES)]
        assert not missing, (name, missing)
    for name, figure in figures.of(session, names=("shares", "waterfall", "levers")).items():
        assert figure is None or not unknown(figure, PAGES), (name, unknown(figure, PAGES))
    limit = figures.limit(session)
    assert any(p.match(limit) for p in PAGES), limit


def test_what_the_stop_policies_say_is_in_the_table():
    assert not unknown(json.loads((ROOT / "static/data/policies.json").read_text()), PAGES)


def test_what_to_try_next_and_each_lever_is_in_the_table():
    """The texts of engine/session/fold/next_step.py stand in its constants and its last function, the levers' titles in
    the second argument of `Lever` and `add`."""
    constants = {*next_step.LESS.values(), *next_step.REMEDY.values(), *next_step.UNITS.values()}
    constants |= {next_step.ALONE, next_step.PASSES, next_step.COPY}
    constants |= {*profile.BOUND.values()}
    assert constants - {*sentence_words.NEXT} - {*words.FIGURES} == set()
    assert {*profile.BOUND.values()} - {*session_words.SCRIPT} == set(), "a trial's report names them too"
    titles = set()
    for node in ast.walk(ast.parse(inspect.getsource(levers))):
        match node:
            case ast.Call(func=ast.Name("Lever") | ast.Attribute(attr="add"), args=[_, title, *_]):
                titles |= texts_in(title)
    table = {re.sub(r"\{\w+\}", "{}", text) for text in sentence_words.LEVERS}
    assert len(titles) >= 9 and titles - table == set()


@pytest.mark.django_db
def test_a_projected_session_speaks_the_language_of_its_room(client):
    session = recordings.load(recordings.FOLDER / "linear_div_gelu.jsonl")
    korean = client.get(f"/framed/{session}?lang=ko")
    page = korean.content.decode()
    assert '<html lang="ko">' in page and ">차트<" in page and korean["Content-Language"] == "ko"
    for path in (f"/framed/{session}", f"/framed/{session}?lang=xx", f"/s/{session}?lang=ko"):
        page = client.get(path, headers={"accept-language": "ko"}).content.decode()
        assert '<html lang="en">' in page and ">Charts<" in page
