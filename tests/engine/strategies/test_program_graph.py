"""A program as an op graph: PyTorch, running the graph op by op, gives what the program's exact meaning gives."""

import pytest

torch = pytest.importorskip("torch")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from dsl.check.program import check  # noqa: E402
from engine.evaluate.correctness import oracle  # noqa: E402
from engine.evaluate.correctness.inputs import torch_dtype  # noqa: E402
from engine.evaluate.reference import eager_graph  # noqa: E402
from engine.strategies.planner.lowering.program_graph import class_of, graph_of  # noqa: E402
from engine.suite.cases import cases  # noqa: E402
from sol.bounds import legal_classes  # noqa: E402
from sol.cost.ops import bytes_only  # noqa: E402
from sol.graph import OpGraph  # noqa: E402
from sol.hardware import load  # noqa: E402

PROGRAMS = {
    "lstm of two directions": """program p(x: f32[15, 32], wi: f32[32, 32], b: f32[32], vi: f32[32, 32], d: f32[32],
        w: f32[32, 8], c: f32[32], v: f32[32, 8], e: f32[32], h: f32[4, 3, 8], s: f32[4, 3, 8])
        -> (f32[5, 3, 16], f32[2, 3, 8]) {
      f = gemm(x, wi.T) { epilogue acc + b[n] }
      r = gemm(x, vi.T) { epilogue d[n] + acc }
      ft = transform(f) { view 5x3x32 }
      rt = transform(r) { view 5x3x32 }
      y = recurrent(ft, rt, w, v, c, e, h, s) { op lstm  layer 1  also cn = acc2 }
      return y, cn }""",
    "gru from zeros": """program p(x: f32[3, 5, 16], wi: f32[24, 16], w: f32[24, 8]) -> (f32[3, 5, 8], f32[1, 3, 8]) {
      g = gemm(x, wi.T)
      y = recurrent(g, w) { op gru  order bt  also hn = acc }
      return y, hn }""",
    "gated": """program p(a: f32[16, 32], u: f32[24, 32], v: f32[24, 32]) -> f32[16, 24] {
      w = transform(u, v) { interleave }
      y = gemm(a, w.T) { pairs  epilogue silu(acc) * acc2 }
      return y }""",
    "parts": """program p(a: f32[16, 32], w: f32[32, 24], b: f32[24], g: f32[16])
        -> (f32[16, 24], f32[16], f32[16, 24]) {
      y = gemm(a, w) { let t = acc + b[n]  also s = row_sum(t * t)  also d = t * 0.5  epilogue elu(t, 0.5) * g[m] }
      return y, s, d }""",
    "same part twice": """program p(a: f32[16, 32], w: f32[32, 24], b: f32[24]) -> (f32[16, 24], f32[16, 24]) {
      y = gemm(a, w) { let t = acc + b[n]  also d = t  epilogue t }
      return y, d }""",
    "reduced": """program p(a: f32[16, 32], w: f32[32, 24]) -> f32[16] {
      y = gemm(a, w) { epilogue row_logsumexp(clamp(acc, -1.0, 1.0)) }
      return y }""",
    "triangle": """program p(a: f32[32, 32], w: f32[32, 32]) -> f32[32, 32] {
      y = gemm(a, w) { epilogue tril(hardtanh(acc, -2.0, 2.0), -1) }
      return y }""",
    "conv": """program p(x: f32[2, 4, 9, 9], w: f32[8, 4, 3, 3], b: f32[8]) -> f32[2, 8, 4, 4] {
      xt = transform(x) { layout nhwc }
      wt = transform(w) { layout nhwc }
      h = conv2d(xt, wt) { padding 1x1  store f32 nchw  epilogue hardswish(acc + b[c]) }
      y = pool(h) { op max  window 2x2  epilogue mish(acc) }
      return y }""",
    "dilated pool": """program p(x: f32[2, 4, 9, 12]) -> f32[2, 4, 4, 8] {
      y = pool(x) { op max  window 3x3  stride 2x1  padding 1x0  dilation 2x2  epilogue relu(acc) }
      return y }""",
    "transposed": """program p(x: f32[2, 4, 5, 5], w: f32[4, 8, 3, 3]) -> f32[2, 8, 10, 10] {
      xt = transform(x) { layout nhwc }
      wt = transform(w) { layout nhwc }
      y = conv_transpose2d(xt, wt) { stride 2x2  padding 1x1  output_padding 1x1  store f32 nchw }
      return y }""",
    "transforms": """program p(x: f32[6, 20]) -> f32[24, 4] {
      v = transform(x) { view 4x30 }
      t = transform(v) { permute 1x0  pad 32x4 }
      y = transform(t) { crop 24x4 }
      return y }""",
    "map": """program p(x: f32[2, 3, 4, 8], s: f32[3], r: f32[2, 3, 4, 8]) -> f32[2, 3, 4, 8] {
      y = map(x) { epilogue softplus(acc * s[c]) + r[b, c, h, w] / 2.0 }
      return y }""",
    "reductions": """program p(x: f32[6, 8], v: f32[8], z: f32[2, 3, 4, 8]) -> (f32[6], f32[2, 1, 4, 8], f32[2, 3]) {
      a = reduce(x) { op sum  over n  of acc * v[n]  epilogue relu(acc) }
      b = reduce(z) { op logsumexp  over c  keepdim }
      c = reduce(z) { op mean  over h, w }
      return a, b, c }""",
    "norms": """program p(x: f32[6, 16], w: f32[16], b: f32[16], z: f32[2, 8, 4, 8], m: f32[8], v: f32[8])
        -> (f32[6, 16], f32[6, 16], f32[6, 16], f32[2, 8, 4, 8], f32[2, 8, 4, 8], f32[2, 8, 4, 8]) {
      a = normalize(x) { op softmax  over n }
      e = normalize(x, w, b) { op layernorm  over n  eps 1e-3 }
      f = normalize(x, w) { op rmsnorm  over n  epilogue acc * 2.0 }
      g = normalize(z) { op groupnorm  groups 4 }
      h = normalize(z) { op instancenorm  epilogue acc / 2.0 }
      i = normalize(z, m, v) { op batchnorm }
      return a, e, f, g, h, i }""",
    "bytes": """program p(m: i8[20, 64], x: f16[20, 64], v: i8[64], z: f32[20, 64])
        -> (f16[20, 64], f32[20], f32[64], f32[20, 64], f32[20, 64], f32[20, 64]) {
      a = map(m) { store f16  epilogue where(acc, x[m, n], 0.5) * v[n] * 0.5 }
      b = reduce(m) { op sum  over n  store f32 }
      c = reduce(z) { op max  over m  of acc * m[m, n] }
      d = normalize(z) { op softmax  over n  of where(m[m, n] > 0.0, -1000.0, acc) }
      e = scan(z) { op sum  over n  of acc * m[m, n] }
      f = map(m) { store f32 }
      return a, b, c, d, e, f }""",
    "running sums": """program p(x: f32[6, 16], z: f32[2, 3, 4, 8]) -> (f32[6, 16], f32[6, 16], f32[2, 3, 4, 8]) {
      a = scan(x) { op sum  over n  reverse  epilogue acc + acc2 }
      b = scan(x) { op prod  over m  of 1 + acc * 0.1 }
      c = scan(z) { op sum  over c  reverse }
      return a, b, c }""",
    "grouped": """program p(a: f16[16, 32], w: f16[2, 32, 24], sizes: i32[2], b: f32[24]) -> f16[16, 24] {
      y = grouped_gemm(a, w, sizes) { epilogue relu(acc + b[n]) }
      return y }""",
}


