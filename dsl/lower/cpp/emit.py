"""Generate one CUDA C++ unit and its Python binding for a whole program.

Run-time choices (swizzle, split factor) are arguments of the C entry and not part of the text. Programs that differ
only in them share one unit, one namespace and one build. So the namespace is the digest of the program without these
choices, and the binding passes them.
"""

from __future__ import annotations

import dataclasses
import functools
import re

import jinja2

from dsl.arch import ARCHS, DEFAULT
from dsl.guard import writers
from dsl.ir import Collective, Program, Scheduler
from dsl.lower import Refusal, Source
from dsl.lower.cpp.functions import definitions
from dsl.lower.cpp.gemm.normalized import fused
from dsl.lower.cpp.guarded import plan_rescue, second
from dsl.lower.cpp.names import TORCH, identifier
from dsl.lower.cpp.stages import Plan, plan_stage
from dsl.lower.plan import buffers
from dsl.lower.plan.launch_graph import GRAPHS
from dsl.printer import digest, to_text

PART_WORK = 2.0  # of a part's stages together: two products by CUTLASS's templates take nvcc some 30 s and 4 GB
_OWN_WORK = 0.2  # of a kernel of our own, beside a product
_PART = re.compile(r"UCUTLASS_PART == (\d+)$", re.MULTILINE)
_MARK = re.compile(r"\s*//@(\w*)(?:\.(\w+))?$")


def lower(program: Program) -> Source:
    """CUDA C++ of a resolved program (no `auto` left), its binding and its line map. Raises Refusal.

    The C entry is `int <namespace>_run(void* const* inputs, void* const* outputs, void* workspace, void* stream,
    int const* launch)`: 0, or the number of the stage that failed. `<namespace>_workspace(launch)` gives bytes,
    `<namespace>_facts()` JSON, `<namespace>_message()` the text of the last failure.
    """
    if (program.arch or DEFAULT) not in ARCHS:
        raise Refusal("cpp-arch", f"the cpp back end does not write {program.arch}", f"write arch {DEFAULT}")
    if not program.stages:
        raise Refusal("cpp-empty", "the program has no stage", "write at least one gemm or transform")
    if program.guard and "cpp" not in writers(program):
        raise Refusal("cpp-guard", "the cpp back end has no casts that check their range", "leave guard out")
    try:
        types = buffers.types_of(program)
    except ValueError as error:
        raise Refusal("cpp-unresolved", str(error), "check the program first (dsl.check.program)") from error
    for name, kind in types.items():
        if kind.dtype not in TORCH:
            raise Refusal("cpp-dtype", f"the cpp back end stores no {kind.dtype.value} in memory ({name})", "cast it")
        identifier(name)
    written, program = program, fused(program, types)  # one kernel may compute two stages
    places = _places(program)
    plans = {s.name: plan_stage(program, s, types) for s in program.stages if s.name not in places.views}
    namespace = f"uc_{digest(compiled_in(written))}"
    intermediates, launch = places.prepacked + places.workspace, [0]
    fallback = second(program) if program.guard else None
    if fallback is not None:
        # A rescue needs only the inputs, so both pipelines share the workspace.
        apart = dataclasses.replace(_places(fallback), prepacked=places.prepacked)
        intermediates = places.prepacked + max(places.workspace, apart.workspace)
    views = _views(program, plans, places, intermediates, launch)
    waiting = []
    if fallback is not None:
        kinds = buffers.types_of(fallback)
        rescues = {s.name: plan_rescue(fallback, s, kinds) for s in fallback.stages if s.name not in apart.views}
        waiting = _views(fallback, rescues, apart, intermediates, launch, len(program.stages))
        plans |= rescues
    signature = f"{program.name}({', '.join(f'{p.name}: {p.type}' for p in program.params)})"
    functions = sorted({name for plan in plans.values() for name in plan.functions})
    context = {
        "ns": namespace,
        "parts": _divide(views + waiting),
        "arch": program.arch or DEFAULT,
        "shared_memory": ARCHS[program.arch or DEFAULT].smem_block,
        "signature": signature,
        "stages": views,
        "waiting": waiting,
        "flag": f"scratch + {intermediates}" if program.guard else "",
        "headers": list(dict.fromkeys(header for plan in plans.values() for header in plan.headers)),
        "shared": list(dict.fromkeys(file for plan in plans.values() for file in plan.shared)),
        "functions": definitions(functions),
        "flag_at": intermediates,
        "intermediates": intermediates + (buffers.ALIGNMENT if program.guard else 0),
        "inputs": [(p.name, p.type.shape, TORCH[p.type.dtype]) for p in program.params],
        "outputs": [(n, t.shape, TORCH[t.dtype]) for n, t in ((r, types[r]) for r in program.results)],
        "launch": launch,
        "prepacked": list(places.sources),
        "graph": program.graph,
        "graphs": GRAPHS,
    }
    environment = _environment()
    text, marks = _unmark(environment.get_template("program.cu.j2").render(context))
    binding = environment.get_template("binding.py.j2").render(context)
    return Source("cpp", "cuda", text, binding, namespace, _line_map(to_text(written), marks), program.arch or DEFAULT)


