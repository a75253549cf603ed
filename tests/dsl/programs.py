"""Hypothesis strategies: random programs that pass every check, whole or with any of their clauses left to auto."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from dsl import ir
from dsl.functions import BOUNDED, TABLE
from dsl.resolve import resolve

DTYPES = (ir.DType.F32, ir.DType.F16, ir.DType.BF16)
numbers = st.one_of(
    st.floats(-1e30, 1e30, allow_nan=False).map(lambda x: ir.Number(float(x))),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 1e-7]).map(ir.Number),
)


@st.composite
def expressions(draw, leaves, depth: int = 4):
    """An epilogue over the given leaves and numbers."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.one_of(st.sampled_from(leaves), numbers))
    fn = draw(st.sampled_from(sorted(TABLE)))
    args = [draw(numbers) if a.number else draw(expressions(leaves, depth - 1)) for a in TABLE[fn].args]
    if fn in BOUNDED:
        args[1:] = sorted(args[1:], key=lambda n: n.value)
    if fn == "neg" and isinstance(args[0], ir.Number):
        args[0] = ir.Acc()  # `-(1.0)` and `-1.0` are tested by name in test_round_trip
    return ir.Call(fn, tuple(args))


@st.composite
def programs(draw):
    """One or two gemm stages, perhaps a cast before them; 2-D or batched; any operand transposed."""
    sizes = st.integers(1, 40).map(lambda i: 8 * i)
    m, n, k = draw(sizes), draw(sizes), draw(sizes)
    batch = draw(st.sampled_from([(), (), (3,), (2, 5)]))
    dtype = draw(st.sampled_from(DTYPES))
    params, stages = [], []

    def param(name: str, t: ir.TensorType) -> str:
        params.append(ir.Param(name, t))
        return name

    def matrix(name: str, rows: int, cols: int, lead: tuple[int, ...]) -> ir.Operand:
        flip = draw(st.booleans())
        shape = (*lead, cols, rows) if flip else (*lead, rows, cols)
        if draw(st.integers(0, 3)) == 0:
            stored = draw(st.sampled_from([d for d in DTYPES if d is not dtype]))
            param(f"{name}0", ir.TensorType(stored, shape))
            prepack = draw(st.booleans())
            t = ir.TensorType(dtype, shape)
            stages.append(ir.Transform(name, ir.Operand(f"{name}0"), dtype, prepack, type=t))
        else:
            param(name, ir.TensorType(dtype, shape))
        return ir.Operand(name, flip)

    def gemm(name: str, a: ir.Operand, b: ir.Operand, out: tuple[int, ...]) -> None:
        axes = {"m": (m,), "n": (out[-1],), **({"l": batch} if batch else {})}
        leaves: list[ir.Expr] = [ir.Acc()]
        kinds = st.sampled_from([(), ("n",), ("m",), ("m", "n"), *([("l", "n"), ("l", "m", "n")] if batch else [])])
        for i, kind in enumerate(draw(st.lists(kinds, max_size=3))):
            operand = f"{name}_{i}"
            param(operand, ir.TensorType(draw(st.sampled_from(DTYPES)), sum((axes[x] for x in kind), ())))
            leaves.append(ir.Load(operand, kind))
        expr = draw(expressions(leaves))
        for leaf in leaves:  # every operand is read, or the program is rejected
            expr = ir.Call("add", (expr, leaf))
        store = draw(st.sampled_from([None, *DTYPES]))
        result = ir.TensorType(store or dtype, out)
        stages.append(ir.Gemm(name, a, b, ir.Config(), epilogue=expr, store=store, type=result))

    a = matrix("x", m, k, batch)
    b = matrix("w", k, n, draw(st.sampled_from([batch, ()])))
    gemm("y", a, b, (*batch, m, n))
    results = ["y"]
    if draw(st.booleans()):
        if stages[-1].type.dtype is not dtype:
            stages.append(ir.Transform("yc", ir.Operand("y"), dtype, False, type=ir.TensorType(dtype, (*batch, m, n))))
        n2 = draw(sizes)
        gemm("z", ir.Operand(stages[-1].name), matrix("v", n, n2, ()), (*batch, m, n2))
        results = ["z", "y"] if draw(st.booleans()) else ["z"]
    types = {s.name: s.type for s in stages}
    arch = draw(st.sampled_from([None, "sm_90a"]))
    # A second matrix may follow stages that read it later only: parameters come first anyway.
    program = ir.Program("p", tuple(params), tuple(stages), tuple(results), tuple(types[r] for r in results), arch)
    return _forget(draw, program)


def _forget(draw, program: ir.Program) -> ir.Program:
    """Fill every clause in, then leave a random part of them to auto again."""
    full = resolve(program)
    keep = {
        f: draw(st.booleans()) for f in ("compute", "tile", "cluster", "schedule", "scheduler", "stages", "swizzle")
    }
    stages = tuple(
        replace(s, config=replace(f.config, **{k: None for k, stays in keep.items() if not stays}))
        if isinstance(s, ir.Gemm)
        else s
        for s, f in zip(program.stages, full.stages, strict=True)
    )
    return replace(program, stages=stages)
