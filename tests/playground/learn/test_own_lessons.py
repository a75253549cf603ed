"""A teacher's own text: each mistake with its line, nothing in it can inject or run anything, however hostile."""

import io
import json
import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playground import learn
from playground.learn import facts, own, shelf
from playground.learn.writing import expressions, markdown
from playground.learn.writing.expressions import ExpressionError, Scope
from playground.management.commands import up

HEAD = "---\ntitle: T\nminutes: 5\n---\n"
WORK = "```work w\nx: f16[8, 8] input\nreturn x\n```\n"
ASK = "## predict p: P\n```question choice\nask: A?\noption a: A\noption b: B\nright: {}\n```\n"
PROGRAM = """```program p
program p(x: f16[64, 64]) -> f16[64, 64] {
  arch sm_90a
  y = map(x) {
    epilogue relu(acc)
  }
  return y
}
```
"""
HOSTILE = """## read a: <img src=x onerror=alert(1)>
<script>alert(1)</script> <img src=x onerror=alert(1)> ![p](https://x.example/a.png) <https://x.example>
[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](//x.example) [d](data:text/html,x)
[e](https://x.example/"onclick=1)
[f](/language) [g](http://x.example) [h](/\\x.example) [i](vbscript:x) <a href="javascript:1">x</a> &lt;b&gt;
| a | b |
|---|---|
| <i>c</i> | `<b>` |
"""


def mistakes(text: str) -> list[tuple[int, str]]:
    return [(m.line, m.text) for m in learn.read(text)[1]]


