"""What people write who know PyTorch, Python or C where this language has another way: the help that names that way."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

# A function by another name; a stage that is mistaken for a function of one element.
FUNCTIONS = {
    "swish": "silu", "hswish": "hardswish", "hard_swish": "hardswish", "hard_sigmoid": "hardsigmoid",
    "logistic": "sigmoid", "maximum": "max", "minimum": "min", "fmax": "max", "fmin": "min", "leakyrelu": "leaky_relu",
    "gelu_fast": "gelu_tanh", "clip": "clamp",
}  # fmt: skip
STAGES = {
    "softmax": "normalize(x) { op softmax  over n }", "log_softmax": "normalize(x) { op log_softmax  over n }",
    "layernorm": "normalize(x, weight, bias) { op layernorm  over n }",
    "layer_norm": "normalize(x, weight, bias) { op layernorm  over n }",
    "rmsnorm": "normalize(x, weight) { op rmsnorm  over n }", "rms_norm": "normalize(x, weight) { op rmsnorm  over n }",
    "batchnorm": "normalize(x, mean, var) { op batchnorm }", "batch_norm": "normalize(x, mean, var) { op batchnorm }",
    "groupnorm": "normalize(x) { op groupnorm  groups 8 }", "group_norm": "normalize(x) { op groupnorm  groups 8 }",
    "sum": "reduce(x) { op sum  over n }", "mean": "reduce(x) { op mean  over n }",
    "argmax": "reduce(x) { op argmax  over n }", "logsumexp": "reduce(x) { op logsumexp  over n }",
}  # fmt: skip
_EPILOGUE = "epilogue relu(acc + b[n]) says both, a bias and an activation"
CLAUSES = {
    **dict.fromkeys(("bias", "activation", "act", "add", "residual", "fuse", "alpha", "beta"), _EPILOGUE),
    **dict.fromkeys(("softmax", "log_softmax", "layernorm", "rmsnorm", "groupnorm", "batchnorm", "instancenorm"),
                    "op names it: { op NAME  over n }"),
    **dict.fromkeys(("axis", "dim", "dims", "axes"), "over names the axes: over n"),
    **dict.fromkeys(("dtype", "out_dtype", "output"), "store names the result's type: store f16"),
    **dict.fromkeys(("num_stages", "pipeline"), "stages 4"),
    **dict.fromkeys(("kernel", "kernel_size"), "window 2x2"),
    **dict.fromkeys(("shape", "reshape"), "view 8x512"),
}  # fmt: skip
_OPENING = "a program begins: program name(x: f16[64, 64]) -> f16[64, 64] {"


def of_syntax(found: str, allowed: Collection[str], before: Sequence[str]) -> str | None:
    """The help for a word or sign `found` where only the terminals `allowed` may stand, after the words `before`."""
    last, stage = (before[-1] if before else ""), list(before[-3:-1])
    within = next((w for w in reversed(before) if w in ("[", "]", "over")), "")
    if within == "[" and last in ("[", ",") and set(allowed) == {"NAME"}:
        return "a tensor is read at axes of the output, whole: b[n], r[m, n]"
    if within == "[" and last in ("[", ",") and "INT" in allowed and found.isidentifier():
        return "sizes are numbers; a program is of one shape: f16[64, 64]"
    if found == "^" or (found == last == "*"):
        return "there is no power: acc * acc, sqrt(acc)"
    if found in ("<", ">"):
        return "nothing is compared: relu(x), min(x, y), max(x, y) and clamp(x, lo, hi) choose"
    if found == "." and "TRANSPOSE" in allowed:
        return f"the transpose is {last}.T; other operations are stages of their own"
    if set(allowed) <= {"PROGRAM"}:
        return _OPENING
    if found in (";", "'", '"', ":") or (found == "," and "RBRACE" in allowed) or (found == "=" and "DIMS" in allowed):
        return f"leave out the `{found}`"
    if found == "(" and "TRANSPOSE" in allowed:
        return f"a stage reads tensors by name; give this one a line of its own: t = {last}(...)"
    if set(allowed) == {"LPAR"} and stage and stage[-1] == "=":
        return "gemm(x, w.T) is the product" if found == "@" else "map(x) { epilogue acc + r[m, n] } adds tensors"
    if found == "." and "LPAR" in allowed:
        return f"functions are written alone, without `{last}.`"
    if found == "(" and "LSQB" in allowed:
        return "a shape stands in [ ]: f16[64, 64]"
    if last == "over":
        return "axes have names: over n is the last, over m the one before it"
    if "__ANON_0" in allowed and found == "{":
        return "say what comes out before the {: -> f16[64, 64]"
    return None


def of_clause(found: str, before: Sequence[str]) -> str | None:
    """The help for a word `found` where a clause may stand, after the words `before`."""
    last = before[-1] if before else ""
    if last.isdigit() and re.fullmatch(r"[xX][0-9]*", found):
        return "sizes stand together: 128x256x64"
    if "over" in before[-2:-1] and len(found) == 1:
        return f"commas stand between axes: over {last}, {found}"
    return CLAUSES.get(found)


def of_function(name: str) -> str | None:
    """The help for a function that there is not in an expression."""
    if name in STAGES:
        return f"it is a stage of its own: y = {STAGES[name]}"
    if name == "relu6":
        return "write clamp(x, 0.0, 6.0)"
    return f"did you mean `{FUNCTIONS[name]}`?" if name in FUNCTIONS else None
