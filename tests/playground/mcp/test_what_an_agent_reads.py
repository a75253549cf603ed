"""What the answers of the MCP tools say, without a server: the check of a program, a trial, a report."""

from dataclasses import asdict

import pytest

import dsl.check
from engine.session.fold import profile
from engine.session.fold.reduce import View, fold
from engine.session.kernel_text import EXAMPLES
from engine.strategies.planner.lowering import program_graph
from playground.access.answers import Refused
from playground.language import service
from playground.mcp import kernels, programs, reading, reported, server, stages, starting, trials
from playground.mcp.following import Following
from playground.models import Engine, Session
from sol import hardware
from sol.report import report
from tests.playground import script

PROGRAM = "program p(x: f16[64, 64], w: f16[64, 64]) -> f16[64, 64] { y = gemm(x, w.T) { } return y }"
GUARDED = """program p(x: f32[512, 512], w: f32[512, 512]) -> f32[512, 512] {
  guard f32
  xh = transform(x) { to f16 }
  wh = transform(w) { to f16 }
  y = gemm(xh, wh.T) { store f32 }
  return y
}"""
CLUSTERED = """program p(x: f16[32, 128, 56, 56], w: f16[128, 128, 3, 3]) -> f16[32, 128, 56, 56] {
  xl = transform(x) { layout nhwc }
  wl = transform(w) { layout nhwc  prepack }
  y = conv2d(xl, wl) { tile 256x64x64  cluster 2x1x1  padding 1x1  store f16 nchw }
  return y
}"""


def test_a_checked_program_names_its_back_end_and_its_class():
    plain, guarded, clustered = (programs.checked(text).data for text in (PROGRAM, GUARDED, CLUSTERED))
    assert (plain["backend"], plain["why_not_cute"], plain["precision_class"]) == ("cute", None, "f16")
    assert (guarded["precision_class"], guarded["limit_of_class"]) == ("tf32", "f16")
    assert clustered["backend"] == "cpp" and "cluster" in clustered["why_not_cute"], clustered


def test_a_program_that_no_back_end_writes_is_refused(monkeypatch):
    refused = {name: {"code": "x", "message": f"not in {name}", "help": "leave it out"} for name in ("cute", "cpp")}
    compiled = {"sources": {}, "refused": refused, "class": "f16", "limit_class": "f16"}
    monkeypatch.setattr(service, "compile_", lambda text: compiled)
    assert programs.checked(PROGRAM).data["backend"].startswith("none, so it cannot be built: cute: not in cute")
    with pytest.raises(Refused, match="No back end writes this program: not in cute") as refusal:
        programs.must_be_valid(PROGRAM)
    assert (refusal.value.status, refusal.value.body["fix"]) == (422, "leave it out.")


@pytest.mark.parametrize(("language", "name"), [("cuda", "CUDA C++"), ("python", "Python")])
def test_a_raw_kernel_is_not_checked_as_a_program(language, name):
    with pytest.raises(Refused) as refusal:
        programs.checked(EXAMPLES[language])
    assert f"reads as {name}" in refusal.value.body["error"] and "propose" in refusal.value.body["fix"]
    assert not programs.checked("gemm(x, w)").data["ok"], "a text that is nothing else is read as a program"


def test_a_mistake_names_the_obstacle_of_each_back_end():
    (mistake,) = programs.checked(CLUSTERED.replace("cluster 2x1x1", "cluster 2x1x1  schedule pingpong")).data[
        "diagnostics"
    ]
    assert "`cute` has cluster 1x1x1" in mistake["message"] and "pingpong" in mistake["notes"][0], mistake
    assert "schedule cooperative" in mistake["help"]


def test_a_checked_program_lists_the_stages_that_take_time():
    data = programs.checked(CLUSTERED).data
    assert [s["name"] for s in data["predicted_stages"]] == ["xl", "y"], "wl is prepacked, which takes no time"
    assert "stages_left_out" not in data


def test_of_many_stages_the_slowest_stay_and_the_others_are_counted():
    times = [{"name": f"free{i}", "ms": 0.0} for i in range(20)]
    times += [{"name": f"s{i}", "ms": 0.01 if i < 2 else 1.0 + i} for i in range(stages.LISTED + 2)]
    answer = stages.listed(times)
    assert [row["name"] for row in answer["predicted_stages"]] == [f"s{i}" for i in range(2, stages.LISTED + 2)]
    assert answer["stages_left_out"] == "2 of 14 stages, the fastest, with 0.02 ms in all"


def followed(*more, trials=3):
    """A session of the script, and events after its trials."""
    following = Following("a session", View())
    rows = list(script.session(trials=trials))[:-1] + [(event, {}) for event in more]
    for seq, (event, _) in enumerate(rows, 1):
        assert following.view.apply(seq, event.KIND, float(seq), asdict(event))
    return following


def test_a_trial_that_was_overtaken_keeps_two_moments_apart(monkeypatch):
    monkeypatch.setattr(Following, "blob", lambda self, name: "")
    monkeypatch.setattr(trials, "_levers", lambda *_: [])
    following = followed()
    first, last = (trials.described(following, following.view.trials[n], {}).data for n in (1, 3))
    assert first["when_judged"]["text"] == "better"
    assert first["now"] == {"best_of_its_class": False, "best_trial_of_its_class": 3}
    assert last["now"] == {"best_of_its_class": True, "best_trial_of_its_class": 3}
    assert not {"standing", "text", "best_of_its_class"} & set(first)


