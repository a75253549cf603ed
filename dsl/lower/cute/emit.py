"""Generate one Python module for a whole program, and the map from the program's lines to its lines.

The module's `run` launches the stages in order. Kernels are planned at the first call, and `load` allocates the memory
between stages once, as dsl.lower.plan.buffers plans it. The lowering of each stage writes its text (stage.py has the
table).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dsl.guard import rescue
from dsl.ir import Gemm, GroupedGemm, Program, Stage, TensorType, Transform
from dsl.lower import Refusal, Source
from dsl.lower.cute import parts
from dsl.lower.cute.conv.folds import FoldingConv, fused
from dsl.lower.cute.generated_kernels import FLAG
from dsl.lower.cute.guarded import plan_rescue
from dsl.lower.cute.guarded import plan_stage as plan_guarded
from dsl.lower.cute.names import names_of, renamed
from dsl.lower.cute.stage import TORCH, Part, StagePlan, Text, memory_shape, plan_stage, types_of
from dsl.lower.plan.buffers import WORKSPACE, Buffers
from dsl.lower.plan.buffers import plan as plan_buffers
from dsl.lower.plan.rescue import chosen
from dsl.printer import digest, to_text

_CAPABILITY = {"sm_90a": "sm_90"}
_WIDTH = 118
_Joined = Callable[[Program], Program]


def lower(program: Program) -> Source:
    """CUTLASS Python of a resolved program (no `auto` left) and its line map. Raises Refusal."""
    if (program.arch or "sm_90a") not in _CAPABILITY:
        raise Refusal("cute-arch", f"the cute back end writes sm_90a, not {program.arch}", "write arch sm_90a")
    if not program.stages:
        raise Refusal("cute-empty", "the program has no stage", "write at least one gemm or transform")
    types = types_of(program)
    for name, t in types.items():
        if t is None:
            raise Refusal("cute-unresolved", f"{name} has no type yet", "check the program first (dsl.check.program)")
        if t.dtype not in TORCH:
            raise Refusal("cute-dtype", f"{name} is {t.dtype.value}, which cute does not store in memory", "cast it")
    _results(program)
    if not program.guard:
        return _lowered(program, types, None)
    try:
        return _lowered(program, types, chosen(program))
    except Refusal:  # if it is of the second pipeline, the one in f32 takes what that one does not
        return _lowered(program, types, rescue(program))


def _lowered(program: Program, types: dict[str, TensorType], second: Program | None) -> Source:
    """`second`: the rescue pipeline of a guarded program."""
    own = program.guard or not all(isinstance(s, Gemm | GroupedGemm) for s in program.stages)
    others = {n: _beside(n, types) for n in written_by(second)} if second else {}
    names = names_of([*types, *others.values()], own)
    pipes = [_pipe(program, names, plan_guarded if second else plan_stage, fused)]
    if second:
        theirs = {**{p.name: names[p.name] for p in program.params}, **{n: names[o] for n, o in others.items()}}
        pipes.append(_pipe(second, theirs, plan_rescue))
    program_text, namespace = to_text(program), f"uc_{digest(program)}"
    program = pipes[0].program  # one kernel may compute two stages
    plans = [plan for pipe in pipes for plan in pipe.plans.values()]
    out = Text()
    _docstring(out, program, program_text)
    _imports(out, program, plans, any(getattr(s, "prepack", False) for s in program.stages))
    _tensors(out, program, pipes)
    for number, stage in enumerate(program.stages, 1):
        title = f"stage {number} of {len(program.stages)}: {names[stage.name]} = {_call(stage)}"
        _section(out, title, stage, pipes[0], (stage.name, ""))
    for stage in pipes[1].program.stages if second else ():
        title = f"where the guard's flag is up: {pipes[1].names[stage.name]} = {_call(stage)}"
        _section(out, title, stage, pipes[1], ("", "guard"))
    out.gap(2)
    keyed = [(n if pipe is pipes[0] else pipe.names[n], pipe.names[n]) for pipe in pipes for n in pipe.plans]
    rows = [f'    "{key}": ({name.upper()}, {name}_operands),' for key, name in keyed]
    out.add("STAGES = {\n" + "\n".join(rows) + "\n}")
    out.gap(2)
    out.add(parts.BUILD)
    out.gap(2)
    _load(out, program, pipes)
    text = out.text()
    return Source("cute", "python", text, text, namespace, _line_map(program_text, out))


@dataclass(frozen=True)
class _Pipe:
    """A pipeline of the module: that of the program, or the rescue pipeline of its guard.

    `names`: the tensors' names in Python. `plans`: of the stages that launch something, by stage name.
    """

    program: Program
    names: dict[str, str]
    buffers: Buffers
    plans: dict[str, StagePlan]
    types: dict[str, TensorType]

    @property
    def scratch(self) -> list[tuple[str, TensorType]]:
        """The scratch tensors of the stages, with their names in the module."""
        names, plans = self.names, self.plans
        return [(f"{names[n]}_{s.suffix}", TensorType(s.dtype, s.shape)) for n, p in plans.items() for s in p.scratch]


def _pipe(program: Program, names: dict[str, str], planned, joined: _Joined = lambda p: p) -> _Pipe:
    plain, program = joined(renamed(program, names)), joined(program)
    buffers = plan_buffers(program)
    plans = {
        stage.name: planned(plain, one)
        for stage, one in zip(program.stages, plain.stages, strict=True)
        if stage.name not in buffers.views
    }
    return _Pipe(program, names, buffers, plans, types_of(program))


def written_by(program: Program) -> list[str]:
    """The names of the tensors that the stages write."""
    return [name for s in program.stages for name in (s.name, *(a.name for a in s.also))]


def _beside(name: str, names: dict[str, TensorType]) -> str:
    """The name of the rescue pipeline's tensor for `name`."""
    name = f"{name}_f32"
    while name in names:
        name += "_"
    return name


