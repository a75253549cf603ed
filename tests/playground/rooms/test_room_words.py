"""A student's pages are in Korean, complete."""

import re

import pytest

from playground.conf import ROOT
from playground.learn import catalogue
from playground.learn import words as of_lessons
from playground.rooms import words

TRANSLATED = re.compile(r"""\{% trans ("|')(.*?)\1 %\}""")
SCRIPTS = ("room", "quiz", "my_session")


def test_no_word_of_a_students_pages_is_missing_in_korean():
    messages = {*words.SCRIPT.values(), *words.PAGE}
    for name in ("room", "workshops"):
        messages |= {text for _, text in TRANSLATED.findall((ROOT / f"templates/{name}.html").read_text())}
    elsewhere = catalogue.read((ROOT / "playground/learn/locale/ko/LC_MESSAGES/django.po").read_text())
    korean = catalogue.read((ROOT / "playground/rooms/locale/ko/LC_MESSAGES/django.po").read_text())
    assert messages - korean.keys() - elsewhere.keys() == set() and all(korean.values())
    assert korean.keys() - messages == {""}
    for english, text in korean.items():
        assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", text)), english


def test_every_word_of_the_scripts_is_in_the_table():
    keys = set()
    for name in SCRIPTS:
        keys |= set(re.findall(r'\b(?:word|say)\("(\w+)"', (ROOT / f"static/js/rooms/{name}.js").read_text()))
    assert len(keys) > 12 and keys - words.SCRIPT.keys() - of_lessons.SCRIPT.keys() == set()


@pytest.mark.django_db
def test_a_room_speaks_the_readers_language(visit):
    room = visit()
    page = room.client.get(f"/w/{room.code}", headers={"accept-language": "ko"})
    assert "별명" in page.content.decode() and page["Content-Language"] == "ko" and not page.cookies
    assert "Nickname" in room.client.get(f"/w/{room.code}?lang=en", headers={"accept-language": "ko"}).content.decode()
    lesson = room.get("lessons/roofline?lang=ko", room.seat("Ada")).json()
    assert lesson["language"] == "ko"
    assert room.client.get(f"/w?code={room.code}&lang=ko")["Location"].endswith("?lang=ko")
