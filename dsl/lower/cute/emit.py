"""A whole program as one Python module, and the map from its lines to the module's.

The module's `run` launches one kernel a stage and decides nothing else: kernels are planned at the first call, buffers
between stages are allocated once by `load`.
"""

from __future__ import annotations

import keyword
from dataclasses import replace

from dsl.ir import Call, Gemm, Load, Program, TensorType, Transform
from dsl.lower import Refusal, Source
from dsl.lower.cute import parts
from dsl.lower.cute.gemm import CUTE, TORCH, GemmPlan, plan_gemm
from dsl.printer import digest, to_text

_CAPABILITY = {"sm_90a": "sm_90"}
_WIDTH = 118

# Names of the module that a stage or tensor must not shadow, and constants whose lower case it must not have.
_CONSTANTS = {"THREADS", "ROWS", "TENSORS", "STAGES", "INPUTS", "OUTPUTS", "CAST_VERSION"}
_RESERVED = {
    *("os", "torch", "cute", "cutlass", "quack", "build", "load", "run", "check", "inputs", "outputs", "artifact"),
    *("acc", "fakes", "stage", "stages", "operands", "device", "t"),
}


class _Text:
    """Lines with marks: which program line (stage, clause) decides which generated lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.marks: dict[tuple[str, str], list[tuple[int, int]]] = {}

    def add(self, text: str, *marks: tuple[str, str]) -> None:
        first = len(self.lines) + 1
        self.lines += text.rstrip("\n").split("\n")
        for mark in marks:
            self.marks.setdefault(mark, []).append((first, len(self.lines)))

    def gap(self, lines: int = 1) -> None:
        self.lines += [""] * lines

    def span(self, mark: tuple[str, str], first: int) -> None:
        """Mark everything from line `first` to the last."""
        self.marks.setdefault(mark, []).append((first, len(self.lines)))

    @property
    def next(self) -> int:
        return len(self.lines) + 1

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def lower(program: Program) -> Source:
    """CUTLASS Python of a resolved program (no `auto` left) and its line map. Raises Refusal."""
    if (program.arch or "sm_90a") not in _CAPABILITY:
        raise Refusal("cute-arch", f"the cute back end writes sm_90a, not {program.arch}", "write arch sm_90a")
    if not program.stages:
        raise Refusal("cute-empty", "the program has no stage", "write at least one gemm or transform")
    types = {x.name: x.type for x in (*program.params, *program.stages)}
    for name, t in types.items():
        if t is None:
            raise Refusal("cute-unresolved", f"{name} has no type yet", "check the program first (dsl.check)")
        if t.dtype not in TORCH:
            raise Refusal("cute-dtype", f"tensors are f32, f16 or bf16 in memory; {name} is {t.dtype.value}", "cast it")
    _results(program)
    names = _names([*types])
    program_text = to_text(program)
    plans = {s.name: plan_gemm(_renamed(program, names), _renamed_stage(s, names)) if isinstance(s, Gemm) else s
             for s in program.stages}  # fmt: skip
    out = _Text()
    _docstring(out, program, program_text)
    _imports(out, program, plans)
    _tensors(out, program, types, names)
    for number, stage in enumerate(program.stages, 1):
        out.gap(2)
        first = out.next
        what = f"# ---- stage {number} of {len(program.stages)}: {names[stage.name]} = {_call(stage)} "
        out.add(what + "-" * max(4, _WIDTH - len(what)))
        out.gap()
        if isinstance(stage, Gemm):
            _gemm(out, stage, plans[stage.name], names)
        else:
            _transform(out, stage, types, names)
        out.span((stage.name, ""), first)
    out.gap(2)
    rows = [f'    "{s.name}": ({names[s.name].upper()}, {names[s.name]}_operands),' for s in program.stages]
    out.add("STAGES = {\n" + "\n".join(rows) + "\n}")
    out.gap(2)
    out.add(parts.BUILD)
    out.gap(2)
    _load(out, program, types, names)
    text = out.text()
    return Source("cute", "python", text, text, f"uc_{digest(program)}", _line_map(program_text, out))


def _results(program: Program) -> None:
    stages = {s.name: s for s in program.stages}
    for name in program.results:
        if name not in stages or program.results.count(name) > 1:
            what = "returned twice" if name in stages else "a parameter"
            raise Refusal("cute-result", f"result {name} is {what}", "return each stage once, and only stages")
    params = {p.name for p in program.params}
    for s in program.stages:
        if isinstance(s, Transform):
            if s.x.transposed:
                raise Refusal("cute-transform", f"{s.name} transposes {s.x.name}", f"write .T where {s.name} is read")
            if s.type.elements >= 2**31:
                raise Refusal(
                    "cute-size", f"{s.name} has {s.type.elements:,} elements; the cast counts in 32 bits", None
                )
            if s.prepack and (s.x.name not in params or s.name in program.results):
                raise Refusal(
                    "cute-prepack", f"{s.name} is prepacked, but {s.x.name} is no parameter or {s.name} is returned",
                    "leave prepack out",
                )  # fmt: skip


def _names(tensors: list[str]) -> dict[str, str]:
    """Each tensor's name in Python, which is its own unless Python or the module needs that name."""
    out: dict[str, str] = {}
    constants = set(_CONSTANTS)
    derived = {f"{name}_{part}" for name in tensors for part in ("epilogue", "operands", "packed")}
    for name in tensors:
        safe = name
        while (
            not safe.isidentifier()
            or keyword.iskeyword(safe)
            or safe.startswith("_")
            or safe in _RESERVED | derived | {*out.values()}
            or safe.upper() in constants
        ):
            safe = f"t{safe}" if not safe.isidentifier() or safe.startswith("_") else f"{safe}_"
        out[name] = safe
        constants.add(safe.upper())
    return out


