"""Epilogue expressions: from syntax to typed IR, with every E3xx rule."""

from __future__ import annotations

import math
from collections.abc import Callable

from .diagnostics import Diagnostic, closest, listing
from .functions import NAMED, TABLE
from .ir import Acc, Call, Expr, Load, Number, Span, TensorType
from .tree import CallNode, ExprNode, NumberNode, ParenNode, RefNode

AXES = ("l", "m", "n")
MAX_NODES = 200
MAX_OPERANDS = 8
F32_MAX = 3.4028234663852886e38

Report = Callable[[Diagnostic], None]


def output_axes(shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The dimensions that each axis of a GEMM's output stands for; l is all the leading ones together."""
    axes = {"m": (shape[-2],), "n": (shape[-1],)}
    return {"l": shape[:-2], **axes} if len(shape) > 2 else axes


def fitting_axes(tensor: TensorType, output: tuple[int, ...]) -> list[str]:
    """Every way to read `tensor` at the output's axes: `['[m]', '[n]']` for a vector when M == N."""
    have = output_axes(output)
    names = list(have)
    found = []
    for bits in range(1, 2 ** len(names)):
        chosen = [a for i, a in enumerate(names) if bits >> i & 1]
        if sum((have[a] for a in chosen), ()) == tensor.shape:
            found.append(f"[{', '.join(chosen)}]")
    return found


def shape_text(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


class EpilogueChecker:
    """Types one epilogue. `scope`: types of the names before it; `output`: the result's shape, None if unknown."""

    def __init__(self, stage: str, scope: dict[str, TensorType | None], later: set[str], output, report: Report):
        self.stage, self.scope, self.later, self.output, self.report = stage, scope, later, output, report
        self.used: set[str] = set()
        self.nodes = 0
        self.reads_acc = False

    def check(self, node: ExprNode) -> Expr:
        """The typed expression; names that failed become 0, so that the rest is still judged."""
        before = node
        expr = self._expr(node)
        if self.nodes > MAX_NODES:
            self._error("E307", f"the epilogue has {self.nodes} parts; at most {MAX_NODES} fit one kernel", before.span)
        if not self.reads_acc:
            self._error(
                "E309", "the epilogue never reads acc, so the product is computed for nothing", before.span,
                "write acc where the product belongs",
            )  # fmt: skip
        return expr

    def _error(self, code: str, message: str, span: Span, help: str | None = None, notes: tuple[str, ...] = ()) -> None:
        self.report(Diagnostic(code, message, span, notes, help))

    def _expr(self, node: ExprNode) -> Expr:
        self.nodes += 1
        if isinstance(node, ParenNode):
            self.nodes -= 1
            return self._expr(node.inner)
        if isinstance(node, NumberNode):
            return self._number(node)
        if isinstance(node, RefNode):
            return self._ref(node)
        return self._call(node)

    def _number(self, node: NumberNode) -> Number:
        if not math.isfinite(node.value) or abs(node.value) > F32_MAX:
            self._error("E310", "this number does not fit f32 (largest 3.4e38)", node.span)
        return Number(node.value, node.span)

    def _ref(self, node: RefNode) -> Expr:
        name = node.name.text
        if name == "acc":
            self.reads_acc = True
            if node.axes is not None:
                self._error("E302", "acc is already the element at [m, n]", node.span, "write acc alone")
            return Acc(span=node.span)
        if name not in self.scope:
            self._unknown(node)
            return Number(0.0, node.span)
        self.used.add(name)
        load = Load(name, tuple(a.text for a in node.axes or ()), node.span)
        tensor = self.scope[name]
        if tensor is None or self.output is None:
            return load
        have = output_axes(self.output)
        for axis in node.axes or ():
            if axis.text not in have:
                hint = (
                    "there is no batch axis l: the output is 2-D" if axis.text == "l" else f"axes are {listing(have)}"
                )
                self._error(
                    "E306", f"`{axis.text}` is not an axis of {self.stage}{shape_text(self.output)}", axis.span, hint
                )
                return load
        order = [AXES.index(a) for a in load.axes]
        if order != sorted(set(order)):
            fixed = ", ".join(sorted(set(load.axes), key=AXES.index))
            self._error("E306", f"axes stand in the order {', '.join(have)}, each once", node.span, f"{name}[{fixed}]")
            return load
        want = sum((have[a] for a in load.axes), ())
        if want != tensor.shape:
            self._wrong_axes(node, load, tensor, want)
        return load

    def _wrong_axes(self, node: RefNode, load: Load, tensor: TensorType, want: tuple[int, ...]) -> None:
        name = load.name
        fits = fitting_axes(tensor, self.output)
        help = f"write {' or '.join(name + f for f in fits)}" if fits else None
        if not tensor.shape:
            self._error("E302", f"{name} is a scalar; it has no axes", node.span, f"write {name} alone")
        elif not load.axes:
            help = help or f"no axes of {self.stage}{shape_text(self.output)} fit it"
            self._error("E302", f"{name} is {tensor}; a tensor is read at axes", node.span, help)
        else:
            message = f"{name}[{', '.join(load.axes)}] needs shape {shape_text(want)}; {name} is {tensor}"
            help = help or f"declare {name}: {tensor.dtype.value}{shape_text(want)}"
            self._error("E302", message, node.span, help)

    def _unknown(self, node: RefNode) -> None:
        name = node.name.text
        if name == self.stage:
            self._error(
                "E311", f"{name} is this stage's own result; it is not there yet", node.span, "the product is acc"
            )
        elif name in self.later:
            self._error("E311", f"{name} is written by a later stage", node.span, f"move {name} above {self.stage}")
        else:
            near = closest(name, [*self.scope, "acc"])
            self.used |= {near}
            self.reads_acc |= near == "acc"
            notes = (f"in scope are {listing(['acc', *self.scope])}",)
            self._error(
                "E301", f"`{name}` names nothing", node.span, f"did you mean `{near}`?" if near else None, notes
            )

    def _call(self, node: CallNode) -> Expr:
        fn = TABLE.get(node.fn.text)
        args: list[ExprNode | None] = list(node.args)
        if fn is None:
            near = closest(node.fn.text, NAMED)
            self._error(
                "E303", f"`{node.fn.text}` is not a function of the epilogue", node.fn.span,
                f"did you mean `{near}`?" if near else None, (f"functions are {listing(NAMED)}",),
            )  # fmt: skip
            for a in (*node.args, *(v for _, v in node.keywords)):
                self._expr(a)
            return Number(0.0, node.span)
        names = [a.name for a in fn.args]
        args += [None] * (fn.arity - len(args))
        for word, value in node.keywords:
            at = names.index(word.text) if word.text in names else None
            if at is None:
                self._error("E304", f"{fn.name} has no argument `{word.text}`", word.span, f"it is {fn.signature}")
            elif args[at] is not None:
                self._error("E304", f"{fn.name} is given `{word.text}` twice", word.span, f"it is {fn.signature}")
            else:
                args[at] = value
        missing = [a.name for a, v in zip(fn.args, args, strict=False) if v is None and a.default is None]
        if missing or len(args) > fn.arity:
            given = len(node.args) + len(node.keywords)
            needs = str(fn.required) if fn.required == fn.arity else f"{fn.required} or {fn.arity}"
            message = f"{fn.name} takes {needs} argument{'s'[: fn.arity != 1]}; {given} given"
            self._error("E304", message, node.span, f"it is {fn.signature}")
        out: list[Expr] = []
        for arg, value in zip(fn.args, args, strict=False):
            expr = self._expr(value) if value is not None else Number(arg.default or 0.0, node.span)
            if arg.number and value is not None and not isinstance(expr, Number):
                self._error("E305", f"`{arg.name}` of {fn.name} must be a number, known when compiled", value.span)
            out.append(expr)
        if fn.name == "clamp" and all(isinstance(e, Number) for e in out[1:3]) and out[1].value > out[2].value:
            self._error("E305", f"clamp from {out[1].value} up to {out[2].value} is empty", node.span, "lo comes first")
        return Call(fn.name, tuple(out), node.span)
