"""A norm stage: its axes, its statistics, and the functions of its results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from dsl.axes import axes_of
from dsl.ir import Acc, Call, Expr, Normalize, Program, inlined
from dsl.lower.cute.generated_kernels import FLAG, Element, element, refuse_types, watched_results
from dsl.lower.cute.space import Strides
from dsl.lower.cute.stage import Text, types_of
from dsl.lower.cute.walk import Reading, read_all, unique

# op -> (fold, the two statistics of a group from the fold's total, the text of an element normalised with them).
_STATS = {
    "softmax": ("LogSumExp", ("LogSumExp.shift(total[0])", "1.0 / total[1]"),
                "cute.math.exp(value - stat0, fastmath=True) * stat1"),
    "log_softmax": ("LogSumExp", ("LogSumExp.shift(total[0])", "cute.math.log(total[1])"), "value - stat0 - stat1"),
    "rmsnorm": ("Squares", ("Float32(0.0)", "cute.math.rsqrt(total[0] * {share} + {eps})"), "value * stat1"),
    "absmax": ("Largest", ("total[0]", "1.0 / cute.arch.fmax(total[0], 1.1754943508222875e-38)"), "value * stat1"),
}  # fmt: skip
_STATS |= dict.fromkeys(
    ("layernorm", "groupnorm", "instancenorm"),
    ("Moments", ("total[1]", "cute.math.rsqrt(total[2] * {share} + {eps})"), "(value - stat0) * stat1"),
)


@dataclass(frozen=True)
class Out:
    """A result: its strides over the norm's axes, its function and the keys of the tensors that the function reads."""

    name: str
    reading: Reading
    function: Element
    keys: tuple[str, ...]


