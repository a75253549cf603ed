"""recurrent: its forms, what the checker says of a wrong one, and the one back end that writes it."""

import pytest

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.printer import to_text
from dsl.resolve import resolve
from engine.classes import class_of
from tests.dsl.recurrent_programs import text

FORMS = {
    "lstm": {},
    "gru with states, batch first": {"op": "gru", "states": True, "order": "bt"},
    "two directions": {"op": "rnn_relu", "directions": 2, "states": True},
    "the third of three layers": {"states": True, "layers": 3, "clauses": "layer 2"},
    "without biases, last states": {"op": "rnn_tanh", "bias": False, "also": False},
    "f16 and bf16": {"element": "bf16", "weight": "f16"},
}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_printed_as_it_is_read_and_is_one_kernel(name):
    program = check(text(**FORMS[name])).program
    assert check(to_text(program)).program == program
    compiled = generate(program)
    assert list(compiled.sources) == ["cpp"]
    assert compiled.sources["cpp"].text.count('extern "C" __global__') == 1


def test_both_directions_are_clusters_of_one_launch():
    one, two = (generate(check(text(hidden=256, directions=d)).program).sources["cpp"].text for d in (1, 2))
    assert "start(kernel, dim3(16)" in one and "start(kernel, dim3(32)" in two


WRONG = {
    "E120 recurrent needs its op": ("{ op lstm  order tb", "{ order tb"),
    "E120 `lst` is not a value of op": ("op lstm", "op lst"),
    "E120 `btg` is not a value of order": ("order tb", "order btg"),
    "E103 w0 is [80, 24]; gates of 80 columns need [80, 20]": ("w0: f32[80, 20]", "w0: f32[80, 24]"),
    "E103 b0 is [60]; gates of 80 columns need [80]": ("b0: f32[80]", "b0: f32[60]"),
    "E105 lstm has 4 gates a unit; g0 has 82 columns": ("g0: f32[5, 3, 80]", "g0: f32[5, 3, 82]"),
    "E105 h0 is [1, 4, 20]; layer 0 needs [1 or more, 3, 20]": ("h0: f32[1, 3, 20]", "h0: f32[1, 4, 20]"),
    "E105 h0 is [1, 3, 20]; layer 1 needs [2 or more, 3, 20]": ("op lstm", "layer 1  op lstm"),
    "E104 lstm begins with h_0 and c_0, or with zeros; here are 1 states": (", c0: f32[1, 3, 20]", ""),
    "E104 w0 is f32[80, 20], out of the order": ("(g0, w0, b0, h0, c0)", "(g0, b0, w0, h0, c0)"),
    "E104 recurrent reads w0 as it is, without .T": ("(g0, w0", "(g0, w0.T"),
    "E123 recurrent reads f32, f16 and bf16; w0 is e4m3[80, 20]": ("w0: f32", "w0: e4m3"),
    "E202 `e4m3` is not a value of compute": ("op lstm", "compute e4m3  op lstm"),
    "E202 weights of f16 are multiplied in f16, not tf32": ("w0: f32", "w0: f16"),
    "E206 cluster 3x1x1; a recurrent stage has 1, 2, 4, 8 and 16 blocks": ("op lstm", "cluster 3x1x1  op lstm"),
    "E204 16 blocks do not hold weight_hh of 20 units": ("op lstm", "cluster 16x1x1  op lstm"),
    "E120 also of lstm stores acc, the last hidden state": ("also hn = acc", "also hn = acc * 2.0"),
    "E102 each last state is stored once": ("also cn = acc2", "also cn = acc"),
    "E006 epilogue is not a clause of recurrent": ("op lstm", "op lstm  epilogue relu(acc)"),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_each_mistake_is_one_message(message):
    old, new = WRONG[message]
    right = text(states=True)
    wrong = right.replace(old, new)
    if "c0" not in wrong.split("->")[0]:
        wrong = wrong.replace(", c0)", ")")
    if "multiplied in f16" in message:
        wrong = wrong.replace("op lstm", "compute tf32  op lstm")
    assert wrong != right
    first = check(wrong).diagnostics[0]
    assert f"{first.code} {first.message}".startswith(message)


def test_weights_that_no_cluster_holds_name_the_class_that_does():
    (diagnostic,) = check(text(hidden=640)).diagnostics
    assert (diagnostic.code, diagnostic.help) == ("E204", "compute f16, or compute bf16")
    (diagnostic,) = check(text(hidden=4096)).diagnostics
    assert diagnostic.code == "E204" and diagnostic.help.startswith("at most ")


def test_a_direction_without_its_weights_is_named():
    both = text(directions=2).replace("w0, w1, b0, b1", "w0, b0, b1").replace("w1: f32[80, 20], ", "")
    (diagnostic,) = check(both).diagnostics
    assert "here are 2, 1 and 2" in diagnostic.message


def test_it_is_for_hopper_and_for_cpp_alone():
    old = text().replace("{\n", "{\n  arch sm_80\n", 1)
    assert [d.code for d in check(old).diagnostics] == ["E201"]
    head = "program p(g0: f32[5, 3, 80], w0: f32[80, 20], q: f16[2, 24, 64, 64]) -> (f32[5, 3, 20], f16[2, 8, 64, 64])"
    body = "y = recurrent(g0, w0) { op lstm }\n  z = attention(q) { heads 8x8 }\n  return y, z"
    (both,) = check(f"{head} {{\n  {body}\n}}").diagnostics
    assert both.code == "E212"


def test_a_guard_does_not_cover_it():
    guarded = text().replace("{\n", "{\n  guard f32\n", 1)
    assert any("no f32 kernel for y, recurrent" in d.message for d in check(guarded).diagnostics)


def test_only_the_last_states_may_matter():
    only = text().replace("-> (f32[5, 3, 20], ", "-> (").replace("return y, hn, cn", "return hn, cn")
    assert check(only).ok


def test_the_cluster_may_be_chosen():
    for cluster in (1, 2, 4, 8, 16):
        program = resolve(check(text(hidden=128, clauses=f"cluster {cluster}x1x1")).program)
        assert program.stages[0].cluster == cluster
        code = generate(program).sources["cpp"].text
        assert f"kCluster = {cluster};" in code and ("cluster_wait();" in code.split("the steps")[1]) is (cluster > 1)
    assert resolve(check(text(hidden=256, batch=10)).program).stages[0].cluster == 16


def test_auto_and_the_class_are_those_of_the_weights():
    for weight, compute, cls in (("f32", "", "tf32"), ("bf16", "", "bf16"), ("f32", "compute f16", "f16")):
        program = resolve(check(text(weight=weight, clauses=compute)).program)
        assert class_of(program) == program.stages[0].compute.value == cls
    assert class_of(check(text(clauses="compute f32")).program) == "f32"
