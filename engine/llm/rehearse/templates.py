"""Replies of a rehearsal about templates: the planner's programs and row kernels with parameters, and where a search of
them may begin. Rules wrote them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dsl.check.program import check
from dsl.ir import Collective, Config, Program
from dsl.printer import to_text
from dsl.resolve import resolve
from dsl.rules import legal
from engine.devices import SessionRefused
from engine.llm.rehearse import mistakes
from engine.llm.rehearse.pool import Drawn, hardware_of, prepared
from engine.llm.rehearse.raw_kernels import raw_kernel
from engine.llm.rehearse.row_graph import HALVES, NotRows, rows_of
from engine.llm.rehearse.row_kernels import row_kernel
from engine.strategies.planner.search.structures import tunable
from engine.strategies.two_stage.expressions import read
from sol.attainable import predict

FORMS = ("TemplatePlan", "ProgramTemplate", "KernelTemplate", "Findings", "Tuning")
MOST_VALUES = 5
STARTS = 2  # of the roles `test` and `tune`
FREE = ("stages", "swizzle")  # clauses that keep the template's default where a template lacks the planner's value
FLAT = ("syntax", "result", "cheat", "type", "slow")  # mistakes that spoil the text of a template
OF_TEMPLATES = ("inequality", "placeholder")  # a default that breaks a limit; a parameter that is not in the text
SCHEDULES = '(schedule == "cooperative" and tile_m >= 128) or (schedule == "pingpong" and tile_m <= 192)'
ACCUMULATORS = 'tile_m * tile_n <= 26624 or (schedule == "cooperative" and tile_m >= 128 and tile_m * tile_n <= 53248)'
_PARAMETER = re.compile(r"^- (\w{1,32}): ([^\n]{1,800}) \(default ([^)\n]{0,40})\)", re.MULTILINE)
_ROUND = "# What the search of the last template's parameters found"


def mistake_of(form: str, mistake: str, rng: random.Random) -> str:
    """The mistake of a reply that has one: `mistake`, or one that only templates have."""
    if form not in ("ProgramTemplate", "KernelTemplate") or not mistake:
        return mistake
    return rng.choice((mistake, *OF_TEMPLATES)) if mistake in FLAT else mistake


def reply_of(form: str, prompt: str, drawn: Sequence[Drawn], work: Any, mistake: str, rng: random.Random) -> dict:
    """The reply of one of FORMS. `drawn`: the planner's programs that were not tried; `work`: as the player reads the
    prompt (engine.llm.rehearse.player.Work)."""
    match form:
        case "TemplatePlan":
            return _plan(prompt, work)
        case "Findings":
            right = "The default instance is right." in prompt
            return {
                "mistake": "" if right else "Rehearsed: the default instance is not what the module computes.",
                "fix": "" if right else "Rehearsed: take the original's text again.",
                "corners": _settings(prompt, rng, corner=True) if right else [],
            }  # fmt: skip
        case "Tuning":
            names = [name for name, _, _ in _parameters(prompt)]
            starts = [*_starts(prompt, drawn, work, rng), *_of_rows(prompt), *_settings(prompt, rng)][:STARTS]
            return {"starts": starts, "order": names, "why": "rehearsed: the planner's, then in the template's order"}
        case "KernelTemplate":
            template = _kernel(work.source, work.kind, work.classes, work.gpu, mistake)
        case _:
            template = _program(drawn, work, mistake, rng)
    return _spoiled(template, mistake)


def _plan(prompt: str, work: Any) -> dict[str, Any]:
    again = _ROUND in prompt
    return {
        "decision": "template", "structure": f"Rehearsed: {'another' if again else 'the first'} structure by rule.",
        "parameters": [{"name": "tile", "why": "work of a block"}, {"name": "stages", "why": "loads in flight"}],
        "speedup": 1.2, "why": "rehearsed: the best value of a parameter is measured, not known",
    }  # fmt: skip


# ---- starts ----


def _parameters(prompt: str) -> list[tuple[str, list[str], str]]:
    """The parameters that a prompt lists: name, values and default."""
    return [(name, values.split(", "), default) for name, values, default in _PARAMETER.findall(prompt)]


def _settings(prompt: str, rng: random.Random, corner: bool = False) -> list[dict[str, Any]]:
    """Configurations near the default: one parameter takes its last value (a corner) or a random one."""
    parameters = [(name, values) for name, values, _ in _parameters(prompt) if len(values) > 1]
    chosen = rng.sample(parameters, min(STARTS, len(parameters)))
    return [
        {"settings": [{"name": name, "value": values[-1] if corner else rng.choice(values)}]} for name, values in chosen
    ]


def _starts(prompt: str, drawn: Sequence[Drawn], work: Any, rng: random.Random) -> list[dict[str, Any]]:
    """Configurations of the planner's programs inside a template's values, from the distribution of every other role.
    A search that begins at random values alone would be held against the strategy and not against its proposals."""
    values = {name: known for name, known, _ in _parameters(prompt)}
    default = {name: known for name, _, known in _parameters(prompt)}
    inside: list[dict[str, str]] = []
    for one in drawn if {"tile_m", "tile_n", "tile_k"} <= values.keys() else ():
        stage = _longest(one, work.gpu)[1]
        known = {n: str(v) for n, v in _clauses(stage.config).items() if n in values} if stage is not None else {}
        settings = {n: v for n, v in known.items() if v in values[n] or n not in FREE}
        fits = settings and all(v in values[n] for n, v in settings.items())
        if fits and settings not in inside and any(default[n] != v for n, v in settings.items()):
            inside.append(settings)
    chosen = []
    while inside and len(chosen) < STARTS:
        place = 0
        while place < len(inside) - 1 and rng.random() > 0.5:
            place += 1
        chosen.append(inside.pop(place))
    return [{"settings": [{"name": n, "value": v} for n, v in one.items()]} for one in chosen]


def _of_rows(prompt: str) -> list[dict[str, Any]]:
    """Of a row kernel: past the caches, and twice the threads of a row with half as much for each of them."""
    parameters = {name: (values, default) for name, values, default in _parameters(prompt)}
    if not {"stream", "row_threads", "unroll"} <= parameters.keys():
        return []
    wider = {"row_threads": 2 * int(parameters["row_threads"][1])}
    if (unroll := int(parameters["unroll"][1])) > 1:
        wider["unroll"] = unroll // 2
    starts = ({"stream": 1}, wider)
    return [
        {"settings": [{"name": name, "value": str(value)} for name, value in start.items()]}
        for start in starts
        if all(str(value) in parameters[name][0] for name, value in start.items())
    ]


# ---- programs ----


def _program(drawn: Sequence[Drawn], work: Any, mistake: str, rng: random.Random) -> dict[str, Any]:
    if not drawn:
        text = "# no part of this module is a program of the language: {none}"
        return _named(text, [("none", [0], 0)], work.classes[0], "nothing to rehearse")
    place = 0
    while place < len(drawn) - 1 and rng.random() > 0.5:
        place += 1
    chosen = max(drawn, key=lambda d: d.ms or 0.0) if mistake == "slow" else drawn[place]
    return program_template(chosen, work.gpu)


def program_template(drawn: Drawn, gpu: str) -> dict[str, Any]:
    """A program whose product that takes longest has parameters for each clause of its configuration; a program without
    a product has one for its launch."""
    program, stage = _longest(drawn, gpu)
    if stage is None:
        text = to_text(replace(program, graph=False))
        head, line, rest = text.partition(f"  arch {program.arch}\n" if program.arch else "{\n")
        text = f"{head}{line}  launch {{launch}}\n{rest}"
        values = [("launch", ["stream", "graph"], "stream")]
        return _named(text, values, drawn.cls, f"{drawn.change or 'the program'}, with its launch as a parameter")
    return _of_stage(program, stage, drawn)


@lru_cache(maxsize=256)
def _longest(drawn: Drawn, gpu: str) -> tuple[Program, Collective | None]:
    """The program of a candidate, and its product that takes longest with every clause set; None without a product."""
    program, hardware = check(drawn.text).program, hardware_of(gpu)
    stages = tunable(program)
    if not stages:
        return program, None
    resolved = resolve(program, hardware.sms)
    times = {s.name: s.ms for s in predict(resolved, hardware).stages}
    name = max(stages, key=lambda s: times.get(s.name, 0.0)).name
    return program, next(s for s in resolved.stages if s.name == name)


def _clauses(c: Config) -> dict[str, Any]:
    """The clauses of a configuration by the names of a template's parameters."""
    cluster = c.cluster or (1, 1, 1)
    return {
        "tile_m": c.tile[0], "tile_n": c.tile[1], "tile_k": c.tile[2], "schedule": c.schedule, "stages": c.stages,
        "swizzle": c.swizzle, "cluster_m": cluster[0], "cluster_n": cluster[1],
    }  # fmt: skip


