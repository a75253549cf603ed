"""A whole program as one Python module, and the map from its lines to the module's.

The module's `run` launches the stages in order and decides nothing else: kernels are planned at the first call, and
the memory between stages is allocated once by `load`, where dsl.buffers says. What a stage says is its lowering's work
(stage.py has the table).
"""

from __future__ import annotations

from dsl.buffers import WORKSPACE, Buffers
from dsl.buffers import plan as plan_buffers
from dsl.ir import Gemm, GroupedGemm, Program, Stage, TensorType, Transform
from dsl.lower import Refusal, Source
from dsl.lower.cute import parts
from dsl.lower.cute.names import names_of, renamed
from dsl.lower.cute.stage import TORCH, Part, StagePlan, Text, memory_shape, plan_stage, types_of
from dsl.printer import digest, to_text

_CAPABILITY = {"sm_90a": "sm_90"}
_WIDTH = 118


def lower(program: Program) -> Source:
    """CUTLASS Python of a resolved program (no `auto` left) and its line map. Raises Refusal."""
    if (program.arch or "sm_90a") not in _CAPABILITY:
        raise Refusal("cute-arch", f"the cute back end writes sm_90a, not {program.arch}", "write arch sm_90a")
    if not program.stages:
        raise Refusal("cute-empty", "the program has no stage", "write at least one gemm or transform")
    types = types_of(program)
    for name, t in types.items():
        if t is None:
            raise Refusal("cute-unresolved", f"{name} has no type yet", "check the program first (dsl.check)")
        if t.dtype not in TORCH:
            raise Refusal("cute-dtype", f"no tensor in memory is {t.dtype.value}, as {name} is", "cast it")
    _results(program)
    names = names_of([*types], not all(isinstance(s, Gemm | GroupedGemm) for s in program.stages))
    plain = renamed(program, names)
    program_text = to_text(program)
    buffers = plan_buffers(program)
    plans = {
        stage.name: plan_stage(plain, one)
        for stage, one in zip(program.stages, plain.stages, strict=True)
        if stage.name not in buffers.views
    }
    scratch = _scratch(plans, names)
    out = Text()
    _docstring(out, program, program_text)
    _imports(out, program, plans, any(getattr(s, "prepack", False) for s in program.stages))
    _tensors(out, program, types, names, scratch)
    for number, stage in enumerate(program.stages, 1):
        out.gap(2)
        first = out.next
        what = f"# ---- stage {number} of {len(program.stages)}: {names[stage.name]} = {_call(stage)} "
        out.add(what + "-" * max(4, _WIDTH - len(what)))
        if stage.name in buffers.views:
            out.add(f"# No launch: {names[stage.name]} is another name of {names[stage.operands[0].name]}.")
            out.span((stage.name, ""), first)
            continue
        out.gap()
        _definition(out, stage, plans[stage.name], names[stage.name])
        out.span((stage.name, ""), first)
    out.gap(2)
    rows = [f'    "{s.name}": ({names[s.name].upper()}, {names[s.name]}_operands),' for s in program.stages
            if s.name in plans]  # fmt: skip
    out.add("STAGES = {\n" + "\n".join(rows) + "\n}")
    out.gap(2)
    out.add(parts.BUILD)
    out.gap(2)
    _load(out, program, plans, buffers, types, names, scratch)
    text = out.text()
    return Source("cute", "python", text, text, f"uc_{digest(program)}", _line_map(program_text, out))


def _results(program: Program) -> None:
    made = {name for s in program.stages for name in (s.name, *(a.name for a in s.also))}
    for name in program.results:
        if name not in made or program.results.count(name) > 1:
            what = "returned twice" if name in made else "a parameter"
            raise Refusal("cute-result", f"result {name} is {what}", "return each stage once, and only stages")
    kept = {p.name for p in program.params}
    for s in program.stages:
        if not isinstance(s, Transform) or not s.prepack:
            continue
        origins = [o.name for o in s.operands]
        if not kept.issuperset(origins) or s.name in program.results:
            raise Refusal(
                "cute-prepack", f"{s.name} is prepacked, but {origins[0]} is no parameter or {s.name} is returned",
                "leave prepack out",
            )  # fmt: skip
        kept.add(s.name)


def _scratch(plans: dict[str, StagePlan], names: dict[str, str]) -> list[tuple[str, TensorType]]:
    """Each stage's own memory, under its name in the module."""
    return [(f"{names[stage]}_{s.what}", TensorType(s.dtype, s.shape)) for stage, p in plans.items() for s in p.scratch]


