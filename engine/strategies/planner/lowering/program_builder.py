"""A lowered module as a program of one precision class: casts, layouts, paddings and types of intermediates.

The class and a Choice decide these; tiles and the rest of a configuration stay `auto`.

  operands   of products and convolutions have the class's element type; a cast, a change of layout, a transposition
             and a padding of one tensor are one transform;
  between    a stage's result that only products read has their type; another one the module's, or the class's
             (`narrow`), which halves its bytes; images lie channels last where every reader wants them so; under a
             guard only what products alone read, and a softmax of that kind times 2^15, which f16 holds whatever the
             logits: the product's epilogue divides by it again;
  columns    what an epilogue does to a column's elements alike is one scale and one shift
  (engine.strategies.planner.lowering.folding); alignment  rows that are no multiple of 16 bytes are padded with zeros
  before, and cropped after; reductions of a product's rows or columns happen in its epilogue with `fuse`;
  images    lie channels last for the tensor cores, or with `rows` as the module keeps them: no copy before or after.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from dsl import ir
from dsl.ir import NCHW, NHWC, Acc, Call, Config, DType, Expr, Load, Number, Operand, TensorType
from engine.strategies.planner.lowering import pointwise
from engine.strategies.planner.lowering.choice import COMPUTE, Choice
from engine.strategies.planner.lowering.drafts import (
    Attention,
    Concatenation,
    Convolution,
    Draft,
    Elementwise,
    Normalization,
    Pooling,
    Product,
    Rearrangement,
    Reduction,
    Scanning,
    Source,
    image_names,
    part_of,
    stage_of,
)
from engine.strategies.planner.lowering.expressions import along, on, on_axes, shared
from engine.strategies.planner.lowering.folding import folded
from engine.strategies.planner.lowering.lowering_context import unkey
from engine.strategies.planner.lowering.program_tensors import Tensors
from engine.strategies.planner.lowering.rules.recurrent import Recurrent
from engine.strategies.planner.lowering.storage_choice import Readers, casts_its_weight, direct, lines, up

SOFTMAX = 2.0**15  # under a guard, for a softmax that only products read: scales a row's maximum into f16's best range
FOLDED = 1 << 22  # elements of a result above which a preceding map of a few vectors saves more than it costs
_ROWS = {"sum": "row_sum", "mean": "row_sum", "max": "row_max", "logsumexp": "row_logsumexp"}


class Build(Tensors):
    """`element`: the type of cast operands and, with `narrow`, of intermediates; `step`: elements of an operand in 16
    bytes."""

    def __init__(self, lowered, cls: str, choice: Choice):
        super().__init__(lowered)
        self.choice = choice
        self.compute = COMPUTE[cls]
        self.element = DType.F32 if cls == "tf32" else self.compute
        self.step = 128 // self.element.bits
        if cls == "fp8":
            self.element = DType.BF16 if lowered.dtype == "f32" else DType(lowered.dtype)
        self.drafts: tuple[Draft, ...] = lowered.stages
        self.readers = Readers(lowered, self.element, choice.narrow, choice.rows, choice.guard)
        self.vectors: dict[tuple, tuple[Expr, Expr]] = {}  # (axis, scale, shift) -> the expressions read in their place
        self.scales: dict[int, float] = {}  # softmax -> factor of its stored results
        self.fused = {}  # product -> the reduction in its epilogue
        if choice.fuse:
            for i, draft in enumerate(self.drafts):
                at = self._fusible(draft)
                if at is not None:
                    self.fused[at] = i

    def run(self) -> ir.Program:
        emit = {
            Product: self._product, Convolution: self._convolution, Elementwise: self._elementwise,
            Reduction: self._reduction, Normalization: self._normalization, Scanning: self._scanning,
            Pooling: self._pooling,
            Rearrangement: self._rearrangement, Attention: self._attention, Concatenation: self._concatenation,
            Recurrent: self._recurrent,
        }  # fmt: skip
        for i, draft in enumerate(self.drafts):
            emit[type(draft)](i, draft)
        low, stages, guard = self.lowered, tuple(self.stages), self.choice.guard
        results = tuple(low.names[stage_of(r)][part_of(r)] for r in low.results)
        types = tuple(self.types[n] for n in results)
        return ir.Program(low.name, low.params, stages, results, types, "sm_90a", guard=guard)

    def tail(self, i: int, draft: Draft, sizes: dict[str, int] | None = None) -> dict:
        """The expressions of a stage, with parts that are read twice named. `sizes`: axes that are padded."""
        exprs = [self.expression(e, draft, sizes or {}) for e in draft.outs]
        factor = self.scales.get(i, 1.0)
        if isinstance(draft, Product | Convolution):
            factor = 1 / prod(self._scale(s.of) for s in draft.sources)
        if factor != 1:
            exprs = [on(e, Call("mul", (Acc(), Number(factor)))) for e in exprs]
        if isinstance(draft, Product | Convolution) and prod(draft.shape) >= FOLDED:
            axis = "n" if isinstance(draft, Product) else "c"
            exprs = [folded(e, axis, lambda scale, shift: self._vectors(axis, scale, shift)) for e in exprs]
        lets, exprs = shared(self.finished(draft, exprs), self.fresh)
        also = tuple(ir.Also(n, e) for n, e in zip(self.lowered.names[i][1:], exprs[1:], strict=True))
        return {"lets": lets, "also": also, "epilogue": exprs[0]}

    def finished(self, draft: Draft, exprs: list[Expr]) -> list[Expr]:
        """A stage's expressions with the additions of a class."""
        return exprs

    def _scale(self, reference: str) -> float:
        """The factor by which a tensor was multiplied when it was stored."""
        at = stage_of(reference)
        if at is None or not self.scales:
            return 1.0
        draft = self.drafts[at]
        return self._scale(draft.x.of) if isinstance(draft, Rearrangement) else self.scales.get(at, 1.0)

    def _vectors(self, axis: str, scale: Expr, shift: Expr) -> tuple[Expr, Expr]:
        """Two expressions of vectors along `axis`, each new pair stored by one map."""
        if (axis, scale, shift) not in self.vectors:
            parts = [e for e in (scale, shift) if ir.loads(e)]
            x = next(x.name for e in parts for x in ir.loads(e) if x.axes)
            named = [self.fresh(n) for n in ("scale", "shift")[: len(parts)]]
            lets, exprs = shared([along(e, x) for e in parts], self.fresh)
            kind = TensorType(DType.F32, self.types[x].shape)
            self.types |= dict.fromkeys(named, kind)
            also = tuple(ir.Also(n, e) for n, e in zip(named[1:], exprs[1:], strict=True))
            self.stages.append(
                ir.Map(name=named[0], x=Operand(x), lets=lets, also=also, epilogue=exprs[0], store=DType.F32)
            )
            stored = iter(named)
            self.vectors[axis, scale, shift] = tuple(
                Load(next(stored), (axis,)) if ir.loads(e) else e for e in (scale, shift)
            )
        return self.vectors[axis, scale, shift]

    def expression(self, e: Expr, draft: Draft, sizes: dict[str, int]) -> Expr:
        if isinstance(e, Call):
            return Call(e.fn, tuple(self.expression(a, draft, sizes) for a in e.args))
        if not isinstance(e, Load):
            return e
        name = self.name_of(*unkey(e.name))
        if any(a in sizes for a in e.axes):
            shape = tuple(d for a in e.axes for d in ((sizes[a],) if a in sizes else draft.extent(a)))
            name = self.transform(name, pad=shape)
        return replace(e, name=name)

    def stored(self, i: int) -> DType:
        return self.readers.dtype(i)

    def finish(self, i: int, draft: Draft, stage: ir.Stage, natural: str = NCHW, shape: tuple | None = None) -> None:
        """Append a stage and store its results as their readers need them; `shape`: padded, to be cropped."""
        layout, names, store = self.readers.layout(i), self.lowered.names[i], self.stored(i)
        say = layout if layout != natural else None
        if isinstance(stage, ir.Conv) and natural == NHWC:
            say = layout
        if shape is None or shape == draft.shape:
            for name in names:
                self.types[name] = TensorType(store, draft.shape, layout)
            self.stages.append(replace(stage, store=store, store_layout=say))
            return
        padded = {n: self.fresh(f"{n}_padded") for n in names}
        also = tuple(replace(a, name=padded[a.name]) for a in stage.also)
        self.stages.append(replace(stage, name=padded[stage.name], also=also, store=store, store_layout=say))
        for name in names:
            self.types[padded[name]] = TensorType(store, shape, layout)
            self.transform(padded[name], crop=draft.shape, result=name)

    # ---- products ----

    def _fusible(self, draft: Draft) -> int | None:
        """The product whose epilogue can do this reduction."""
        if not isinstance(draft, Reduction) or draft.op not in _ROWS or not isinstance(draft.of, Acc):
            return None
        at = stage_of(draft.x.of)
        if at is None or not isinstance(self.drafts[at], Product) or len(self.drafts[at].outs) != 1:
            return None
        source = self.drafts[at]
        last, first = draft.inside[-1], draft.inside[-2] if len(draft.inside) > 1 else None
        rows = draft.over == (last,)
        columns = draft.over == (first,) and draft.op in ("sum", "mean")
        if len(self.readers.of(at)) != 1 or draft.x.shape != source.shape or not (rows or columns):
            return None
        sizes = self._padded(source, DType.F32)
        if sizes != source.shape[-2:] or self.stored(self.drafts.index(draft)) is not DType.F32:
            return None
        return at

    def _padded(self, draft: Product, store: DType) -> tuple[int, int]:
        """M and N as multiples of 16 bytes if a row in memory runs along them."""
        step = self.step
        m, n = draft.shape[-2:]
        flips = self._flips(draft)
        across = 128 // store.bits
        for e in draft.outs:
            for load in ir.loads(e):
                if {"m", "n"} <= set(load.axes):
                    across = max(across, 128 // self.types[self.name_of(*unkey(load.name))].dtype.bits)
        rows = step if draft.a.transposed and not flips[0] else 1
        columns = max(across, step if not draft.b.transposed and not flips[1] else 1)
        return lines(m, rows), lines(n, columns)

    def _flips(self, draft: Product) -> tuple[bool, bool]:
        """Which operands are copied, to be read along K."""
        along_k = self.choice.along_k and self.compute is DType.TF32
        return along_k and draft.a.transposed, along_k and not self.choice.first and not draft.b.transposed

    def _side(self, source: Source, rows: int, columns: int, flip: bool) -> Operand:
        """A side of a product of `rows` x `columns` as the product sees it; `flip`: copied in the other order."""
        name = self.name_of(source.of, source.shape)
        size = (columns, rows) if source.transposed != flip else (rows, columns)
        rank = len(source.shape)
        order = (*range(rank - 2), rank - 1, rank - 2) if flip else None
        operand = self.transform(name, permute=order, pad=(*source.shape[:-2], *size), to=self.element)
        return Operand(operand, source.transposed != flip)

    def _product(self, i: int, draft: Product) -> None:
        reduced = self.fused.get(i)
        store = DType.F32 if reduced is not None else self.stored(i)
        m, n = self._padded(draft, store)
        flips = self._flips(draft)
        rows_of_k = draft.a.transposed == flips[0] or draft.b.transposed != flips[1]
        k = lines(draft.k, self.step if rows_of_k else 1)
        a = self._side(draft.a, m, k, flips[0])
        weight = self.name_of(draft.b.of, draft.b.shape)
        own = self.choice.weights and reduced is None and (k, n) == (draft.k, draft.shape[-1])
        own = own and casts_its_weight(draft, self.element, self.types[weight].dtype)
        b = Operand(weight, True) if own else self._side(draft.b, k, n, flips[1])
        sizes = {}
        if m != draft.shape[-2]:
            sizes["m"] = m
        if n != draft.shape[-1]:
            sizes["n"] = n
        name, config = self.lowered.names[i][0], Config(compute=self.compute)
        if reduced is not None:
            self._reduced(i, draft, self.drafts[reduced], ir.Gemm(name, a, b, config), reduced)
            return
        stage = ir.Gemm(name, a, b, config, **self.tail(i, draft, sizes))
        self.finish(i, draft, stage, NCHW, (*draft.shape[:-2], m, n))

    def _reduced(self, i: int, draft: Product, over: Reduction, stage: ir.Gemm, at: int) -> None:
        """The product with its rows (or columns) reduced, and the operations after the reduction as a map of the
        totals."""
        fn = _ROWS[over.op] if over.over == over.inside[-1:] else "col_sum"
        tail = self.tail(i, draft)
        tail["epilogue"] = Call(fn, (tail["epilogue"],))
        exprs = list(over.outs)
        if over.op == "mean":
            count = draft.shape[-1] if fn == "row_sum" else draft.shape[-2]
            exprs = [on(e, pointwise.scale(Acc(), 1 / count)) for e in exprs]
        plain = exprs == [Acc()]
        name = self.lowered.names[at][0] if plain else self.lowered.names[i][0]
        self.stages.append(replace(stage, name=name, **tail))
        self.types[name] = TensorType(DType.F32, over.shape)
        if plain:
            return
        # The totals' axes get new names, because they are now the last ones.
        now = Elementwise(over.shape, over.dtype, exprs, x=Source(f"#{i}", over.shape))
        named = dict(zip(over.names, now.names, strict=True))
        now.outs = [on_axes(e, named) for e in exprs]
        self._map(at, now, name)

    def _attention(self, i: int, draft: Attention) -> None:
        sides = [Operand(self.transform(self.name_of(s.of, s.shape), to=self.element)) for s in draft.sources]
        name, how = self.lowered.names[i][0], (draft.scale, draft.causal, draft.order, draft.heads)
        stored = name if self.stored(i) is self.element else self.fresh(f"{name}_{self.element.value}")
        self.types[stored] = TensorType(self.element, draft.shape)
        self.stages.append(ir.Attention(stored, *(*sides, None, None)[:3], *how))
        if stored != name:
            self.transform(stored, to=self.stored(i), result=name)

    def _recurrent(self, i: int, draft: Recurrent) -> None:
        names = {int(e.value): name for e, name in zip(draft.outs, self.lowered.names[i], strict=True)}
        store, d = self.stored(i), draft.directions
        for part, name in enumerate(self.lowered.names[i]):
            self.types[name] = TensorType(store, draft.shape_of(part))
        name = names.get(0) or self.fresh(f"{self.lowered.names[i][0]}_steps")
        sides = tuple(Operand(self.name_of(s.of, s.shape)) for s in draft.parts)
        biases = sides[2 * d : 3 * d] if draft.biased else ()
        compute = DType.F32 if self.choice.exact else self.compute
        compute = compute if self.types[sides[d].name].dtype is DType.F32 else None
        also = tuple(ir.Also(names[k], Acc(second=k == 2)) for k in (1, 2) if k in names)
        self.stages.append(
            ir.Recurrent(
                name, sides[:d], sides[d : 2 * d], biases, sides[2 * d + len(biases) :], draft.op, draft.order,
                draft.layer, compute, also=also, store=store,
            )
        )  # fmt: skip

    # ---- convolutions ----

    def _convolution(self, i: int, draft: Convolution) -> None:
        x, w = (self.name_of(s.of, s.shape) for s in draft.sources)
        fields = {
            "spatial": len(draft.stride), "transposed": draft.transposed, "stride": draft.stride,
            "padding": draft.padding, "dilation": draft.dilation, "groups": draft.groups,
            "output_padding": draft.output_padding if draft.transposed else (0,) * len(draft.stride),
        }  # fmt: skip
        name = self.lowered.names[i][0]
        if self.readers.in_rows(draft):
            config = Config(compute=self.compute)
            x, w = (self.transform(t, layout=NCHW, to=DType.F32) for t in (x, w))
            stage = ir.Conv(name, Operand(x), Operand(w), config=config, **fields, **self.tail(i, draft))
            self.finish(i, draft, stage)
            return
        if direct(draft, self.element):
            x = self.transform(x, layout=NCHW)
            w = self.transform(w, to=self.types[x].dtype)
            stage = ir.Conv(
                name, Operand(x), Operand(w), config=Config(compute=DType.F32), **fields, **self.tail(i, draft)
            )
            self.finish(i, draft, stage)
            return
        step = 128 // self.element.bits
        channels, filters = (up(c, step) if draft.groups == 1 else c for c in draft.channels)
        if draft.groups > 1:
            channels, filters = draft.x.shape[1], draft.shape[1]
            window = draft.w.shape
        else:
            window = (channels, filters) if draft.transposed else (filters, channels)
            window = (*window, *draft.w.shape[2:])
        images = (draft.x.shape[0], channels, *draft.x.shape[2:])
        x = self.transform(x, pad=images, layout=NHWC, to=self.element)
        w = self.transform(w, pad=window, layout=NHWC, to=self.element)
        sizes = {"c": filters} if filters != draft.shape[1] else {}
        stage = ir.Conv(
            name, Operand(x), Operand(w), config=Config(compute=self.compute), **fields,
            **self.tail(i, draft, sizes),
        )  # fmt: skip
        self.finish(i, draft, stage, NHWC, (draft.shape[0], filters, *draft.shape[2:]))

    # ---- stages of our own kernels ----

    def _input(self, draft: Draft) -> str:
        return self.name_of(draft.x.of, draft.x.shape)

    def _elementwise(self, i: int, draft: Elementwise) -> None:
        self._map(i, draft, self._input(draft))

    def _map(self, i: int, draft: Elementwise, x: str) -> None:
        part = {} if draft.start is None else {"crop": draft.shape, "start": draft.start if any(draft.start) else None}
        stage = ir.Map(name=self.lowered.names[i][0], x=Operand(x), **part, **self.tail(i, draft))
        self.finish(i, draft, stage, self.types[x].layout)

    def _reduction(self, i: int, draft: Reduction) -> None:
        if i in self.fused.values():
            return
        x = self._input(draft)
        of = self.expression(draft.of, draft, {})
        stage = ir.Reduce(
            name=self.lowered.names[i][0], x=Operand(x), op=draft.op, over=draft.over, of=of, **self.tail(i, draft)
        )
        self.finish(i, draft, stage)

    def _normalization(self, i: int, draft: Normalization) -> None:
        x = self._input(draft)
        row = prod(d for a in draft.over for d in draft.extent(a)) if draft.op == "softmax" else 0
        if self.choice.guard and self.stored(i) is DType.F16 and draft.outs == [Acc()] and 0 < row <= SOFTMAX:
            self.scales[i] = SOFTMAX
        params = tuple(Operand(self.name_of(s.of, s.shape)) for s in draft.params)
        stage = ir.Normalize(
            name=self.lowered.names[i][0], x=Operand(x), op=draft.op, over=draft.over, params=params,
            of=self.expression(draft.of, draft, {}), groups=draft.groups, eps=draft.eps, **self.tail(i, draft),
        )  # fmt: skip
        self.finish(i, draft, stage, self.types[x].layout)

    def _scanning(self, i: int, draft: Scanning) -> None:
        x = self._input(draft)
        stage = ir.Scan(
            name=self.lowered.names[i][0], x=Operand(x), op=draft.op, over=draft.over, reverse=draft.reverse,
            of=self.expression(draft.of, draft, {}), **self.tail(i, draft),
        )  # fmt: skip
        self.finish(i, draft, stage, self.types[x].layout)

    def _pooling(self, i: int, draft: Pooling) -> None:
        x = self._input(draft)
        stage = ir.Pool(
            name=self.lowered.names[i][0], x=Operand(x), op=draft.op, window=draft.window, stride=draft.stride,
            padding=draft.padding, dilation=draft.dilation, **self.tail(i, draft),
        )  # fmt: skip
        self.finish(i, draft, stage, self.types[x].layout)

    def _concatenation(self, i: int, draft: Concatenation) -> None:
        names = [self.name_of(s.of, s.shape) for s in draft.parts]
        to = max((self.types[n].dtype for n in names), key=lambda dtype: dtype.bits)
        parts = tuple(Operand(self.transform(n, to=to)) for n in names)
        stage = ir.Concat(name=self.lowered.names[i][0], parts=parts, over=draft.over, **self.tail(i, draft))
        self.finish(i, draft, stage, self.types[names[0]].layout)

    def _rearrangement(self, i: int, draft: Rearrangement) -> None:
        view = draft.x.shape if draft.permute else draft.shape
        x = self._input(draft)
        if not draft.shape:  # a transform writes no scalar; the maximum of one element is the element
            over = image_names(len(draft.x.shape))
            self.finish(i, draft, ir.Reduce(self.lowered.names[i][0], Operand(x), op="max", over=over))
            return
        self.transform(x, view=view, permute=draft.permute, to=self.stored(i), result=self.lowered.names[i][0])