def compiled_in(program: Program) -> Program:
    """The program without its run-time choices; the unit's text depends only on this."""

    def strip(stage):
        if not isinstance(stage, Collective) or stage.config.scheduler is None:
            return stage
        kind = stage.config.scheduler.kind
        return dataclasses.replace(
            stage, config=dataclasses.replace(stage.config, swizzle=1, scheduler=Scheduler(kind), backend=None)
        )

    return dataclasses.replace(program, stages=tuple(strip(stage) for stage in program.stages))


def _views(
    program: Program, plans: dict[str, Plan], places: buffers.Buffers, flag: int, launch: list[int], before: int = 0
) -> list[_View]:
    """The plans of a pipeline in order, for the template. Their run-time choices are appended to `launch`.

    `flag`: offset of the guard's flag in the workspace, in bytes; `before`: number of stages that run earlier.
    """
    views = []
    for number, stage in enumerate(program.stages, before + 1):
        if stage.name in places.views:
            continue
        plan = plans[stage.name]
        prepack = getattr(stage, "prepack", False)
        named = [_pointer(places, name) for name in plan.tensors]
        named += [f"scratch + {flag}"] if getattr(plan, "flag", False) else []
        pointers = "{" + ", ".join(named) + "}"
        extra = {
            "number": number,
            "what": _call_text(stage),
            "at": len(launch),
            "prepack": prepack,
            "pointers": pointers,
        }
        launch += plan.launch
        views.append(_View(plan, extra))
    return views


def _divide(views: list[_View]) -> int:
    """Give each stage the number of its part, and return how many there are: parts are built at once."""
    part, work = 0, 0.0
    for view in views:
        more = 1.0 if any("cutlass/" in header for header in view.headers) else _OWN_WORK
        if work and work + more > PART_WORK:
            part, work = part + 1, 0.0
        view.part, work = part, work + more
    return part + 1


def parts(text: str) -> int:
    """The number of parts in which the kernels of a generated unit can be built."""
    return 1 + max(map(int, _PART.findall(text)), default=0)


class _View:
    """A plan for the template, with the fields that depend on the whole program."""

    def __init__(self, plan: Plan, extra: dict):
        self._plan = plan
        self.__dict__.update(extra)

    def __getattr__(self, name: str):
        return getattr(self._plan, name)


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("dsl.lower.cpp"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # C++, not HTML; names are checked identifiers
    )


def _places(program: Program) -> buffers.Buffers:
    """The places of all tensors. Raises Refusal for results and prepack stages that cannot be placed."""
    params = {p.name for p in program.params}
    for name in program.results:
        if name in params or program.results.count(name) > 1:
            problem = "a parameter" if name in params else "returned twice"
            raise Refusal("cpp-result", f"result {name} is {problem}", "return each stage once, and only stages")
    try:
        return buffers.plan(program)
    except ValueError as error:
        raise Refusal("cpp-prepack", str(error), "prepack a parameter, or leave prepack out") from error


def _pointer(places: buffers.Buffers, name: str) -> str:
    """A tensor's address as C++. In the workspace prepacked tensors come first, then the intermediates."""
    place = places.places[name]
    if place.where in (buffers.INPUT, buffers.OUTPUT):
        return f"{place.where}s[{place.at}]"
    return f"scratch + {place.at + (places.prepacked if place.where == buffers.WORKSPACE else 0)}"


def _call_text(stage) -> str:
    """The stage as the program calls it: `gemm(x, w.T)`."""

    def operand(o) -> str:
        return o.name + (".T" if o.transposed else "")

    word = getattr(stage, "word", None) or re.sub(r"(?<!^)(?=[A-Z])", "_", type(stage).__name__).lower()
    return f"{word}({', '.join(operand(o) for o in stage.operands)})"


def _unmark(text: str) -> tuple[str, dict[tuple[str, str], list[int]]]:
    """The text without the template's `//@stage.clause` marks, and the lines (1-based) of each mark."""
    lines, marks = [], {}
    for number, line in enumerate(text.split("\n"), 1):
        if mark := _MARK.search(line):
            marks.setdefault((mark[1], mark[2] or ""), []).append(number)
            line = line[: mark.start()]
        lines.append(line)
    return "\n".join(lines), marks


def _line_map(printed: str, marks: dict[tuple[str, str], list[int]]) -> tuple[tuple[int, int, int], ...]:
    """The generated lines of each printed line: a stage's line maps to its namespace, a clause to its text."""
    ranges, stage = [], ""
    for number, line in enumerate(printed.split("\n"), 1):
        words = line.replace("{", " ").split()
        if len(words) > 2 and words[1] == "=":
            stage, clause = words[0], ""
        else:
            clause = words[0] if words else "-"
        at = marks.get((stage, clause))
        if at:
            # A clause may have marks in several places (type and run-time argument): one range for each.
            start = at[0]
            for here, after in zip(at, [*at[1:], None], strict=True):
                if clause and after is not None and after > here + 1:
                    ranges.append((number, start, here))
                    start = after
            ranges.append((number, start, at[-1]))
    return tuple(ranges)