def _section(out: Text, title: str, stage: Stage, pipe: _Pipe, mark: tuple[str, str]) -> None:
    out.gap(2)
    first = out.next
    title = f"# ---- {title} "
    out.add(title + "-" * max(4, _WIDTH - len(title)))
    if stage.name in pipe.buffers.views:
        out.add(f"# No launch: {pipe.names[stage.name]} is another name of {pipe.names[stage.operands[0].name]}.")
    else:
        out.gap()
        _definition(out, stage, pipe.plans[stage.name], pipe.names[stage.name])
    for owner in _owners(stage, mark[0]):
        out.span((owner, mark[1]), first)


def _owners(stage: Stage, name: str) -> tuple[str, ...]:
    """The stages of the program's text that one of the module computes."""
    return (name, stage.product) if name and isinstance(stage, FoldingConv) else (name,)


def _results(program: Program) -> None:
    written = written_by(program)
    for name in program.results:
        if name not in written or program.results.count(name) > 1:
            problem = "returned twice" if name in written else "a parameter"
            raise Refusal("cute-result", f"result {name} is {problem}", "return each stage once, and only stages")
    constant = {p.name for p in program.params}
    for s in program.stages:
        if not isinstance(s, Transform) or not s.prepack:
            continue
        origins = [o.name for o in s.operands]
        if not constant.issuperset(origins) or s.name in program.results:
            raise Refusal(
                "cute-prepack", f"{s.name} is prepacked, but {origins[0]} is no parameter or {s.name} is returned",
                "leave prepack out",
            )  # fmt: skip
        constant.add(s.name)


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
    out.add('`build()` compiles every kernel; `load()` gives `run(inputs, outputs)`.\n"""')
    out.gap()


