"""Korean is complete; what a translation lacks is shown in English."""

import ast
import re

import pytest

from playground import learn
from playground.conf import ROOT
from playground.learn import catalogue, facts, own, own_words, shelf, words
from playground.learn.writing import blocks
from tests.playground.source_texts import texts_in

KOREAN = re.compile(r"[가-힣]")
TRANSLATED = re.compile(r"""\{% trans ("|')(.*?)\1 %\}""")


@pytest.mark.parametrize("folder", sorted(shelf.FOLDER.glob("*/")), ids=lambda f: f.name)
def test_every_step_question_and_figure_of_a_lesson_is_in_korean(folder):
    original, korean = (blocks.split((folder / name).read_text()) for name in ("lesson.md", "lesson.ko.md"))
    assert [s.id for s in original.steps] == [s.id for s in korean.steps]
    assert all(KOREAN.search(korean.head[key][0]) for key in ("title", "summary", "terms"))
    for one, other in zip(original.steps, korean.steps, strict=True):
        assert one.kind == other.kind and KOREAN.search(other.title), other.title
        parts = [[p.block for p in s.parts if p.block and p.block.text.strip()] for s in (one, other)]
        asked = [[b for b in row if b.name == "question"] for row in parts]
        assert len(asked[0]) == len(asked[1])
        for first, second in zip(*asked, strict=True):
            _same_words(first, second)
        drawn = [[b for b in s.parts if b.block and b.block.name == "figure"] for s in (one, other)]
        assert [b.block.words[0] for b in drawn[0]] == [b.block.words[0] for b in drawn[1]]
        for first, second in zip(*drawn, strict=True):
            keys = [
                {k for k, _, _ in blocks.fields(p.block.text, 1) if k in ("title", "caption")} for p in (first, second)
            ]
            assert keys[0] == keys[1], (one.id, keys)


def _same_words(first, second):
    rows = [blocks.fields(b.text, b.line) for b in (first, second)]
    keys = [[k for k, _, _ in row if k not in ("right", "within")] for row in rows]
    spare = [k for k in keys[0] if k.startswith("option")]  # an option such as 128x256x64 is the same everywhere
    missing = [k for k in keys[0] if k not in keys[1] and k not in spare]
    assert not missing and keys[0].count("hint") == keys[1].count("hint"), (first.line, missing)
    for key, value, line in rows[1]:
        words_alone = re.sub(r"\{\{.*?\}\}|FLOP/byte", "", value)
        assert KOREAN.search(words_alone) or not re.search(r"[a-z]{4}", words_alone), (key, line, value)


def test_no_key_of_the_pages_is_missing_in_korean():
    messages = {*words.SCRIPT.values(), *words.PAGE}
    messages |= {*own_words.MISTAKES, *own_words.FUNCTIONS, *own_words.GUIDE, *own_words.REFUSALS}
    for path in (ROOT / "templates").glob("learn*.html"):
        messages |= {text for _, text in TRANSLATED.findall(path.read_text())}
    korean, elsewhere = {}, {}
    for path in catalogue.files():
        (korean if "learn" in path.parts else elsewhere).update(catalogue.read(path.read_text()))
    assert messages - korean.keys() - elsewhere.keys() == set() and korean.keys() - messages == {""}
    assert all(korean.values())
    for english, text in korean.items():
        assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", text)), english


# What takes a sentence for the author of a lesson, and the names that hold one on its way there.
SAYS = {"wrong", "Mistake", "ValueError"}
HOLDS = {"fix", "text", "words"}
OTHERS = {"{}: {}.", "{}: {}"}  # of the check of a program, of a session's request and of Python: in English


