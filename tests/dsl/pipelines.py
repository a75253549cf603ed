"""Hypothesis strategies: random programs of every stage kind, their types reckoned here by PyTorch's formulas and not
by the checker's, so that a program that reads back equal also has the shapes that PyTorch would give."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from hypothesis import strategies as st

from dsl import ir
from dsl.axes import image_axes, matrix_axes

from .programs import expressions

FLOATS = (ir.DType.F32, ir.DType.F16, ir.DType.BF16)
small = st.integers(1, 9)


@dataclass
class Build:
    """A program in the making."""

    draw: object
    params: list = field(default_factory=list)
    stages: list = field(default_factory=list)
    results: list = field(default_factory=list)

    def param(self, name: str, dtype: ir.DType, shape: tuple[int, ...]) -> ir.Operand:
        self.params.append(ir.Param(name, ir.TensorType(dtype, shape)))
        return ir.Operand(name)

    def nhwc(self, name: str, dtype: ir.DType, shape: tuple[int, ...]) -> ir.Operand:
        """A parameter and its channels-last copy."""
        o = self.param(f"{name}0", dtype, shape)
        t = ir.TensorType(dtype, shape, ir.NHWC)
        pack = self.draw(st.booleans())
        self.stages.append(ir.Transform(name=name, x=o, prepack=pack, store_layout=ir.NHWC, type=t))
        return ir.Operand(name)

    def end(self, name: str, kind: type, natural: ir.TensorType, axes: dict, reductions: bool = False, **own) -> None:
        """Adds a stage with a random tail; its results are returned, row-major."""
        draw = self.draw
        leaves: list[ir.Expr] = [ir.Acc()]
        if own.get("pairs"):
            leaves.append(ir.Acc(True))
        for i in range(draw(st.integers(0, 2))):
            chosen = [a for a in axes if draw(st.booleans())]
            at = [p for a in chosen for p in axes[a]]
            if at != sorted(set(at)):
                continue
            self.param(f"{name}_{i}", draw(st.sampled_from(FLOATS)), tuple(natural.shape[p] for p in at))
            leaves.append(ir.Load(f"{name}_{i}", tuple(chosen)))
        every = leaves

        def reading(parts: list[ir.Expr]) -> ir.Expr:
            """An expression that reads all of `parts`, so that none is left over."""
            expr = draw(expressions(leaves, 2))
            for p in parts:
                expr = ir.Call("add", (expr, p))
            return expr

        lets = []
        for i in range(draw(st.integers(0, 2))):
            lets.append(ir.Let(f"t{i}", reading([ir.Acc()])))
            leaves = [*leaves, ir.Ref(f"t{i}")]
        layout = ir.NCHW if natural.layout != ir.NCHW else None
        if layout is None and draw(st.booleans()):
            layout = ir.NCHW
        store = draw(st.sampled_from([None, *FLOATS]))
        stored = ir.TensorType(store or natural.dtype, natural.shape)
        also = []
        for i in range(draw(st.integers(0, 1))):
            expr, t = reading([ir.Acc()]), stored
            if reductions and draw(st.booleans()):
                expr, t = self.reduced(expr, stored)
            also.append(ir.Also(f"{name}_also{i}", expr, t))
        epilogue = reading([*every, *(ir.Ref(x.name) for x in lets)])
        fields = {"lets": tuple(lets), "also": tuple(also), "epilogue": epilogue}
        fields |= {"store": store, "store_layout": layout}
        self.stages.append(kind(name=name, type=stored, **fields, **own))
        self.results += [name, *(a.name for a in also)]

    def reduced(self, expr: ir.Expr, t: ir.TensorType) -> tuple[ir.Expr, ir.TensorType]:
        fn = self.draw(st.sampled_from(["row_sum", "row_max", "row_logsumexp", "col_sum"]))
        shape = (*t.shape[:-2], t.shape[-1]) if fn == "col_sum" else t.shape[:-1]
        return ir.Call(fn, (expr,)), ir.TensorType(ir.DType.F32, shape)


def _gemm(b: Build) -> None:
    draw = b.draw
    m, k, n = (8 * draw(small) for _ in range(3))
    lead = draw(st.sampled_from([(), (2,), (2, 3)]))
    dtype = draw(st.sampled_from(FLOATS))
    pairs = draw(st.booleans())
    a = b.param("a", dtype, (*lead, m, k))
    w = b.param("w", dtype, (2 * n if pairs else n, k))
    t = ir.TensorType(dtype, (*lead, m, n))
    b.end("y", ir.Gemm, t, matrix_axes(len(t.shape)), True, a=a, b=ir.Operand(w.name, True), pairs=pairs)


def _bytes(b: Build) -> None:
    """Operands of 8 bits, whose results say their type."""
    draw = b.draw
    m, k, n = (16 * draw(small) for _ in range(3))
    dtype = draw(st.sampled_from([ir.DType.E4M3, ir.DType.E5M2, ir.DType.I8]))
    store = draw(st.sampled_from(FLOATS))
    a, w = b.param("a", dtype, (m, k)), b.param("w", dtype, (n, k))
    t = ir.TensorType(store, (m, n))
    b.stages.append(ir.Gemm(name="y", a=a, b=ir.Operand(w.name, True), store=store, type=t))
    b.results.append("y")


def _simt(b: Build) -> None:
    m, k, n = (b.draw(small) for _ in range(3))
    a, w = b.param("a", ir.DType.F32, (m, k)), b.param("w", ir.DType.F32, (k, n))
    fn = b.draw(st.sampled_from(["triu", "tril"]))
    epilogue = ir.Call(fn, (ir.Acc(), ir.Number(float(b.draw(st.integers(-3, 3))))))
    config = ir.Config(compute=ir.DType.F32)
    t = ir.TensorType(ir.DType.F32, (m, n))
    b.stages.append(ir.Gemm(name="y", a=a, b=w, config=config, epilogue=epilogue, type=t))
    b.results.append("y")


def _grouped(b: Build) -> None:
    draw = b.draw
    rows, k, n = (8 * draw(small) for _ in range(3))
    groups, dtype = draw(small), draw(st.sampled_from(FLOATS))
    a = b.param("a", dtype, (rows, k))
    w = b.param("w", dtype, (groups, n, k))
    sizes = b.param("sizes", ir.DType.I32, (groups,))
    t = ir.TensorType(dtype, (rows, n))
    b.end("y", ir.GroupedGemm, t, matrix_axes(2), a=a, b=ir.Operand(w.name, True), sizes=sizes)


def _conv(b: Build) -> None:
    draw = b.draw
    spatial, direct, transposed = draw(st.integers(1, 3)), draw(st.booleans()), draw(st.booleans())
    dtype = draw(st.sampled_from(FLOATS))
    groups = draw(st.integers(1, 3))
    step = 1 if direct else 128 // dtype.bits
    inner, outer = step * draw(st.integers(1, 4)), step * draw(st.integers(1, 4))
    window = tuple(draw(st.integers(1, 4)) for _ in range(spatial))
    stride, dilation, padding, size, more, out = [], [], [], [], [], []
    for w in window:
        s, d, p = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(0, 2))
        reach = d * (w - 1) + 1
        i = max(1, reach - 2 * p) + draw(st.integers(2 * p if transposed else 0, 9))
        o = draw(st.integers(0, max(s, d) - 1)) if transposed else 0
        if transposed:
            out.append((i - 1) * s - 2 * p + d * (w - 1) + o + 1)
        else:
            out.append((i + 2 * p - d * (w - 1) - 1) // s + 1)
        for values, value in ((stride, s), (dilation, d), (padding, p), (size, i), (more, o)):
            values.append(value)
    batch, channels, filters = draw(small), inner * groups, outer * groups
    shapes = (batch, channels, *size), ((channels, outer) if transposed else (filters, inner)) + window
    if direct:
        x, w = b.param("x", dtype, shapes[0]), b.param("w", dtype, shapes[1])
    else:
        x, w = b.nhwc("x", dtype, shapes[0]), b.nhwc("w", dtype, shapes[1])
    t = ir.TensorType(dtype, (batch, filters, *out), ir.NCHW if direct else ir.NHWC)
    config = ir.Config(compute=ir.DType.F32) if direct else ir.Config()
    b.end(
        "y", ir.Conv, t, image_axes(len(t.shape)), x=x, w=w, spatial=spatial, transposed=transposed, groups=groups,
        stride=tuple(stride), padding=tuple(padding), dilation=tuple(dilation), output_padding=tuple(more),
        config=config,
    )  # fmt: skip


def _rowmajor(b: Build) -> None:
    """A convolution on the tensor cores whose operands lie as PyTorch keeps them."""
    draw = b.draw
    spatial = draw(st.integers(1, 3))
    compute = draw(st.sampled_from([ir.DType.TF32, ir.DType.F16, ir.DType.BF16]))
    turned = draw(st.booleans())  # transposed, with stride 1
    axes = [
        [draw(st.integers(1, n)) for n in (4, 1 if turned else 3, 3)] + [draw(st.integers(0, 2))]
        for _ in range(spatial)
    ]
    window, stride, dilation, padding = (tuple(v) for v in zip(*axes, strict=True))
    reach = [d * (w - 1) + 1 for w, d in zip(window, dilation, strict=True)]
    size = tuple(max(1, r - 2 * p) + draw(st.integers(0, 9)) for r, p in zip(reach, padding, strict=True))
    out = [(n + 2 * p - r) // s + 1 for n, p, r, s in zip(size, padding, reach, stride, strict=True)]
    more = (0,) * spatial
    if turned:
        size = tuple(n + 2 * p for n, p in zip(size, padding, strict=True))
        more = tuple(draw(st.integers(0, d - 1)) for d in dilation)
        out = [n - 2 * p + r - 1 + o for n, p, r, o in zip(size, padding, reach, more, strict=True)]
    batch, channels, filters = draw(small), draw(small), draw(small)
    x = b.param("x", ir.DType.F32, (batch, channels, *size))
    w = b.param("w", ir.DType.F32, ((channels, filters) if turned else (filters, channels)) + window)
    t = ir.TensorType(ir.DType.F32, (batch, filters, *out))
    b.end(
        "y", ir.Conv, t, image_axes(len(t.shape)), x=x, w=w, spatial=spatial, transposed=turned, stride=stride,
        padding=padding, dilation=dilation, output_padding=more, config=ir.Config(compute=compute),
    )  # fmt: skip


def _reshaped(draw, shape: tuple[int, ...], fields: dict) -> tuple[int, ...]:
    if draw(st.booleans()):
        shape = draw(st.sampled_from([(prod(shape),), (1, prod(shape)), (prod(shape[:1]), prod(shape[1:]), 1)]))
        fields["view"] = shape
    if draw(st.booleans()):
        order = tuple(draw(st.permutations(range(len(shape)))))
        shape = tuple(shape[i] for i in order)
        fields["permute"] = order
    if draw(st.booleans()):
        shape = tuple(d + draw(st.integers(0, 3)) for d in shape)
        fields["pad"] = shape
    elif draw(st.booleans()):
        shape = tuple(draw(st.integers(1, d)) for d in shape)
        fields["crop"] = shape
    return shape


def _transform(b: Build) -> None:
    draw = b.draw
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    dtype, fields = draw(st.sampled_from(FLOATS)), {}
    x = b.param("x", dtype, shape)
    if draw(st.booleans()):
        fields["other"] = b.param("z", dtype, shape)
        row = max(0, len(shape) - 2)
        shape = tuple(2 * d if i == row else d for i, d in enumerate(shape))
    else:
        shape = _reshaped(draw, shape, fields)
    to = draw(st.sampled_from([None, *(d for d in (*FLOATS, ir.DType.E4M3) if d is not dtype)]))
    if to is None and not fields:
        to = next(d for d in FLOATS if d is not dtype)
    t = ir.TensorType(to or dtype, shape)
    b.stages.append(ir.Transform(name="y", x=x, to=to, type=t, **fields))
    b.results.append("y")


def _shape(draw, least: int = 1, most: int = 5) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(1, 6), min_size=least, max_size=most)))


def _both(rank: int) -> dict:
    return {**matrix_axes(rank), **image_axes(rank)}


def _map(b: Build) -> None:
    """A map of all of x, or of a part that begins anywhere."""
    t = ir.TensorType(b.draw(st.sampled_from(FLOATS)), _shape(b.draw))
    if not b.draw(st.booleans()):
        b.end("y", ir.Map, t, _both(len(t.shape)), x=b.param("x", t.dtype, t.shape))
        return
    start, after = (tuple(b.draw(st.integers(0, 3)) for _ in t.shape) for _ in range(2))
    whole = tuple(s + d + a for s, d, a in zip(start, t.shape, after, strict=True))
    part = {"crop": t.shape, "start": start if any(start) else None}
    b.end("y", ir.Map, t, _both(len(t.shape)), x=b.param("x", t.dtype, whole), **part)


def _reduce(b: Build) -> None:
    draw = b.draw
    dtype, shape = draw(st.sampled_from(FLOATS)), _shape(draw)
    x, axes = b.param("x", dtype, shape), _both(len(shape))
    over = draw(st.sampled_from(sorted(axes)))
    at, keep = axes[over], draw(st.booleans())
    if keep:
        left, names = tuple(1 if i in at else d for i, d in enumerate(shape)), axes
    else:
        rest = [i for i in range(len(shape)) if i not in at]
        left = tuple(shape[i] for i in rest)
        names = {a: tuple(rest.index(i) for i in p) for a, p in axes.items() if not set(p) & set(at)}
    v = b.param("v", ir.DType.F32, tuple(shape[i] for i in at))
    of = draw(st.sampled_from([ir.Acc(), ir.Call("abs", (ir.Acc(),))]))
    of = ir.Call("mul", (of, ir.Load(v.name, (over,))))
    op = draw(st.sampled_from(ir.REDUCTIONS if len(at) == 1 else ir.REDUCTIONS[:-1]))
    own = {"x": x, "op": op, "over": (over,), "of": of, "keepdim": keep}
    if op == "argmax":
        b.stages.append(ir.Reduce(name="y", type=ir.TensorType(ir.DType.I32, left), **own))
        b.results.append("y")
    else:
        b.end("y", ir.Reduce, ir.TensorType(dtype, left), names, **own)


def _normalize(b: Build) -> None:
    draw = b.draw
    op = draw(st.sampled_from(ir.NORMALIZATIONS))
    dtype = draw(st.sampled_from(FLOATS))
    shape = _shape(draw, 3 if op == "instancenorm" else 2)
    x, over, groups = b.param("x", dtype, shape), (), 1
    names = {"softmax": 0, "log_softmax": 0, "absmax": 0, "batchnorm": 4}.get(op, 2)
    count = draw(st.integers(2 if op == "batchnorm" else 0, names))
    if op in ("softmax", "log_softmax"):
        over = (draw(st.sampled_from(sorted(_both(len(shape))))),)
    elif op in ("layernorm", "rmsnorm"):
        over = draw(st.sampled_from([("n",), ("m", "n")]))
    each = shape[len(shape) - len(over) :] if over else (shape[1],)
    params = tuple(b.param(f"p{i}", draw(st.sampled_from([ir.DType.F32, dtype])), each) for i in range(count))
    if op == "groupnorm":
        groups = draw(st.sampled_from([g for g in range(1, 7) if shape[1] % g == 0]))
    elif op == "absmax":
        over = (list(matrix_axes(len(shape)))[-1],)
    plain = op in ("softmax", "log_softmax", "absmax")
    eps = 1e-5 if plain else draw(st.sampled_from([1e-5, 1e-3, 0.0, 1.25e-6]))
    t = ir.TensorType(dtype, shape)
    of = draw(st.sampled_from([ir.Acc(), ir.Call("silu", (ir.Acc(),))]))
    own = {"x": x, "op": op, "over": over, "params": params, "groups": groups, "eps": eps, "of": of}
    b.end("y", ir.Normalize, t, _both(len(shape)), **own)


def _pool(b: Build) -> None:
    draw = b.draw
    spatial, dtype = draw(st.integers(1, 3)), draw(st.sampled_from(FLOATS))
    window = stride = padding = dilation = ()
    op = draw(st.sampled_from(["max", "avg"]))
    size, out = [], []
    if draw(st.booleans()):
        size, out, window = [draw(small) for _ in range(spatial)], [1] * spatial, None
    else:
        window, stride = (tuple(draw(st.integers(1, 4)) for _ in range(spatial)) for _ in range(2))
        padding = tuple(draw(st.integers(0, w // 2)) for w in window)
        dilation = tuple(draw(st.integers(1, 3)) if op == "max" else 1 for _ in window)
        for w, s, p, d in zip(window, stride, padding, dilation, strict=True):
            reach = d * (w - 1) + 1
            size.append(reach + draw(small))
            out.append((size[-1] + 2 * p - reach) // s + 1)
    batch, channels = draw(small), draw(small)
    last = draw(st.booleans())
    make = b.nhwc if last else b.param
    x = make("x", dtype, (batch, channels, *size))
    t = ir.TensorType(dtype, (batch, channels, *out), ir.NHWC if last else ir.NCHW)
    own = {"x": x, "op": op, "window": window, "stride": stride, "padding": padding, "dilation": dilation}
    b.end("y", ir.Pool, t, image_axes(len(t.shape)), **own)


KINDS = (_gemm, _bytes, _simt, _grouped, _conv, _rowmajor, _transform, _map, _reduce, _normalize, _pool)


@st.composite
def pipelines(draw):
    """A program whose last stage is of any kind."""
    b = Build(draw)
    draw(st.sampled_from(KINDS))(b)
    types = {s.name: s.type for s in b.stages} | {a.name: a.type for s in b.stages for a in s.also}
    return ir.Program(
        "p", tuple(b.params), tuple(b.stages), tuple(b.results), tuple(types[r] for r in b.results),
        draw(st.sampled_from([None, "sm_90a"])), draw(st.booleans()),
    )  # fmt: skip
