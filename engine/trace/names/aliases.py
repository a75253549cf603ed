"""The plain names of operations that ATen gives a second name: `x & y` is `bitwise_and`, `swapaxes` is `transpose`.

torch.export keeps the name that a module's author wrote. Rules of costs and of lowering know one of each pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

_NAMES = {
    "absolute": "abs", "negative": "neg", "multiply": "mul", "subtract": "sub", "divide": "div", "clip": "clamp",
    "fix": "trunc", "positive": "alias", "concatenate": "cat", "row_stack": "vstack", "swapdims": "transpose",
    "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne",
    "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor", "dot": "matmul",
    "__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift",
    "arccos": "acos", "arcsin": "asin", "arctan": "atan", "arctan2": "atan2", "arccosh": "acosh", "arcsinh": "asinh",
    "arctanh": "atanh", "special_expit": "sigmoid", "special_softmax": "softmax", "special_log_softmax": "log_softmax",
    "special_logsumexp": "logsumexp", "special_erf": "erf", "special_erfc": "erfc", "special_exp2": "exp2",
    "special_expm1": "expm1", "special_log1p": "log1p", "special_sinc": "sinc", "special_xlogy": "xlogy",
}  # fmt: skip
_RESHAPES = ("view_as", "reshape_as", "ravel", "atleast_1d", "atleast_2d", "atleast_3d")
_CONJUGATES = ("adjoint", "mH", "matrix_H")
_COMPLEX = ("c32", "c64", "c128")


def plain(ops: Iterable[dict], tensors: Mapping[str, dict]) -> Iterator[dict]:
    """Every operation by its plain name. `ops`: entries of a graph; `tensors`: name -> its entry."""
    for op in ops:
        name = op["op"]
        if name in _NAMES:
            yield {**op, "op": _NAMES[name]}
        elif name in _REWRITES:
            yield {**op, **(_REWRITES[name](op, tensors) or {})}
        else:
            yield op


def _reshape(op: dict, tensors: Mapping[str, dict]) -> dict | None:
    if len(op["outputs"]) != 1:  # atleast_2d of several tensors
        return None
    shape = list(tensors[op["outputs"][0]]["shape"])
    return {"op": "reshape", "inputs": op["inputs"][:1], "attrs": {"shape": shape}}


def _swapped(op: dict, tensors: Mapping[str, dict]) -> dict:
    return {"op": "transpose", "attrs": {"dim0": op["attrs"]["axis0"], "dim1": op["attrs"]["axis1"]}}


def _moved(op: dict, tensors: Mapping[str, dict]) -> dict:
    rank = len(tensors[op["inputs"][0]]["shape"])
    source, target = ([at] if isinstance(at, int) else list(at) for at in (op["attrs"]["source"],
                                                                           op["attrs"]["destination"]))  # fmt: skip
    places = dict(zip((t % rank for t in target), (s % rank for s in source), strict=True))
    rest = iter(i for i in range(rank) if i not in places.values())
    return {"op": "permute", "attrs": {"dims": [places[i] if i in places else next(rest) for i in range(rank)]}}


def _adjoint(op: dict, tensors: Mapping[str, dict]) -> dict | None:
    t = tensors[op["inputs"][0]]
    if t["dtype"] in _COMPLEX or len(t["shape"]) < 2:
        return None
    return {"op": "transpose", "attrs": {"dim0": -2, "dim1": -1}}


def _sign(op: dict, tensors: Mapping[str, dict]) -> dict | None:
    return None if tensors[op["inputs"][0]]["dtype"] in _COMPLEX else {"op": "sign"}


def _broadcast(op: dict, tensors: Mapping[str, dict]) -> dict:
    return {"op": "expand", "attrs": {"size": op["attrs"]["size"], "implicit": False}}


def _zeros(op: dict, tensors: Mapping[str, dict]) -> dict:
    """Memory that a module writes before it reads it; what it reads unwritten is anything, so it may be zero."""
    attrs = {name: value for name, value in op["attrs"].items() if name != "memory_format"}
    name = op["op"].replace("empty", "zeros")
    return {"op": name, "attrs": op["attrs"] if name == "zeros_like" else attrs}


def _rrelu(op: dict, tensors: Mapping[str, dict]) -> dict | None:
    """In eval mode the slope is the middle of its range."""
    at = op["attrs"]
    if at.get("training"):
        return None
    return {"op": "leaky_relu", "attrs": {"negative_slope": (at.get("lower", 1 / 8) + at.get("upper", 1 / 3)) / 2}}


_REWRITES: dict[str, Callable[[dict, Mapping[str, Any]], dict | None]] = {
    **dict.fromkeys(_RESHAPES, _reshape),
    **dict.fromkeys(_CONJUGATES, _adjoint),
    **dict.fromkeys(("movedim", "moveaxis"), _moved),
    "swapaxes": _swapped,
    "broadcast_to": _broadcast,
    "sgn": _sign,
    "rrelu": _rrelu,
    "zero": lambda op, tensors: {"op": "zeros_like", "attrs": {}},  # of x[a:b].zero_(), written as a result
    **dict.fromkeys(("empty", "empty_like", "new_empty"), _zeros),
}
