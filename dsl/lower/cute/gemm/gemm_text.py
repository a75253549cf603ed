"""The text of a product: its epilogue function, its configuration and its operands."""

from __future__ import annotations

from dsl.ir import DType, Gemm, GroupedGemm, Program
from dsl.lower.cute.gemm import cast_weight_parts, gemm_parts, gemm_reduction_parts
from dsl.lower.cute.gemm.gemm_operands import CUTE
from dsl.lower.cute.gemm.quack_gemm import GemmPlan, Result, plan_gemm
from dsl.lower.cute.generated_kernels import FLAG
from dsl.lower.cute.parts import GATE, GATE_IMPORTS, TENSOR_FLOAT
from dsl.lower.cute.stage import Part, Scratch, StagePlan, Text

_WIDTH = 118


def plan(program: Program, stage: Gemm | GroupedGemm, gate: bool | None = None) -> StagePlan:
    """The plan of a product. Raises Refusal if quack cannot compute it.

    `gate`: in a guarded program, the kernel runs only where the flag is set (True), or only where it is not (False).
    """
    gemm = plan_gemm(program, stage)
    out, reduced = Text(), [r for r in gemm.results if r.finish]
    epilogue = _epilogue(out, gemm, gate)
    out.gap(2)
    _stage(out, gemm, stage, reduced, epilogue)
    operands = [(i.argument, i.view) for i in gemm.inputs]
    if gemm.body.indexed:
        operands.append(("offset", "1"))
    operands += [(r.key, r.partial) for r in gemm.results if r.kind != "D"]
    operands += [(key, FLAG) for key, _ in gemm.watched]
    operands += [(f"{r.key} whole", r.whole) for r in reduced]
    operands += [("gate", FLAG)] if gate is not None else []
    d = next((r.partial for r in gemm.results if r.kind == "D"), "None")
    texts = [gemm.a, gemm.b, d, "{" + ", ".join(f'"{key}": {text}' for key, text in operands) + "}"]
    scratch = [r.scratch for r in reduced]
    tensors = [stage.a.name, stage.b.name, *(r.tensor for r in gemm.results), *(i.tensor for i in gemm.inputs)]
    if gemm.frame.grouped:
        groups = Scratch("first", DType.I32, (_groups(program, stage) + 1,))
        texts += [stage.sizes.name, f"{stage.name}_{groups.suffix}"]
        tensors.append(stage.sizes.name)
        scratch.append(groups)
    tensors += [f"{stage.name}_{s.suffix}" for s in scratch] + [FLAG] * bool(gemm.watched or gate is not None)
    used = tuple(dict.fromkeys(tensors))
    parts, imports, modules = _shared(gemm, reduced, gate)
    return StagePlan(
        out,
        ", ".join(texts),
        used,
        parts,
        imports,
        tuple(scratch),
        ("compute", "store"),
        modules,
    )


def _groups(program: Program, stage: GroupedGemm) -> int:
    return program.type_of(stage.sizes.name).shape[0]


def _epilogue(out: Text, p: GemmPlan, gate: bool | None) -> str:
    """Add the decorated epilogue function of one element. Returns its name, which is of its text: quack knows equal
    ones by both, whatever stage they are of."""
    pins = [f'"{i.argument}": {i.op}' for i in p.inputs] + (['"offset": Offset("offset")'] if p.body.indexed else [])
    sinks = [f'"{r.key}": {_sink(r, p)}' for r in p.results if r.kind in ("row", "column")]
    sinks += [f'"{key}": Watched("{key}", ragged={p.ragged[1]})' for key, _ in p.watched]
    stores = [f'"{r.key}"' for r in p.results if r.kind == "store"]
    word = {DType.I8: "whole_epilogue", DType.TF32: "tensor_float_epilogue"}.get(p.compute, "gemm_epilogue")
    kit = [TENSOR_FLOAT, gemm_parts.TENSOR_FLOATS] if p.compute is DType.TF32 else []
    behind = []
    if gate is not None:
        kind = "TensorFloatEpilogue" if p.compute is DType.TF32 else "EpiMod"
        word, behind = "epilogue_behind_gate", [(f"{kind}, up={gate}", [], "")]
        kit += [GATE, gemm_parts.GATED]
    how = [
        *behind,
        *([("ops={", pins, "}")] if pins else []),
        *([("outputs=(", stores, ",)" if len(stores) == 1 else ")")] if stores else []),
        *([("outs={", sinks, "}")] if sinks else []),
        *([('mode="acc_pair"', [], "")] if p.frame.pairs else []),
    ]
    head = f"@{word}({', '.join(a + ', '.join(items) + z for a, items, z in how)})"
    if len(head) > _WIDTH:
        rows = [a + "".join(f"\n        {i}," for i in items) + "\n    " * bool(items) + z[-1:] for a, items, z in how]
        head = f"@{word}(" + "".join(f"\n    {row}," for row in rows) + "\n)"
    arguments = ["acc", *(i.argument for i in p.inputs), *(["offset"] if p.body.indexed else [])]
    lines = [f"    # {note}" for note in p.body.notes]
    if p.frame.pairs:
        lines.append("    acc, acc2 = unpack(acc)  # two neighbouring columns")
        lines += [f"    {i.argument}, _ = unpack({i.argument})" for i in p.inputs if i.row]
    lines += [f"    {line}" for line in p.body.lines]
    rows = [f'"{r.key}": {_value(r, p)}' for r in p.results]
    rows += [f'"{key}": {value}' for key, value in p.watched]
    text = f"    return {{{', '.join(rows)}}}"
    if len(text) > _WIDTH:
        text = "    return {" + "".join(f"\n        {row}," for row in rows) + "\n    }"
    lines.append(text)
    name = f"epilogue_{gemm_parts.version(repr([head, arguments, lines, *kit]))[:6]}"
    first = out.next
    for line in (head, f"def {name}({', '.join(arguments)}):", *lines):
        out.add(line)
    out.span(("", "epilogue"), first)
    return name


