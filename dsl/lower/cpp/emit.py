"""A whole program as one CUDA C++ unit and its Python binding.

Run-time choices (swizzle, split factor) are arguments of the C entry, not text: programs that differ in them alone
share one unit, hence one namespace and one build. So the namespace is the digest of the program as far as it is
compiled in, and the binding carries the choices.
"""

from __future__ import annotations

import dataclasses
import functools
import re

import jinja2

from dsl.ir import Gemm, Program, Scheduler, TensorType, Transform
from dsl.lower import Refusal, Source
from dsl.lower.cpp.functions import definition
from dsl.lower.cpp.gemm import GemmPlan, plan_gemm
from dsl.lower.cpp.names import TORCH, identifier, storage
from dsl.lower.cpp.transform import TransformPlan, plan_transform
from dsl.printer import digest, to_text

_MARK = re.compile(r"\s*//@(\w+)(?:\.(\w+))?$")


def lower(program: Program) -> Source:
    """CUDA C++ of a resolved program (no `auto` left), its binding and its line map. Raises Refusal.

    The C entry is `int <namespace>_run(void* const* inputs, void* const* outputs, void* workspace, void* stream,
    int const* launch)`: 0, or the number of the stage that failed. `<namespace>_workspace(launch)` gives bytes,
    `<namespace>_facts()` JSON, `<namespace>_message()` the text of the last failure.
    """
    if program.arch not in (None, "sm_90a"):
        raise Refusal("cpp-arch", f"the cpp back end writes sm_90a, not {program.arch}", "write arch sm_90a")
    types = {item.name: item.type for item in (*program.params, *program.stages)}
    for name, kind in types.items():
        if kind is None:
            raise Refusal("cpp-unresolved", f"{name} has no type yet", "check the program first (dsl.check)")
        storage(kind.dtype, identifier(name))
    plans = [_plan(program, stage, types) for stage in program.stages]
    if not plans:
        raise Refusal("cpp-empty", "the program has no stage", "write at least one gemm or transform")
    places, intermediates = _places(program, types)
    namespace = f"uc_{digest(compiled_in(program))}"
    views, slot = [], 1
    for number, (stage, plan) in enumerate(zip(program.stages, plans, strict=True), 1):
        extra = {"number": number, "what": _what(stage)}
        if plan.kind == "gemm":
            extra |= {"at": slot, "aux": any(leaf.kind == "aux" for leaf in plan.tree.leaves)}
            slot += 2
        views.append(_View(plan, extra))
    signature = f"{program.name}({', '.join(f'{p.name}: {p.type}' for p in program.params)})"
    functions = sorted({name for plan in plans if plan.kind == "gemm" for name in plan.tree.functions})
    context = {
        "ns": namespace,
        "signature": signature,
        "stages": views,
        "gemms": [view for view in views if view.kind == "gemm"],
        "functions": [definition(name) for name in functions],
        "intermediates": intermediates,
        "pointers": {
            plan.name: _pointers(plan, stage, places) for plan, stage in zip(plans, program.stages, strict=True)
        },
        "inputs": [(p.name, p.type.shape, TORCH[p.type.dtype]) for p in program.params],
        "outputs": [(n, t.shape, TORCH[t.dtype]) for n, t in ((r, types[r]) for r in program.results)],
        "launch": [0, *(value for plan in plans if plan.kind == "gemm" for value in (plan.swizzle, plan.splits))],
        "prepacked": _prepacked(program),
    }
    environment = _environment()
    text, marks = _unmark(environment.get_template("program.cu.j2").render(context))
    binding = environment.get_template("binding.py.j2").render(context)
    return Source("cpp", "cuda", text, binding, namespace, _line_map(to_text(program), marks))


def compiled_in(program: Program) -> Program:
    """The program with every run-time choice taken out: what the unit's text depends on."""

    def strip(stage):
        if not isinstance(stage, Gemm) or stage.config.scheduler is None:
            return stage
        kind = "persistent" if stage.config.scheduler.kind == "persistent" else "stream_k"
        return dataclasses.replace(
            stage, config=dataclasses.replace(stage.config, swizzle=1, scheduler=Scheduler(kind), backend=None)
        )

    return dataclasses.replace(program, stages=tuple(strip(stage) for stage in program.stages))