def parse(text):
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    return checked.program


def values(program):
    gen = torch.Generator().manual_seed(5)
    tensors = {}
    for p in program.params:
        x = (
            torch.rand(p.type.shape, generator=gen) + 0.25
            if p.name == "v"
            else torch.randn(p.type.shape, generator=gen)
        )
        tensors[p.name] = (
            torch.tensor([5, 11], dtype=torch.int32) if p.name == "sizes" else x.to(torch_dtype(p.type.dtype.value))
        )
    return tensors


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_graph_means_what_the_program_means(name):
    program = parse(PROGRAMS[name])
    graph = OpGraph.from_json(graph_of(program).to_json())
    inputs = values(program)
    wanted = oracle.run(program, list(inputs.values()), exact=True)
    results = eager_graph.run(graph, inputs)
    assert set(graph.outputs) == set(program.results) and len(results) == len(wanted)
    for out, want, t in zip(results, wanted, program.result_types, strict=True):
        assert tuple(out.shape) == t.shape
        loose = 2e-2 if t.dtype.value == "f16" else 1e-4
        assert torch.allclose(out.double(), want, rtol=loose, atol=loose)


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.name)
def test_every_program_of_the_suite_has_a_graph_that_is_priced(case):
    program = case.program()
    graph = graph_of(program)
    assert not bytes_only(graph.ops, graph.tensors)
    with FakeTensorMode():
        inputs = {p.name: torch.empty(p.type.shape, dtype=torch_dtype(p.type.dtype.value)) for p in program.params}
        results = eager_graph.run(graph, inputs)
    assert [tuple(x.shape) for x in results] == [t.shape for t in program.result_types]
    assert class_of(program) == ("f16" if case.name.endswith("_f16") else class_of(program))


def test_a_guarded_program_asks_for_products_of_f32_so_that_tf32_applies_to_it():
    text = """program p(x: f32[64, 128], w: f32[32, 128]) -> f32[64, 32] {
      guard f32
      xh = transform(x) { to f16 }
      wh = transform(w) { to f16 }
      y = gemm(xh, wh.T) { epilogue relu(acc)  store f32 }
      return y }"""
    guarded, plain = graph_of(parse(text)), graph_of(parse(text.replace("guard f32", "")))
    assert {t.dtype for t in guarded.tensors.values()} == {"f32"}
    assert "tf32" in legal_classes(guarded, load("h200")) and "tf32" not in legal_classes(plain, load("h200"))
    inputs = values(parse(text))
    assert torch.equal(eager_graph.run(guarded, inputs)[0], torch.relu(inputs["x"] @ inputs["w"].T))


def test_rows_by_their_largest_magnitude_are_a_quotient_and_the_magnitude():
    text = """program p(x: f32[8, 64]) -> (e4m3[8, 64], f32[8]) {
      q = normalize(x) { op absmax  over n  also s = row_max(acc2 / 448)  store e4m3  epilogue acc * 448 }
      return q, s
    }"""
    graph = graph_of(check(text).program)
    assert [op.op for op in graph.ops] == ["abs", "amax", "clamp", "div", "div", "amax", "mul", "to"]
    assert graph.tensors["s"].shape == (8,) and graph.tensors["q"].dtype == "e4m3"
