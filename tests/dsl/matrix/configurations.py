"""Configurations by family, the same ones on every machine: drawn from products of clauses by a fixed seed, and kept
where `check` takes them. What `check` rejects is counted, not built: the matrix tests that no clean program fails.

`§` in a text stands for the configuration's number, so that several become one program with several stages.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from dsl.check.program import check

SEED = 59
DRAWS = 12  # drawn for each one wanted, before a family is given up
M, N, K, L = 1024, 2048, 1024, 4


@dataclass(frozen=True)
class Configuration:
    """One stage (with the transforms it needs). `result`: its name and the program's result type."""

    name: str
    family: str
    params: tuple[str, ...]
    body: str
    result: tuple[str, str]
    arch: str = "sm_90a"


def program(configurations: list[Configuration], name: str = "matrix") -> str:
    """One program of them all, side by side; they are of one architecture."""
    params, bodies, names, types = [], [], [], []
    for i, c in enumerate(configurations):
        params += [p.replace("§", str(i)) for p in c.params]
        bodies.append(c.body.replace("§", str(i)))
        names.append(c.result[0].replace("§", str(i)))
        types.append(c.result[1])
    result = types[0] if len(names) == 1 and "," not in names[0] else f"({', '.join(types)})"
    body = "\n".join(bodies)
    arch = configurations[0].arch
    return (
        f"program {name}({', '.join(params)}) -> {result} {{\n  arch {arch}\n{body}\n  return {', '.join(names)}\n}}\n"
    )


# ---- epilogues -------------------------------------------------------------------------------------------------

PLAIN = (
    "acc", "relu(acc + b§[n])", "gelu(acc * 2.0 + b§[n])", "silu(acc) * g§[m]", "leaky_relu(acc + r§[m, n], 0.1)",
    "clamp(acc + b§[n] * g§[m], -1.0, 1.0)", "mish(acc / s§)", "elu(acc, 0.5) + tanh(acc)",
    "hardswish(acc) * sigmoid(b§[n])", "softplus(acc) - softsign(acc)", "selu(max(acc, r§[m, n]))",
    "hardtanh(acc, -2.0, 2.0) + hardsigmoid(acc)", "gelu_tanh(sqrt(abs(acc)) + log(exp(acc)))", "-min(acc, b§[n])",
    "where(acc > b§[n], erf(acc), sin(acc) * cos(acc))", "(acc >= -1.0) * floor(acc) + (acc != 0.0) * round(acc / s§)",
)  # fmt: skip
TRIANGLES = ("triu(acc)", "tril(acc + b§[n])", "triu(relu(acc), 3)")
REDUCED = (
    "row_sum(acc * acc)", "row_max(acc + b§[n])", "col_sum(relu(acc))", "row_logsumexp(acc)",
    "row_logsumexp(clamp(acc * 2.0 + b§[n], -9.0, 9.0))", "row_sum(sigmoid(acc + b§[n]))",
)  # fmt: skip
PARTS = (
    "let t = acc + b§[n]  epilogue t * sigmoid(t)",
    "let t = acc + b§[n]  let u = t * t  epilogue gelu(u) - t",
)
OLDER = (*PLAIN[:12], "also d§ = acc * 0.5  epilogue gelu(acc)", "triu(acc)", "let t = acc + b§[n]  epilogue t * t")
ALSO = ("also d§ = row_sum(acc * acc)  epilogue relu(acc)", "also d§ = acc * 0.5  epilogue gelu(acc)")
IMAGE = (
    "acc", "relu(acc + b§[c])", "mish(acc) * b§[c]", "clamp(acc * 2.0 + b§[c], 0.0, 1.0) / 2.0",
    "hardswish(acc - 0.5)", "sigmoid(gelu(acc)) + b§[c]", "min(acc, 0.5)",
    "where(acc <= 0.0, -inf, acc)",
)  # fmt: skip


def extra(text: str, m: int, n: int, lead: tuple[int, ...] = ()) -> tuple[str, ...]:
    """The parameters that an epilogue of a gemm reads."""
    batch = "".join(f"{d}, " for d in lead)
    known = {"b§[n]": f"b§: f32[{n}]", "g§[m]": f"g§: f32[{m}]", "r§[m, n]": f"r§: f32[{m}, {n}]"}
    known |= {"r§[l, m, n]": f"r§: f32[{batch}{m}, {n}]", "b§[l, n]": f"b§: f32[{batch}{n}]", "s§": "s§: f32[]"}
    return tuple(t for load, t in known.items() if re.search(re.escape(load) + r"(?!\w)", text))