class _View:
    """A plan as the template sees it, with what only the whole program knows."""

    def __init__(self, plan: GemmPlan | TransformPlan, extra: dict):
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


def _plan(program: Program, stage, types: dict[str, TensorType]) -> GemmPlan | TransformPlan:
    if isinstance(stage, Gemm):
        return plan_gemm(program, stage, types)
    if isinstance(stage, Transform):
        return plan_transform(stage, types)
    raise Refusal("cpp-stage", f"the cpp back end has no {type(stage).__name__.lower()} yet", "write gemm or transform")


def _places(program: Program, types: dict[str, TensorType]) -> tuple[dict[str, str], int]:
    """Where each tensor lies, as a C++ pointer expression, and the bytes of workspace between stages."""
    places = {p.name: f"inputs[{i}]" for i, p in enumerate(program.params)}
    for i, name in enumerate(program.results):
        if name in places:
            raise Refusal(
                "cpp-result",
                f"result {name} is {'a parameter' if places[name].startswith('in') else 'returned twice'}",
                "return each stage once, and only stages",
            )
        places[name] = f"outputs[{i}]"
    at = 0
    for stage in program.stages:
        if stage.name not in places:
            places[stage.name] = f"scratch + {at}"
            at += (types[stage.name].bytes + 255) // 256 * 256
    return places, at


def _pointers(plan: GemmPlan | TransformPlan, stage, places: dict[str, str]) -> str:
    if plan.kind == "transform":
        return f"{places[stage.x.name]}, {places[stage.name]}"
    leaves = [places[leaf.name] for leaf in plan.tree.leaves if leaf.kind != "acc"]
    return "{" + ", ".join([places[plan.a.name], places[plan.b.name], places[stage.name], *leaves]) + "}"


def _prepacked(program: Program) -> list[int]:
    """Indices of the inputs that prepack stages read."""
    index = {p.name: i for i, p in enumerate(program.params)}
    found = set()
    for stage in program.stages:
        if isinstance(stage, Transform) and stage.prepack:
            if stage.x.name not in index:
                raise Refusal(
                    "cpp-prepack",
                    f"{stage.name} prepacks {stage.x.name}, which is computed anew in each call",
                    "prepack a parameter, or leave prepack out",
                )
            if stage.name in program.results:
                raise Refusal(
                    "cpp-prepack", f"{stage.name} is prepacked and returned", "leave prepack out, or do not return it"
                )
            found.add(index[stage.x.name])
    return sorted(found)


def _what(stage) -> str:
    def operand(o) -> str:
        return o.name + (".T" if o.transposed else "")

    if isinstance(stage, Gemm):
        return f"gemm({operand(stage.a)}, {operand(stage.b)})"
    return f"transform({operand(stage.x)})"


def _unmark(text: str) -> tuple[str, dict[tuple[str, str], list[int]]]:
    """Takes the template's `//@stage.clause` marks out; the lines they stood on, 1-based."""
    lines, marks = [], {}
    for number, line in enumerate(text.split("\n"), 1):
        if found := _MARK.search(line):
            marks.setdefault((found[1], found[2] or ""), []).append(number)
            line = line[: found.start()]
        lines.append(line)
    return "\n".join(lines), marks


def _line_map(printed: str, marks: dict[tuple[str, str], list[int]]) -> tuple[tuple[int, int, int], ...]:
    """Each printed line to the generated lines it decides: a stage's line to its namespace, a clause to its text."""
    found, stage = [], ""
    for number, line in enumerate(printed.split("\n"), 1):
        words = line.replace("{", " ").split()
        if len(words) > 2 and words[1] == "=":
            stage, clause = words[0], ""
        else:
            clause = words[0] if words else "-"
        at = marks.get((stage, clause))
        if at:
            # A clause's marks may lie apart (type and run-time argument): one range for each unbroken stretch.
            start = at[0]
            for here, after in zip(at, [*at[1:], None], strict=True):
                if clause and after is not None and after > here + 1:
                    found.append((number, start, here))
                    start = after
            found.append((number, start, at[-1]))
    return tuple(found)