def _renamed(program: Program, names: dict[str, str]) -> Program:
    """The program under its Python names, so that the planner's texts need no second pass."""
    params = tuple(replace(p, name=names[p.name]) for p in program.params)
    return replace(program, params=params, stages=tuple(_renamed_stage(s, names) for s in program.stages))


def _renamed_stage(stage, names: dict[str, str]):
    if isinstance(stage, Transform):
        return replace(stage, name=names[stage.name], x=replace(stage.x, name=names[stage.x.name]))
    return replace(
        stage, name=names[stage.name], a=replace(stage.a, name=names[stage.a.name]),
        b=replace(stage.b, name=names[stage.b.name]), epilogue=_renamed_expr(stage.epilogue, names),
    )  # fmt: skip


def _renamed_expr(e, names: dict[str, str]):
    if isinstance(e, Load):
        return replace(e, name=names[e.name])
    if isinstance(e, Call):
        return replace(e, args=tuple(_renamed_expr(a, names) for a in e.args))
    return e


def _call(stage) -> str:
    def operand(o) -> str:
        return o.name + (".T" if o.transposed else "")

    if isinstance(stage, Gemm):
        return f"gemm({operand(stage.a)}, {operand(stage.b)})"
    return f"transform({operand(stage.x)})"


# ---- the parts of the module ----------------------------------------------------------------------------------


def _docstring(out: _Text, program: Program, program_text: str) -> None:
    out.add(f'"""{program.name}: CuTe DSL and quack kernels for {program.arch or "sm_90a"}, generated from')
    out.gap()
    out.add("\n".join(f"    {line}" if line else "" for line in program_text.rstrip("\n").split("\n")))
    out.gap()
    out.add('`build()` compiles every kernel with no GPU; `load()` gives `run(inputs, outputs)`.\n"""')
    out.gap()


