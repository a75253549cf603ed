"""The tensors that a product's epilogue reads: quack's operation for each, and the view that it needs.

The operation is explicit, because with m == n quack cannot distinguish a row from a column.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass

from dsl.ir import DType, Expr, Load, TensorType, loads
from dsl.lower import Refusal

CUTE = {DType.F32: "Float32", DType.F16: "Float16", DType.BF16: "BFloat16"}

# Names that an epilogue argument may not have: quack's own, a tuple's, and those the function's text uses.
TAKEN = {
    *("acc", "acc2", "c", "D", "self", "count", "index", "split_k_semaphore", "split_k_workspace", "add_to_output"),
    *("cute", "math", "Float32", "Float16", "BFloat16", "fmax", "fmin", "rcp_approx", "select_", "unpack", "pack"),
    *("gelu_erf", "gelu_tanh_approx", "silu", "sigmoid", "offset", "sr_seed", "gate"),
}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LAYER = re.compile(r"\A.*_\d+_(?=[A-Za-z])")  # layers_3_ of layers_3_fc1_bias
_NUMBER = re.compile(r"_?\d+\Z")


@dataclass(frozen=True)
class Frame:
    """The shape of the product for quack.

    `rank3`: its tensors have a batch axis. `fold`: batch and rows are one axis. `pairs`: the epilogue's n counts pairs
    of columns. `grouped`: rows belong to groups.
    """

    stage: str
    l: int  # noqa: E741
    m: int
    n: int  # of the epilogue: columns of the result
    rank3: bool = False
    fold: bool = False
    pairs: bool = False
    grouped: bool = False


@dataclass(frozen=True)
class Input:
    """One epilogue operand.

    `op` is the quack operation, `view` the tensor in the shape that quack needs, `text` how the function reads it.
    `row`: with pairs of columns it is a pair of equal values.
    """

    tensor: str
    argument: str
    op: str
    view: str
    text: str
    imports: tuple[tuple[str, str], ...]
    row: bool = False


def argument(name: str, names: set[str]) -> str:
    """A name for an argument of an epilogue, which quack makes a field of a named tuple; it is added to `names`.

    The layer's number is left out where the rest is free: epilogues of equal layers then have one text, by which quack
    knows them, and are compiled once."""
    if not _IDENTIFIER.match(name):
        raise Refusal("cute-name", f"{name!r} is no plain identifier", "use letters, digits and _")
    short = _NUMBER.sub("", _LAYER.sub("", name))
    name = short if _IDENTIFIER.match(short) and short not in names else name
    if name.startswith("_") or keyword.iskeyword(name):
        name = f"t{name}" if name.startswith("_") else f"{name}_"
    while name in names:
        name += "_"
    names.add(name)
    return name


def view(name: str, t: TensorType, batch: int, fold: bool) -> str:
    """The text of a view of a dense tensor with shape (x, y), or (l, x, y) if `batch` is not 0."""
    rows, cols = t.shape[-2:]
    if fold:
        return f"{name}.view({t.elements // cols}, {cols})"
    if batch and len(t.shape) == 2:
        return f"{name}.expand({batch}, {rows}, {cols})"
    if batch and len(t.shape) > 3:
        return f"{name}.view({batch}, {rows}, {cols})"
    return name


def inputs(exprs: tuple[Expr, ...], types: dict[str, TensorType], f: Frame, names: set[str]) -> dict[tuple, Input]:
    """The operands for all tensors that the expressions read, by (name, axes). Raises Refusal."""
    all_loads = list(dict.fromkeys(x for e in exprs for x in loads(e)))
    several = [load.name for load in all_loads]
    out: dict[tuple, Input] = {}
    for load in all_loads:
        t = types[load.name]
        if t.dtype not in CUTE:
            raise Refusal(
                "cute-dtype", f"an epilogue reads f32, f16 and bf16; {load.name} is {t.dtype.value}", "cast it"
            )
        name = argument(load.name + ("_" + "".join(load.axes) if several.count(load.name) > 1 else ""), names)
        op, text = _load(load, t, f, name)
        kind = op.partition("(")[0]
        imports = [] if kind == "PairRow" else [("quack.epilogue.ops", kind)]
        read = name
        if not load.axes and t.dtype is not DType.F32:
            imports += [("cutlass", CUTE[t.dtype]), ("cutlass", "Float32")]
            read = f"Float32({name})"
        out[(load.name, load.axes)] = Input(load.name, name, op, text, read, tuple(imports), kind == "PairRow")
    return out


def _load(load: Load, t: TensorType, f: Frame, name: str) -> tuple[str, str]:
    """The quack operation and the view."""
    axes, tensor = load.axes, load.name
    if not axes:
        return f'Scalar("{name}"' + ("" if t.dtype is DType.F32 else f", {CUTE[t.dtype]}") + ")", tensor
    if "n" in axes and "m" in axes:
        return f'TileLoad("{name}")', _full(load, t, f)
    if axes == ("l",):
        raise Refusal(
            "cute-load",
            f"stage {f.stage} reads {tensor}[l], one value a batch; quack loads vectors along m or n",
            f"give {tensor} the axes [l, n]",
        )
    row = "n" in axes
    text = tensor
    if "l" in axes:
        size = f.n if row else f.m
        if f.fold:
            text = f"{tensor}.view({f.m})"
        else:
            if size % 4 and not (row and f.pairs):
                raise Refusal(
                    "cute-alignment",
                    f"{tensor}[{', '.join(axes)}] has rows of {size} elements; quack reads batched vectors by 4",
                    f"make {axes[-1]} a multiple of 4",
                )
            text = f"{tensor}.view({f.l}, {size})" if len(t.shape) > 2 else tensor
    kind = ("PairRow" if f.pairs else "RowVecLoad") if row else "ColVecLoad"
    return f'{kind}("{name}")', text


def _full(load: Load, t: TensorType, f: Frame) -> str:
    tensor = load.name
    if f.pairs or f.grouped:
        reason = "columns in pairs" if f.pairs else "groups of rows"
        raise Refusal(
            "cute-load",
            f"stage {f.stage} reads {tensor}[{', '.join(load.axes)}] with {reason}; quack loads vectors alone",
            f"read {tensor} in a map below {f.stage}",
        )
    if f.n * t.dtype.bits % 128:
        raise Refusal(
            "cute-alignment",
            f"rows of {tensor} are not a multiple of 16 bytes, which TMA needs",
            "make n a multiple of 8",
        )
    if f.fold:
        return f"{tensor}.view({f.m}, {f.n})"
    if f.rank3 and "l" not in load.axes:
        return f"{tensor}.expand({f.l}, {f.m}, {f.n})"
    if f.rank3 and len(t.shape) > 3:
        return f"{tensor}.view({f.l}, {f.m}, {f.n})"
    return tensor
