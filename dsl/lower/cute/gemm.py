"""A GEMM stage for quack: operands, epilogue function and configuration, or the reason why quack cannot.

quack multiplies A (l, m, k) by B (l, n, k), or by B (l, k, n) with b_kn, each with any contiguous axis of the last two;
an unbatched operand crosses as it lies. So `.T` costs a view at most. Batches that share B are one tall product where
the epilogue allows; otherwise the shared operand has a batch stride of 0.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass

from dsl import legal
from dsl.ir import DType, Expr, Gemm, Load, Program, TensorType, gemm_shape, loads
from dsl.lower import Refusal
from dsl.lower.cute import expression

CUTE = {DType.F32: "Float32", DType.F16: "Float16", DType.BF16: "BFloat16"}
TORCH = {DType.F32: "float32", DType.F16: "float16", DType.BF16: "bfloat16"}

# Names that an epilogue argument may not have: quack's own, a tuple's, and those the function's text uses.
_TAKEN = {
    *("acc", "c", "D", "self", "count", "index", "split_k_semaphore", "split_k_workspace", "add_to_output"),
    *("cute", "Float32", "fmax", "fmin", "gelu_erf", "gelu_tanh_approx", "silu", "sigmoid"),
}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class Input:
    """One epilogue operand. `op` is the pinned quack op, `view` the tensor as quack wants it."""

    tensor: str
    argument: str
    op: str
    view: str
    imports: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class GemmPlan:
    """`a`, `b`, `d` are the texts of the operands as quack sees them."""

    name: str
    l: int  # noqa: E741 - the field's own name
    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    b_kn: bool
    inputs: tuple[Input, ...]
    body: expression.Body
    splits: int
    remark: str  # how the batch is laid out, where that is not plain


def plan_gemm(program: Program, stage: Gemm) -> GemmPlan:
    """Everything the emitter says about `stage`. Raises Refusal."""
    types = {x.name: x.type for x in (*program.params, *program.stages)}
    c = stage.config
    for clause in ("compute", "tile", "cluster", "schedule", "scheduler", "stages", "swizzle"):
        if getattr(c, clause) is None:
            raise Refusal(
                "cute-unresolved",
                f"stage {stage.name} leaves {clause} to auto",
                "resolve the program first (dsl.resolve)",
            )
    _refuse_precision(stage, types)
    _refuse_config(program, stage)
    s = gemm_shape(program, stage)
    l, m, n = s.l, s.m, s.n  # noqa: E741
    store = stage.store or types[stage.a.name].dtype
    if store not in CUTE:
        raise Refusal(
            "cute-dtype", f"quack stores f32, f16 and bf16, not {store.value}", "write store f16, bf16 or f32"
        )
    if n * store.bits % 128:
        raise Refusal(
            "cute-alignment",
            f"the result has rows of {n * store.bits // 8:,} bytes; TMA writes rows of a multiple of 16 bytes",
            f"make n a multiple of {128 // store.bits}",
        )
    ta, tb = types[stage.a.name], types[stage.b.name]
    for operand, t in ((stage.a, ta), (stage.b, tb)):
        if t.shape[-1] * t.dtype.bits % 128:
            raise Refusal(
                "cute-alignment",
                f"rows of {operand.name} are {t.shape[-1] * t.dtype.bits // 8:,} bytes; TMA reads rows of a multiple "
                "of 16",
                f"make its last axis a multiple of {128 // t.dtype.bits}",
            )
    batched = len(stage.type.shape) > 2
    fold = batched and len(tb.shape) == 2 and not stage.a.transposed and _folds(stage.epilogue)
    if fold:
        remark = f"the {l} batches share {stage.b.name}: one product of {l * m:,} rows"
        l, m = 1, l * m  # noqa: E741
    elif batched and (len(ta.shape) == 2 or len(tb.shape) == 2):
        shared = stage.b.name if len(tb.shape) == 2 else stage.a.name
        remark = f"every batch reads the same {shared}: its batch stride is 0"
    else:
        remark = ""
    rank3 = batched and not fold
    a = _operand(stage.a.name, ta, l if rank3 else 0, fold, stage.a.transposed)
    b = _operand(stage.b.name, tb, l if rank3 else 0, False, False)
    d = _operand(stage.name, stage.type, l if rank3 else 0, fold, False)
    inputs = _inputs(stage, types, l, m, n, rank3, fold)
    operands = {key: i.op_text for key, i in inputs.items()}
    taken = {i.input.argument for i in inputs.values()} | _TAKEN
    body = expression.write(stage.epilogue, operands, taken)
    splits = c.scheduler.splits if c.scheduler.kind == "split_k" else 1
    plain = tuple(i.input for i in inputs.values())
    return GemmPlan(stage.name, l, m, n, s.k, a, b, d, not stage.b.transposed, plain, body, splits, remark)


def _refuse_precision(stage: Gemm, types: dict[str, TensorType]) -> None:
    compute = stage.config.compute
    if compute is DType.TF32:
        raise Refusal(
            "cute-tf32",
            "CuTe DSL 4.8.1 has no tf32 tensor-core instruction on sm_90a; the `cpp` back end serves tf32",
            "leave it to `cpp`, or transform the operands to f16 or bf16",
        )
    if compute not in (DType.F16, DType.BF16):
        raise Refusal(
            "cute-compute", f"quack multiplies f16 and bf16 on sm_90a, not {compute.value}", "write compute f16"
        )
    for side in (stage.a, stage.b):
        have = types[side.name].dtype
        if have is not compute:
            raise Refusal(
                "cute-operand",
                f"compute {compute.value} reads {compute.value} operands, and {side.name} is {have.value}",
                f"{side.name}_c = transform({side.name}) {{ to {compute.value} }}",
            )


def _refuse_config(program: Program, stage: Gemm) -> None:
    c = stage.config
    if c.scheduler.kind == "stream_k":
        raise Refusal(
            "cute-stream-k",
            "quack has no stream_k scheduler; the `cpp` back end has",
            "write scheduler persistent or split_k(n)",
        )
    broken = legal.objections(legal.program_problem(program, stage), c, "cute")
    if broken:
        raise Refusal("cute-config", f"stage {stage.name}: {broken[0].message}", "leave the clause to auto")


def _loads_axes(e: Expr) -> set[tuple[str, ...]]:
    return {load.axes for load in loads(e)}


def _folds(e: Expr) -> bool:
    """True where batch and rows may be read as one axis: nothing is indexed by one of them alone."""
    return _loads_axes(e) <= {(), ("n",), ("l", "m"), ("l", "m", "n")}


def _operand(name: str, t: TensorType, batch: int, fold: bool, transposed: bool) -> str:
    """A dense tensor as quack sees it: (x, y), or (l, x, y) where `batch` is not 0. A view, never a copy."""
    rows, cols = t.shape[-2:]
    text = name
    if fold:
        text = f"{name}.view({t.elements // cols}, {cols})"
    elif batch and len(t.shape) == 2:
        text = f"{name}.expand({batch}, {rows}, {cols})"
    elif batch and len(t.shape) > 3:
        text = f"{name}.view({batch}, {rows}, {cols})"
    return f"{text}.mT" if transposed else text


@dataclass(frozen=True)
class _Read:
    input: Input
    op_text: str


def _inputs(
    stage: Gemm,
    types: dict[str, TensorType],
    l: int,  # noqa: E741
    m: int,
    n: int,
    rank3: bool,
    fold: bool,
) -> dict[tuple, _Read]:
    found = loads(stage.epilogue)
    several = [load.name for load in found]
    out: dict[tuple, _Read] = {}
    taken = set(_TAKEN)
    for load in found:
        t = types[load.name]
        if t.dtype not in CUTE:
            raise Refusal(
                "cute-dtype", f"an epilogue reads f32, f16 and bf16; {load.name} is {t.dtype.value}", "cast it"
            )
        argument = _argument(load, several.count(load.name) > 1, taken)
        taken.add(argument)
        op, view, module = _load(load, t, l, m, n, rank3, fold, argument, stage.name)
        imports = [("quack.epilogue.ops", module)]
        text = argument
        if not load.axes and t.dtype is not DType.F32:
            imports.append(("cutlass", CUTE[t.dtype]))
            text = f"Float32({argument})"
            imports.append(("cutlass", "Float32"))
        out[(load.name, load.axes)] = _Read(Input(load.name, argument, op, view, tuple(imports)), text)
    return out


def _argument(load: Load, several: bool, taken: set[str]) -> str:
    if not _IDENTIFIER.match(load.name):
        raise Refusal("cute-name", f"{load.name!r} is no plain identifier", "use letters, digits and _")
    name = load.name + ("_" + "".join(load.axes) if several else "")
    if name.startswith("_") or keyword.iskeyword(name):  # quack makes them fields of a named tuple
        name = f"t{name}" if name.startswith("_") else f"{name}_"
    while name in taken:
        name += "_"
    return name


def _load(
    load: Load,
    t: TensorType,
    l: int,  # noqa: E741
    m: int,
    n: int,
    rank3: bool,
    fold: bool,
    argument: str,
    stage: str,
) -> tuple[str, str, str]:
    """The pinned op, the view and the op's class. Pinned, because with m == n quack could not tell row from column."""
    axes, name = load.axes, load.name
    if not axes:
        dtype = "" if t.dtype is DType.F32 else f", {CUTE[t.dtype]}"
        return f'Scalar("{argument}"{dtype})', name, "Scalar"
    if "n" in axes and "m" in axes:
        if n * t.dtype.bits % 128:
            raise Refusal(
                "cute-alignment",
                f"rows of {name} are not a multiple of 16 bytes, which TMA needs",
                "make n a multiple of 8",
            )
        view = name
        if fold:
            view = f"{name}.view({m}, {n})"
        elif rank3 and "l" not in axes:
            view = f"{name}.expand({l}, {m}, {n})"
        elif rank3 and len(t.shape) > 3:
            view = f"{name}.view({l}, {m}, {n})"
        return f'TileLoad("{argument}")', view, "TileLoad"
    if axes == ("l",):
        raise Refusal(
            "cute-load",
            f"stage {stage} reads {name}[l], one value a batch; quack loads vectors along m or n",
            f"give {name} the axes [l, n]",
        )
    along = "RowVecLoad" if "n" in axes else "ColVecLoad"
    size = n if "n" in axes else m
    view = name
    if "l" in axes:
        if fold:
            view = f"{name}.view({m})"
        else:
            if size % 4:
                raise Refusal(
                    "cute-alignment",
                    f"{name}[{', '.join(axes)}] has rows of {size} elements; quack reads batched vectors by 4",
                    f"make {axes[-1]} a multiple of 4",
                )
            view = f"{name}.view({l}, {size})" if len(t.shape) > 2 else name
    return f'{along}("{argument}")', view, along