def _imports(out: _Text, program: Program, plans: dict[str, GemmPlan | Transform]) -> None:
    arch = program.arch or "sm_90a"
    out.add(parts.HEADER.format(arch=arch, capability=_CAPABILITY[arch]), ("", "arch"))
    out.gap()
    gemms = [p for p in plans.values() if isinstance(p, GemmPlan)]
    casts = len(gemms) < len(plans)
    modules = {"torch", "quack.gemm_runtime.host"}
    wanted: set[tuple[str, str]] = {("torch._subclasses.fake_tensor", "FakeTensorMode")}
    if casts:
        modules |= {"cutlass", "cutlass.cute as cute"}
        wanted |= {("cuda.bindings.driver", "CUstream"), ("quack.cache", "jit_cache")}
    if gemms:
        wanted |= {("quack.epilogue.frontend", "gemm_epilogue"), ("quack.gemm_runtime.host", "run_gemm_epi_plan")}
    split = any(plan.splits > 1 for plan in gemms)
    if split:
        wanted |= {("quack.gemm", "_split_k_buffers"), ("quack.gemm_config", "SplitKMode")}
    for plan in gemms:
        for one in plan.inputs:
            wanted |= set(one.imports)
        wanted |= plan.body.imports
    wanted = {("cutlass", n) if (m, n) == ("cutlass", "cute") else (m, n) for m, n in wanted}
    if ("cutlass", "cute") in wanted:
        wanted.discard(("cutlass", "cute"))
        modules.add("cutlass.cute as cute")
    lines = [f"import {m}" for m in sorted(modules)]
    by_module: dict[str, list[str]] = {}
    for module, name in sorted(wanted):
        by_module.setdefault(module, []).append(name)
    lines += [f"from {m} import {', '.join(sorted(n))}" for m, n in sorted(by_module.items())]
    out.add("\n".join(lines))
    out.gap()
    out.add(parts.MODULE_NAME)
    for part, used in (
        (parts.GEMM, bool(gemms)),
        (parts.SPLIT_K, split),
        (f'CAST_VERSION = "{parts.CAST_VERSION}"  # part of the cache key, beside quack\'s\n' + parts.CAST, casts),
        (parts.PACKED, any(isinstance(s, Transform) and s.prepack for s in program.stages)),
        (parts.CHECK, True),
    ):
        if used:
            out.gap(2 if part.startswith(("class", "def")) else 1)
            out.add(part)


def _tensors(out: _Text, program: Program, types: dict[str, TensorType], names: dict[str, str]) -> None:
    out.gap(2)
    first = out.next
    out.add("# Every tensor of the program: name, element type, shape.")
    rows = [f'    ("{names[n]}", torch.{TORCH[t.dtype]}, {t.shape!r}),' for n, t in types.items()]
    out.add("TENSORS = (\n" + "\n".join(rows) + "\n)")
    kinds = len(program.params)
    out.add(f"INPUTS = TENSORS[:{kinds}]")
    at = {n: i for i, n in enumerate(types)}
    out.add(f"OUTPUTS = ({''.join(f'TENSORS[{at[r]}], ' for r in program.results).rstrip()})", ("", "return"))
    out.span(("", "program"), first)


def _transform(out: _Text, stage: Transform, types: dict[str, TensorType], names: dict[str, str]) -> None:
    t, to = types[stage.x.name], stage.type.dtype
    vector = 8
    while t.elements % vector:
        vector //= 2
    name, x = names[stage.name], names[stage.x.name]
    bits = min(t.dtype.bits, to.bits) * vector
    out.add(
        f"{name.upper()} = CastStage(cutlass.{CUTE[t.dtype]}, cutlass.{CUTE[to]}, vector={vector})"
        f"  # {min(bits, 128)}-bit accesses",
        (stage.name, "to"),
    )
    out.gap(2)
    out.add(f'def {name}_operands(t):\n    return t["{x}"], t["{name}"]')


def _gemm(out: _Text, stage: Gemm, plan: GemmPlan, names: dict[str, str]) -> None:
    name, c = plan.name, stage.config
    own = stage.name
    first = out.next
    if plan.inputs:
        pins = ", ".join(f'"{i.argument}": {i.op}' for i in plan.inputs)
        head = f"@gemm_epilogue(ops={{{pins}}})"
        if len(head) > _WIDTH:
            pins = "".join(f'\n        "{i.argument}": {i.op},' for i in plan.inputs)
            head = f"@gemm_epilogue(\n    ops={{{pins}\n    }}\n)"
    else:
        head = "@gemm_epilogue()"
    out.add(head)
    arguments = ", ".join(["acc", *(i.argument for i in plan.inputs)])
    out.add(f"def {name}_epilogue({arguments}):")
    for note in plan.body.notes:
        out.add(f"    # {note}")
    for line in plan.body.lines:
        out.add(f"    {line}")
    out.add(f'    return {{"D": {plan.body.value}}}')
    out.span((own, "epilogue"), first)
    out.gap(2)
    tile, cluster = c.tile, c.cluster
    shape = f"{'' if plan.l == 1 else f'{plan.l} x '}{plan.m} x {plan.n} x {plan.k}"
    out.add(f"# {shape}, f32 accumulators" + (f"; {plan.remark}" if plan.remark else ""))
    out.add(f"{name.upper()} = {'GemmStage' if plan.splits == 1 else 'SplitKStage'}(")
    out.add(f"    {name}_epilogue,")
    out.add(f"    tile_M={tile[0]}, tile_N={tile[1]}, tile_K={tile[2]},", (own, "tile"))
    out.add(f"    cluster_M={cluster[0]}, cluster_N={cluster[1]},", (own, "cluster"))
    meaning = "a tile for each of two warp groups" if c.schedule == "pingpong" else "the warp groups share a tile"
    out.add(f"    pingpong={c.schedule == 'pingpong'},  # {meaning}", (own, "schedule"))
    line = "    persistent=True," if plan.splits == 1 else f"    split_k={plan.splits},"
    out.add(line, (own, "scheduler"))
    out.add(f"    max_swizzle_size={c.swizzle},  # tiles grouped for reuse in L2; not compiled in", (own, "swizzle"))
    order = f"{stage.b.name} lies as (k, n)" if plan.b_kn else f"{stage.b.name} lies as (n, k)"
    out.add(f"    b_kn={plan.b_kn},  # {order}")
    out.add(f")  # stages: {c.stages} by our count; quack takes as many as shared memory holds", (own, "stages"))
    out.gap(2)
    first = out.next
    used = list(dict.fromkeys([names[stage.a.name], names[stage.b.name], name, *(i.tensor for i in plan.inputs)]))
    out.add(f"def {name}_operands(t):")
    out.add(f"    {', '.join(used)} = {', '.join(f't[{u!r}]'.replace(chr(39), chr(34)) for u in used)}")
    operands = ", ".join(f'"{i.argument}": {i.view}' for i in plan.inputs)
    out.add(f"    return {plan.a}, {plan.b}, {plan.d}, {{{operands}}}", (own, "compute"), (own, "store"))