def _of_stage(program: Program, stage: Collective, drawn: Drawn) -> dict[str, Any]:
    """The template of a program whose `stage` has every clause set. `cute` takes as many stages as fit, so a number of
    them would leave only `cpp`: there they are left to the compiler."""
    c, problem = stage.config, legal.program_problem(program, stage)
    if _backend(program) == "cute" and "cute" in legal.backends(problem, c):
        c = replace(c, stages=None)
    tiles = [t for t in legal.tiles_for(problem) if t[2] <= 4 * c.tile[2]]
    values: dict[str, list] = {
        f"tile_{axis}": _near([t[i] for t in tiles], c.tile[i]) for i, axis in enumerate("mnk")
    }  # fmt: skip
    if c.cluster is not None:
        values |= {"cluster_m": _near([1, 2], c.cluster[0]), "cluster_n": _near([1, 2], c.cluster[1])}
    if c.schedule is not None:
        values["schedule"] = list(dict.fromkeys([c.schedule, *filter(None, legal.schedules(problem))]))
    if c.stages is not None:
        values["stages"] = _near([2, 3, 4, 6], c.stages)
    if c.swizzle is not None:
        values["swizzle"] = _near(list(legal.SWIZZLES), c.swizzle)
    default = _clauses(c)
    text = _with_parameters(program, stage, c)
    template = _named(
        text, [(n, v, default[n]) for n, v in values.items()], drawn.cls, f"{drawn.change}, with parameters"[:300]
    )
    template["why"] = drawn.why[:600]
    bytes_ = 2 if drawn.cls in HALVES else 1 if drawn.cls == "fp8" else 4
    size = f"(tile_m * {bytes_} + tile_n * 4) * tile_k" if problem.casts else f"(tile_m + tile_n) * tile_k * {bytes_}"
    shared = f"{'stages' if 'stages' in values else 2} * {size} + 8192"
    grouped = c.schedule and not problem.casts  # else each tile of the language fits the registers
    limits = [
        (ACCUMULATORS, "registers", "accumulators of a thread") if grouped else None,
        (SCHEDULES, "language", "warp groups share a tile, or each has its own") if grouped else None,
        (f"{shared} <= shared_block", "shared_memory", "operands of every stage, and the epilogue"),
        (f"cluster_m * cluster_n <= {4 if _backend(program) == 'cute' else 8}", "language", "blocks of a cluster")
        if c.cluster else None,
    ]  # fmt: skip
    template["inequalities"] = [
        {"expression": e, "resource": r, "why": w}
        for e, r, w in filter(None, limits)
        if read(e).holds({**default, "shared_block": 232448})
    ]
    return template


