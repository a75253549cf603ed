"""Expressions of a stage: syntax to typed IR, with every E3xx rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from dsl import foreign_idioms
from dsl.arch import FLOATS
from dsl.check.space import Space, shape_text
from dsl.diagnostics import MAX_LISTED, Diagnostic, closest, listing
from dsl.fixes import (
    DeclareParameter,
    Help,
    LeaveOut,
    Rewrite,
    SetClauses,
    did_you_mean,
    help_of,
    write_clause,
)
from dsl.functions import BOUNDED, EVERY, INDEXED, NAMED, REDUCTIONS
from dsl.ir import NCHW, Acc, Call, DType, Expr, Load, Number, Ref, Span, TensorType
from dsl.tree import CallNode, ExprNode, NumberNode, ParenNode, RefNode

MAX_NODES = 200
MAX_INLINED = 400  # parts with every let expanded: the limit of the back ends
MAX_INLINED_DEPTH = 64
F32_MAX = 3.4028234663852886e38

Report = Callable[[Diagnostic], None]


_ROW_SCALE = write_clause("also", "s = row_max(acc2)")


def _alone(name: str) -> Help:
    return help_of(f"write {name} alone", Rewrite(name))


@dataclass
class _Part:
    """A checked let. `size` and `depth` are those of its expression with the lets that it reads expanded."""

    span: Span
    reads_acc: bool
    size: int
    depth: int
    read: bool = False


@dataclass
class Expressions:
    """Types the expressions of one stage, in order. `space` is None if the shape of the result is unknown."""

    stage: str
    scope: dict[str, TensorType | None]  # types of the names before the stage
    later: set[str]
    report: Report
    space: Space | None = None
    own: frozenset[str] = frozenset()  # the second results of the stage itself
    nearest: Callable[[str, Collection[str]], str | None] = closest
    used: set[str] = field(default_factory=set)
    parts: dict[str, _Part] = field(default_factory=dict)
    role: str = ""

    def check(self, node: ExprNode, role: str = "epilogue", outermost: bool = True) -> Expr:
        """The typed expression. Unknown names become 0, so that the rest is still checked.

        `role` names the expression in messages. `outermost`: the outermost call may be a reduction.
        """
        self._start()
        self.role = role
        outermost = outermost and not (role == "epilogue" and self.space is not None and self.space.scaled)
        top = node
        while isinstance(top, ParenNode):
            top = top.inner
        expr = self._expr(node, outermost and isinstance(top, CallNode))
        self._limits(node, role)
        if not self.reads_acc:
            spoken = self.space.spoken if self.space else "product"
            self._error(
                "E309", f"the {role} never reads acc, so the {spoken} is computed for nothing", node.span,
                f"write acc where the {spoken} belongs",
            )  # fmt: skip
        return expr

    def let(self, name: str, node: ExprNode, span: Span) -> Expr:
        """The typed expression of a let; expressions that are checked later may read it."""
        self._start()
        expr = self._expr(node, False)
        self._limits(node, f"part {name}")
        self.parts[name] = _Part(span, self.reads_acc, self.size, self.depth)
        return expr

    def unread(self) -> None:
        """Report each let that no expression reads."""
        for name, part in self.parts.items():
            if not part.read:
                self._error("E308", f"part {name} is never read", part.span, help_of("leave it out", LeaveOut()))

    # ---- one expression ----

    def _start(self) -> None:
        self.of_row = False  # inside row_max of a scaled row, which is one value a row
        self.nodes = self.size = self.depth = 0
        self.reads_acc = False

    def _limits(self, node: ExprNode, role: str) -> None:
        self.depth = max(self.depth, node.depth)
        if self.nodes > MAX_NODES:
            self._error("E307", f"the {role} has {self.nodes} parts; at most {MAX_NODES} fit one kernel", node.span)
        elif self.size > MAX_INLINED or self.depth > MAX_INLINED_DEPTH:
            message = f"the {role} has {min(self.size, 10**6):,} parts with every let expanded, {self.depth} deep"
            self._error("E307", f"{message}; at most {MAX_INLINED} and {MAX_INLINED_DEPTH} fit one kernel", node.span)
            self.size = self.depth = 1  # report the error once, not again for each expression that reads this one

    def _error(
        self, code: str, message: str, span: Span, help: Help | str | None = None, notes: tuple[str, ...] = ()
    ) -> None:
        self.report(Diagnostic.of(code, message, span, help, notes))

    def _expr(self, node: ExprNode, outermost: bool = False) -> Expr:
        if isinstance(node, ParenNode):
            return self._expr(node.inner, outermost)
        self.nodes += 1
        self.size += 1
        if isinstance(node, NumberNode):
            return self._number(node)
        if isinstance(node, RefNode):
            return self._ref(node)
        return self._call(node, outermost)

    def _number(self, node: NumberNode) -> Number:
        if F32_MAX < abs(node.value) < math.inf:
            self._error("E310", "this number does not fit f32 (largest 3.4e38)", node.span)
        return Number(node.value, node.span)

    def _ref(self, node: RefNode) -> Expr:
        name = node.name.text
        if name in ("acc", "acc2"):
            return self._acc(node)
        if name in self.parts:
            part = self.parts[name]
            part.read = True
            self._in_row(node)
            self.reads_acc |= part.reads_acc
            self.size = min(self.size + part.size, 10**9)
            self.depth = max(self.depth, part.depth + 1)
            if node.axes is not None:
                message = f"{name} is a part of this stage; it has no axes"
                self._error("E302", message, node.span, _alone(name))
            return Ref(name, node.span)
        if name not in self.scope:
            self._unknown(node)
            return Number(0.0, node.span)
        self.used.add(name)
        self._in_row(node)
        starts = tuple(None if s is None else s.value for s in node.starts)
        starts = starts if any(s is not None for s in starts) else ()
        load = Load(name, tuple(a.text for a in node.axes or ()), starts, node.span)
        tensor = self.scope[name]
        if tensor is None:
            return load
        reads = (*FLOATS, DType.I8) if self.space is not None and self.space.whole else FLOATS
        if tensor.dtype not in reads:
            message = f"an expression reads {listing([t.value for t in reads])}; {name} is {tensor.dtype.value}"
            self._error("E315", message, node.span)
            return load
        if self.space is not None:
            if self.space.product and tensor.layout != NCHW:
                help = f"{name}_ = transform({name}) {{ layout nchw }} first"
                self._error("E115", f"a gemm reads row-major tensors; {name} is {tensor}", node.span, help)
            self._place(node, load, tensor, self.space)
        return load

    def _acc(self, node: RefNode) -> Acc:
        second = node.name.text == "acc2"
        before = self.space is not None and self.space.before
        self.reads_acc |= not (second and before and self.role == "epilogue")
        if node.axes is not None:
            message = f"{node.name.text} is already the element here"
            self._error("E302", message, node.span, _alone(node.name.text))
        if self.space is not None and self.space.scaled:
            if not second:
                self._in_row(node)
            elif not self.of_row:
                message = "acc2 is the largest magnitude of acc's row: a result of its own, one value a row"
                self._error("E313", message, node.span, _ROW_SCALE)
        elif second and self.space is not None and not (self.space.pairs or before):
            help: Help | str = "this stage has acc only"
            if self.space.product:
                help = help_of("add pairs to the clauses of this stage", SetClauses((("pairs", ""),)))
            self._error("E313", "acc2 is the odd column of a gemm with pairs", node.span, help)
        return Acc(second, node.span)

    def _in_row(self, node: RefNode) -> None:
        """Report an error inside row_max of a scaled row, which may read only acc2 and numbers."""
        if self.of_row:
            message = f"row_max of an absmax reads acc2 and numbers alone; {node.name.text} is not one value a row"
            self._error("E312", message, node.span, _ROW_SCALE)

    def _place(self, node: RefNode, load: Load, tensor: TensorType, space: Space) -> None:
        """Check the axes at which a tensor is read."""
        for axis in node.axes or ():
            if axis.text not in space.axes:
                batch = axis.text == "l" and "m" in space.axes
                hint = "there is no batch axis l: the output is 2-D" if batch else f"axes are {listing(space.axes)}"
                message = f"`{axis.text}` is not an axis of {self.stage}{shape_text(space.shape)}"
                self._error("E306", message, axis.span, hint)
                return
        at = [i for a in load.axes for i in space.axes[a]]
        if at != sorted(set(at)):
            order = sorted(set(load.axes), key=lambda a: space.axes[a])
            fixed, covered = [], -1
            for a in order:
                if space.axes[a] and space.axes[a][0] > covered:
                    fixed.append(a)
                    covered = space.axes[a][-1]
            known = ", ".join(sorted(space.axes, key=lambda a: space.axes[a]))
            text = f"{load.name}[{', '.join(fixed)}]"
            help = help_of(text, Rewrite(text))
            self._error("E306", f"axes stand in the order {known}, each once", node.span, help)
            return
        needed = space.dims(load.axes)
        if load.starts:
            self._part(node, load, tensor, space)
        elif needed != tensor.shape:
            self._wrong_axes(node, load, tensor, needed, space)

    def _part(self, node: RefNode, load: Load, tensor: TensorType, space: Space) -> None:
        """Check a part of a tensor, `x[m, n + 512]`: it lies within the tensor."""
        whole = f"{load.name}[{', '.join(load.axes)}]"
        if not space.parts:
            message = f"only a map reads a part of a tensor; {self.stage} reads {load.name} whole"
            self._error("E306", message, node.span, help_of(whole, Rewrite(whole)))
            return
        if len(tensor.shape) != len(load.axes) or any(len(space.axes[a]) != 1 for a in load.axes):
            message = f"a part needs a name for each axis; {load.name} is {tensor}"
            self._error("E302", message, node.span, f"axes are {listing(space.axes)}")
            return
        for axis, extent, size, start in zip(node.axes, space.dims(load.axes), tensor.shape, load.starts, strict=True):
            if start is None and extent != size:
                message = f"{load.name} has {size:,} elements along {axis.text}, and {self.stage} has {extent:,}"
                self._error("E302", message, axis.span, f"`{axis.text} + 0` reads the first {extent:,}")
            elif start is not None and start + extent > size:
                message = f"{axis.text} + {start:,} ends at {start + extent:,}; {load.name} has {size:,} elements there"
                help = f"at most {axis.text} + {size - extent:,}" if extent <= size else None
                self._error("E302", message, axis.span, help)

    def _wrong_axes(self, node: RefNode, load: Load, tensor: TensorType, needed: tuple[int, ...], space: Space) -> None:
        name = load.name
        fits = space.fitting(tensor)
        help: Help | str | None = None
        if fits:
            sentence = f"write {' or '.join(name + f for f in fits)}"
            help = sentence if len(fits) > 1 else help_of(sentence, Rewrite(name + fits[0]))
        if not tensor.shape:
            self._error("E302", f"{name} is a scalar; it has no axes", node.span, _alone(name))
        elif not load.axes:
            help = help or f"no axes of {self.stage}{shape_text(space.shape)} fit it"
            self._error("E302", f"{name} is {tensor}; a tensor is read at axes", node.span, help)
        else:
            message = f"{name}[{', '.join(load.axes)}] needs shape {shape_text(needed)}; {name} is {tensor}"
            declared = f"{tensor.dtype.value}{shape_text(needed)}"
            help = help or help_of(f"declare {name}: {declared}", DeclareParameter(name, declared))
            self._error("E302", message, node.span, help)

    def _unknown(self, node: RefNode) -> None:
        name = node.name.text
        spoken = self.space.spoken if self.space else "product"
        if name == self.stage:
            message = f"{name} is this stage's own result; it cannot read it"
            self._error("E311", message, node.span, help_of(f"the {spoken} is acc", Rewrite("acc")))
        elif name in self.own:
            self._error("E311", f"{name} is a result of this stage; it cannot read it", node.span)
        elif name in self.later:
            self._error("E311", f"{name} is written by a later stage", node.span, f"move {name} above {self.stage}")
        else:
            near = self.nearest(name, [*self.scope, *self.parts, "acc"])
            self.used |= {near}
            if near in self.parts:
                self.parts[near].read = True
            self.reads_acc |= near == "acc" or near in self.parts
            notes = (f"in scope are {listing(['acc', *self.parts, *self.scope], MAX_LISTED)}",)
            self._error("E301", f"`{name}` is not defined", node.span, did_you_mean(near), notes)

    # ---- functions ----

    def _call(self, node: CallNode, outermost: bool) -> Expr:
        fn = EVERY.get(node.fn.text)
        args: list[ExprNode | None] = list(node.args)
        if fn is None:
            return self._no_function(node)
        if fn.name in REDUCTIONS:
            self._reduction(node, outermost)
        elif fn.name in INDEXED and self.space is not None and not self.space.product:
            self._error("E312", f"{fn.name} needs the m and n of a gemm; this stage is not a gemm", node.span)
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
            count = len(node.args) + len(node.keywords)
            needs = str(fn.required) if fn.required == fn.arity else f"{fn.required} to {fn.arity}"
            message = f"{fn.name} takes {needs} argument{'s'[: fn.arity != 1]}; {count} given"
            self._error("E304", message, node.span, f"it is {fn.signature}")
        out: list[Expr] = []
        for arg, value in zip(fn.args, args, strict=False):
            default = 0.0 if arg.default is None else arg.default
            expr = self._argument(fn.name, value) if value is not None else Number(default, node.span)
            if arg.number and value is not None and not isinstance(expr, Number):
                self._error("E305", f"`{arg.name}` of {fn.name} must be a number, known when compiled", value.span)
            elif fn.name in INDEXED and arg.number and expr.value != int(expr.value):
                self._error("E305", f"`{arg.name}` of {fn.name} is a whole number, not {expr.value}", value.span)
            out.append(expr)
        if fn.name in BOUNDED and all(isinstance(e, Number) for e in out[1:3]) and out[1].value > out[2].value:
            message = f"{fn.name} from {out[1].value} up to {out[2].value} is empty"
            self._error("E305", message, node.span, "lo comes first")
        return Call(fn.name, tuple(out), node.span)

    def _argument(self, fn: str, node: ExprNode) -> Expr:
        if fn != "row_max" or self.space is None or not self.space.scaled:
            return self._expr(node)
        self.of_row = True
        expr = self._expr(node)
        self.of_row = False
        return expr

    def _no_function(self, node: CallNode) -> Number:
        known = (*NAMED, *(INDEXED | REDUCTIONS if self.space is None or self.space.product else ()))
        near = closest(node.fn.text, known)
        help = foreign_idioms.of_function(node.fn.text) or did_you_mean(near)
        message = f"`{node.fn.text}` is not a function of an expression"
        self._error("E303", message, node.fn.span, help, (f"functions are {listing(known)}",))
        for a in (*node.args, *(v for _, v in node.keywords)):
            self._expr(a)
        return Number(0.0, node.span)

    def _reduction(self, node: CallNode, outermost: bool) -> None:
        name = node.fn.text
        if self.space is not None and self.space.scaled and name == "row_max":
            if not outermost:
                message = "row_max must be the outermost call of an also, which stores one value a row"
                self._error("E312", message, node.fn.span, _ROW_SCALE)
        elif self.space is not None and not self.space.product:
            message = f"{name} reduces the rows or columns of a gemm; this stage is not a gemm"
            self._error("E312", message, node.fn.span, self._reduce_after(name))
        elif not outermost:
            help = f"also part = {name}(...), or {name} around the whole epilogue; a map can read its result"
            message = f"{name} is inside an expression; its result is complete only after the whole row or column"
            self._error("E312", message, node.fn.span, help)

    def _reduce_after(self, fn: str) -> str:
        """The help for a stage whose epilogue cannot reduce: the stage after it that does, over this stage's axes."""
        axes = list(self.space.axes)
        if "n" in axes:
            over = "m" if fn.startswith("col") else "n"
        else:
            over = ", ".join(a for a in axes if a not in ("b", "c")) or "c"
        op = fn.partition("_")[2]
        stage = f"r = reduce({self.stage}) {{ op {op}  over {over} }}"
        return f"a stage after it: {stage}; the axes are {listing(axes)}"