def clause(e: str) -> str:
    return e if e.startswith(("let", "also")) else f"epilogue {e}"


# ---- products --------------------------------------------------------------------------------------------------

TILES = {
    "tf32": ("64x64x32", "64x128x32", "128x64x32", "128x128x32", "128x192x32", "128x256x32", "256x128x32",
             "128x128x16"),
    "f32": ("auto", "64x64x8", "128x64x8", "128x128x8", "64x128x16", "128x128x16"),
    "f16": ("64x64x64", "64x128x64", "128x64x64", "128x128x64", "128x160x64", "128x192x64", "128x256x64", "192x128x64",
            "256x128x64", "256x192x64", "128x128x128", "64x256x32"),
    "e4m3": ("64x128x64", "128x128x64", "128x128x128", "128x256x128", "256x128x128", "64x64x128"),
}  # fmt: skip
TILES |= {"bf16": TILES["f16"], "e5m2": TILES["e4m3"], "i8": TILES["e4m3"]}
CLUSTERS = ("1x1x1", "2x1x1", "1x2x1", "2x2x1", "4x1x1")
SCHEDULES = ("cooperative", "pingpong")
SCHEDULERS = ("persistent", "persistent", "auto", "split_k(4)", "stream_k")


def gemm(
    rng: random.Random, dtype: str, family: str, epilogues: tuple[str, ...], arch: str = "sm_90a"
) -> Configuration:
    memory = {"tf32": "f32"}.get(dtype, dtype)
    a_turned, b_turned = rng.random() < 0.3, rng.random() < 0.6
    if dtype in ("e4m3", "e5m2", "i8"):
        a_turned, b_turned = False, True
    batch = rng.random() < 0.2 and epilogues is PLAIN
    e = rng.choice(epilogues)
    store = rng.choice(("f32", "f16", "bf16")) if dtype not in ("tf32", "f32") else "f32"
    if batch:
        e = e.replace("r§[m, n]", "r§[l, m, n]").replace("g§[m]", "s§")
    lead = f"{L}, " if batch else ""
    a = f"{K}, {M}" if a_turned else f"{M}, {K}"
    b = f"{N}, {K}" if b_turned else f"{K}, {N}"
    clauses = [
        f"compute {dtype}" if dtype in ("tf32", "f32") else "",
        f"tile {rng.choice(TILES[dtype])}",
        f"cluster {rng.choice(CLUSTERS)}" if arch == "sm_90a" and dtype != "f32" else "",
        f"schedule {rng.choice(SCHEDULES)}" if arch == "sm_90a" and dtype != "f32" else "",
        f"scheduler {rng.choice(SCHEDULERS)}" if arch == "sm_90a" and dtype != "f32" else "",
        rng.choice(("", "scheduler split_k(4)")) if arch in ("sm_80", "sm_89") else "",
        f"swizzle {rng.choice((1, 2, 4))}" if rng.random() < 0.3 and arch == "sm_90a" and dtype != "f32" else "",
        "" if any(f in e for f in ("row_", "col_")) and "also" not in e else f"store {store}",
        clause(e),
    ]
    body = f"  y§ = gemm(a§{'.T' * a_turned}, w§{'.T' * b_turned}) {{ {'  '.join(filter(None, clauses))} }}"
    reduced = next((f for f in ("row_", "col_") if e.startswith(f)), None)
    shape = f"f32[{M if reduced == 'row_' else N}]" if reduced else f"{store}[{lead}{M}, {N}]"
    params = (f"a§: {memory}[{lead}{a}]", f"w§: {memory}[{lead if batch and rng.random() < 0.5 else ''}{b}]")
    params += extra(e, M, N, (L,) if batch else ())
    result = ("y§", shape)
    if "also" in e:
        second = f"f32[{M}]" if "row_sum" in e else shape
        result = ("y§, d§", f"{shape}, {second}")
    return Configuration("", family, params, body, result, arch)


