"""The rehearsal answers each form by rule, with the mistakes that it was told to make, over HTTP."""

import ast
import json
import threading
import urllib.error
import urllib.request

import pytest

from dsl.check import check
from engine.__main__ import main as command
from engine.evaluate.integrity.texts.reading import read
from engine.llm.prompts import render
from engine.llm.rehearse import MODEL, mistakes
from engine.llm.rehearse.player import Player
from engine.llm.rehearse.player import read as read_prompt
from engine.llm.rehearse.raw_kernels import mended, raw_kernel
from engine.llm.rehearse.server import Rehearsal
from engine.llm.replies import Ideas, Kernel, Program
from engine.strategies.state import Finished, State
from engine.strategies.writing import Writer
from engine.suite.cases import PROBLEMS
from tests.engine.session.scripted import problem

MODULE = """import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(64, 128)
    def forward(self, x):
        return torch.relu(self.l(x))
inputs = [torch.randn(256, 64)]
"""


def prompt(form=Program, role="implement", *trials, **more):
    writer = Writer(problem())
    writer.state = State(tuple(trials), baselines={"f16": 0.4})
    writer.changes = {t.number: "every choice left to the compiler" for t in trials}
    return render(role, form, **writer.facts(**{"turn": "Write.", **more}))


@pytest.fixture(scope="module")
def server():
    rehearsal = Rehearsal(("127.0.0.1", 0), Player())
    threading.Thread(target=rehearsal.serve_forever, daemon=True).start()
    yield rehearsal
    rehearsal.shutdown()
    rehearsal.server_close()


def post(server, body, path="/chat/completions"):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return reply.read().decode()


def test_it_reads_the_work_from_the_prompt_alone():
    work = read_prompt(prompt())
    assert (work.form, work.kind, work.classes) == ("Program", "program", ("f16",)) and work.source.startswith(
        "program"
    )
    assert work.gpu == "NVIDIA H200 SXM 141GB" and not work.idea and work.best_ms is None


def test_the_same_prompt_gets_the_same_reply_and_a_repetition_another_draw():
    assert Player(seed=1).reply(prompt()) == Player(seed=1).reply(prompt())
    player = Player(seed=1)
    assert len({player.reply(prompt()) for _ in range(12)}) > 1


def test_with_full_skill_every_program_passes_its_checks():
    player = Player()
    for _ in range(10):
        reply = Program.model_validate_json(player.reply(prompt()))
        assert check(reply.program).ok and reply.predicted_ms > 0


def test_what_the_prompt_says_was_tried_is_not_drawn_again():
    first = Player().reply(prompt())
    words = json.loads(first)["change"]
    tried = Finished(1, "program x() {}", "f16", "cute", ms=0.3, speedup=1.2, gap=2.0, kind="predicted")
    text = prompt(Program, "implement", tried).replace("every choice left to the compiler", words)
    assert all(json.loads(Player(seed=s).reply(text))["change"] != words for s in range(8))


@pytest.mark.parametrize("mistake", mistakes.OF_PROGRAMS)
def test_each_mistake_is_made(mistake, monkeypatch):
    monkeypatch.setattr(mistakes, "OF_PROGRAMS", (mistake,))
    text = Player(skill=0.0).reply(prompt())
    if mistake in ("refusal", "malformed"):
        with pytest.raises(ValueError):
            json.loads(text)
    elif mistake == "prose":
        assert text.startswith("Here is") and "```json" in text
    else:
        program = json.loads(text)["program"]
        assert check(program).ok is (mistake in ("slow", "result"))


def test_hypotheses_name_candidates_of_the_pool():
    text = prompt(Ideas, "nominate", analysis=None, gap=3.0, nominees=3, actions=("tile",))
    ideas = Ideas.model_validate_json(Player().reply(text)).hypotheses
    assert len(ideas) == 3 and len({i.title for i in ideas}) == 3
    idea = {"title": ideas[1].title, "speedup": 1.1, "why": ""}
    reply = json.loads(Player().reply(prompt(idea=idea, attempt=1, attempts=2)))
    assert ideas[1].title.startswith(reply["change"][:40])


def test_a_raw_kernel_is_the_module_s_class_over_generated_code():
    reply = Kernel.model_validate(raw_kernel(MODULE, "module", ("f16",), ""))
    names = {n.name for n in ast.parse(reply.source).body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    assert {"Model", "ModelNew", "load"} <= names, reply.source[:300]
    assert "READS = [('input', 0), ('state', 'l.weight')" in reply.source
    assert "1.05" in raw_kernel(MODULE, "module", ("f16",), "result")["source"]
    assert "There is no kernel to rehearse" in raw_kernel("x = 1", "module", ("f16",), "")["source"]


def test_a_module_whose_first_program_is_no_cute_code_gets_the_first_that_is():
    source = (PROBLEMS / "conv2d_relu_hardswish.py").read_text()
    reply = Kernel.model_validate(raw_kernel(source, "module", ("f16",), "", "NVIDIA H200 SXM 141GB"))
    assert "class ModelNew(Model)" in reply.source and "conv2d(" in reply.source


def test_a_module_that_is_not_lowered_whole_gets_a_row_kernel_in_cuda():
    halves = (PROBLEMS / "silu_and_mul.py").read_text()
    halves = halves.replace("F.silu(gate)", "(gate - gate.amax(-1, keepdim=True))")  # a reduction reads no slice
    reply = Kernel.model_validate(raw_kernel(halves, "module", ("f16",), ""))
    assert (reply.language, reply.cls) == ("cuda", "f16")
    assert 'extern "C" int run(' in reply.source and "{vector}" not in reply.source
    wrong = raw_kernel(halves, "module", ("f16",), "result")["source"]
    assert wrong.count("1.05f") >= 1 and mended(wrong) == reply.source


def test_no_kernel_of_the_rehearsal_is_accused_by_its_text():
    for source in (MODULE, *((PROBLEMS / f"{n}.py").read_text() for n in ("silu_and_mul", "conv2d_relu_hardswish"))):
        reply = raw_kernel(source, "module", ("f16",), "")
        assert [f for f in read(reply["source"], reply["language"], "f16").findings if f.severity == "gaming"] == []


def test_it_speaks_chat_completions(server):
    body = {"model": "any", "messages": [{"role": "user", "content": prompt()}]}
    whole = json.loads(post(server, body))
    assert whole["model"] == MODEL and whole["usage"]["total_tokens"] > 100
    assert json.loads(whole["choices"][0]["message"]["content"])["cls"] == "f16"
    lines = post(server, body | {"stream": True, "stream_options": {"include_usage": True}}).split("\n\n")
    assert lines[-2] == "data: [DONE]" and json.loads(lines[-3].removeprefix("data: "))["usage"]
    with urllib.request.urlopen(f"{server.url}/models", timeout=10) as reply:
        assert json.load(reply)["data"][0]["id"] == MODEL


@pytest.mark.parametrize(("body", "status"), [({}, 400), ({"messages": 3}, 400), ({"messages": [{}]}, 400)])
def test_a_bad_request_is_refused(server, body, status):
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(server, body)
    assert caught.value.code == status


@pytest.mark.parametrize("wrong", [["--port", "99999"], ["--port", "-1"], ["--skill", "2"], ["--pace", "-1"]])
def test_a_wrong_number_on_the_command_line_is_one_sentence(wrong, capsys):
    assert command(["rehearse", *wrong]) != 0
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and "write a number" in lines[0]