def _sink(r: Result, p: GemmPlan) -> str:
    if r.kind == "column":
        return f'ColumnSum("{r.key}", ragged={p.ragged[0]})'
    if r.op == "logsumexp":
        return f'OnlineLSEReduce("{r.key}", check_oob={p.ragged[1]})'
    return f'RowReduce("{r.key}", "{"add" if r.op == "sum" else "max"}", ragged={p.ragged[1]})'


def _value(r: Result, p: GemmPlan) -> str:
    """The text of a result's value; a reduction of pairs gets two columns, the value and a neutral element."""
    if not p.frame.pairs or r.kind == "store":
        return r.value
    nothing = {"sum": "0.0", "max": r.value, "logsumexp": "-math.inf"}[r.op]
    return f"pack({r.value}, {nothing})"


def _stage(out: Text, p: GemmPlan, stage, reduced: list[Result], epilogue: str) -> None:
    c, f = stage.config, p.frame
    tile, cluster = c.tile, c.cluster
    columns = f.n * (2 if f.pairs else 1)
    shape = f"{'' if f.l == 1 else f'{f.l} x '}{f.m} x {columns} x {p.k}"
    sums = "i32" if p.compute is DType.I8 else "f32"
    out.add(f"# {shape}, {sums} accumulators" + (f"; {p.remark}" if p.remark else ""))
    kind = "GroupedStage" if f.grouped else "GemmStage" if p.splits == 1 else "SplitKStage"
    kind = "CastWeightStage" if p.casts else kind
    out.add(f"{p.name.upper()} = {f'reducing({kind})' if reduced else kind}(")
    out.add(f"    {epilogue},")
    if reduced:
        rows = ", ".join(f'"{r.key}": {r.finish}' for r in reduced)
        out.add(f"    {{{rows}}},", ("", "epilogue"))
    if p.casts:  # the kernel's rows are our columns
        tile, cluster = (tile[1], tile[0], tile[2]), (cluster[1], cluster[0])
        out.add(f"    transform_a=CastWeight(cutlass.{CUTE[p.compute]}),  # of {stage.b.name}; the result transposed")
    out.add(f"    tile_M={tile[0]}, tile_N={tile[1]}, tile_K={tile[2]},", ("", "tile"))
    out.add(f"    cluster_M={cluster[0]}, cluster_N={cluster[1]},", ("", "cluster"))
    meaning = "a tile for each of two warp groups" if c.schedule == "pingpong" else "the warp groups share a tile"
    out.add(f"    pingpong={c.schedule == 'pingpong'},  # {meaning}", ("", "schedule"))
    line = "    persistent=True," if p.splits == 1 else f"    split_k={p.splits},"
    out.add(line, ("", "scheduler"))
    out.add(f"    max_swizzle_size={c.swizzle},  # tiles grouped for reuse in L2; not compiled in", ("", "swizzle"))
    order = f"{stage.b.name} lies as (k, n)" if p.b_kn else f"{stage.b.name} lies as (n, k)"
    out.add(f"    b_kn={p.b_kn},  # {order}")
    out.add(f")  # stages: {c.stages} by our count; quack takes as many as shared memory holds", ("", "stages"))


