"""Bytes are whole numbers on the GPU, by both back ends, in every stage that reads them."""

import pytest

pytest.importorskip("torch")

import torch

from dsl.check.program import check
from dsl.compile import compile as generate
from engine.build import pool
from engine.build.cache import Cache
from engine.evaluate.correctness import oracle

pytestmark = pytest.mark.gpu

PROGRAM = """program p(m: i8[2048, 64], x: f16[2048, 64], v: i8[64], odd: f32[77, 1301], o: i8[77, 1301],
          t: i8[4000, 60], w: f32[60, 4000]) ->
    (f16[2048, 64], f32[77, 1301], f32[60, 4000], f32[2048], f32[1301], f32[77, 1301], f32[2048, 64]) {
  a = map(m) { store f16  epilogue where(acc, x[m, n], 0.5) * v[n] * 0.01 }
  b = map(odd) { epilogue acc * o[m, n] }
  moved = transform(t) { permute 1x0 }
  c = map(w) { epilogue acc * moved[m, n] }
  d = reduce(m) { op sum  over n  store f32 }
  e = reduce(odd) { op max  over m  of acc * o[m, n] }
  f = normalize(odd) { op softmax  over n  of where(o[m, n] > 0.0, -10000.0, acc) }
  h = map(m) { store f32 }
  return a, b, c, d, e, f, h
}"""


def inputs_of(program) -> list:
    g = torch.Generator().manual_seed(4)
    kinds = [(p.type, oracle.TORCH[p.type.dtype]) for p in program.params]
    return [
        torch.randint(-3, 4, t.shape, generator=g).to(dtype)
        if dtype is torch.int8
        else torch.randn(t.shape, generator=g).to(dtype)
        for t, dtype in kinds
    ]


@pytest.mark.parametrize("backend", ["cute", "cpp"])
def test_bytes_are_whole_numbers(cuda, backend, tmp_path):
    compiled = generate(check(PROGRAM).program, 132)
    program, source = compiled.resolved, compiled.sources[backend]
    if backend == "cpp":
        space: dict = {}
        exec(source.binding, space)
        run = space["load"](str(pool.build_cpp(source, Cache(tmp_path), seconds=300).path))
    else:
        from engine.build.cute_worker import import_generated

        (tmp_path / "generated.py").write_text(source.text)
        run = import_generated(tmp_path / "generated.py").load()
    inputs = inputs_of(program)
    outputs = [torch.full(t.shape, 77, dtype=oracle.TORCH[t.dtype], device="cuda") for t in program.result_types]
    run([x.cuda() for x in inputs], outputs)
    torch.cuda.synchronize()
    for got, want in zip(outputs, oracle.run(program, inputs, exact=True), strict=True):
        loose = 2e-3 if got.dtype is torch.float16 else 2e-5
        torch.testing.assert_close(got.double().cpu(), want.double(), rtol=loose, atol=loose)