def _backend(program: Program) -> str:
    """The back end that a program names, else the one that is tried first."""
    return next((s.config.backend for s in program.stages if isinstance(s, Collective) and s.config.backend), "cute")


def _near(values: Sequence[int], own: int) -> list[int]:
    """At most MOST_VALUES of the values, those nearest to `own` among them, in order."""
    every = sorted({*values, own})
    return sorted(sorted(every, key=lambda v: abs(v - own))[:MOST_VALUES])


def _with_parameters(program: Program, stage: Collective, c: Config) -> str:
    """The program's text, in which the clauses of one stage hold parameters."""
    stages = tuple(replace(s, config=c) if s.name == stage.name else s for s in program.stages)
    text = to_text(replace(program, stages=stages))
    start = text.index(f"  {stage.name} = ")
    end = text.index("\n  }", start)
    body = text[start:end]
    for clause, written in (
        ("tile", "{tile_m}x{tile_n}x{tile_k}"), ("cluster", "{cluster_m}x{cluster_n}x1"), ("schedule", "{schedule}"),
        ("stages", "{stages}"), ("swizzle", "{swizzle}"),
    ):  # fmt: skip
        body = re.sub(rf"(?m)^(\s+){clause} \S+$", lambda m, c=clause, w=written: f"{m[1]}{c} {w}", body, count=1)
    return text[:start] + body + text[end:]


