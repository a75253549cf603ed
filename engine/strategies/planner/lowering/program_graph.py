"""A μCUTLASS program as an op graph: the inverse of lowering, for a session that starts from a pasted program.

The graph states in ATen ops what the program computes, so its limit and PyTorch's time are found as for a module.
Parameters become inputs of the same names; casts become `to`; a change of layout is a copy of the same values.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from dsl.axes import axes_of, single_axes
from dsl.guard import rescue
from dsl.ir import (
    STATES,
    Acc,
    Attention,
    Call,
    Collective,
    Concat,
    Conv,
    DType,
    Expr,
    Gemm,
    GroupedGemm,
    Load,
    Map,
    Normalize,
    Operand,
    Pool,
    Program,
    Recurrent,
    Reduce,
    Scan,
    Stage,
    TensorType,
    Transform,
)
from engine.classes import class_of as class_of
from engine.devices import Binding, SessionRefused
from engine.strategies.planner.lowering.graph_expressions import Expressions
from sol.graph import OpGraph, Tensor


def bindings(program: Program) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
    """Parameters and results under their own names."""
    inputs = tuple(Binding(p.name, p.name, p.type.shape) for p in program.params)
    outputs = tuple(Binding(name, name, t.shape) for name, t in zip(program.results, program.result_types, strict=True))
    return inputs, outputs


def graph_of(program: Program) -> OpGraph:
    """The op graph of a checked program. For a guarded program it has the f32 products that its casts stand for: the
    program falls back to them, and PyTorch in class tf32 is timed on them. Raises SessionRefused for a recurrent stage
    whose gates are not the products of one input: PyTorch has no such operation."""
    return _Builder(rescue(program) if program.guard else program).run()


class _Builder:
    def __init__(self, program: Program):
        self.program = program
        self.expressions = Expressions(program)

    def run(self) -> OpGraph:
        p = self.program
        for param in p.params:
            t = param.type
            self.expressions.tensors[param.name] = Tensor(param.name, t.shape, t.dtype.value, "input")
        for stage in p.stages:
            self.expressions.line = stage.span.line or None
            if isinstance(stage, Transform):
                self._transform(stage)
            elif isinstance(stage, Recurrent):
                self._recurrent(stage)
            else:
                self._stage(stage)
        e = self.expressions
        whole = OpGraph(e.tensors, tuple(e.ops), tuple(x.name for x in p.params), tuple(p.results))
        return replace(whole, ops=whole.live)  # without the products that a network of PyTorch's includes

    # ---- one stage ----

    def _stage(self, stage: Stage) -> None:
        """Add the stage's computation, then its expressions, in the type in which PyTorch would compute them."""
        if isinstance(stage, Gemm | GroupedGemm | Conv):
            acc, second = self._product(stage)
        elif isinstance(stage, Concat):
            acc, second = self._concat(stage), None
        elif isinstance(stage, Attention):
            acc, second = self._attention(stage), None
        elif isinstance(stage, Map):
            part = self.expressions.part_of(stage.x.name, stage.crop or (), stage.start or ())
            acc, second = self.expressions.numbers(part), None
        elif isinstance(stage, Normalize) and stage.op == "absmax":
            acc, second = self._scaled_rows(stage)
        else:
            acc, second = self._own(stage)
        shape = self.expressions.tensors[acc].shape
        axes = _axes_left(stage, len(self.program.type_of(stage.x.name).shape)) if isinstance(stage, Reduce) else None
        self.expressions.open(axes if axes is not None else axes_of(stage, len(shape)), acc, second)
        for let in stage.lets:
            self.expressions.lets[let.name] = self.expressions.part(let.expr)
        for extra in stage.also:
            self._name(extra.expr, extra.name, extra.type or stage.type)
        self._name(stage.epilogue, stage.name, stage.type)

    def _name(self, e: Expr, name: str, t: TensorType) -> None:
        """The value of an expression as the tensor `name`, stored as `t`."""
        before = len(self.expressions.ops)
        out = self.expressions.value(e)
        tensor = self.expressions.tensors[out]
        if tensor.dtype != t.dtype.value:
            self.expressions.emit("to", [out], t, {"dtype": t.dtype.value}, name)
        elif (isinstance(e, Acc) and out in self.expressions.fresh) or len(self.expressions.ops) > before:
            self.expressions.rename(out, name)
        else:  # it has another reader, or is a parameter
            self.expressions.emit("clone", [out], t, {}, name)

    def _product(self, stage: Collective) -> tuple[str, str | None]:
        types = [self.program.type_of(o.name) for o in stage.operands[:2]]
        dtype = types[0].dtype if types[0].dtype.bits > 8 else DType.F32
        if isinstance(stage, Conv):
            n = stage.spatial
            attrs: dict[str, Any] = {
                "stride": list(stage.stride or (1,) * n),
                "padding": list(stage.padding or (0,) * n),
                "dilation": list(stage.dilation or (1,) * n),
                "groups": stage.groups,
            }
            if stage.transposed:
                attrs["output_padding"] = list(stage.output_padding or (0,) * n)
            names = [o.name for o in stage.operands]
            result = TensorType(dtype, stage.type.shape)
            return self.expressions.emit(stage.word, names, result, attrs, fresh=True), None
        a, b = self._side(stage.a), self._side(stage.b)
        if types[1].dtype is not types[0].dtype and isinstance(stage, Gemm):  # cast as it is read
            kind = TensorType(dtype, self.expressions.tensors[b].shape)
            b = self.expressions.emit("to", [b], kind, {"dtype": dtype.value}, fresh=True)
        rows, columns = self.expressions.tensors[a].shape, self.expressions.tensors[b].shape
        lead = rows[:-1] if len(rows) >= len(columns) or isinstance(stage, GroupedGemm) else (*columns[:-2], rows[-2])
        result = TensorType(dtype, (*lead, columns[-1]))
        if isinstance(stage, GroupedGemm):
            return self.expressions.emit("_grouped_mm", [a, b, stage.sizes.name], result, {}, fresh=True), None
        acc = self.expressions.emit("matmul", [a, b], result, {}, fresh=True)
        if not stage.pairs:
            return acc, None
        half = TensorType(dtype, (*lead, columns[-1] // 2))
        step = {"dim": -1, "end": columns[-1], "step": 2}
        first, second = (self.expressions.emit("slice", [acc], half, {**step, "start": i}, fresh=True) for i in (0, 1))
        return first, second

    def _concat(self, stage: Concat) -> str:
        types = [self.program.type_of(o.name) for o in stage.parts]
        at = single_axes(len(types[0].shape))[stage.over]
        whole = [max(sizes) for sizes in zip(*(t.shape for t in types), strict=True)]
        shape = (*whole[:at], sum(t.shape[at] for t in types), *whole[at + 1 :])
        names = [
            self._repeated(o.name, (*whole[:at], t.shape[at], *whole[at + 1 :]))
            for o, t in zip(stage.parts, types, strict=True)
        ]
        return self.expressions.emit("cat", names, TensorType(types[0].dtype, shape), {"dim": at}, fresh=True)

    def _repeated(self, name: str, shape: tuple[int, ...]) -> str:
        """A tensor with one element along some axes, expanded along them."""
        t = self.program.type_of(name)
        if t.shape == shape:
            return name
        return self.expressions.emit(
            "expand", [name], TensorType(t.dtype, shape), {"size": list(shape), "implicit": False}
        )

    def _attention(self, stage: Attention) -> str:
        """PyTorch's own attention, on views of the operands."""
        graph, dtype = self.expressions, self.program.type_of(stage.q.name).dtype
        whole = [self._permuted(o.name, stage.by_head((0, 1, 2, 3))) for o in stage.operands]
        shapes = tuple(graph.tensors[n].shape for n in whole)
        sides = []
        for i, first, count in stage.parts(shapes):
            cut = (shapes[i][0], count, *shapes[i][2:])
            sides.append(graph.part_of(whole[i], cut, (0, first, 0, 0)))
        (b, h, m, _), (_, g, _, e) = (graph.tensors[n].shape for n in (sides[0], sides[2]))
        attrs = {"dropout_p": 0.0, "is_causal": stage.causal, "scale": stage.scale, "enable_gqa": h != g}
        y = graph.emit("scaled_dot_product_attention", sides, TensorType(dtype, (b, h, m, e)), attrs, fresh=True)
        return self._permuted(y, stage.in_order((0, 1, 2, 3)), fresh=True)

    def _recurrent(self, stage: Recurrent) -> None:
        """PyTorch's own network of one layer, which includes the products that make the gates."""
        sides = [self._layer(stage, d) for d in range(stage.directions)]
        xs = {side[0] for side in sides}
        kinds = {self.program.type_of(n).dtype for side in sides for n in side}
        biased = {len(side) for side in sides} == {5}
        if len(xs) != 1 or len(kinds) != 1 or biased is not bool(stage.biases):
            raise _no_network(stage)
        graph, (x,), (dtype,) = self.expressions, xs, kinds
        lead, hidden = stage.type.shape[:2], self.program.type_of(stage.weights[0].name).shape[1]
        wide = TensorType(dtype, (*lead, self.program.type_of(x).shape[-1]))
        x = graph.emit("view", [x], wide, {"size": list(wide.shape)})
        first, d = stage.layer * stage.directions, stage.directions
        state = TensorType(dtype, (d, lead[0 if stage.order == "bt" else 1], hidden))
        cut = {"dim": 0, "start": first, "end": first + d, "step": 1}
        hx = [graph.emit("slice", [o.name], state, cut) for o in stage.states]
        count = STATES[stage.op]
        hx = hx or [graph.emit("new_zeros", [x], state, {"size": list(state.shape)}) for _ in range(count)]
        attrs = {
            "has_biases": biased, "num_layers": 1, "dropout": 0.0, "train": False, "bidirectional": d == 2,
            "batch_first": stage.order == "bt",
        }  # fmt: skip
        sequence = TensorType(dtype, stage.type.shape)
        name = graph.emit(stage.op, [x, *hx, *(n for side in sides for n in side[1:])], sequence, attrs)
        last = [f"{name}_last{i}" for i in range(count)]
        graph.tensors |= {n: Tensor(n, state.shape, dtype.value, "intermediate") for n in last}
        graph.ops[-1] = replace(graph.ops[-1], outputs=(name, *last))
        for out, of, t in (
            (stage.name, name, stage.type),
            *((a.name, last[a.expr.second], a.type) for a in stage.also),
        ):
            graph.emit("to", [of], t, {"dtype": t.dtype.value}, out)

    def _layer(self, stage: Recurrent, d: int) -> tuple[str, ...]:
        """(x, weight_ih, weight_hh, and bias_ih, bias_hh if there are any) of a direction."""
        stages = {s.name: s for s in self.program.stages}
        s = stages.get(stage.gates[d].name)
        while isinstance(s, Transform) and s.view and not (s.permute or s.pad or s.crop or s.to or s.other):
            s = stages.get(s.x.name)
        if not isinstance(s, Gemm) or s.a.transposed or not s.b.transposed or s.pairs or s.lets or s.also:
            raise _no_network(stage)
        e, weights = s.epilogue, (s.a.name, s.b.name, stage.weights[d].name)
        if isinstance(e, Acc):
            return weights
        terms = e.args if isinstance(e, Call) and e.fn == "add" else ()
        bias = next((x for x in terms if isinstance(x, Load)), None)
        if bias is None or bias.axes != ("n",) or not any(isinstance(x, Acc) for x in terms) or not stage.biases:
            raise _no_network(stage)
        return (*weights, bias.name, stage.biases[d].name)

    def _permuted(self, name: str, dims: tuple[int, ...], fresh: bool = False) -> str:
        """The tensor with its axes in another order, which moves nothing."""
        if dims == tuple(sorted(dims)):
            return name
        t = self.expressions.tensors[name]
        kind = TensorType(DType(t.dtype), tuple(t.shape[i] for i in dims))
        return self.expressions.emit("permute", [name], kind, {"dims": list(dims)}, fresh=fresh)

    def _side(self, o: Operand) -> str:
        t = self.program.type_of(o.name)
        if not o.transposed:
            return o.name
        shape = (*t.shape[:-2], t.shape[-1], t.shape[-2])
        return self.expressions.emit("transpose", [o.name], TensorType(t.dtype, shape), {"dim0": -2, "dim1": -1})

    def _scaled_rows(self, stage: Normalize) -> tuple[str, str]:
        """Each element divided by the largest magnitude of its row, and that magnitude."""
        x = self.expressions.numbers(stage.x.name)
        t = self.expressions.type_of(x)
        if not isinstance(stage.of, Acc):
            self.expressions.open(axes_of(stage, len(t.shape)), x, None)
            x = self.expressions.value(stage.of)
        row = TensorType(t.dtype, (*t.shape[:-1], 1))
        size = self.expressions.emit("abs", [x], t, {})
        most = self.expressions.emit("amax", [size], row, {"dim": [-1], "keepdim": True})
        most = self.expressions.emit("clamp", [most], row, {"min": 2.0**-126})
        return self.expressions.emit("div", [x, most], t, {}, fresh=True), most

    def _own(self, stage: Reduce | Normalize | Scan | Pool) -> tuple[str, str | None]:
        """What the stage computes, and the element before a norm."""
        x = self.expressions.numbers(stage.x.name)
        t = self.expressions.type_of(x)
        rank = len(t.shape)
        if not isinstance(stage, Pool) and not isinstance(stage.of, Acc):
            self.expressions.open(axes_of(stage, rank), x, None)
            x = self.expressions.value(stage.of)
        if isinstance(stage, Pool):
            return self._pool(stage, x, t), None
        dims = sorted({p for name in stage.over for p in axes_of(stage, rank)[name]})
        attrs: dict[str, Any]
        if isinstance(stage, Reduce):
            op = {"max": "amax", "min": "amin"}.get(stage.op, stage.op)
            dtype = DType.I32 if op == "argmax" else t.dtype
            shape = tuple(1 if i in dims else d for i, d in enumerate(t.shape) if stage.keepdim or i not in dims)
            attrs = {"dim": dims, "keepdim": stage.keepdim}
            return self.expressions.emit(op, [x], TensorType(dtype, shape), attrs, fresh=True), None
        if isinstance(stage, Scan):
            return self._scan(stage, x, t, dims[0]), x
        op = {"layernorm": "layer_norm", "rmsnorm": "rms_norm", "groupnorm": "group_norm",
              "instancenorm": "instance_norm", "batchnorm": "batch_norm"}.get(stage.op, stage.op)  # fmt: skip
        attrs = {"eps": stage.eps} if op not in ("softmax", "log_softmax") else {}
        if dims:
            attrs["dim"] = dims
        attrs |= {"num_groups": stage.groups} if op == "group_norm" else {}
        attrs |= {"training": False} if op == "batch_norm" else {}
        return self.expressions.emit(op, [x, *(p.name for p in stage.params)], t, attrs, fresh=True), x

    def _scan(self, stage: Scan, x: str, t: TensorType, dim: int) -> str:
        flipped = [self.expressions.emit("flip", [x], t, {"dims": [dim]}) if stage.reverse else x]
        y = self.expressions.emit(f"cum{stage.op}", flipped, t, {"dim": dim}, fresh=True)
        return self.expressions.emit("flip", [y], t, {"dims": [dim]}, fresh=True) if stage.reverse else y

    def _pool(self, stage: Pool, x: str, t: TensorType) -> str:
        n = len(t.shape) - 2
        if stage.window is None:
            whole = TensorType(t.dtype, (*t.shape[:2], *(1,) * n))
            op, dims = {"max": "amax", "avg": "mean"}[stage.op], list(range(2, n + 2))
            return self.expressions.emit(op, [x], whole, {"dim": dims, "keepdim": True}, fresh=True)
        attrs = {
            "kernel_size": list(stage.window),
            "stride": list(stage.stride or stage.window),
            "padding": list(stage.padding or (0,) * n),
        }
        apart = stage.dilation or (1,) * n
        if set(apart) != {1}:
            attrs["dilation"] = list(apart)
        sizes = zip(t.shape[2:], attrs["kernel_size"], attrs["stride"], attrs["padding"], apart, strict=True)
        shape = (*t.shape[:2], *((d + 2 * p - a * (k - 1) - 1) // s + 1 for d, k, s, p, a in sizes))
        return self.expressions.emit(f"{stage.op}_pool{n}d", [x], TensorType(t.dtype, shape), attrs, fresh=True)

    def _transform(self, stage: Transform) -> None:
        graph, t = self.expressions, self.program.type_of(stage.x.name)
        x, dtype, shape, began = stage.x.name, t.dtype, t.shape, len(graph.ops)
        if stage.other is not None:
            axis = max(len(shape) - 2, 0)
            both = (*shape[: axis + 1], 2, *shape[axis + 1 :])
            x = graph.emit("stack", [x, stage.other.name], TensorType(dtype, both), {"dim": axis + 1})
            shape = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
            x = graph.emit("view", [x], TensorType(dtype, shape), {"size": list(shape)})
        if stage.view is not None:
            shape = stage.view
            x = graph.emit("view", [x], TensorType(dtype, shape), {"size": list(shape)})
        if stage.permute is not None:
            shape = tuple(shape[i] for i in stage.permute)
            x = graph.emit("permute", [x], TensorType(dtype, shape), {"dims": list(stage.permute)})
        if stage.pad is not None:
            after = [n for p, d in reversed(list(zip(stage.pad, shape, strict=True))) for n in (0, p - d)]
            shape = stage.pad
            x = graph.emit("constant_pad_nd", [x], TensorType(dtype, shape), {"pad": after, "value": 0})
        x, shape = graph.part_of(x, stage.crop or (), ()), stage.crop or shape
        assert prod(shape) == stage.type.elements
        if stage.type.dtype is not dtype:
            graph.emit("to", [x], stage.type, {"dtype": stage.type.dtype.value}, stage.name)
        elif len(graph.ops) > began:
            graph.rename(x, stage.name)
        else:
            graph.emit("clone", [x], stage.type, {}, stage.name)


def _no_network(stage: Recurrent) -> SessionRefused:
    return SessionRefused(
        "not_covered",
        f"Stage {stage.name} has gates that are not gemm(x, weight_ih.T) + bias_ih of one input: PyTorch has no such "
        "operation to compare with. Write the gates so, or start from a module.",
        stage.span.line or None,
    )


def _axes_left(stage: Reduce, rank: int) -> dict[str, tuple[int, ...]]:
    axes = axes_of(stage, rank)
    if stage.keepdim:
        return axes
    gone = {p for name in stage.over for p in axes[name]}
    place = {p: i for i, p in enumerate(p for p in range(rank) if p not in gone)}
    return {name: tuple(place[p] for p in at) for name, at in axes.items() if not gone.intersection(at)}