def _call(stage: Stage) -> str:
    def operand(o) -> str:
        return o.name + (".T" if o.transposed else "")

    word = getattr(stage, "word", None) or {"GroupedGemm": "grouped_gemm"}.get(
        type(stage).__name__, type(stage).__name__.lower()
    )
    return f"{word}({', '.join(map(operand, stage.operands))})"


# ---- the parts of the module ----------------------------------------------------------------------------------


def _docstring(out: Text, program: Program, program_text: str) -> None:
    out.add(f'"""{program.name}: CuTe DSL and quack kernels for {program.arch or "sm_90a"}, generated from')
    out.gap()
    out.add("\n".join(f"    {line}" if line else "" for line in program_text.rstrip("\n").split("\n")))
    out.gap()
    out.add('`build()` compiles every kernel with no GPU; `load()` gives `run(inputs, outputs)`.\n"""')
    out.gap()


def _imports(out: Text, program: Program, plans: dict[str, StagePlan], prepack: bool) -> None:
    arch = program.arch or "sm_90a"
    out.add(parts.HEADER.format(arch=arch, capability=_CAPABILITY[arch]), ("", "arch"))
    out.gap()
    modules = {"torch", "quack.gemm_runtime.host"}
    wanted: set[tuple[str, str]] = {("torch._subclasses.fake_tensor", "FakeTensorMode")}
    for one in plans.values():
        modules |= one.modules
        wanted |= one.imports
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
    shared = dict.fromkeys(part for one in plans.values() for part in one.parts)
    shared |= dict.fromkeys([Part(parts.PACKED, 80)] if prepack else [])
    shared |= dict.fromkeys([Part(parts.GRAPHS, 85)] if program.graph else [])
    shared |= dict.fromkeys([Part(parts.CHECK, 90)])
    for part in sorted(shared, key=lambda p: p.rank):
        out.gap(2 if part.text.startswith(("class", "def", "@")) else 1)
        out.add(part.text)


def _tensors(
    out: Text,
    program: Program,
    types: dict[str, TensorType],
    names: dict[str, str],
    scratch: list[tuple[str, TensorType]],
) -> None:
    out.gap(2)
    first = out.next
    shapes = [(names[n], t, memory_shape(t)) for n, t in types.items()]
    last = any(t.shape != shape for _, t, shape in shapes)
    where = " in memory (channels last)." if last else "."
    out.add(f"# Every tensor of the program: name, element type, shape{where}")
    shapes += [(n, t, t.shape) for n, t in scratch]
    rows = [f'    ("{n}", torch.{TORCH[t.dtype]}, {shape!r}),' for n, t, shape in shapes]
    out.add("TENSORS = (\n" + "\n".join(rows) + "\n)")
    kinds = len(program.params)
    out.add(f"INPUTS = TENSORS[:{kinds}]")
    at = {n: i for i, n in enumerate(types)}
    out.add(f"OUTPUTS = ({''.join(f'TENSORS[{at[r]}], ' for r in program.results).rstrip()})", ("", "return"))
    out.span(("", "program"), first)


def _definition(out: Text, stage: Stage, plan: StagePlan, name: str) -> None:
    plan.text.marks = {(stage.name, clause): ranges for (_, clause), ranges in plan.text.marks.items()}
    out.include(plan.text)
    out.gap(2)
    out.add(f"def {name}_operands(t):")
    marks = [(stage.name, clause) for clause in plan.reads]
    values = ", ".join(f't["{one}"]' for one in plan.tensors)
    if plan.arguments == ", ".join(plan.tensors) and not marks:
        out.add(f"    return {values}")
        return
    out.add(f"    {_unpack(list(plan.tensors))} = {values}")
    out.add(f"    return {plan.arguments}{'' if ',' in plan.arguments else ','}", *marks)


