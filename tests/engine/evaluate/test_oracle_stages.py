"""Every stage kind of the oracle against the PyTorch function whose meaning it has. The programs are built as IR."""

import pytest

torch = pytest.importorskip("torch")

from dsl.ir import (  # noqa: E402
    Acc,
    Also,
    Call,
    Config,
    Conv,
    DType,
    Gemm,
    GroupedGemm,
    Let,
    Load,
    Map,
    Normalize,
    Number,
    Operand,
    Param,
    Pool,
    Program,
    Reduce,
    Ref,
    TensorType,
    Transform,
)
from engine.evaluate.correctness import expressions, oracle, rounding  # noqa: E402

F = torch.nn.functional
NAMES = {v: k for k, v in rounding.TORCH.items()}


def randn(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def o(name, transposed=False):
    return Operand(name, transposed)


def run(stages, *, exact=False, results=None, **tensors):
    """Run stages over tensors given by name; the last stage's result, or those named."""
    params = tuple(Param(n, TensorType(NAMES[t.dtype], tuple(t.shape))) for n, t in tensors.items())
    stages = tuple(stages) if isinstance(stages, (list, tuple)) else (stages,)
    names = tuple(results or [stages[-1].name])
    outputs = oracle.run(Program("p", params, stages, names, ()), list(tensors.values()), exact=exact)
    return outputs if results else outputs[0]


def same(out, want, tolerance=1e-5):
    assert out.shape == want.shape and out.dtype == want.dtype
    assert torch.allclose(out.double(), want.double(), rtol=tolerance, atol=tolerance)


# ---- products


def test_gated_pairs_are_the_even_and_the_odd_columns():
    x, u, v = randn(16, 32), randn(24, 32, seed=1), randn(24, 32, seed=2)
    w = Transform(name="w", x=o("u"), other=o("v"))
    swiglu = Call("mul", (Call("silu", (Acc(),)), Acc(second=True)))
    y = Gemm(name="y", a=o("x"), b=o("w", True), config=Config(compute=DType.F32), pairs=True, epilogue=swiglu)
    same(run([w, y], x=x, u=u, v=v), F.silu(x @ u.T) * (x @ v.T))


def test_f32_is_not_truncated_and_int8_sums_are_exact():
    x, w = randn(8, 64), randn(64, 8)
    assert torch.equal(run(Gemm(name="y", a=o("x"), b=o("w"), config=Config(compute=DType.F32)), x=x, w=w), x @ w)
    gen = torch.Generator().manual_seed(1)
    a = torch.randint(-128, 128, (4, 70000), dtype=torch.int8, generator=gen)
    stage = Gemm(name="y", a=o("a"), b=o("b", True), store=DType.F32)
    assert torch.equal(run(stage, a=a, b=a), (a.double() @ a.double().T).float())


def test_fp8_operands_are_exact_and_a_cast_to_fp8_saturates():
    x = torch.tensor([[1e6, -1e6, 0.3, float("nan")]])
    y = run(Transform(name="y", x=o("x"), to=DType.E4M3), x=x)
    assert y.float()[0, :2].tolist() == [448.0, -448.0] and y[0, 3].isnan() and abs(float(y[0, 2]) - 0.3) < 0.02
    a, b = randn(16, 32).to(torch.float8_e4m3fn), randn(8, 32).to(torch.float8_e5m2)
    stage = Gemm(name="y", a=o("a"), b=o("b", True), store=DType.F32)
    assert torch.equal(run(stage, a=a, b=b), a.float() @ b.float().T)


def test_a_cast_to_int8_goes_to_the_nearest_even_and_saturates():
    x = torch.tensor([0.5, 1.5, -2.5, 300.0, -300.0])
    assert run(Transform(name="y", x=o("x"), to=DType.I8), x=x).tolist() == [0, 2, -2, 127, -128]


def test_grouped_rows_meet_their_own_matrix():
    a, b, sizes = randn(12, 16), randn(3, 16, 8), torch.tensor([5, 0, 7], dtype=torch.int32)
    bias = Call("add", (Acc(), Load("c", ("n",))))
    stage = GroupedGemm(name="y", a=o("a"), b=o("b"), sizes=o("sizes"), config=Config(compute=DType.F32), epilogue=bias)
    want = torch.cat([a[:5] @ b[0], a[5:] @ b[2]])
    same(run(stage, a=a, b=b, sizes=sizes, c=randn(8)), want + randn(8))
    with pytest.raises(ValueError, match="do not divide 12 rows"):
        run(stage, a=a, b=b, sizes=torch.tensor([5, 0, 6], dtype=torch.int32), c=randn(8))


@pytest.mark.parametrize("spatial", (1, 2, 3))
@pytest.mark.parametrize("groups", (1, 4))
def test_convolution(spatial, groups):
    x, w = randn(2, 8, *[9, 10, 11][:spatial]), randn(12, 8 // groups, *[3, 2, 3][:spatial])
    extra = {
        "stride": (2, 1, 2)[:spatial],
        "padding": (1, 0, 2)[:spatial],
        "dilation": (1, 2, 1)[:spatial],
        "groups": groups,
    }
    bias = Call("add", (Acc(), Load("c", ("c",))))
    c = randn(12)
    config = Config(compute=DType.F32)
    stage = Conv(name="y", x=o("x"), w=o("w"), spatial=spatial, config=config, epilogue=bias, **extra)
    conv = (F.conv1d, F.conv2d, F.conv3d)[spatial - 1]
    same(run(stage, x=x, w=w, c=c), conv(x, w, c, **extra))


@pytest.mark.parametrize("spatial", (1, 2, 3))
@pytest.mark.parametrize("groups", (1, 4))
def test_transposed_convolution(spatial, groups):
    x, w = randn(2, 8, *[5, 6, 4][:spatial]), randn(8, 12 // groups, *[3, 3, 3][:spatial])
    extra = {"stride": (2,) * spatial, "padding": (1,) * spatial, "output_padding": (1,) * spatial, "groups": groups}
    stage = Conv(
        name="y", x=o("x"), w=o("w"), spatial=spatial, transposed=True, config=Config(compute=DType.F32), **extra
    )
    conv = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[spatial - 1]
    same(run(stage, x=x, w=w), conv(x, w, **extra))


# ---- transforms


def test_a_transform_views_permutes_pads_crops_and_casts():
    x = randn(6, 20)
    same(run(Transform(name="y", x=o("x"), view=(2, 3, 20)), x=x), x.view(2, 3, 20))
    z = x.view(2, 3, 20)
    same(run(Transform(name="y", x=o("x"), permute=(2, 0, 1)), x=z), z.permute(2, 0, 1))
    same(run(Transform(name="y", x=o("x"), pad=(8, 24)), x=x), F.pad(x, (0, 4, 0, 2)))
    same(run(Transform(name="y", x=o("x"), crop=(5, 16)), x=x), x[:5, :16])
    same(run(Transform(name="y", x=o("x"), to=DType.BF16, store_layout="nchw"), x=x), x.bfloat16())
    both = run(Transform(name="y", x=o("x"), other=o("z")), x=x, z=-x)
    same(both[0::2], x)
    same(both[1::2], -x)


def test_a_layout_keeps_the_shape():
    x = randn(2, 3, 4, 5)
    same(run(Transform(name="y", x=o("x"), store_layout="nhwc"), x=x), x)


# ---- element-wise, reductions, norms, pools


def test_map_reads_other_tensors_at_its_axes():
    x, s, r = randn(2, 3, 4, 5), randn(3), randn(2, 3, 4, 5, seed=3)
    e = Call("add", (Call("mul", (Acc(), Load("s", ("c",)))), Load("r", ("b", "c", "h", "w"))))
    same(run(Map(name="y", x=o("x"), epilogue=e), x=x, s=s, r=r), x * s[:, None, None] + r)


@pytest.mark.parametrize("op", ("sum", "mean", "max", "min", "logsumexp"))
def test_reductions(op):
    x = randn(3, 4, 5, 6)
    torch_op = {"max": torch.amax, "min": torch.amin}.get(op) or getattr(torch, op)
    for keep in (False, True):
        for over, dims in ((("n",), [3]), (("h", "w"), [2, 3]), (("c",), [1])):
            stage = Reduce(name="y", x=o("x"), op=op, over=over, keepdim=keep)
            same(run(stage, x=x), torch_op(x, dims, keepdim=keep))


def test_a_reductions_epilogue_names_the_axes_that_are_left():
    x, v, g = randn(6, 8), randn(8), randn(6)
    product = Call("mul", (Acc(), Load("v", ("n",))))
    e = Call("mul", (Acc(), Load("g", ("m",))))
    stage = Reduce(name="y", x=o("x"), op="sum", over=("n",), of=product, epilogue=e)
    same(run(stage, x=x, v=v, g=g), (x @ v) * g)
    reduction = Reduce(name="y", x=o("x"), op="sum", over=("n",), of=product, epilogue=e, keepdim=True)
    same(run(reduction, x=x, v=v, g=g), ((x @ v) * g)[:, None])


def test_argmax_is_an_integer():
    x = randn(3, 4, 5, 6)
    out = run(Reduce(name="y", x=o("x"), op="argmax", over=("c",)), x=x)
    assert out.dtype is torch.int32 and torch.equal(out.long(), x.argmax(1))
    both = run(Reduce(name="y", x=o("x"), op="argmax", over=("h", "w"), keepdim=True), x=x)
    assert both.shape == (3, 4, 1, 1) and torch.equal(both.flatten(2).squeeze(-1).long(), x.flatten(2).argmax(-1))


def test_norms_are_pytorchs():
    x, w, b = randn(4, 16), randn(16), randn(16, seed=1)
    image, cw, cb = randn(2, 8, 5, 6), randn(8), randn(8, seed=1)
    mean, var = randn(8, seed=2), randn(8, seed=3).abs() + 0.5

    def norm(op, params=(), tensors=None, **kwargs):
        values = tensors or {"x": x, "w": w, "b": b}
        values = {k: v for k, v in values.items() if k == "x" or k in params}
        return run(Normalize(name="y", x=o("x"), op=op, params=tuple(map(o, params)), **kwargs), **values)

    same(norm("softmax", over=("n",)), F.softmax(x, -1))
    same(norm("log_softmax", over=("m",)), F.log_softmax(x, 0))
    same(norm("layernorm", ("w", "b"), over=("n",), eps=1e-3), F.layer_norm(x, [16], w, b, 1e-3))
    same(norm("layernorm", over=("n",)), F.layer_norm(x, [16]))
    same(norm("rmsnorm", ("w",), over=("n",), eps=1e-6), F.rms_norm(x, [16], w, 1e-6))
    images = {"x": image, "w": cw, "b": cb, "mean": mean, "var": var}
    last = (5, 6)
    wide = {"x": image, "w": randn(*last), "b": randn(*last, seed=4)}
    same(norm("layernorm", ("w", "b"), wide, over=("h", "w")), F.layer_norm(image, last, wide["w"], wide["b"]))
    same(norm("groupnorm", ("w", "b"), images, groups=4), F.group_norm(image, 4, cw, cb))
    same(norm("groupnorm", groups=4), F.group_norm(x, 4))
    same(norm("instancenorm", ("w", "b"), images), F.instance_norm(image, weight=cw, bias=cb))
    same(norm("instancenorm", (), images), F.instance_norm(image))
    same(norm("batchnorm", ("mean", "var", "w", "b"), images), F.batch_norm(image, mean, var, cw, cb))


def test_a_softmax_of_large_terms_is_as_exact_as_pytorchs():
    x = (128 * randn(64, 2048)).half()
    right = torch.softmax(x.double(), -1)
    out = run(Normalize(name="y", x=o("x"), op="softmax", over=("n",), store=DType.F16), x=x)
    error, theirs = (out.double() - right).abs().max(), (torch.softmax(x, -1).double() - right).abs().max()
    assert out.dtype is torch.float16 and error <= 1.001 * theirs
    log = run(Normalize(name="y", x=o("x"), op="log_softmax", over=("n",)), x=x.float())
    same(log, torch.log_softmax(x.double(), -1).float(), 1e-6)


def test_absmax_keeps_a_row_in_range_and_its_scale_gives_it_back():
    x = randn(4, 32) * torch.tensor([[1e-30], [1.0], [1e20], [0.0]])
    scaled = Call("mul", (Acc(), Number(448.0)))
    also = (Also("s", Call("row_max", (Call("div", (Acc(second=True), Number(448.0))),))),)
    stage = Normalize(name="y", x=o("x"), op="absmax", over=("n",), also=also, epilogue=scaled, store=DType.E4M3)
    program = Program("p", (Param("x", TensorType(DType.F32, (4, 32))),), (stage,), ("y", "s"), ())
    y, s = oracle.run(program, [x])
    assert y.dtype is torch.float8_e4m3fn and s.shape == (4,)
    assert torch.equal(y.float().abs().amax(1), torch.tensor([448.0, 448.0, 448.0, 0.0]))
    back = y.float() * s[:, None]
    assert (back - x).norm() < 0.04 * x.norm() and ((back - x).abs() <= x.abs() / 16 + s[:, None] / 1024).all()


def test_a_norm_of_an_expression_with_an_epilogue():
    x, v = randn(4, 16), randn(16)
    of = Call("add", (Acc(), Load("v", ("n",))))
    stage = Normalize(name="y", x=o("x"), op="softmax", over=("n",), of=of, epilogue=Call("log", (Acc(),)))
    same(run(stage, x=x, v=v), F.log_softmax(x + v, -1))


@pytest.mark.parametrize("rank", (1, 2, 3))
def test_pools(rank):
    x = randn(2, 3, *[8, 9, 10][:rank])
    window, stride, padding = (3,) * rank, (2,) * rank, (1,) * rank
    for op in ("max", "avg"):
        fn = getattr(F, f"{op}_pool{rank}d")
        stage = Pool(name="y", x=o("x"), op=op, window=window, stride=stride, padding=padding)
        same(run(stage, x=x), fn(x, window, stride, padding))
        same(run(Pool(name="y", x=o("x"), op=op, window=window), x=x), fn(x, window))
        whole = getattr(F, f"adaptive_{op}_pool{rank}d")(x, 1)
        same(run(Pool(name="y", x=o("x"), op=op), x=x), whole)


@pytest.mark.parametrize("rank", (1, 2, 3))
def test_dilated_max_pools(rank):
    x, fn = randn(2, 3, *[11, 13, 12][:rank]), getattr(F, f"max_pool{rank}d")
    for window, stride, padding, dilation in ((3, 1, 1, 2), (2, 3, 0, 4), (4, 2, 2, 3), (1, 2, 0, 5)):
        w, s, p, d = ((n,) * rank for n in (window, stride, padding, dilation))
        stage = Pool(name="y", x=o("x"), op="max", window=w, stride=s, padding=p, dilation=d)
        same(run(stage, x=x), fn(x, w, s, p, d))


# ---- expressions


def test_let_also_and_reductions_in_the_epilogue():
    x, w, b = randn(8, 16, dtype=torch.float16), randn(16, 24, dtype=torch.float16), randn(24)
    t = Call("add", (Acc(), Load("b", ("n",))))
    stage = Gemm(
        name="y",
        a=o("x"),
        b=o("w"),
        lets=(Let("t", t), Let("u", Call("mul", (Ref("t"), Number(2.0))))),
        also=(Also("pre", Ref("t")), Also("s", Call("row_sum", (Call("mul", (Ref("t"), Ref("t"))),)))),
        epilogue=Call("relu", (Ref("u"),)),
    )
    y, pre, s = run(stage, results=["y", "pre", "s"], x=x, w=w, b=b)
    plain = x.float() @ w.float() + b
    same(pre, plain.half())
    same(y, torch.relu(plain * 2).half())
    same(s, plain.square().sum(-1))


def test_reductions_of_the_epilogue_and_triangles():
    x, w = randn(2, 8, 16, dtype=torch.float16), randn(2, 16, 24, dtype=torch.float16)
    acc = x.float() @ w.float()
    wanted = {
        "row_sum": acc.sum(-1), "row_max": acc.amax(-1), "col_sum": acc.sum(-2), "row_logsumexp": acc.logsumexp(-1),
    }  # fmt: skip
    assert set(wanted) == expressions.REDUCTIONS
    for fn, want in wanted.items():
        same(run(Gemm(name="y", a=o("x"), b=o("w"), epilogue=Call(fn, (Acc(),))), x=x, w=w), want)
    upper = Gemm(name="y", a=o("x"), b=o("w"), store=DType.F32, epilogue=Call("triu", (Acc(), Number(2.0))))
    same(run(upper, x=x, w=w), torch.triu(acc, 2))


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("elu", (0.5,)), ("selu", ()), ("mish", ()), ("softplus", ()), ("softsign", ()), ("hardswish", ()),
        ("hardsigmoid", ()), ("hardtanh", (-2.0, 2.0)), ("silu", ()), ("gelu", ()), ("leaky_relu", (0.1,)),
        ("sigmoid", ()), ("tanh", ()), ("relu", ()),
    ],
)  # fmt: skip
def test_activations_are_pytorchs(name, arguments):
    x = randn(64) * 4
    e = Call(name, (Acc(), *map(Number, arguments)))
    same(run(Map(name="y", x=o("x"), epilogue=e), x=x), getattr(F, name, getattr(torch, name, None))(x, *arguments))


# ---- exact, and other sizes


def test_exact_rounds_nothing_through_a_pipeline():
    x, w = randn(2, 4, 9, 9), randn(6, 4, 3, 3)
    half = [Transform(name=n + "h", x=o(n), to=DType.F16, store_layout="nhwc") for n in ("x", "w")]
    y = Conv(name="y", x=o("xh"), w=o("wh"), spatial=2, store=DType.F32, store_layout="nchw")
    z = Pool(name="z", x=o("y"), op="max", window=(2, 2))
    out = run([*half, y, z], exact=True, x=x, w=w)
    assert out.dtype is torch.float64
    same(out, F.max_pool2d(F.conv2d(x.double(), w.double()), 2), 1e-12)


def test_a_pipeline_grows_and_shrinks_with_its_tensors():
    x, w = randn(3, 3, 9, 9), randn(6, 3, 3, 3)
    written = (Param("x", TensorType(DType.F32, (16, 3, 64, 64))), Param("w", TensorType(DType.F32, (6, 3, 3, 3))))
    stages = (
        Transform(name="xp", x=o("x"), pad=(16, 4, 64, 64), store_layout="nhwc", type=None),
        Transform(name="wp", x=o("w"), pad=(6, 4, 3, 3), store_layout="nhwc"),
        Conv(name="y", x=o("xp"), w=o("wp"), spatial=2, config=Config(compute=DType.F32)),
        Reduce(name="s", x=o("y"), op="mean", over=("h", "w")),
    )
    (out,) = oracle.run(Program("p", written, stages, ("s",), ()), [x, w])
    same(out, F.conv2d(x, w).mean((2, 3)))
