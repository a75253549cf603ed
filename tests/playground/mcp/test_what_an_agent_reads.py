"""What the answers of the MCP tools say, without a server: the check of a program, a trial, a report."""

from dataclasses import asdict

import pytest

import dsl.check
from engine.session.fold.reduce import View
from engine.strategies.planner.lowering import program_graph
from playground.access.answers import Refused
from playground.language import service
from playground.mcp import programs, reported, stages, starting, trials
from playground.mcp.following import Following
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