class Norm:
    """A norm stage over axes in which channels are split into groups and channels of a group."""

    def __init__(self, program: Program, stage: Normalize):
        self.stage, self.types = stage, types_of(program)
        x = self.types[stage.x.name]
        self.rank = rank = len(x.shape)
        self.groups = stage.groups if stage.op == "groupnorm" else 0
        axes = axes_of(stage, rank)
        self.extents = self._split_extents(x.shape)
        if stage.op == "groupnorm":
            self.reduced = frozenset(range(2, rank + 1))
        elif stage.op == "instancenorm":
            self.reduced = frozenset(range(2, rank))
        elif stage.op == "batchnorm":
            self.reduced = frozenset()
        else:
            self.reduced = frozenset(p for name in stage.over for p in axes[name])
        self.x = Reading(stage.x.name, x.dtype, self.split(x.strides))
        self.order, self.out_order = self._split_order(x.memory_order), self._split_order(stage.type.memory_order)
        self.readings: dict[str, Reading] = {}
        self.of = element(stage, stage.of, f"{stage.name}_of")
        self.of_keys = self._read(self.of, axes)
        self.param_keys = self._params()
        self.outs: list[Out] = []
        self.of_rows: list[Out] = []  # one value a group: row_max of an absmax
        ends = [(a.name, a.expr, a.type) for a in stage.also] + [(stage.name, stage.epilogue, stage.type)]
        for name, expr, t in ends:
            if stage.op == "absmax" and isinstance(expr, Call) and expr.fn == "row_max":
                one = element(stage, _of_acc(inlined(stage, expr.args[0])), f"{name}_element")
                self.of_rows.append(Out(name, Reading(name, t.dtype, (*t.strides, 0)), one, ()))
                continue
            function = element(stage, expr, f"{name}_element")
            reading = Reading(name, t.dtype, self.split(t.strides))
            self.outs.append(Out(name, reading, function, self._read(function, axes)))
        read = [stage.x.name, *(r.tensor for r in self.readings.values())]
        self.tensors = unique([*read, *(o.name for o in (*self.outs, *self.of_rows))])
        refuse_types(stage, self.types, self.tensors)
        self.watched = watched_results(program, stage)  # results that a guard watches as they are stored
        self.flag = [FLAG] if self.watched else []
        self.size = prod(self.extents[a] for a in self.reduced)

    def _split_extents(self, shape):
        if not self.groups:
            return shape
        return (shape[0], self.groups, shape[1] // self.groups, *shape[2:])

    def split(self, strides: Strides) -> Strides:
        """The strides with the channels as two axes: groups, and channels of a group."""
        if not self.groups:
            return strides
        return (strides[0], strides[1] * self.extents[2], *strides[1:])

    def _split_order(self, order):
        if not self.groups:
            return order
        out = []
        for axis in order:
            out += [axis] if axis == 0 else [1, 2] if axis == 1 else [axis + 1]
        return tuple(out)

    def _read(self, function: Element, axes) -> tuple[str, ...]:
        before: dict[str, Reading] = {}
        keys = read_all(function, self.types, axes, self.rank, before)
        self.readings |= {k: replace(r, strides=self.split(r.strides)) for k, r in before.items()}
        return keys

    def _params(self) -> tuple[str, ...]:
        """Add mean, var (batchnorm), weight and bias, over the normalised axes or over channels. Returns their keys."""
        keys = []
        for i, operand in enumerate(self.stage.params):
            t = self.types[operand.name]
            strides = [0] * self.rank
            along = sorted(self.reduced) if self.stage.op in ("layernorm", "rmsnorm") else [1]
            for axis, s in zip(along, t.strides, strict=True):
                strides[axis] = s if t.shape[along.index(axis)] > 1 else 0
            key = f"param{i}"
            self.readings[key] = Reading(operand.name, t.dtype, self.split(tuple(strides)))
            keys.append(key)
        return tuple(keys)

    @property
    def constants(self) -> dict[str, str]:
        return {"share": repr(1.0 / self.size), "eps": repr(float(self.stage.eps))}

    def stats(self) -> tuple[str, tuple[str, ...], str]:
        """The fold, the texts of a group's two statistics over `total`, and the text of a normalised element."""
        fold, values, by = _STATS[self.stage.op]
        return fold, tuple(v.format(**self.constants) for v in values), by

    def result_function(
        self, out: Out, by: str, stats: tuple[str, ...], computed: bool = False
    ) -> tuple[str, list[str]]:
        """The text of `<out>_result(acc, stats, others)`, and the keys of the others in order.

        `computed`: acc is the value of `of` already.
        """
        keys = unique([*([] if computed else self.of_keys), *self.param_keys, *out.keys])
        lines = [f"def {out.name}_result({', '.join(['acc', *stats, *keys])}):"]
        lines.append("    value = acc" if computed else f"    value = {self.of.call('acc', *self.of_keys)}")
        lines += ["    before = value"] if out.function.second else []
        affine = list(self.param_keys)
        if self.stage.op == "batchnorm":
            mean, var, *affine = affine
            by = f"(value - {mean}) * cute.math.rsqrt({var} + {float(self.stage.eps)!r})"
        lines.append(f"    value = {by}")
        if affine:
            lines.append(f"    value = value * {affine[0]}" + (f" + {affine[1]}" if len(affine) > 1 else ""))
        lines.append(f"    return {out.function.call('value', *out.keys, acc2='before')}")
        return "\n".join(lines) + "\n", keys

    def imports(self) -> frozenset[tuple[str, str]]:
        every = (*self.outs, *self.of_rows)
        return self.of.imports.union({("cutlass", "select_")}, *(o.function.imports for o in every))

    def functions(self, text: Text) -> None:
        for one, clause in ((self.of, "of"), *((o.function, "epilogue") for o in (*self.outs, *self.of_rows))):
            if not one.plain:
                text.add(one.text, ("", clause))
                text.gap(2)


def _of_acc(e: Expr) -> Expr:
    """An expression with acc instead of acc2."""
    if isinstance(e, Acc):
        return Acc()
    return replace(e, args=tuple(map(_of_acc, e.args))) if isinstance(e, Call) else e