def pairs(rng: random.Random) -> Configuration:
    dtype = rng.choice(("f16", "bf16"))
    gate = rng.choice(("silu", "gelu", "sigmoid", "relu"))
    tile, cluster = rng.choice(TILES[dtype]), rng.choice(CLUSTERS)
    body = f"  y§ = gemm(a§, w§.T) {{ pairs  tile {tile}  cluster {cluster}  epilogue {gate}(acc) * acc2 }}"
    params = (f"a§: {dtype}[{M}, {K}]", f"w§: {dtype}[{2 * N}, {K}]")
    return Configuration("", "pairs", params, body, ("y§", f"{dtype}[{M}, {N}]"))


def grouped(rng: random.Random) -> Configuration:
    dtype = rng.choice(("f16", "bf16"))
    e = rng.choice(("acc", "relu(acc)", "silu(acc) * b§[n]", "gelu(acc + b§[n])"))
    tile, cluster, schedule = rng.choice(TILES[dtype]), rng.choice(CLUSTERS[:3]), rng.choice(SCHEDULES)
    turned = rng.random() < 0.5
    b = f"8, {N}, {K}" if turned else f"8, {K}, {N}"
    clauses = f"tile {tile}  cluster {cluster}  schedule {schedule}  epilogue {e}"
    body = f"  y§ = grouped_gemm(a§, w§{'.T' * turned}, z§) {{ {clauses} }}"
    params = (f"a§: {dtype}[{M}, {K}]", f"w§: {dtype}[{b}]", "z§: i32[8]", *extra(e, M, N))
    return Configuration("", "grouped_gemm", params, body, ("y§", f"{dtype}[{M}, {N}]"))


# ---- convolutions ----------------------------------------------------------------------------------------------

SPACE = {1: (1024,), 2: (64, 64), 3: (16, 32, 32)}


