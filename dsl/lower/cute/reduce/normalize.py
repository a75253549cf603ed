"""Norms: statistics of a group of elements, then each element by them.

on chip   a group that a block can hold in registers is read once: statistics from the registers, results from the same.
streamed  a greater group, or one whose elements do not lie along the contiguous axis: a reduction leaves two numbers a
          group in memory, an element-wise kernel applies them.
Variance is the mean squared distance from the mean, never a difference of sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from dsl.axes import axes_of
from dsl.ir import Acc, Call, DType, Expr, Normalize, Program, inlined
from dsl.lower import Refusal
from dsl.lower.cute.generated_kernels import FLAG, Element, element, own_plan, refuse_types, told
from dsl.lower.cute.pointwise import (
    MOST,
    Reading,
    Walk,
    add_kernel,
    add_launch,
    blocks_of,
    read_all,
    unique,
    walk_tensors,
)
from dsl.lower.cute.reduce import folds
from dsl.lower.cute.reduce.reduce_kernels import add_reduction, plain_element
from dsl.lower.cute.reduce.reduce_writer import Reduction, Result
from dsl.lower.cute.space import (
    WIDE,
    MergedSpace,
    Offset,
    Space,
    Strides,
    aligned_vector,
    index_function,
    reach,
)
from dsl.lower.cute.stage import CUTE, Part, Scratch, StagePlan, Text, types_of

HELD = 32  # f32 elements that a thread keeps in registers at most
BLOCK = 1024

# What a group's two numbers are, from the fold's total, and how an element is normalised by them.
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

# What is folded where that is not the element itself: (the fold, an element's share of it).
_FOLDED = {"Squares": ("Sum", "{0} * {0}"), "Largest": ("Max", "cute.math.absf({0})")}


@dataclass(frozen=True)
class _Out:
    """A result: its place over the norm's axes, its function and what that reads."""

    name: str
    reading: Reading
    function: Element
    keys: tuple[str, ...]


