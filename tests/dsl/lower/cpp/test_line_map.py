"""A line of the program leads to the generated lines that it decides."""

from dsl.lower.cpp import lower
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


def test_clauses_lead_to_their_types_and_the_stage_to_its_namespace():
    at = generated(programs.program(programs.LINEAR_LEAKY))
    assert "cute::Int<256>" in at["tile 128x256x32"][0] and "\n" not in at["tile 128x256x32"][0]
    assert at["cluster 2x1x1"][0].startswith("using ClusterShape")
    assert "Cooperative" in at["schedule cooperative"][0]
    assert "StageCount<4>" in at["stages 4"][0]
    assert "max_swizzle_size" in at["swizzle 1"][0]
    assert (
        "return fn_leaky_relu((acc + in_b_row) * 2.0f, 0.1f);" in at["epilogue leaky_relu((acc + b[n]) * 2.0, 0.1)"][0]
    )
    stage = at["y = gemm(x, w.T) {"][0]
    assert stage.startswith("namespace stage_y {") and stage.endswith("}  // namespace stage_y")


def test_a_clause_decided_in_two_places_leads_to_both():
    at = generated(programs.program(programs.SPLIT_K))
    assert len(at["scheduler split_k(4)"]) == 2
    assert "Splits<" in at["scheduler split_k(4)"][0]
    assert "SplitParams" in at["scheduler split_k(4)"][1]


def test_each_stage_has_its_own_lines():
    at = generated(programs.program(programs.CAST_ATTENTION))
    assert "namespace stage_qh" in at["qh = transform(q) {"][0]
    assert "if (!launch[0])" in at["prepack"][0]