def test_every_mistake_of_a_lesson_is_in_the_table():
    sources = [*(ROOT / "playground/learn/writing").glob("*.py")]
    sources += [ROOT / f"playground/learn/{name}.py" for name in ("figures", "facts", "recorded")]
    texts = set()
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(name) | ast.Attribute(attr=name), args=args):
                    parts = args if name in SAYS or name.endswith("Error") else []
                case ast.Assign(targets=[ast.Name(name)], value=value):
                    parts = [value] if name in HOLDS else []
                case _:
                    parts = []
            texts |= {text for part in parts for text in texts_in(part)}
    table = {re.sub(r"\{\w+\}", "{}", text) for text in own_words.MISTAKES}
    texts = {re.sub(r"\{\w+\}", "{}", text) for text in texts}
    assert len(texts) > 120 and texts - table - OTHERS == set()


def test_every_function_and_skill_of_the_guide_is_in_the_table():
    assert {gives for _, gives in map(facts.use, facts.FUNCTIONS)} - {*own_words.FUNCTIONS} - {"FLOP/byte"} == set()
    lines, about = own._figures()
    assert about in own_words.GUIDE and "roofline   work:" in lines
    page = own.guide("ko")
    for text in (own_words.FUNCTIONS[1], own_words.GUIDE[1], "What binds a layer?"):
        assert text in own.guide("en").replace("&#x27;", "'") and text not in page


def test_the_guide_names_the_same_blocks_and_words_in_both_languages():
    spans = [set(re.findall(r"`([^`\n]+)`", own.form(language).rpartition("````")[2])) for language in ("en", "ko")]
    same = {span for span in spans[0] if re.fullmatch(r"[\w /.:%,=-]+", span)}
    assert len(same) > 30 and same - spans[1] == set()


def test_every_word_of_the_scripts_is_in_the_table():
    keys = set()
    for path in (ROOT / "static/js/learn").glob("*.js"):
        text = path.read_text()
        keys |= set(re.findall(r'\bword\("(\w+)"\)', text))
        if path.stem in ("list", "own"):
            keys |= set(re.findall(r"\bwords\.(\w+)", text))
    assert len(keys) > 40 and keys - words.SCRIPT.keys() == set()


def test_the_compiled_catalogues_are_those_of_the_texts():
    assert catalogue.files()
    for path in catalogue.files():
        assert path.with_suffix(".mo").read_bytes() == catalogue.compiled(catalogue.read(path.read_text())), path


def test_what_a_translation_lacks_is_in_english():
    folder = shelf.FOLDER / "01-roofline"
    original, korean = (folder / name for name in ("lesson.md", "lesson.ko.md"))
    text = korean.read_text()
    start = text.index("## read roofline")
    shorter = text[:start] + text[text.index("## predict move") :].replace("wrong matrix:", "because:")
    lesson, mistakes = learn.read(original.read_text(), "roofline", translation=shorter, language="ko")
    assert mistakes == [] and lesson.language == "ko"
    assert lesson.step("roofline").language == "en" and "longer of the two times" in lesson.step("roofline").body_html
    assert lesson.step("move").language == "ko"
    assert "64 times less" in lesson.step("move").question.wrongs[0].html


def test_a_translation_names_what_the_original_lacks():
    original = (shelf.FOLDER / "01-roofline/lesson.md").read_text()
    text = "---\ntitle: 제목\n---\n## read nothing: 없음\n글\n```figure nothing\n```\n"
    _, mistakes = learn.read(original, "roofline", translation=text, language="ko")
    assert {m.line for m in mistakes} == {4, 6}


@pytest.mark.django_db
def test_the_language_comes_from_the_address_then_from_the_browser(client):
    for query, accept, language in (
        ("?lang=ko", "en", "ko"), ("", "ko-KR,ko;q=0.9", "ko"), ("", "fr,de", "en"), ("?lang=xx", "en-GB", "en"),
    ):  # fmt: skip
        reply = client.get(f"/learn{query}", headers={"accept-language": accept})
        assert reply["Content-Language"] == language and not reply.cookies
        assert ("루프라인이란" in reply.content.decode()) == (language == "ko")