class _Norm:
    """A norm stage over axes where a group of channels is an axis of its own."""

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
        self.outs: list[_Out] = []
        self.of_rows: list[_Out] = []  # one value a group: row_max of an absmax
        ends = [(a.name, a.expr, a.type) for a in stage.also] + [(stage.name, stage.epilogue, stage.type)]
        for name, expr, t in ends:
            if stage.op == "absmax" and isinstance(expr, Call) and expr.fn == "row_max":
                one = element(stage, _of_acc(inlined(stage, expr.args[0])), f"{name}_element")
                self.of_rows.append(_Out(name, Reading(name, t.dtype, (*t.strides, 0)), one, ()))
                continue
            function = element(stage, expr, f"{name}_element")
            reading = Reading(name, t.dtype, self.split(t.strides))
            self.outs.append(_Out(name, reading, function, self._read(function, axes)))
        read = [stage.x.name, *(r.tensor for r in self.readings.values())]
        self.tensors = unique([*read, *(o.name for o in (*self.outs, *self.of_rows))])
        refuse_types(stage, self.types, self.tensors)
        self.told = told(program, stage)  # results that a guard watches as they are stored
        self.flag = [FLAG] if self.told else []
        self.size = prod(self.extents[a] for a in self.reduced)

    def _split_extents(self, shape):
        if not self.groups:
            return shape
        return (shape[0], self.groups, shape[1] // self.groups, *shape[2:])

    def split(self, strides: Strides) -> Strides:
        """Strides where channels are two axes: groups, and channels within one."""
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
        """mean, var (batchnorm), weight, bias: over the normalised axes, or over channels."""
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
        """The fold, the two numbers of a group over its `total`, and an element by them."""
        fold, values, by = _STATS[self.stage.op]
        return fold, tuple(v.format(**self.constants) for v in values), by

    def result_function(self, out: _Out, by: str, stats: tuple[str, ...], held: bool = False) -> tuple[str, list[str]]:
        """The text of `<out>_result(acc, stats, others)` and the keys of the others, in the order of its arguments;
        `held`: acc is `of` already."""
        keys = unique([*([] if held else self.of_keys), *self.param_keys, *out.keys])
        lines = [f"def {out.name}_result({', '.join(['acc', *stats, *keys])}):"]
        lines.append("    value = acc" if held else f"    value = {self.of.call('acc', *self.of_keys)}")
        affine = list(self.param_keys)
        if self.stage.op == "batchnorm":
            mean, var, *affine = affine
            by = f"(value - {mean}) * cute.math.rsqrt({var} + {float(self.stage.eps)!r})"
        lines.append(f"    value = {by}")
        if affine:
            lines.append(f"    value = value * {affine[0]}" + (f" + {affine[1]}" if len(affine) > 1 else ""))
        lines.append(f"    return {out.function.call('value', *out.keys)}")
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
    """An expression of acc2 with acc in its place."""
    if isinstance(e, Acc):
        return Acc()
    return replace(e, args=tuple(map(_of_acc, e.args))) if isinstance(e, Call) else e


def plan(program: Program, stage: Normalize) -> StagePlan:
    norm = _Norm(program, stage)
    text = Text()
    norm.functions(text)
    if stage.op == "batchnorm":
        made, scratch, part, note = _applied(text, norm, (), ""), (), None, "no statistics: running ones"
        launches = [made]
    else:
        held = _Held.of(text, norm)
        if held is not None:
            launches, scratch, part, note = held.add()
        elif stage.op == "absmax":
            raise Refusal(
                "cute-norm", f"absmax holds a row in registers: at most {HELD * BLOCK:,} elements that lie side by "
                f"side; a row of {stage.name} has {norm.size:,}", "reduce, then map",
            )  # fmt: skip
        else:
            launches, scratch, part, note = _streamed(text, norm)
    taken = [*norm.tensors, *(f"{stage.name}_{s.what}" for s in scratch), *norm.flag]
    add_launch(text, stage.name, taken, launches)
    shared = [part] if part else []
    return own_plan(
        program, stage, text, f"{stage.name}_launch", norm.tensors, scratch, norm.imports(), shared, note,
        watches=bool(norm.told),
    )  # fmt: skip


def _applied(text: Text, norm: _Norm, stats: tuple[str, ...], by: str) -> tuple[str, list[str], str]:
    """The element-wise kernel: x and the group's numbers give the result."""
    outputs, wanted = [], []
    for out in norm.outs:
        body, keys = norm.result_function(out, by, stats)
        text.add(body)
        text.gap(2)
        function = Element(f"{out.name}_result", "", (), (), frozenset(), False)
        outputs.append((out.reading, function, (*stats, *keys)))
        wanted += keys
    walk = Walk(
        norm.stage.name, norm.extents, norm.out_order, norm.x, tuple(outputs),
        {k: norm.readings[k] for k in unique([*stats, *wanted])}, flag="".join(norm.flag), stored=norm.told,
    )  # fmt: skip
    add_kernel(text, walk)
    return (f"{norm.stage.name}_kernel", walk_tensors(walk), blocks_of(walk))


def _streamed(text: Text, norm: _Norm):
    """Two numbers a group in memory: a reduction, then an element-wise kernel."""
    name = norm.stage.name
    fold, values, by = norm.stats()
    outputs = prod(e for a, e in enumerate(norm.extents) if a not in norm.reduced)
    place, step = [0] * len(norm.extents), 1
    for axis in reversed(norm.order):
        if axis not in norm.reduced:
            place[axis], step = step, step * norm.extents[axis]
    of, keys = norm.of, norm.of_keys
    if fold == "Squares":
        of = _squared(text, norm)
        fold = "Sum"
    stats = Scratch("stats", DType.F32, (2, outputs))
    results = []
    for i, value in enumerate(values):
        reading = Reading(f"{name}_stats", DType.F32, tuple(place), i * outputs)
        norm.readings[f"stat{i}"] = reading
        if value != "Float32(0.0)":
            results.append(Result(value, reading, plain_element(), ()))
    job = Reduction(
        f"{name}_first", norm.extents, norm.order, norm.reduced, norm.x, of, keys, fold, tuple(results),
        {k: norm.readings[k] for k in keys},
    )  # fmt: skip
    made = add_reduction(text, job)
    text.gap(2)
    second = _applied(text, norm, ("stat0", "stat1"), by)
    scratch = (stats, *(replace(s, what=f"first_{s.what}") for s in made.scratch))
    return [*made.launches, second], scratch, made.part, "statistics first, then every element by them"


def _squared(text: Text, norm: _Norm) -> Element:
    """`of`, squared."""
    name, keys = f"{norm.stage.name}_square", norm.of_keys
    text.add(
        f"def {name}({', '.join(['acc', *keys])}):\n    value = {norm.of.call('acc', *keys)}\n    return value * value"
    )
    text.gap(2)
    return Element(name, "", (), keys, norm.of.imports, False)


# ---- a group in registers ---------------------------------------------------------------------------------------


class _Held:
    """A group in the registers of some lanes, of a warp or of a block."""

    def __init__(self, text: Text, norm: _Norm, merged: MergedSpace, width: int, threads: int):
        self.text, self.norm, self.merged, self.width, self.threads = text, norm, merged, width, threads
        self.r, self.o = merged.part("R"), merged.part("O")

    @classmethod
    def of(cls, text: Text, norm: _Norm) -> _Held | None:
        """None where a group is too great, or does not lie along the contiguous axis of x and result alike."""
        strides = {"x": norm.x.strides, **{f"r {k}": r.strides for k, r in norm.readings.items()}}
        strides |= {f"o{i}": o.reading.strides for i, o in enumerate(norm.outs)}
        strides |= {f"g{i}": o.reading.strides for i, o in enumerate(norm.of_rows)}
        tags = ["R" if a in norm.reduced else "O" for a in norm.order]
        merged = Space(norm.extents, strides).ordered(norm.order).merged(lambda axis: tags[axis])
        if not merged.tags or merged.tags[-1] != "R" or merged.size > MOST:
            return None
        moved = ["x", *(f"o{i}" for i in range(len(norm.outs)))]
        if any(merged.strides[label][-1] != 1 for label in moved):
            return None
        size = merged.part("R").size
        width = aligned_vector(
            merged.extents[-1],
            [merged.strides[label] for label in moved],
            [norm.x.dtype.bits, *(o.reading.dtype.bits for o in norm.outs)],
            8,
        )
        threads = 1
        while threads < BLOCK:
            if -(-size // width // threads) * width <= (HELD if threads >= 512 else HELD // 2):
                break
            threads *= 2
        if -(-size // width // threads) * width > HELD:
            return None
        return cls(text, norm, merged, width, threads)

    def add(self):
        norm, name, width, threads = self.norm, self.norm.stage.name, self.width, self.threads
        fold, values, by = norm.stats()
        fold, share = _FOLDED.get(fold, (fold, ""))
        wanted = []
        for out in norm.outs:
            body, keys = norm.result_function(out, by, ("stat0", "stat1"), held=True)
            self.text.add(body)
            self.text.gap(2)
            wanted.append(keys)
        every = unique([*norm.of_keys, *(k for keys in wanted for k in keys)])
        places = [("x", norm.x), *((f"o{i}", o.reading) for i, o in enumerate(norm.outs))]
        places += [(f"r {k}", norm.readings[k]) for k in every]
        places += [(f"g{i}", o.reading) for i, o in enumerate(norm.of_rows)]
        place = {label: i for i, (label, _) in enumerate(places)}
        names = ", ".join(r.tensor for _, r in places)
        self._index("at", f"Of group `row`: where it begins in {names}.", self.o, places, 1, "row")
        what = f"vector of {width}" if width > 1 else "element"
        self._index("step", f"Of its {what} at `step`: how far that is in {names}.", self.r, places, width, "step")
        groups, vectors = self.o.size, self.r.size // width
        count = -(-vectors // threads)
        block = max(threads, 256) if threads <= 32 else threads
        rows = block // threads
        guard_row, guard = groups % rows != 0, vectors % threads != 0
        tensors = [*norm.tensors, *norm.flag]
        arguments = ", ".join(f"{t}: cute.Tensor" for t in tensors)
        who = "a block" if threads > 32 else f"{threads} lanes" if threads > 1 else "a thread"
        lines = [
            "@cute.kernel",
            f"def {name}_kernel({arguments}):",
            f'    """{groups:,} groups of {self.r.size:,} elements: {who} holds one in registers."""',
            "    thread, _, _ = cute.arch.thread_idx()",
            "    block, _, _ = cute.arch.block_idx()",
            "    thread, block = Uint32(thread), Uint32(block)",
            "    row, lane = block, thread" if rows == 1
            else f"    row, lane = block * {rows} + thread // {threads}, thread % {threads}",
            f"    at = {name}_at(" + (f"cutlass.min(row, Uint32({groups - 1}))" if guard_row else "row") + ")",
            "    steps, vectors, live = [], [], []",
            f"    for i in cutlass.range_constexpr({count}):",
            f"        index = lane + i * {threads}",
        ]  # fmt: skip
        if guard:
            lines += [
                f"        live.append(index < {vectors})",
                f"        index = cutlass.min(index, Uint32({vectors - 1}))",
            ]
        lines += [
            f"        steps.append({name}_step(index))",
            f"        vectors.append(read({norm.x.tensor}, at[0] + steps[i][0], {width}))",
            f"    for i in cutlass.range_constexpr({count}):",
            "        vectors[i] = lanes(vectors[i])",
        ]
        if not norm.of.plain:
            lines += self._reads(norm.of_keys, place, "        ")
            picks = ", ".join(["vectors[i][j]", *(self._pick(k) for k in norm.of_keys)])
            lines += [
                f"        vector = cute.make_rmem_tensor(({width},), Float32)",
                f"        for j in cutlass.range_constexpr({width}):",
                f"            vector[j] = {norm.of.name}({picks})",
                "        vectors[i] = vector",
            ]
        elements = "vectors"
        if share:
            elements, one = ("squares", "square") if fold == "Sum" else ("sizes", "size")
            lines += [
                f"    {elements} = []",
                f"    for i in cutlass.range_constexpr({count}):",
                f"        {one} = cute.make_rmem_tensor(({width},), Float32)",
                f"        for j in cutlass.range_constexpr({width}):",
                f"            {one}[j] = {share.format('vectors[i][j]')}",
                f"        {elements}.append({one})",
            ]
        lines += [
            f"    state = {fold}.start({width})",
            f"    {fold}.fold(state, {elements}{', live' if guard else ''})",
            f"    total = {fold}.scalars(state)",
        ]
        if threads > 1:
            lines.append(f"    total = across_lanes({fold}, total, {min(threads, 32)})")
        if threads > 32:
            kinds = ", ".join(f"shared(allocator, {CUTE[d]}, ({threads // 32},))" for d in folds.NUMBERS[fold])
            lines += [
                "    allocator = cutlass.utils.SmemAllocator()",
                f"    memory = ({kinds},)",
                f"    total = across_block({fold}, total, {threads // 32}, memory)",
            ]
        lines += [
            f"    stat0, stat1 = {values[0]}, {values[1]}",
            *self._of_rows(place, f"(lane == 0) & (row < {groups})" if guard_row else "lane == 0"),
            f"    for i in cutlass.range_constexpr({count}):",
            *self._reads(unique([k for keys in wanted for k in keys]), place, "        "),
        ]
        test = [t for t in ("live[i]" if guard else "", f"(row < {groups})" if guard_row else "") if t]
        for i, (out, keys) in enumerate(zip(norm.outs, wanted, strict=True), 1):
            picks = ", ".join(["vectors[i][j]", "stat0", "stat1", *(self._pick(k) for k in keys)])
            lines += [
                f"        out = cute.make_rmem_tensor(({width},), Float32)",
                f"        for j in cutlass.range_constexpr({width}):",
                f"            out[j] = {out.name}_result({picks})",
                *([f"        watch(greatest(Uint32(0), out), {FLAG})"] if out.name in norm.told else []),
            ]
            store = f"write({out.name}, at[{i}] + steps[i][{i}], out)"
            lines += [f"        if {' & '.join(test)}:", f"            {store}"] if test else [f"        {store}"]
        self.text.add("\n".join(lines))
        grid = f"grid=({-(-groups // rows)}, 1, 1), block=({block}, 1, 1)"
        part = Part(folds.fold_text(fold), 40)
        return [(f"{name}_kernel", tensors, grid)], (), part, f"{min(128, width * norm.x.dtype.bits)}-bit accesses"

    def _of_rows(self, place: dict[str, int], first: str) -> list[str]:
        """The results that have one value a group, written by its first lane."""
        lines = []
        for i, out in enumerate(self.norm.of_rows):
            lines += [
                "    whole = cute.make_rmem_tensor((1,), Float32)",
                f"    whole[0] = {out.function.call('stat0')}",
                f"    if {first}:",
                f"        write({out.name}, at[{place[f'g{i}']}], whole)",
            ]
        return lines

    def _pick(self, key: str) -> str:
        lane = "0" if self.merged.strides[f"r {key}"][-1] == 0 or self.width == 1 else "j"
        return f"{key}_values[{lane}]"

    def _reads(self, keys, place, indent: str) -> list[str]:
        lines = []
        for key in keys:
            r, s = self.norm.readings[key], self.merged.strides[f"r {key}"]
            unit = min(self.width, 128 // r.dtype.bits)
            count = 1 if s[-1] == 0 or self.width == 1 else self.width
            whole = s[-1] == 1 and all(v % unit == 0 for v in s[:-1])
            how = "" if count == 1 or whole else ", whole=False" if s[-1] == 1 else f", {s[-1]}"
            i = place[f"r {key}"]
            lines.append(f"{indent}{key}_values = lanes(read({r.tensor}, at[{i}] + steps[i][{i}], {count}{how}))")
        return lines

    def _index(self, name, doc, part, places, width, argument) -> None:
        offsets = []
        for label, r in places:
            wide = r.base + reach(self.merged.extents, self.merged.strides[label]) >= WIDE
            s = part.strides[label] or (0,)
            s = (*s[:-1], s[-1] * width)
            offsets.append(Offset(label, s, r.base if part is self.o else 0, wide))
        extents = (*part.extents[:-1], part.extents[-1] // width) if part.extents else (1,)
        self.text.add(index_function(f"{self.norm.stage.name}_{name}", doc, extents, offsets, argument))
        self.text.gap(2)