# ---- kernels ----


@lru_cache(maxsize=16)
def _rows(source: str, classes: tuple[str, ...], gpu: str) -> tuple[Any, str]:
    """The rows of a module, or why it has none."""
    try:
        return rows_of(prepared(source, "module", classes, gpu).graph), ""
    except SessionRefused as e:
        return None, e.reason
    except NotRows as e:
        return None, str(e)


def _kernel(source: str, kind: str, classes: tuple[str, ...], gpu: str, mistake: str) -> dict[str, Any]:
    """The row kernel of a module; else the planner's first program as its CuTe DSL code, without a real parameter."""
    rows, why = _rows(source, classes, gpu) if kind == "module" else (None, "it is a program of the language")
    if rows is not None and mistake != "cheat":
        return row_kernel(rows, classes)
    raw = raw_kernel(source, kind, classes, mistake, gpu)
    note = f"# The rehearsal knows no parameter of this kernel ({' '.join(why.split())}): {{none}}\n"
    template = _named(
        note.replace("\n", "")[:300] + "\n" + raw["source"], [("none", [0], 0)], raw["cls"], raw["change"]
    )
    return {**template, "language": raw["language"]}


# ---- shared ----


def _named(text: str, parameters: Sequence[tuple[str, list, Any]], cls: str, change: str) -> dict[str, Any]:
    return {
        "text": text, "cls": cls, "change": change[:300], "why": "rehearsed", "inequalities": [],
        "parameters": [{"name": n, "values": values, "default": d, "meaning": ""} for n, values, d in parameters],
    }  # fmt: skip


def _spoiled(template: dict[str, Any], mistake: str) -> dict[str, Any]:
    """The template with a mistake."""
    text = template["text"]
    if mistake == "inequality":
        name = template["parameters"][0]["name"]
        broken = {"expression": f"{name} != {name}", "resource": "other", "why": "a mistake of the rehearsal"}
        return {**template, "inequalities": [broken, *template["inequalities"]]}
    if mistake == "placeholder":
        name = template["parameters"][0]["name"]
        return {**template, "text": text.replace(f"{{{name}}}", str(template["parameters"][0]["default"]))}
    if mistake not in FLAT or mistake == "cheat":
        return template
    if "language" not in template:
        drawn = Drawn(text, template["cls"], "", "", None)
        return {**template, "text": mistakes.spoiled(drawn, mistake, drawn).text}
    if mistake == "syntax":
        return {**template, "text": text + "\n}} broken(\n"}
    if mistake == "result":
        return {**template, "text": re.sub(r"narrow\(([vr]_)", r"narrow(1.05f * \1", text)}
    return template
