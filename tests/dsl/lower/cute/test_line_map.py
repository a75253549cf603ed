"""A line of the program leads to the generated lines that it decides."""

import pytest

from dsl.lower.cute import lower
from dsl.printer import to_text

from . import programs


def generated(program) -> dict[str, list[str]]:
    source = lower(program)
    printed, text = to_text(program).split("\n"), source.text.split("\n")
    texts: dict[str, list[str]] = {}
    for line, first, last in source.line_map:
        assert 1 <= first <= last <= len(text)
        texts.setdefault(printed[line - 1].strip(), []).append("\n".join(text[first - 1 : last]))
    return texts


def test_clauses_lead_to_their_own_text():
    at = generated(programs.example("linear_f32_on_f16"))
    assert at["tile 128x256x64"] == ["    tile_M=128, tile_N=256, tile_K=64,"]
    assert at["cluster 2x1x1"] == ["    cluster_M=2, cluster_N=1,"]
    assert at["schedule cooperative"][0].startswith("    pingpong=False,")
    assert at["swizzle 8"][0].startswith("    max_swizzle_size=8,")
    (epilogue,) = at["epilogue relu(acc + b[n])"]
    assert epilogue.startswith('@gemm_epilogue(ops={"b": RowVecLoad("b")})')
    assert epilogue.endswith('return {"D": fmax(acc + b, 0.0, nan=True)}')


def test_a_stage_leads_to_its_definition_and_its_launch():
    at = generated(programs.example("linear_f32_on_f16"))
    definition, launch = at["y = gemm(xh, wh.T) {"]
    assert "GemmStage(" in definition and "XH =" not in definition
    assert launch == '        Y(xh, wh, y, {"b": b})'
    assert any("wh_packed.stale(w)" in part for part in at["prepack"])


@pytest.mark.parametrize("name", ["linear_f32_on_f16", "mlp", "split_k", "batched", "shared_weight", "row_scale"])
def test_every_line_but_brackets_leads_somewhere(name):
    program = programs.example(name)
    mapped = {line for line, _, _ in lower(program).line_map}
    lines = to_text(program).rstrip("\n").split("\n")
    assert mapped == {i for i, line in enumerate(lines, 1) if line.strip() not in ("}", "")}


def test_both_stages_of_one_kernel_lead_to_it():
    at = generated(
        programs.program(
            "program p(x: f16[2, 64, 10, 10], w: f16[32, 64, 3, 3]) -> f32[2, 8, 8] {\n"
            "  xt = transform(x) { layout nhwc }\n  wt = transform(w) { layout nhwc }\n"
            "  h = conv2d(xt, wt) { tile 128x32x64 store f32 epilogue acc * 2.0 }\n"
            "  y = reduce(h) { op max over c store f32 epilogue relu(acc) }\n  return y\n}"
        )
    )
    of_conv, of_reader = at["h = conv2d(xt, wt) {"], at["y = reduce(h) {"]
    assert "Y_0 = FoldKernel(" in of_conv[0] and of_conv[0] == of_reader[0]
    assert at["epilogue acc * 2.0"] == at["epilogue relu(acc)"] and "def y_epilogue(" in at["epilogue relu(acc)"][0]