def _load(out: _Text, program: Program, types: dict[str, TensorType], names: dict[str, str]) -> None:
    own = [s for s in program.stages if s.name not in program.results]
    out.add("def load(artifact=None):")
    out.add('    """`run(inputs, outputs)`: inputs in parameter order, outputs allocated by the caller."""')
    if own:
        out.add("    device = torch.cuda.current_device()")
        out.add("    # Tensors between stages live as long as `run` does.")
    for s in own:
        t = types[s.name]
        out.add(f"    {names[s.name]} = torch.empty({t.shape!r}, dtype=torch.{TORCH[t.dtype]}, device=device)")
    packed = [s for s in program.stages if isinstance(s, Transform) and s.prepack]
    for s in packed:
        out.add(f"    {names[s.name]}_packed = Packed()", (s.name, "prepack"))
    if own:
        out.gap()
    first = out.next
    out.add("    def run(inputs, outputs):")
    out.add('        check(inputs, INPUTS, "input")\n        check(outputs, OUTPUTS, "output")')
    out.add(f"        {_unpack([names[p.name] for p in program.params])} = inputs")
    out.add(f"        {_unpack([names[r] for r in program.results])} = outputs", ("", "return"))
    out.span(("", "program"), first)
    plain = _renamed(program, names)
    for stage, renamed in zip(program.stages, plain.stages, strict=True):
        name = names[stage.name]
        if isinstance(stage, Transform):
            call = f"{name.upper()}({renamed.x.name}, {name})"
            if stage.prepack:
                out.add(
                    f"        if {name}_packed.stale({renamed.x.name}):\n            {call}", (stage.name, "prepack")
                )
                out.span((stage.name, ""), out.next - 2)
                continue
        else:
            plan = plan_gemm(plain, renamed)
            operands = ", ".join(f'"{i.argument}": {i.view}' for i in plan.inputs)
            call = f"{name.upper()}({plan.a}, {plan.b}, {plan.d}, {{{operands}}})"
        out.add(f"        {call}", (stage.name, ""))
    out.gap()
    out.add("    return run")


def _unpack(names: list[str]) -> str:
    return ", ".join(names) + ("," if len(names) == 1 else "")


def _line_map(program_text: str, out: _Text) -> tuple[tuple[int, int, int], ...]:
    """A program line to the lines it decides; a line with several unbroken stretches has several entries."""
    found, stage = [], ""
    for number, line in enumerate(program_text.split("\n"), 1):
        words = line.replace("{", " ").split()
        if not words or words == ["}"]:
            continue
        if len(words) > 2 and words[1] == "=":
            stage, clause = words[0], ""
            key = (stage, clause)
        elif words[0] in ("program", "arch", "return"):
            key = ("", words[0])
        else:
            key = (stage, words[0])
        found += [(number, first, last) for first, last in sorted(set(out.marks.get(key, ())))]
    return tuple(found)
