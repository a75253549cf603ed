"""Configuration clauses: syntax to `ir.Config`, and the E2xx errors with the nearest configuration that passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dsl.arch import COMPUTE_FOR, Arch
from dsl.check.nearest import CLAUSES, helps, say
from dsl.diagnostics import closest, listing
from dsl.fixes import (
    LeaveClauses,
    LeaveOut,
    Rewrite,
    did_you_mean,
    help_of,
    leave_clause,
    or_else,
    transform_first,
    write_clause,
)
from dsl.ir import Attention, Collective, Config, Conv, DType, Program, Recurrent, Scheduler, Span, Stage, TensorType
from dsl.resolve import complete, possible
from dsl.rules import legal

Error = Callable[..., None]

PRECISIONS = ("tf32", "f16", "bf16", "e4m3", "e5m2", "i8", "f32")
LATER_COMPUTE = ("f64",)
_BACK_END_CLAUSES = ("tile", "scheduler", "backend")  # the clauses that decide which back ends take a stage
_NOTHING_FITS = "leave more clauses to auto, store a narrower type or read fewer tensors"


def _word(clause, choices: tuple[str, ...], code: str, error: Error) -> str | None:
    """The value of a clause with a fixed set of words; None for auto or after an error."""
    if clause is None or clause.value.text == "auto":
        return None
    text = clause.value.text
    if text in choices:
        return text
    near = closest(text, choices)
    message = f"`{text}` is not a {clause.keyword.text}; choices are {listing((*choices, 'auto'))}"
    error(code, message, clause.span, did_you_mean(near))
    return None


def _auto(clause, error: Error, code: str) -> bool:
    """Return True if the clause is absent, auto, or a word. Any word but auto is reported as an error."""
    if clause is None:
        return True
    word = getattr(clause.value, "text", None)
    if word is not None and word != "auto":
        error(code, f"`{word}` is not a value of {clause.keyword.text}", clause.span, "sizes, or auto")
    return word is not None


def read_config(clauses: dict, error: Error) -> Config:
    """The configuration as written. Invalid values go to `error(code, message, span, help=None, notes=())`."""
    compute = None
    c = clauses.get("compute")
    if c is not None and c.value.text != "auto":
        covered = PRECISIONS
        if c.value.text in covered:
            compute = DType(c.value.text)
        elif c.value.text in LATER_COMPUTE:
            error("E202", f"compute {c.value.text} is not covered yet; covered are {listing(covered)}", c.span)
        else:
            near = closest(c.value.text, covered)
            message = f"`{c.value.text}` is not a precision; covered are {listing(covered)}"
            error("E202", message, c.span, did_you_mean(near))
    tile = cluster = stages = swizzle = scheduler = None
    c = clauses.get("tile")
    if not _auto(c, error, "E203"):
        if len(c.value) == 3:
            tile = c.value
        else:
            message = f"tile has {len(c.value)} size{'s'[: len(c.value) > 1]}; it is MxNxK"
            error("E203", message, c.span, write_clause("tile", "128x128x64"))
    c = clauses.get("cluster")
    if not _auto(c, error, "E206"):
        if len(c.value) in (2, 3):
            cluster = (*c.value, 1)[:3]
        else:
            error(
                "E206",
                f"cluster has {len(c.value)} size{'s'[: len(c.value) > 1]}; it is MxNx1",
                c.span,
                write_clause("cluster", "2x1x1"),
            )
    c = clauses.get("stages")
    if not _auto(c, error, "E210"):
        stages = c.value[0]
    c = clauses.get("swizzle")
    if not _auto(c, error, "E211"):
        swizzle = c.value[0]
    c = clauses.get("scheduler")
    if c is not None:
        scheduler = _read_scheduler(c, error)
    schedule = _word(clauses.get("schedule"), legal.SCHEDULES, "E207", error)
    backend = _word(clauses.get("backend"), legal.BACKENDS, "E212", error)
    return Config(compute, tile, cluster, schedule, scheduler, stages, swizzle, backend)


def _read_scheduler(c, error: Error) -> Scheduler | None:
    word, splits = c.value
    if word.text == "auto" and splits is None:
        return None
    if word.text == "split_k" and splits is None:
        error(
            "E208",
            "split_k needs its number of splits",
            c.span,
            help_of("for example split_k(4)", Rewrite("split_k(4)")),
        )
    elif word.text == "split_k":
        return Scheduler("split_k", splits)
    elif word.text not in (*legal.SCHEDULERS, "auto"):
        near = closest(word.text, legal.SCHEDULERS)
        message = f"`{word.text}` is not a scheduler; choices are persistent, stream_k, split_k(n) and auto"
        error("E208", message, c.span, did_you_mean(near))
    elif splits is not None:
        error("E208", f"{word.text} takes no number", c.span, help_of(f"write {word.text}", Rewrite(word.text)))
    else:
        return Scheduler(word.text)
    return None


def check_config(arch: Arch | None, stage: Collective, types: dict[str, TensorType | None], error: Error) -> None:
    """Every E2xx rule on a typed stage whose operands are of one covered type."""
    if arch is None or not arch.generates:
        return
    c = stage.config
    first = stage.operands[0]
    stored = types[first.name].dtype
    default = COMPUTE_FOR[stored]
    plain = stored is DType.F32 or isinstance(stage, Conv)  # the CUDA cores multiply it too, in f32
    rounds = legal.is_rowmajor(stage, types)  # this kernel rounds f32 operands to any type of the tensor cores
    if c.compute and c.compute is not default and not (c.compute is DType.F32 and plain) and not rounds:
        help = write_clause("compute", default.value)
        if c.compute not in (DType.TF32, DType.F32):
            help = or_else(f"transform the operands to {c.compute.value} first", help)
        span = stage.clause_span("compute")
        error("E202", f"{first.name} is {stored.value}; compute {c.compute.value} needs other operands", span, help)
        return
    if not legal.configured(stage, types):
        for clause in CLAUSES:
            if getattr(c, clause) is not None:
                message = f"a direct convolution (compute f32) has no {clause}; convolutions on the tensor cores have"
                error("E216", message, stage.clause_span(clause), leave_clause(clause))
        return
    p = legal.problem_of(arch, stage, types)
    choices = (c.backend,) if c.backend else legal.BACKENDS
    broken = {b: legal.objections(p, c, b) for b in choices}
    backend = min(choices, key=lambda b: (any(o.clause == "backend" for o in broken[b]), len(broken[b])))
    beside = _beside(broken, backend)
    ways_out = helps(p, c, choices, broken[backend], beside)
    for o, help in zip(broken[backend], ways_out, strict=True):
        if p.casts and o.clause in ("backend", "compute"):  # where it is cast before, every back end takes it
            before = transform_first(stage.operands[1].name, ("to", stored.value))
            help = or_else(help, before) if o.clause == "backend" and c.backend else before
        elsewhere = () if o in beside else tuple(f"`{b}`: {x.message}" for b in choices if b != backend for x in beside)
        error(o.code, o.message, _place(stage, o), help, o.notes + elsewhere)
    if not any(not v for v in broken.values()) or possible(p, c):
        return
    settings = [k for k in CLAUSES if getattr(c, k) is not None]
    ways = []
    for clause in settings:
        completed = complete(p, replace(c, **{clause: None}))
        if completed is not None:
            ways.append(say(clause, completed))
    error(
        "E214",
        f"no setting of the auto clauses fits {listing([say(k, c).text for k in settings])}",
        stage.clause_span(settings[0] if settings else "epilogue"),
        or_else(*ways) or help_of(_NOTHING_FITS, LeaveClauses(("store",))),
    )


def _beside(broken: dict[str, list[legal.Objection]], backend: str) -> list[legal.Objection]:
    """What keeps the back end beside `backend` from the stage; nothing if it has no such kernel at all."""
    other = [x for b, rules in broken.items() if b != backend for x in rules]
    return [] if any(o.clause == "backend" for o in other) else other


def check_one_back_end(arch: Arch, stages: list[Stage], types: dict[str, TensorType | None], error: Error) -> None:
    """Report an error if no single back end takes every stage; each stage alone has passed the checks."""
    able: dict[str, tuple[str, ...]] = {}
    stages = [s for s in stages if isinstance(s, Attention | Recurrent) or legal.configured(s, types)]
    for s in stages:
        able[s.name] = _able(arch, s, types)
    if not able or any(all(b in takes for takes in able.values()) for b in legal.BACKENDS):
        return
    first = next(s for s in stages if len(able[s.name]) == 1)
    other = next(s for s in stages if len(able[s.name]) == 1 and able[s.name] != able[first.name])
    free = next(
        (s for s, o in ((other, first), (first, other)) if able[o.name][0] in _able(arch, s, types, True)), None
    )
    freed = free.name if free else first.name
    error(
        "E212",
        f"no back end takes both {first.name} and {other.name}",
        other.clause_span("backend" if "backend" in dict(other.clauses) else "tile"),
        help_of(f"leave the tile, scheduler and backend of {freed} to auto", LeaveClauses(_BACK_END_CLAUSES, freed)),
        tuple(f"{s.name}: `{able[s.name][0]}` alone" for s in (first, other)),
    )


def check_guarded(program: Program, arch: Arch, writer: str, place: Span, error: Error) -> None:
    """Report an error if the back end that writes a program's guard has no configuration for one of its stages."""
    types = legal.types_of(program)
    for s in program.stages:
        if legal.configured(s, types) and writer not in _able(arch, s, types):
            message = f"only the {writer} back end writes this guard, and it has no configuration for {s.name}"
            error("E409", message, place, help_of("leave guard out", LeaveOut()))
            return


def _able(arch: Arch, s: Collective | Attention | Recurrent, types: dict, freed: bool = False) -> tuple[str, ...]:
    """The back ends with a configuration for this stage; `freed`: as if its tile, scheduler and backend were auto."""
    if isinstance(s, Attention | Recurrent):
        return ("cute",) if isinstance(s, Attention) else ("cpp",)
    c = replace(s.config, tile=None, scheduler=None, backend=None, stages=None) if freed else s.config
    backends = (c.backend,) if c.backend else legal.BACKENDS
    p = legal.problem_of(arch, s, types)
    return tuple(b for b in backends if possible(p, replace(c, backend=b)))


def _place(stage: Collective, o: legal.Objection) -> Span:
    return stage.clause_span(o.clause if o.clause in dict(stage.clauses) else "tile")
