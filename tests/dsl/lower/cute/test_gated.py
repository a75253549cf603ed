"""The gates of a guarded program's products: the text, and the order in which the program is launched."""

import re

import pytest
import torch

from dsl.check.program import check
from dsl.lower.cute import lower, parts
from dsl.lower.plan import rescue
from dsl.resolve import resolve

from . import gated, test_guarded

TEXTS = gated.texts()
UP = r"(epilogue_behind_gate\(TensorFloatEpilogue, |behind_gate\(ConvKernel, )up=True"
DOWN = r"(epilogue_behind_gate\(EpiMod, |behind_gate\((ConvKernel|PoolKernel), )up=False"


def written(text: str) -> str:
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    return lower(resolve(checked.program)).text


@pytest.mark.parametrize("name", TEXTS)
def test_a_product_runs_before_the_flag_is_set_or_after(name):
    text = written(TEXTS[name])
    on_cuda_cores = name == "conv transposed"
    assert len(re.findall(UP, text)) == (0 if on_cuda_cores else 2 if name == "chain" else 1)
    assert len(re.findall(DOWN, text)) == (2 if on_cuda_cores else 1)  # a phase of the rows is a launch


def test_transforms_of_a_rescue_take_turns():
    text = written(TEXTS["padded"])
    grids = dict(re.findall(r"    (\w+)_kernel\(.*\)\.launch\(grid=\((\d+), 1, 1\)", text))
    rescue = ("ap_f32", "bp_f32", "bp_along_k_f32", "y_f32")
    assert {n for n in grids if n.endswith("_f32")} == set(rescue) and {grids[n] for n in rescue} == {"1056"}


def test_every_gate_is_given_the_flag():
    for text in map(written, TEXTS.values()):
        launched = [line for line in text.split("\n") if re.fullmatch(r"        [A-Z]\w*\(.*\)", line)]
        idle = [line for line in launched if "_F32(" in line]
        assert idle and all("guard_flag" in line for line in idle)
    assert '"gate": guard_flag}' in written(TEXTS["across k"])


def test_without_a_guard_there_is_no_gate():
    text = written(TEXTS["chain"].replace("  guard f32\n", ""))
    assert "gate" not in text and "guard_flag" not in text


def test_the_gate_waits_for_the_grids_before_it_reads_the_flag_and_reads_it_before_all_else():
    body = parts.GATE
    asm = body[body.index('"{ .reg') : body.index('"l,~{memory}"')]
    order = [asm.index(word) for word in ("griddepcontrol.wait", "ld.relaxed.gpu.global", "setp.", "@leaves exit")]
    assert order == sorted(order)
    assert body.index("llvm.inline_asm(") < body.index("return body(")


def test_small_programs_have_no_gates_and_compute_again_in_f32():
    text = written(TEXTS["across k"].replace("4096", "128").replace("1024", "64"))
    assert "gate" not in text.replace("where the guard", "") and "Y_F32 = OwnStage(" in text


def test_the_blocks_of_a_large_cast_agree_to_leave_where_the_flag_is_set_already(monkeypatch):
    large = written(TEXTS["batches"])
    for cast in ("xh", "wh"):
        kernel = large[large.index(f"def {cast}_kernel(") :]
        assert kernel.split("\n")[2] == "    leave_where_set(guard_flag)"
    assert "barrier.cta.red.or.pred leaves, 0, leaves; @leaves exit;" in parts.LEAVE
    assert "leave_where_set" not in written(TEXTS["ragged"])  # casts of half as many elements
    monkeypatch.setattr(rescue, "LOOKING_ELEMENTS", 0)
    for name in ("along_k", "conv", "then_a_norm"):  # each cast begins before the flag is set
        have, want = test_guarded.run(test_guarded.CASES[name], lambda tensors: tensors[0].mul_(1e6))
        torch.testing.assert_close(have, want, rtol=1e-5, atol=1e-6 * float(want.abs().max()))


def test_a_norm_behind_the_product_is_left_out_with_it(monkeypatch):
    def norm() -> str:
        text = written(test_guarded.NORM)
        return text[text.index("def z_kernel(") : text.index("@cute.jit\ndef z_launch(")]

    plain = norm()
    monkeypatch.setattr(rescue, "LOOKING_ELEMENTS", 0)
    gated = norm()
    assert "guard_flag" not in plain
    assert "    if read(guard_flag, 0, 1)[0] == 0:\n        z_body(" in gated.replace("z_kernel_body", "z_body")
    assert plain.split("\n", 1)[1] in gated  # the kernel is the body
    idle = test_guarded.run(test_guarded.NORM)[0]
    monkeypatch.undo()
    torch.testing.assert_close(idle, test_guarded.run(test_guarded.NORM)[0], rtol=0, atol=0, equal_nan=True)


CROP = """program p(a: f32[70, 45], b: f32[45, 37]) -> f32[70, 37] {
  guard f32
  ap = transform(a) { pad 70x48  to f16 }
  bp = transform(b) { pad 48x40  to f16 }
  d = gemm(ap, bp) { store f32 }
  y = transform(d) { crop 70x37 }
  return y
}"""


def test_a_rescue_kernel_has_a_barrier_between_turns_only_where_threads_share_memory():
    text = written(test_guarded.CASES["across_k"])
    gemm = text[text.index("def y_f32_kernel(") : text.index("def y_f32_kernel_body(")]
    assert "cute.arch.barrier()" in gemm
    crop = written(CROP)
    crop = crop[crop.index("def y_f32_kernel(") : crop.index("def y_f32_kernel_body(")]
    assert "y_f32_kernel_body(d_f32, y_f32, Uint32(turn))" in crop and "barrier" not in crop


def test_a_stage_that_is_left_out_keeps_the_lines_of_its_clauses(monkeypatch):
    text = test_guarded.NORM.replace("groups 4", "groups 4  epilogue relu(acc) * 2.0")

    def clauses() -> dict[int, list[list[str]]]:
        source = lower(resolve(check(text).program))
        lines, out = source.text.split("\n"), {}
        for number, first, last in source.line_map:
            out.setdefault(number, []).append(lines[first - 1 : last])
        return out

    plain = clauses()
    monkeypatch.setattr(rescue, "LOOKING_ELEMENTS", 0)
    gated = clauses()
    (number,) = [n for n, ranges in plain.items() if any("def z_element(acc):" in r[0] for r in ranges)]
    assert gated[number] == plain[number] and plain.keys() == gated.keys()


def test_an_epilogue_may_read_a_tensor_called_gate():
    text = written(TEXTS["clusters of two rows"].replace("b: f32", "gate: f32").replace("b[n]", "gate[n]"))
    assert re.search(r'RowVecLoad\("gate_"\)', text) and '"gate_": gate' in text
