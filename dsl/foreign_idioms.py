"""Help for PyTorch, Python and C idioms that this language writes differently."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from dsl.fixes import DeleteToken, Help, did_you_mean, help_of

# Other names of functions, and stages that look like a function of one element.
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
    "cumsum": "scan(x) { op sum  over n }", "cumprod": "scan(x) { op prod  over n }",
    "lstm": "recurrent(gates, weights) { op lstm }", "gru": "recurrent(gates, weights) { op gru }",
    "argmax": "reduce(x) { op argmax  over n }", "logsumexp": "reduce(x) { op logsumexp  over n }",
}  # fmt: skip
_WRITTEN = {
    "relu6": "clamp(x, 0.0, 6.0)", "sign": "(x > 0) - (x < 0)", "rsqrt": "1 / sqrt(x)", "select": "where(c, x, y)",
    "masked_fill": "where(c, y, x)", "step": "x > 0", "log_sigmoid": "-softplus(-x)", "logsigmoid": "-softplus(-x)",
}  # fmt: skip
_EPILOGUE = "epilogue relu(acc + b[n]) adds a bias and applies an activation"
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
_SIGNS = ("<", ">", "=", "!")
_OPENING = "a program begins: program name(x: f16[64, 64]) -> f16[64, 64] {"


def leave_out(token: str) -> Help:
    """The help for a word or sign that does not belong where it stands."""
    return help_of(f"leave out the `{token}`", DeleteToken())


def of_syntax(token: str, allowed: Collection[str], before: Sequence[str]) -> Help | str | None:
    """The help for an unexpected token after the words `before`, where the grammar allows the terminals `allowed`."""
    last, stage = (before[-1] if before else ""), list(before[-3:-1])
    within = next((w for w in reversed(before) if w in ("[", "]", "over")), "")
    if within == "[" and last in ("[", ",") and set(allowed) == {"NAME"}:
        return "a tensor is read at named axes of the output, without an offset: b[n], r[m, n]"
    if within == "[" and last in ("[", ",") and "INT" in allowed and token.isidentifier():
        return "sizes are numbers; a program has fixed shapes: f16[64, 64]"
    if token == "^" or (token == last == "*"):
        return "there is no power operator: acc * acc, sqrt(acc)"
    if token in ("&", "|") or (token in _SIGNS and "PLUS" in allowed and "COMPARE" not in allowed):
        return "one comparison in each bracket: (x > 0) * (x < 1) is and, max(x > 1, x < 0) is or"
    if token in _SIGNS and "COMPARE" in allowed:
        return f"the comparison is {token}="
    if token == "?":
        return "where(c, x, y) is x where c is not 0, else y"
    if token == "." and "TRANSPOSE" in allowed:
        return f"the transpose is {last}.T; other operations are stages of their own"
    if set(allowed) <= {"PROGRAM"}:
        return _OPENING
    if token in (";", "'", '"', ":") or (token == "," and "RBRACE" in allowed) or (token == "=" and "DIMS" in allowed):
        return leave_out(token)
    if token == "(" and "TRANSPOSE" in allowed:
        return f"a stage reads tensors by name; give this one a line of its own: t = {last}(...)"
    if set(allowed) == {"LPAR"} and stage and stage[-1] == "=":
        return "gemm(x, w.T) is the product" if token == "@" else "map(x) { epilogue acc + r[m, n] } adds tensors"
    if token == "." and "LPAR" in allowed:
        return f"functions are written without `{last}.`"
    if token == "(" and "LSQB" in allowed:
        return "a shape is written in [ ]: f16[64, 64]"
    if last == "over":
        return "axes have names: over n is the last, over m the one before it"
    if "__ANON_0" in allowed and token == "{":
        return "write the type of the result before the {: -> f16[64, 64]"
    return None


def of_clause(word: str, before: Sequence[str]) -> str | None:
    """The help for an unknown word after the words `before`, where the grammar allows a clause."""
    last = before[-1] if before else ""
    if last.isdigit() and re.fullmatch(r"[xX][0-9]*", word):
        return "sizes have no spaces between them: 128x256x64"
    if "over" in before[-2:-1] and len(word) == 1:
        return f"axes are separated by commas: over {last}, {word}"
    return CLAUSES.get(word)


def of_function(name: str) -> Help | str | None:
    """The help for an unknown function in an expression."""
    if name in STAGES:
        return f"it is a stage of its own: y = {STAGES[name]}"
    if name in _WRITTEN:
        return f"write {_WRITTEN[name]}"
    return did_you_mean(FUNCTIONS.get(name))