def _shared(p: GemmPlan, reduced: list[Result], gate: bool | None):
    """The shared parts, imports and modules of the stage."""
    parts = [Part(gemm_parts.GEMM, 10)]
    imports = {("quack.gemm_runtime.host", "run_gemm_epi_plan")}
    modules: set[str] = set()
    own = {("cutlass", "cute")}
    if p.compute is DType.TF32:
        parts += [Part(TENSOR_FLOAT, 8), Part(gemm_parts.TENSOR_FLOATS, 9)]
        imports |= {("quack.epilogue.frontend", "EpiMod"), ("cutlass.cute.nvgpu", "warpgroup"), *own}
        modules.add("cutlass")
    elif p.compute is DType.I8:
        parts.append(Part(gemm_parts.WHOLE, 9))
        imports |= {("quack.epilogue.frontend", "EpiMod"), ("quack.cute_dsl_utils", "torch2cute_dtype_map")}
        imports |= {("functools", "partial"), *own}
        modules.add("cutlass")
    elif gate is None:
        imports.add(("quack.epilogue.frontend", "gemm_epilogue"))
    if gate is not None:
        parts += [Part(GATE, 7), Part(gemm_parts.versioned("GATE_VERSION", gemm_parts.GATED), 10)]
        imports |= {("quack.epilogue.frontend", "EpiMod"), ("quack.epilogue.ops", "EpiOp"), *GATE_IMPORTS, *own}
        imports.add(("quack.gemm_sm90", "GemmSm90"))
        modules |= {"cutlass", "inspect"}
    if p.casts:
        text = gemm_parts.versioned("CAST_WEIGHT_VERSION", cast_weight_parts.CAST_WEIGHT)
        parts.append(Part(text, 11))
        imports |= {("quack.operand_transform.frontend", n) for n in ("ResolvedOperands", "TransformModBase")}
        imports |= {("quack.operand_transform.transform", n) for n in ("TransformA", "TransformAOperand")}
        imports |= own
        modules.add("cutlass")
    if p.splits > 1:
        parts.append(Part(gemm_parts.SPLIT_K, 11))
        imports |= {("quack.gemm", "_split_k_buffers"), ("quack.gemm_config", "SplitKMode")}
    if p.frame.grouped:
        parts.append(Part(gemm_parts.versioned("OFFSETS_VERSION", gemm_parts.GROUPED), 12))
        imports |= {("cuda.bindings.driver", "CUstream"), ("quack.cache", "jit_cache"), *own}
        modules.add("cutlass")
    if any(r.kind in ("row", "column") for r in p.results):
        parts.append(Part(gemm_parts.versioned("REDUCE_VERSION", gemm_reduction_parts.REDUCE), 13))
        imports |= {("quack.epilogue.ops", "ColVecReduce"), ("quack.epilogue.ops", "RowVecReduce"), *own}
        imports |= {("cuda.bindings.driver", "CUstream"), ("quack.cache", "jit_cache")}
        imports.add(("quack.compile_utils", "make_fake_tensor"))
        modules |= {"cutlass", "math"}
        if any(r.op == "logsumexp" for r in p.results):
            imports.add(("quack.epilogue.ops", "OnlineLSEReduce"))
    if p.watched:
        parts.append(Part(gemm_parts.versioned("WATCHED_VERSION", gemm_reduction_parts.WATCHED), 13))
        imports |= {("quack.epilogue.ops", "ColVecReduce"), ("quack.sm90_utils", "partition_for_epilogue"), *own}
        imports.add(("quack.layout_utils", "convert_layout_zero_stride"))
        modules.add("cutlass")
    if p.body.indexed:
        parts.append(Part(gemm_parts.versioned("OFFSET_VERSION", gemm_parts.OFFSET), 14))
        imports |= {("quack.epilogue.ops", "EpiOp"), *own}
        modules.add("cutlass")
    if p.frame.pairs:
        imports.add(("quack.epilogue.math", "unpack"))
        if any(r.kind in ("row", "column") for r in p.results):
            imports.add(("quack.epilogue.math", "pack"))
    if any(i.row for i in p.inputs):
        parts.append(Part(gemm_parts.versioned("PAIRS_VERSION", gemm_parts.PAIRS), 15))
        imports |= {("quack.epilogue.ops", "RowVecLoad"), ("quack.compile_utils", "make_fake_tensor"), *own}
        modules.add("cutlass")
    for one in p.inputs:
        imports |= set(one.imports)
    return tuple(parts), frozenset(imports | p.body.imports), frozenset(modules)