def _load(
    out: Text,
    program: Program,
    plans: dict[str, StagePlan],
    buffers: Buffers,
    types: dict[str, TensorType],
    names: dict[str, str],
    scratch: list[tuple[str, TensorType]],
) -> None:
    out.add("def load(artifact=None):")
    out.add('    """`run(inputs, outputs)`: inputs in parameter order, outputs allocated by the caller."""')
    made = [name for s in program.stages for name in (s.name, *(a.name for a in s.also)) if s.name not in buffers.views]
    own = [name for name in made if name not in program.results and buffers.places[name].where != "output"]
    between = [name for name in own if buffers.places[name].where == WORKSPACE]
    shared = buffers.workspace < sum(-(-types[n].bytes // 256) * 256 for n in between)
    if own or scratch:
        out.add("    device = torch.cuda.current_device()")
        out.add("    # Tensors between stages live as long as `run` does.")
    if shared:
        out.add(f"    memory = torch.empty({buffers.workspace}, dtype=torch.uint8, device=device)")
        out.add("    # Those that are never in use together share its bytes: each at its first byte.")
    for name in own:
        t = types[name]
        shape, dtype = memory_shape(t), f"torch.{TORCH[t.dtype]}"
        if shared and name in between:
            first = buffers.places[name].at
            out.add(f"    {names[name]} = memory[{first}:{first + t.bytes}].view({dtype}).view({shape!r})")
        else:
            out.add(f"    {names[name]} = torch.empty({shape!r}, dtype={dtype}, device=device)")
    for name, t in scratch:
        out.add(f"    {name} = torch.empty({t.shape!r}, dtype=torch.{TORCH[t.dtype]}, device=device)")
    origins: dict[str, tuple[str, ...]] = {}
    for s in program.stages:
        if getattr(s, "prepack", False):
            origins[s.name] = tuple(dict.fromkeys(p for o in s.operands for p in origins.get(o.name, (o.name,))))
            out.add(f"    {names[s.name]}_packed = Packed()", (s.name, "prepack"))
    if own or scratch:
        out.gap()
    first = out.next
    out.add(f"    def {'launch' if program.graph else 'run'}(inputs, outputs):")
    checks = '        check(inputs, INPUTS, "input")\n        check(outputs, OUTPUTS, "output")'
    if not program.graph:
        out.add(checks)
    unpack = f"        {_unpack([names[p.name] for p in program.params])} = inputs"
    out.add(unpack)
    out.add(f"        {_unpack([names[r] for r in program.results])} = outputs", ("", "return"))
    out.span(("", "program"), first)
    outputs = {buffers.places[r].at: r for r in program.results}
    packing = Text() if program.graph else out  # a graph begins with what is packed already
    for s in program.stages:
        name = names[s.name]
        if s.name in buffers.views:
            if s.name not in program.results:
                shape = memory_shape(types[s.name])
                out.add(f"        {name} = {names[s.operands[0].name]}.view({shape!r})", (s.name, ""))
            continue
        for one in (s.name, *(a.name for a in s.also)):
            place = buffers.places[one]
            if place.where == "output" and one not in program.results:  # a view of it is returned
                out.add(
                    f"        {names[one]} = {names[outputs[place.at]]}.view({memory_shape(types[one])!r})", (one, "")
                )
        call = f"{name.upper()}({plans[s.name].arguments})"
        if s.name in origins:
            tensors = ", ".join(names[p] for p in origins[s.name])
            packing.add(f"        if {name}_packed.stale({tensors}):\n            {call}", (s.name, "prepack"))
            packing.span((s.name, ""), packing.next - 2)
        else:
            out.add(f"        {call}", (s.name, ""))
    out.gap()
    if program.graph:
        first = out.next
        out.add("    graphs = Graphs(launch)")
        out.gap()
        out.add("    def run(inputs, outputs):")
        out.add(checks)
        if origins:
            out.add(unpack)
            out.include(packing)
        out.add("        graphs(inputs, outputs)")
        out.gap()
        out.span(("", "launch"), first)
    out.add("    return run")


def _unpack(names: list[str]) -> str:
    return ", ".join(names) + ("," if len(names) == 1 else "")


def _line_map(program_text: str, out: Text) -> tuple[tuple[int, int, int], ...]:
    """A program line to the lines it decides; a line with several unbroken stretches has several entries."""
    found, stage = [], ""
    for number, line in enumerate(program_text.split("\n"), 1):
        words = line.replace("{", " ").split()
        if not words or words == ["}"]:
            continue
        if line.startswith("  ") and not line.startswith("   ") and len(words) > 2 and words[1] == "=":
            stage, clause = words[0], ""
            key = (stage, clause)
        elif words[0] in ("program", "arch", "return", "launch"):
            key = ("", words[0])
        elif words[0] in ("let", "also"):
            key = (stage, "epilogue")
        else:
            key = (stage, words[0])
        # A clause whose mark no lowering set decides something all over its stage's definition.
        ranges = out.marks.get(key) or (out.marks.get((stage, ""), [])[:1] if key[0] else [])
        found += [(number, first, last) for first, last in sorted(set(ranges))]
    return tuple(found)