MODULE = """program p(x: f32[4096, 2048], w: f32[2048, 2048]) -> f32[4096, 2048] {
  y = gemm(x, w.T) { compute tf32  store f32  epilogue silu(acc) }
  return y
}"""


def a_report():
    program = dsl.check.check(MODULE).program
    return asdict(report(program_graph.graph_of(program), hardware.load("h200")))


def test_a_report_has_the_classes_of_its_session():
    whole = a_report()
    assert {"f32", "bf16"} <= set(whole["classes"]) and "Use the bf16 class" in str(whole["levers"])
    text = reported.text(whole, ["tf32", "f16"])
    assert "| tf32 |" in text and "| f16 |" in text and "Use the f16 class" in text
    assert "| f32 |" not in text and "| bf16 |" not in text and "Use the bf16 class" not in text
    assert "Use the f16 class" not in reported.text(whole, ["f32", "bf16"])


def test_a_report_explains_its_columns():
    text = reported.text(a_report(), ["tf32", "f16"])
    head = next(line for line in text.splitlines() if "limit (fused)" in line)
    for column in ("limit (fused)", "at measured rates", "unfused", "gap", "score"):
        assert (column in head and f"{column}:" in text) or f"{column} =" in text, column
    for word in ("eval()", "torch.autocast", "prepack", "guard f32"):
        assert word in text


def test_a_trial_leaves_out_zeros_and_repeats():
    kernel = {"registers": 168, "shared_bytes": 1024, "spill_bytes": 0}
    resources = [{"kernel": f"k{i}", "stage": f"h{i}", **kernel} for i in range(6)]
    built = trials._compiled(
        {"backend": "cute", "resources": [*resources, {"kernel": "k", **kernel, "spill_bytes": 8}]}
    )
    assert built["kernels"] == [
        {"kernels": "h0, h1, h2, h3, h4, h5", "registers": 168, "shared_bytes": 1024},
        {"kernels": "k", "registers": 168, "shared_bytes": 1024, "spill_bytes": 8},
    ]


@pytest.mark.parametrize("tool", starting.TOOLS, ids=lambda tool: tool.name)
def test_the_module_of_a_tool_may_lack_get_init_inputs(tool):
    about = tool.schema["properties"]["module"]["description"]
    assert "get_inputs() and, if Model takes arguments, get_init_inputs()" in about


def test_a_session_in_which_nothing_is_faster_than_pytorch_names_the_trial_that_came_closest():
    slower = {
        "verdict": "clean",
        "cls": "f16",
        "kind": "predicted",
        "ms": 1.25,
        "speedup": 0.8,
        "gap": 2.0,
        "best": True,
    }
    log = [
        ("session.started", {"classes": ["f16"], "budget": {"trials": 3}}),
        ("trial.proposed", {"trial": 1, "cls": "f16"}),
        ("trial.judged", {"trial": 1, **slower}),
    ]
    view = fold({"seq": i, "kind": k, "t": 0.0, "data": d} for i, (k, d) in enumerate(log, 1))
    assert trials.summary(view)["best"] == "none is faster than PyTorch; trial 1 came closest, at 0.8x"
    assert trials.summary(View())["best"] == "none yet: no trial has a time that counts"


def test_every_tool_says_that_a_session_may_be_its_link():
    fields = [t.schema["properties"]["session"] for t in server.TOOLS.values() if "session" in t.schema["properties"]]
    assert len(fields) >= 8 and all(f["description"].startswith("A session's id, or the link") for f in fields)


def test_a_time_too_short_to_matter_has_no_exponent():
    stage = {"name": "y", "ms": 0.003, "parts": {"main": 0.003, "epilogue": 2.126e-06}}
    assert profile.stage_in_words(stage) == "y: 0.003 ms; of it main 0.003 ms + epilogue under 0.0001 ms"


MODELLED, MEASURED = ({"kind": kind, "name": "H200"} for kind in ("predicted", "measured"))


@pytest.mark.parametrize(
    ("language", "words"), [("cuda", "is compiled and not run"), ("python", "verified on the CPU")]
)
def test_a_kernel_that_is_handed_in_without_a_gpu_gets_a_warning(language, words):
    modelled, measured = (View(device=device) for device in (MODELLED, MEASURED))
    warning = kernels.warning(Session(device="auto"), modelled, language)
    assert words in warning and "unverified" in warning and "Programs are verified" in warning
    assert kernels.warning(Session(device="auto"), measured, language) == ""
    assert kernels.warning(Session(device="modelled:h200"), View(), language) == warning, "before it began"


@pytest.mark.django_db
def test_before_a_session_begins_the_engines_say_what_becomes_of_a_kernel():
    assert kernels.warning(Session(device="auto"), View(), "cuda") == "", "no engine runs, so nothing is known"
    Engine.objects.create(id="modelled", serves="modelled:h200", device=MODELLED)
    assert kernels.warning(Session(device="auto"), View(), "cuda")
    assert kernels.warning(Session(device="cuda"), View(), "cuda") == ""
    Engine.objects.create(id="gpu", serves="cuda", device=MEASURED)
    assert kernels.warning(Session(device="auto"), View(), "cuda") == "", "either engine may take it"
    rows = {e["serves"]: e["raw_kernels"] for e in reading._devices_now().data["engines"]}
    assert rows["cuda"] == "verified and timed" and "`unverified`" in rows["modelled:h200"]


def test_the_reference_of_kernels_says_what_happens_without_a_gpu_and_which_class_is_the_default():
    text = " ".join(kernels.KERNELS.split())
    assert "those trials end as `unverified`" in text and "verified and gets no time" in text
    assert "Without `precision_class` its class is the first of the session's that has a limit" in text