def _imports(out: Text, program: Program, plans: list[StagePlan], prepack: bool) -> None:
    arch = program.arch or "sm_90a"
    out.add(parts.HEADER.format(arch=arch, capability=_CAPABILITY[arch]), ("", "arch"))
    out.gap()
    modules = {"torch"}
    imports: set[tuple[str, str]] = {("torch._subclasses.fake_tensor", "FakeTensorMode")}
    for one in plans:
        modules |= one.modules
        imports |= one.imports
    if ("cutlass", "cute") in imports:
        imports.discard(("cutlass", "cute"))
        modules.add("cutlass.cute as cute")
    lines = [f"import {m}" for m in sorted(modules)]
    by_module: dict[str, list[str]] = {}
    for module, name in sorted(imports):
        by_module.setdefault(module, []).append(name)
    lines += [f"from {m} import {', '.join(sorted(n))}" for m, n in sorted(by_module.items())]
    out.add("\n".join(lines))
    out.gap()
    out.add(parts.MODULE_NAME)
    shared = dict.fromkeys(part for one in plans for part in one.parts)
    shared |= dict.fromkeys([Part(parts.PACKED, 80)] if prepack else [])
    shared |= dict.fromkeys([Part(parts.GRAPHS, 85)] if program.graph else [])
    shared |= dict.fromkeys([Part(parts.CHECK, 90)])
    for part in sorted(shared, key=lambda p: p.rank):
        out.gap(2 if part.text.startswith(("class", "def", "@")) else 1)
        out.add(part.text)


def _tensors(out: Text, program: Program, pipes: list[_Pipe]) -> None:
    out.gap(2)
    first = out.next
    types, names = pipes[0].types, pipes[0].names
    shapes = [(names[n], t, memory_shape(t)) for n, t in types.items()]
    last = any(t.shape != shape for _, t, shape in shapes)
    where = " in memory (channels last)." if last else "."
    out.add(f"# Every tensor of the program: name, element type, shape{where}")
    for pipe in pipes[1:]:
        shapes += [(pipe.names[n], pipe.types[n], memory_shape(pipe.types[n])) for n in written_by(pipe.program)]
    shapes += [(n, t, t.shape) for pipe in pipes for n, t in pipe.scratch]
    rows = [f'    ("{n}", torch.{TORCH[t.dtype]}, {shape!r}),' for n, t, shape in shapes]
    rows += [f'    ("{FLAG}", torch.int32, (1,)),'] if program.guard else []
    out.add("TENSORS = (\n" + "\n".join(rows) + "\n)")
    kinds = len(program.params)
    out.add(f"INPUTS = TENSORS[:{kinds}]")
    at = {n: i for i, n in enumerate(types)}
    out.add(f"OUTPUTS = ({''.join(f'TENSORS[{at[r]}], ' for r in program.results).rstrip()})", ("", "return"))
    out.span(("", "program"), first)


def _definition(out: Text, stage: Stage, plan: StagePlan, name: str) -> None:
    owners, marks = _owners(stage, stage.name), plan.text.marks.items()
    plan.text.marks = {(owner, clause): ranges for (_, clause), ranges in marks for owner in owners}
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


def _load(out: Text, program: Program, pipes: list[_Pipe]) -> None:
    names = pipes[0].names
    out.add("def load(artifact=None):")
    out.add('    """`run(inputs, outputs)`: inputs in parameter order, outputs allocated by the caller."""')
    owned = _memory(out, program, pipes)
    origins = program.packed
    for name in origins:
        out.add(f"    {names[name]}_packed = Packed()", (name, "prepack"))
    if owned:
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
    packing = Text() if program.graph else out  # packing runs before the graph
    if program.guard:
        out.add(f"        {FLAG}.zero_()", ("", "guard"))
    _calls(out, packing, pipes[0], origins)
    for pipe in pipes[1:]:
        first = out.next
        for r in program.results:
            out.add(f"        {pipe.names[r]} = {names[r]}")
        _calls(out, packing, pipe, {})
        out.span(("", "guard"), first)
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
    if program.guard:
        out.add(f"    run.tripped = lambda: bool({FLAG}[0])  # whether the last call computed all again", ("", "guard"))
    out.add("    return run")