def conv(rng: random.Random, dtype: str, spatial: int, transposed: bool, family: str) -> Configuration:
    c, k, batch = rng.choice((32, 64, 128)), rng.choice((64, 128, 256)), 4
    window = tuple(rng.choice((1, 3, 3, 5)) for _ in range(spatial))
    stride = (rng.choice((1, 1, 2)),) * spatial
    padding = tuple(rng.choice((0, w // 2)) for w in window)
    dilation = (1,) * spatial if transposed else (rng.choice((1, 1, 2)),) * spatial
    if transposed:
        spare = tuple(s - 1 for s in stride)
        out = tuple(
            (n - 1) * s - 2 * p + (w - 1) + o + 1
            for n, s, p, w, o in zip(SPACE[spatial], stride, padding, window, spare, strict=True)
        )
    else:
        out = tuple(
            (n + 2 * p - d * (w - 1) - 1) // s + 1
            for n, s, p, w, d in zip(SPACE[spatial], stride, padding, window, dilation, strict=True)
        )
    memory, e = {"tf32": "f32"}.get(dtype, dtype), rng.choice(IMAGE)
    tile, layout = rng.choice(("auto", *TILES[dtype][:6])), rng.choice(("nchw", "nhwc"))
    clauses = [
        f"stride {_x(stride)}", f"padding {_x(padding)}",
        f"dilation {_x(dilation)}" if not transposed else f"output_padding {_x(spare)}",
        f"compute {dtype}" if dtype == "tf32" else "", f"tile {tile}", f"cluster {rng.choice(CLUSTERS[:2])}",
        f"schedule {rng.choice(('auto', *SCHEDULES))}", f"store f32 {layout}", f"epilogue {e}",
    ]  # fmt: skip
    word = f"conv{'_transpose' * transposed}{spatial}d"
    weight = (c, k, *window) if transposed else (k, c, *window)
    lines = ["  x§t = transform(x§) { layout nhwc }", "  w§t = transform(w§) { layout nhwc }"]
    lines.append(f"  h§ = {word}(x§t, w§t) {{ {'  '.join(filter(None, clauses))} }}")
    lines.append(
        "  y§ = transform(h§) { layout nchw }" if layout == "nhwc" else "  y§ = map(h§) { epilogue acc * 2.0 }"
    )
    params = (f"x§: {memory}{[batch, c, *SPACE[spatial]]}", f"w§: {memory}{list(weight)}")
    params += (f"b§: f32[{k}]",) if "b§" in e else ()
    return Configuration("", family, params, "\n".join(lines), ("y§", f"f32{[batch, k, *out]}"))


def direct(rng: random.Random) -> Configuration:
    spatial, dtype = rng.choice((1, 2, 2, 3)), rng.choice(("f32", "f16", "bf16"))
    c = rng.choice((32, 64))
    multiple = rng.choice((1, 2))
    window = tuple(rng.choice((1, 3, 5)) for _ in range(spatial))
    stride, padding = (rng.choice((1, 2)),) * spatial, tuple(w // 2 for w in window)
    out = [(n + 2 * p - w) // s + 1 for n, p, w, s in zip(SPACE[spatial], padding, window, stride, strict=True)]
    e = rng.choice(IMAGE)
    compute = "compute f32" if dtype == "f32" else ""
    clauses = f"stride {_x(stride)}  padding {_x(padding)}  groups {c}  {compute}  epilogue {e}"
    body = f"  y§ = conv{spatial}d(x§, w§) {{ {clauses} }}"
    params = (f"x§: {dtype}{[4, c, *SPACE[spatial]]}", f"w§: {dtype}{[c * multiple, 1, *window]}")
    params += (f"b§: f32[{c * multiple}]",) if "b§" in e else ()
    return Configuration("", "conv_direct", params, body, ("y§", f"{dtype}{[4, c * multiple, *out]}"))


def _x(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))


# ---- stages of our own -----------------------------------------------------------------------------------------

FLOATS = ("f32", "f16", "bf16")


def own_map(rng: random.Random) -> Configuration:
    dtype, store, e = rng.choice(FLOATS), rng.choice(FLOATS), rng.choice((*PLAIN, *PARTS))
    body = f"  y§ = map(x§) {{ {clause(e)}  store {store} }}"
    return Configuration("", "map", (f"x§: {dtype}[{M}, {N}]", *extra(e, M, N)), body, ("y§", f"{store}[{M}, {N}]"))


def own_reduce(rng: random.Random) -> Configuration:
    dtype, op = rng.choice(FLOATS), rng.choice(("sum", "mean", "max", "min", "logsumexp", "argmax"))
    shape, over, left = rng.choice((
        ((M, N), "n", (M, 1)), ((M, N), "m", (1, N)), ((8, 64, 48, 32), "h, w", (8, 64, 1, 1)),
        ((8, 64, 48, 32), "c", (8, 1, 48, 32)), ((4, 96, 200), "m", (4, 1, 200)), ((4, 96, 8200), "n", (4, 96, 1)),
    ))  # fmt: skip
    keep = rng.random() < 0.5
    result = left if keep else tuple(d for d in left if d != 1)
    store = "i32" if op == "argmax" else rng.choice(FLOATS)
    e = "" if op == "argmax" else rng.choice(("", "epilogue acc * 2.0", "epilogue relu(acc)"))
    of = rng.choice(("", "of acc * acc", "of abs(acc)"))
    tail = "" if op == "argmax" else f"store {store}"
    body = f"  y§ = reduce(x§) {{ op {op}  over {over}  {of}  {'keepdim' * keep}  {e}  {tail} }}"
    return Configuration("", "reduce", (f"x§: {dtype}{list(shape)}",), body, ("y§", f"{store}{list(result)}"))


def own_normalize(rng: random.Random) -> Configuration:
    op = rng.choice(("softmax", "log_softmax", "layernorm", "rmsnorm", "groupnorm", "instancenorm", "batchnorm"))
    dtype, store = rng.choice(FLOATS), rng.choice(FLOATS)
    rows = op in ("softmax", "log_softmax", "layernorm", "rmsnorm")
    shape = (
        rng.choice(((M, N), (512, 8192), (4, 96, 768))) if rows else rng.choice(((8, 64, 48, 32), (4, 32, 8, 16, 16)))
    )
    width = shape[-1] if rows else shape[1]
    names = {"batchnorm": ("mean", "var"), "softmax": (), "log_softmax": ()}.get(op, ())
    affine = rng.random() < 0.7 and op not in ("softmax", "log_softmax")
    names += (("weight", "bias") if op != "rmsnorm" else ("weight",)) if affine else ()
    params = (f"x§: {dtype}{list(shape)}", *(f"{n}§: f32[{width}]" for n in names))
    clauses = [f"op {op}", "over n" if rows else "", "groups 8" if op == "groupnorm" else ""]
    clauses += [rng.choice(("", "eps 1e-6")) if op not in ("softmax", "log_softmax") else "", f"store {store}"]
    clauses.append(rng.choice(("", "epilogue relu(acc)", "epilogue hardtanh(acc, -2.0, 2.0)", "epilogue acc / 2.0")))
    operands = ", ".join(("x§", *(f"{n}§" for n in names)))
    body = f"  y§ = normalize({operands}) {{ {'  '.join(filter(None, clauses))} }}"
    return Configuration("", "normalize", params, body, ("y§", f"{store}{list(shape)}"))


def own_pool(rng: random.Random) -> Configuration:
    dtype, op, spatial = rng.choice(FLOATS), rng.choice(("max", "avg")), rng.choice((1, 2, 2, 3))
    space, whole = SPACE[spatial], rng.random() < 0.25
    window, padding = rng.choice((2, 3)), rng.choice((0, 1))
    stride, apart = rng.choice((1, 2)), rng.choice((1, 2)) if op == "max" else 1
    out = [1] * spatial if whole else [(n + 2 * padding - apart * (window - 1) - 1) // stride + 1 for n in space]
    e = rng.choice(("", "epilogue mish(acc)", "epilogue acc * 0.5"))
    sizes = [(n,) * spatial for n in (window, stride, padding, apart)]
    where = "window global" if whole else "window {}  stride {}  padding {}".format(*map(_x, sizes[:3]))
    where += f"  dilation {_x(sizes[3])}" if apart > 1 and not whole else ""
    body = f"  y§ = pool(x§) {{ op {op}  {where}  {e} }}"
    return Configuration("", "pool", (f"x§: {dtype}{[4, 32, *space]}",), body, ("y§", f"{dtype}{[4, 32, *out]}"))


def own_transform(rng: random.Random) -> Configuration:
    dtype, to = rng.choice(FLOATS), rng.choice(FLOATS)
    body, source, result = rng.choice((
        ("to {to}", (M, N), (M, N)), ("view 512x4096  to {to}", (M, N), (512, 4096)),
        ("permute 0x2x1  to {to}", (8, 96, 200), (8, 200, 96)), ("permute 1x0  to {to}", (M, N), (N, M)),
        ("pad 1032x2056  to {to}", (M, N), (1032, 2056)), ("crop 1000x2000  to {to}", (M, N), (1000, 2000)),
        ("permute 2x0x1  to {to}", (8, 96, 200), (200, 8, 96)),
        ("pad 8x8x64x64  to {to}", (8, 3, 64, 64), (8, 8, 64, 64)),
        ("crop 8205x5921  to {to}", (8205, 5924), (8205, 5921)), ("pad 8205x2952  to {to}", (8205, 2949), (8205, 2952)),
    ))  # fmt: skip
    text = body.format(to=to)
    params = (f"x§: {dtype}{list(source)}",)
    return Configuration("", "transform", params, f"  y§ = transform(x§) {{ {text} }}", ("y§", f"{to}{list(result)}"))


def own_layout(rng: random.Random) -> Configuration:
    dtype, to, spatial = rng.choice(FLOATS), rng.choice(FLOATS), rng.choice((1, 2, 3))
    shape = [4, rng.choice((3, 8, 64)), *SPACE[spatial]]
    padded = [4, 8, *SPACE[spatial]]
    pad = f"pad {_x(tuple(padded))}  " if shape[1] == 3 else ""
    shape_out = padded if pad else shape
    lines = f"  t§ = transform(x§) {{ {pad}layout nhwc  to {to} }}\n  y§ = transform(t§) {{ layout nchw }}"
    return Configuration("", "layout", (f"x§: {dtype}{shape}",), lines, ("y§", f"{to}{shape_out}"))


def own_interleave(rng: random.Random) -> Configuration:
    dtype = rng.choice(("f16", "bf16"))
    lines = "  t§ = transform(u§, v§) { interleave }\n  y§ = gemm(a§, t§.T) { pairs  epilogue silu(acc) * acc2 }"
    params = (f"u§: {dtype}[{N}, {K}]", f"v§: {dtype}[{N}, {K}]", f"a§: {dtype}[{M}, {K}]")
    return Configuration("", "interleave", params, lines, ("y§", f"{dtype}[{M}, {N}]"))


# ---- the matrix ------------------------------------------------------------------------------------------------

FAMILIES = {
    "gemm_f16": (70, lambda r: gemm(r, "f16", "gemm_f16", PLAIN)),
    "gemm_bf16": (40, lambda r: gemm(r, "bf16", "gemm_bf16", PLAIN)),
    "gemm_tf32": (60, lambda r: gemm(r, "tf32", "gemm_tf32", PLAIN)),
    "gemm_f32": (12, lambda r: gemm(r, "f32", "gemm_f32", PLAIN)),
    "gemm_fp8": (24, lambda r: gemm(r, r.choice(("e4m3", "e5m2")), "gemm_fp8", PLAIN)),
    "gemm_i8": (16, lambda r: gemm(r, "i8", "gemm_i8", PLAIN)),
    "gemm_parts": (16, lambda r: gemm(r, r.choice(("f16", "tf32")), "gemm_parts", PARTS)),
    "gemm_also": (12, lambda r: gemm(r, r.choice(("f16", "tf32")), "gemm_also", ALSO)),
    "gemm_reduced": (24, lambda r: gemm(r, r.choice(("f16", "bf16", "tf32")), "gemm_reduced", REDUCED)),
    "gemm_triangle": (12, lambda r: gemm(r, r.choice(("f16", "tf32")), "gemm_triangle", TRIANGLES)),
    "gemm_sm80": (16, lambda r: gemm(r, r.choice(("f16", "bf16", "tf32", "i8")), "gemm_sm80", OLDER, "sm_80")),
    "gemm_sm89": (10, lambda r: gemm(r, r.choice(("f16", "tf32", "e4m3", "e5m2")), "gemm_sm89", OLDER, "sm_89")),
    "gemm_sm100": (10, lambda r: gemm(r, r.choice(("f16", "tf32", "e4m3")), "gemm_sm100", OLDER, "sm_100a")),
    "pairs": (10, pairs),
    "grouped_gemm": (16, grouped),
    "conv1d": (10, lambda r: conv(r, r.choice(("f16", "tf32")), 1, False, "conv1d")),
    "conv2d_f16": (24, lambda r: conv(r, r.choice(("f16", "bf16")), 2, False, "conv2d_f16")),
    "conv2d_tf32": (16, lambda r: conv(r, "tf32", 2, False, "conv2d_tf32")),
    "conv3d": (10, lambda r: conv(r, r.choice(("f16", "tf32")), 3, False, "conv3d")),
    "conv_transpose": (18, lambda r: conv(r, r.choice(("f16", "tf32")), r.choice((1, 2, 3)), True, "conv_transpose")),
    "conv_direct": (16, direct),
    "map": (16, own_map),
    "reduce": (24, own_reduce),
    "normalize": (28, own_normalize),
    "pool": (16, own_pool),
    "transform": (20, own_transform),
    "layout": (10, own_layout),
    "interleave": (2, own_interleave),
}


def _drawn(family: str) -> Iterator[Configuration]:
    many, make = FAMILIES[family]
    rng = random.Random(f"{SEED}:{family}")
    for _ in range(many * DRAWS):
        yield make(rng)


@cache
def configurations(family: str) -> tuple[tuple[Configuration, ...], dict[str, int]]:
    """(those of a family that pass `check`, how many drawn ones were rejected by code)."""
    members: dict[str, Configuration] = {}
    rejected: Counter[str] = Counter()
    for c in _drawn(family):
        if len(members) == FAMILIES[family][0]:
            break
        text = program([c])
        if text in members:
            continue
        checked = check(text)
        if checked.program is None:
            rejected[checked.diagnostics[0].code] += 1
        else:
            name = f"{family}_{len(members):02d}"
            members[text] = Configuration(name, c.family, c.params, c.body, c.result, c.arch)
    return tuple(members.values()), dict(rejected)