@pytest.mark.parametrize("language", learn.LANGUAGES)
def test_the_example_of_the_page_has_no_mistake(language):
    lesson, faults = learn.read(own.example(language))
    assert faults == [] and lesson.language == language and lesson.source == "own"
    assert learn.check(lesson.step("binds"), "memory").right


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("Text", 1, "no head"),
        ("---\ntitle: T\n", 1, "no end"),
        ("---\ntitle: T\nminutes: soon\n---\n## read a: A\nx", 3, "how long"),
        ("---\ntitel: T\n---\n", 2, "no line `titel: T`"),
        (HEAD + "Text", 5, "before the first step"),
        (HEAD + "## read a: A\n```work w\n", 6, "no end"),
        (HEAD + "## reed a: A\nx", 5, "kind of step 'reed'"),
        (HEAD + "## read: A\nx", 5, "begins no step"),
        (HEAD + "## read a: A\nx\n## read a: B\nx", 7, "Two steps"),
        (HEAD + "## read a: A\n{{1 / 0}}", 6, "divides by zero"),
        (HEAD + "## read a: A\nx\n{{nothing}}", 7, "no value 'nothing'"),
        (HEAD + "## read a: A\nx {{1 + 1} y", 6, "without their pair"),
        (HEAD + "## read a: A\nx {{1}} 1}} y", 6, "without their pair"),
        (HEAD + "## read a: A\nx {{max(1,\n2)}} y", 6, "without their pair"),
        (HEAD + WORK + "## read a: A\n```figure f waves\ntitle: {{1\n```\n", 11, "without their pair"),
        (HEAD + "## read a: A\n{{1e308 * 10}}", 6, "too large a number"),
        (HEAD + "## read a: A\n{{1 | furlong}}", 6, "no format 'furlong'"),
        (HEAD + "## read a: A\n{{gap(1, 0)}}", 6, "no finite number"),
        (HEAD + "## read a: A\n```values\na = b\nb = a\n```", 8, "computed from itself"),
        (HEAD + WORK + '## read a: A\n{{bytes(w, "fp16")}}', 10, "no class 'fp16'"),
        (HEAD + "## read a: A\nx\x1b[31my", 6, "cannot be seen, U+001B"),
        (HEAD.replace("T", "a\u202eb") + "## read a: A\nx", 2, "cannot be seen, U+202E"),
        (HEAD + "## read a: A\nx\n\n" + "[" * 5001, 8, "at most 5,000 characters"),
        (HEAD + ASK.format('"a"').replace("ask: A", "ask: A" + "[" * 5001), 7, "at most 5,000 characters"),
        (HEAD + "## predict a: A\nx", 5, "predicts nothing"),
        (HEAD + "## read a: A\n```work w\nx: f16[8] input\ny = lineer(x)\nreturn y\n```", 8, "no operation 'lineer'"),
        (HEAD + "## read a: A\n```work w\nx: f16[8, 8] input\ny = linear(x, z)\nreturn y\n```", 8, "no tensor 'z'"),
        (HEAD + "## read a: A\n```work w\nx: f17[8] input\nreturn x\n```", 7, "element type 'f17'"),
        (HEAD + "## read a: A\n```values\na = 1\na = 2\n```", 8, "used twice"),
        (HEAD + "## read a: A\n```values\na = open('x')\n```", 7, "no function 'open'"),
        (HEAD + "## read a: A\n```values\na = peak.__class__\n```", 7, "not allowed"),
        (HEAD + "## read a: A\n```program p\nprogram p(\n```", 7, "E0"),
        (HEAD + "## read a: A\n```figure f roofline\nclass: f16\n```", 6, "no point"),
        (HEAD + "## read a: A\n```figure f trials\nsession: nothing\n```", 7, "no recorded session"),
        (HEAD + "## read a: A\n```figure f bars\nmeasured A: 1\nbar B: 2\n```", 8, "no line `bar B`"),
        (HEAD + "## read a: A\n```yours b\n```", 5, "asks nothing"),
        (HEAD + ASK.format('"c"'), 10, "no option is"),
        (HEAD + ASK.format("nothing()"), 10, "no function"),
        (HEAD + ASK.format('"a"').replace("option b: B\n", ""), 9, "at least two options"),
        (HEAD + ASK.format('"a"') + "```question choice\nask: B?\n```", 12, "one question"),
        (HEAD + ASK.format('"a"').replace("right:", "rigth:"), 6, "no right answer"),
        (HEAD + ASK.format('"a"').replace("ask:", "wrong c: D\nask:"), 7, "No option is called 'c'"),
        (HEAD + ASK.format('"a"').replace("ask:", "wrong a: D\nask:"), 11, "explained as a wrong one"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_line(text, line, words):
    rows = mistakes(text)
    assert any(at == line and words in said_text for at, said_text in rows), rows


def test_a_text_cannot_keep_the_server_busy():
    many = HEAD + "## read a: A\n" + "{{max(1, 2)}}\n" * 3100
    assert any("too many numbers" in text for _, text in mistakes(many))
    slow = HEAD + PROGRAM + "## read a: A\n" + '{{error_code(p, "f16", "f17")}}\n\n' * 220
    assert any("too many numbers" in text for _, text in mistakes(slow))
    sizes = " ".join(str(8 * n) for n in range(1, 13))
    drawn = "".join(f"```figure f{i} roofline\nsweep rows: w 8 = {sizes}\nclass: f16, fp8\n```\n" for i in range(40))
    assert any("too many numbers" in text for _, text in mistakes(HEAD + WORK + "## read a: A\n" + drawn))
    works = "".join(f"```work w{i} hidden\nx: f16[8] input\nreturn x\n```\n" for i in range(70))
    assert [line for line, text in mistakes(HEAD + "## read a: A\n" + works) if "at most 60" in text] == [247]
    assert mistakes("x" * 60_001)[0][1].startswith("A lesson has at most 60,000")


LONG = "program p(x: f16[64, 64], w: f16[64, 64]) -> f16[64, 64] {\n" + "".join(
    f"y{i + 1} = gemm({f'y{i}' if i else 'x'}, w.T) {{ }}\n" for i in range(300)
)  # fmt: skip
STEP = HEAD + "## read a: A\n"


@pytest.mark.parametrize(
    "text",
    [
        STEP + "```figure f waves\nproduct: 8 8 8\ntiles: {}\nsplits: {}\n```\n".format("8x8x8," * 999, "1," * 999),
        STEP + "```figure f roofline\nwork: w\ngpus: {}\nclass: {}\n```\n".format("h200," * 5000, "f16," * 7000),
        STEP + WORK + "```figure f roofline\n" + f"sweep n: w 8 = {'9 ' * 24}\n" * 900 + "```\n",
        STEP + f"```program p\n{LONG}return y300\n}}\n```\n" + "{{predicted(p)}}\n\n" * 2500,
        STEP + WORK.replace("return x", "".join(f"y{i} = gelu(x)\n" for i in range(56)) + "return y55")
        + '{{lever(w, "f16")}}\n\n' * 2500,
    ],
    ids=["waves", "devices", "sweeps", "a long program", "levers"],
)  # fmt: skip
def test_work_is_counted_before_it_is_done(text):
    """Lists multiply, and a long program takes longer: 600 characters took a second, 20,000 took three minutes."""
    began = time.process_time()
    assert any("too many numbers" in words for _, words in mistakes(text))
    assert time.process_time() - began < 3


def test_many_mistakes_are_told_in_a_short_answer():
    """Each of 5,000 mistakes listed 3,000 names: 60 KB were answered by 130 MB."""
    names = "".join(f"a{i}=1\n" for i in range(3000))
    lesson, faults = learn.read(STEP + f"```values\n{names}```\n" + "{{z}}\n" * 5000)
    assert lesson is not None and len(faults) == 200 and len(json.dumps([m.text + m.fix for m in faults])) < 100_000
    options = "".join(f"option o{i}: b\n" for i in range(1500)) + "".join(f"wrong w{i}: c\n" for i in range(1500))
    lesson, faults = learn.read(HEAD + ASK.format('"a"').replace("option a: A\n", "option a: A\n" + options))
    assert len(faults) == 200 and len(json.dumps([m.text + m.fix for m in faults])) < 100_000


NUMBER = re.compile(r"\d+(?:\.\d+)?")
NUMBERS = ("0", "-1", "9" * 25, "9" * 390, "9" * 5000, "1e999", "1e-999", "0.5", "²", "٣", "[[1]]", "gap(1, 0)")


@pytest.mark.parametrize("folder", sorted(shelf.FOLDER.glob("*/")), ids=lambda f: f.name)
def test_no_number_breaks_the_reader(folder):
    """Every third number of a lesson is replaced by one that nobody meant: a lesson or mistakes, and valid JSON."""
    text = (folder / "lesson.md").read_text()
    for place, match in enumerate(list(NUMBER.finditer(text))[::3]):
        number = NUMBERS[place % len(NUMBERS)]
        lesson, faults = learn.read(text[: match.start()] + number + text[match.end() :])
        assert lesson is not None or faults
        if lesson is not None:
            json.dumps(learn.lesson_json(lesson), allow_nan=False)
            for step in lesson.steps:
                if step.question and faults:  # a teacher tries what stands already
                    learn.check(step, [o.code for o in step.question.options] or "1", show=True)


def test_two_mistakes_are_named_at_once():
    assert len(mistakes(HEAD + "## read a: A\n{{no}}\n## reed b: B\nx")) == 2


def test_nothing_in_a_text_becomes_markup():
    lesson, faults = learn.read(HEAD + HOSTILE)
    assert faults == []
    html = lesson.steps[0].body_html
    tags = {tag.lower() for tag in re.findall(r"<\s*/?\s*([a-zA-Z]+)", html)}
    assert tags <= {"p", "a", "table", "thead", "tbody", "tr", "th", "td", "code", "em", "strong"}
    assert not re.search(r"<[^>]*\son\w+\s*=", html)
    links = re.findall(r'href="([^"]*)"', html)
    assert links and all(re.match(r"/language$|/%5C|https://x", link) for link in links), links
    for tag in re.findall(r'<a [^>]*href="https:[^>]*>', html):
        assert 'rel="noopener noreferrer nofollow"' in tag


def test_a_computed_word_is_no_markup():
    shown = markdown.inline('{{"<b>[x](javascript:1)**y**"}}', Scope(facts.FUNCTIONS), lambda *_: None)
    assert "<b>" not in shown and "<a" not in shown and "<strong>" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "().__class__", "[x for x in [1]]", "lambda: 1", "f'{1}'", "peak['h200']", "(1).real", "__import__('os')",
        "9 ** 9 ** 9 ** 9", "'a' * 10 ** 9", "1 if", "x := 1", "[1] * 10", "max(*[1, 2])", "max(**{})", "limit('x')",
        "(" * 300, "-" * 400 + "1", "trial('../../etc/passwd', 1)", "tiles(1e30, 1, '1x1x1')", "ridge('cpu', 'f32')",
        "roi(1e308, 1e308)", "exponent(0)", "True + 1", "b'x'", "1j", "...", "None",
    ],
)  # fmt: skip
def test_an_expression_only_calculates(text):
    with pytest.raises(ExpressionError):
        expressions.read(text, Scope(facts.FUNCTIONS)).number()