def _memory(out: Text, program: Program, pipes: list[_Pipe]) -> bool:
    """Add the lines of `load` that allocate the tensors between stages; False if there are none."""
    own = {
        id(pipe): [
            name
            for s in pipe.program.stages
            for name in (s.name, *(a.name for a in s.also))
            if s.name not in pipe.buffers.views
            and name not in program.results
            and pipe.buffers.places[name].where != "output"
        ]
        for pipe in pipes
    }
    scratch = [one for pipe in pipes for one in pipe.scratch]
    if not any(own.values()) and not scratch and not program.guard:
        return False
    out.add("    device = torch.cuda.current_device()")
    out.add("    # Tensors between stages live as long as `run` does.")
    main = pipes[0]
    between = [name for name in own[id(main)] if main.buffers.places[name].where == WORKSPACE]
    # A rescue needs only the inputs, so both pipelines share the workspace.
    bytes_ = max(pipe.buffers.workspace for pipe in pipes)
    shared = bytes_ < sum(-(-main.types[n].bytes // 256) * 256 for n in between) or any(own[id(p)] for p in pipes[1:])
    if shared:
        out.add(f"    memory = torch.empty({bytes_}, dtype=torch.uint8, device=device)")
        out.add("    # Those that are never in use together share its bytes: each at its first byte.")
    for pipe in pipes:
        for name in own[id(pipe)]:
            t, place = pipe.types[name], pipe.buffers.places[name]
            shape, dtype = memory_shape(t), f"torch.{TORCH[t.dtype]}"
            if shared and place.where == WORKSPACE:
                first = place.at
                lies = f"memory[{first}:{first + t.bytes}].view({dtype}).view({shape!r})"
                out.add(f"    {pipe.names[name]} = {lies}")
            else:
                out.add(f"    {pipe.names[name]} = torch.empty({shape!r}, dtype={dtype}, device=device)")
    for name, t in scratch:
        out.add(f"    {name} = torch.empty({t.shape!r}, dtype=torch.{TORCH[t.dtype]}, device=device)")
    if program.guard:
        out.add(f"    {FLAG} = torch.zeros((1,), dtype=torch.int32, device=device)", ("", "guard"))
    return True


def _calls(out: Text, packing: Text, pipe: _Pipe, origins: dict[str, tuple[str, ...]]) -> None:
    """Add the lines of `run` that launch the stages of a pipeline in order."""
    program, names, buffers, plans, types = pipe.program, pipe.names, pipe.buffers, pipe.plans, pipe.types
    outputs = {buffers.places[r].at: r for r in program.results}
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


def _unpack(names: list[str]) -> str:
    return ", ".join(names) + ("," if len(names) == 1 else "")


def _line_map(program_text: str, out: Text) -> tuple[tuple[int, int, int], ...]:
    """The generated lines of each program line; a line with several separate ranges has several entries."""
    entries, stage = [], ""
    for number, line in enumerate(program_text.split("\n"), 1):
        words = line.replace("{", " ").split()
        if not words or words == ["}"]:
            continue
        if line.startswith("  ") and not line.startswith("   ") and len(words) > 2 and words[1] == "=":
            stage, clause = words[0], ""
            key = (stage, clause)
        elif words[0] in ("program", "arch", "return", "launch", "guard"):
            key = ("", words[0])
        elif words[0] in ("let", "also"):
            key = (stage, "epilogue")
        else:
            key = (stage, words[0])
        # A clause without a mark maps to the whole definition of its stage.
        ranges = out.marks.get(key) or (out.marks.get((stage, ""), [])[:1] if key[0] else [])
        entries += [(number, first, last) for first, last in sorted(set(ranges))]
    return tuple(entries)
