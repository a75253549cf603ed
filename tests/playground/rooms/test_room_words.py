"""The pages of rooms are in Korean, complete: a student's, the teacher's, and what the API refuses on them."""

import ast
import re

import pytest

from playground.conf import ROOT
from playground.learn import catalogue
from playground.learn import words as of_lessons
from playground.rooms import words
from tests.playground.source_texts import holes

TRANSLATED = re.compile(r"""\{% trans ("|')(.*?)\1 %\}""")
SCRIPTS = ("room", "quiz", "my_session")


def test_no_word_of_a_rooms_pages_is_missing_in_korean():
    messages = {*words.SCRIPT.values(), *words.PAGE, *words.WALL, *words.REFUSALS}
    for name in ("base", "room", "room_new", "wall", "workshops"):
        messages |= {text for _, text in TRANSLATED.findall((ROOT / f"templates/{name}.html").read_text())}
    korean, elsewhere = {}, {}
    for path in catalogue.files():
        (korean if "rooms" in path.parts else elsewhere).update(catalogue.read(path.read_text()))
    assert messages - korean.keys() - elsewhere.keys() == set() and all(korean.values())
    assert korean.keys() - messages == {""}
    for english, text in korean.items():
        assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", text)), english


def test_every_word_of_the_scripts_is_in_the_table():
    keys = set()
    for name in SCRIPTS:
        keys |= set(re.findall(r'\b(?:word|say)\("(\w+)"', (ROOT / f"static/js/rooms/{name}.js").read_text()))
    assert len(keys) > 12 and keys - words.SCRIPT.keys() - of_lessons.SCRIPT.keys() == set()


def test_every_text_of_the_teachers_scripts_is_in_the_table():
    used = set()
    for path in (ROOT / "static/js/rooms").glob("*.js"):
        used |= set(re.findall(r'\btr\(\s*"([^"]+)"', path.read_text()))
    states = {"queued", "running", "ended", "measured", "predicted"}  # of a session: the scripts ask by its value
    assert len(used) > 50 and used ^ {*words.WALL} == states


def test_every_refusal_of_a_rooms_api_is_in_the_table():
    """What `Refused` is called with: texts, and the names error, fix, words and constants that hold one."""
    refusals = set()
    for path in (ROOT / "playground/rooms").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name("Refused"), args=[_, *parts]):
                    refusals |= {
                        holes(part) for one in parts for part in ast.walk(one) if isinstance(part, ast.JoinedStr)
                    }
                    refusals |= {holes(one) for one in parts}
                case ast.Assign(targets=[ast.Name("error" | "fix" | "SEATS_OF_IT" | "STEPS_OF_IT")], value=value):
                    refusals.add(holes(value))
    table = {re.sub(r"\{\w+\}", "{}", text) for text in words.REFUSALS}
    assert len(refusals) > 50 and refusals - {None} - table == set()


@pytest.mark.django_db
def test_the_teachers_pages_speak_korean_and_a_missing_text_is_in_english(visit, monkeypatch):
    assert words.texts("en") == {}
    monkeypatch.setattr(words, "WALL", ("Pause", "Not translated yet"))
    korean = words.texts("ko")
    assert korean["Pause"] == "잠시 멈춤" and korean["Not translated yet"] == "Not translated yet"
    room = visit()
    for path, words_of_it in (("/w/new", "진행 방식"), (f"/w/{room.code}/wall", "선생님 화면입니다")):
        page = room.client.get(f"{path}?lang=ko").content.decode()
        assert words_of_it in page and "워크숍" in page and '<html lang="ko">' in page
        assert words_of_it not in room.client.get(path).content.decode()


@pytest.mark.django_db
def test_a_verdict_is_in_the_students_language(visit):
    room = visit()
    ada = room.seat("Ada")
    for lang, korean in (("ko", True), ("en", False)):
        reply = room.answer(ada, "roofline/which", "sum", lang=lang).json()
        assert bool(re.search(r"[가-힣]", reply["outcome"]["html"])) is korean


@pytest.mark.django_db
def test_a_room_speaks_the_readers_language(visit):
    room = visit()
    page = room.client.get(f"/w/{room.code}", headers={"accept-language": "ko"})
    assert "별명" in page.content.decode() and page["Content-Language"] == "ko" and not page.cookies
    assert "Nickname" in room.client.get(f"/w/{room.code}?lang=en", headers={"accept-language": "ko"}).content.decode()
    lesson = room.get("lessons/roofline?lang=ko", room.seat("Ada")).json()
    assert lesson["language"] == "ko"
    assert room.client.get(f"/w?code={room.code}&lang=ko")["Location"].endswith("?lang=ko")