@settings(max_examples=75, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_text_breaks_the_reader(data):
    """Random cuts and joins of real lessons and of pieces of the form: an answer or mistakes, never an exception."""
    lessons = [(shelf.FOLDER / name).read_text() for name in ("01-roofline/lesson.md", "09-when-to-stop/lesson.md")]
    pieces = [own.example(), HOSTILE, HEAD, WORK, ASK.format('"a"'), "```", "---", "{{", "}}", "## ", "\x00", "\n"]
    source = data.draw(st.sampled_from([*lessons, *pieces]))
    start, stop = sorted(data.draw(st.tuples(st.integers(0, len(source)), st.integers(0, len(source)))))
    middle = data.draw(st.sampled_from(pieces) | st.text(max_size=40))
    lesson, faults = learn.read(source[:start] + middle + source[stop:])
    assert lesson is not None or faults
    if lesson is not None:
        json.dumps(learn.lesson_json(lesson))
    assert all(m.line >= 1 and m.text for m in faults)


def test_a_folder_of_own_lessons_stands_beside_ours(tmp_path, monkeypatch):
    (tmp_path / "mine.md").write_text(own.example())
    (tmp_path / "broken.md").write_text("no head")
    (tmp_path / "roofline.md").write_text(own.example())  # a shipped lesson keeps its name
    monkeypatch.setenv("UCUTLASS_LESSONS", str(tmp_path))
    assert learn.library()[-1].slug == "mine" and learn.lesson("roofline").source == "shipped"
    (tmp_path / "mine.ko.md").write_text("---\ntitle: 나의 수업\n---\n## read start: 시작\n글\n")
    (tmp_path / "notes.txt").write_text("no lesson")
    for name in ("Lesson 1.md", "second.markdown", "third.MD"):
        (tmp_path / name).write_text(own.example())
    rows = {path.rpartition("/")[2]: faults[0].text for path, faults in shelf.mistakes().items()}
    assert set(rows) == {"broken.md", "roofline.md", "Lesson 1.md", "second.markdown", "third.MD"}
    assert "shipped lesson" in rows["roofline.md"] and all("its name" in rows[n] for n in rows if n[0] not in "br")
    (tmp_path / "mine.md").write_text(own.example().replace("My first lesson", "Changed"))
    import os

    os.utime(tmp_path / "mine.md", ns=(1, 1))
    assert learn.lesson("mine").title == "Changed"
    monkeypatch.setenv("UCUTLASS_LESSONS", str(tmp_path / "nothing"))
    assert [faults[0].text for faults in shelf.mistakes().values()] == [
        "UCUTLASS_LESSONS names this folder, which does not exist."
    ]


def test_the_start_of_the_app_names_the_mistakes_of_the_folder(tmp_path, monkeypatch):
    (tmp_path / "broken.md").write_text(HEAD + "## read a: A\n{{1 / 0}}")
    screen = io.StringIO()
    up.Command(stderr=screen)._name_mistakes()
    monkeypatch.setenv("UCUTLASS_LESSONS", str(tmp_path))
    assert screen.getvalue() == ""
    up.Command(stderr=screen)._name_mistakes()
    assert screen.getvalue() == f"{tmp_path}/broken.md:6: `1 / 0` divides by zero.\n"


@pytest.mark.django_db
def test_the_api_checks_a_text_and_an_answer(client):
    def post(path, **body):
        return client.post(path, body, content_type="application/json")

    reply = post("/api/own-lesson", text=own.example()).json()
    assert reply["mistakes"] == [] and reply["lesson"]["steps"][1]["question"]["kind"] == "choice"
    answer = {"text": own.example(), "step": "binds", "answer": "matrix"}
    outcome = post("/api/own-lesson/answers", **answer).json()
    assert not outcome["right"] and outcome["known"] and not outcome["answer"]
    assert post("/api/own-lesson/answers", **answer, show=True).json()["answer"] == "The memory"
    assert post("/api/own-lesson", text="x" * 70_000).status_code == 413
