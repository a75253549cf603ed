"""The best results on other problems of a device: a start for the next search, and how well predictions held.

Two tables, both only of measurements. `Won` is the fastest configuration of a problem in a class, with the shape and
the kind of epilogue; a problem of the same kind whose M, N and K are each within a factor of two starts from it.
`sol.triage.Memory` holds the predicted and observed speedups of each structure, and so prices the promise of the next
structure.

They are filled from the results in this repository (engine/results, by hardware) and from sessions on this machine, one
JSON object a line below the build cache's root: shapes, settings and times, and only a digest of the module's graph,
because the reader of a line may not be the person who pasted the module. A session reads them once at its start and
adds to them at its end (engine.session.runner).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from math import log2
from pathlib import Path
from threading import Lock

from dsl import ir
from dsl.check.program import check
from dsl.ir import Collective, Conv, Gemm, GroupedGemm, Program
from dsl.resolve import resolve
from engine.build.cache import content_key, default_root
from engine.strategies import memory_lines
from engine.strategies.planner.search import candidates
from sol.attainable import product_of
from sol.graph import OpGraph
from sol.triage import Memory as Outcomes
from sol.triage import Outcome

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "engine/results"
GATHERED = Path(__file__).with_name("gathered")  # what `committed` makes of RESULTS; its test writes it
PROGRAMS = ROOT / "dsl/examples/suite59"
# Words of structures whose kernel is newer than the results in engine/results, which its model was fitted to apart:
# ignore the speedups recorded before. Empty this when the results have it.
FITTED: tuple[str, ...] = ("weights cast as they are read",)
SESSION = "session "  # prefix of `where` for a session's result


@dataclass(frozen=True)
class Won:
    """`where`: the problem's id, or a session's (`session_of`); `shape`: M, N, K (for a convolution, as a product);
    `tail`: the epilogue's kind; `settings`: the clauses in one line, as
    engine.strategies.planner.search.candidates.change writes them."""

    where: str
    kind: str
    cls: str
    backend: str
    shape: tuple[int, int, int]
    tail: str
    settings: str
    ms: float

    def __str__(self) -> str:
        shape = "x".join(str(d) for d in self.shape)
        return f"{shape} in an earlier session" if self.where.startswith(SESSION) else f"{self.where}, {shape}"


@dataclass
class Memory:
    """`like(..)` returns starting points; `outcomes` are for triage."""

    won: list[Won] = field(default_factory=list)
    outcomes: Outcomes = field(default_factory=Outcomes)

    def like(self, program: Program, stage: Collective, cls: str, backend: str) -> list[Won]:
        """Best configurations of similar problems, the most similar first."""
        mine = described(program, stage)
        cls = mine.cls(cls)
        kinds = {(mine.name(backend), backend)}
        if backend == "cute" and mine.compute == "tf32":  # the same tiles won on `cpp` before `cute` had them
            kinds.add((mine.kind, "cpp"))
        near = []
        for w in self.won:
            if w.cls != cls or (w.kind, w.backend) not in kinds:
                continue
            steps = [abs(log2(a / b)) for a, b in zip(w.shape, mine.shape, strict=True)]
            if max(steps) <= 1:
                near.append((sum(steps) + 0.5 * (w.tail != mine.tail), w.ms, w.where, w))
        return [w for *_, w in sorted(near, key=lambda x: x[:3])]

    def without(self, where: str) -> Memory:
        """The memory for a problem that must not start from its own result."""
        outcomes = replace(self.outcomes, outcomes=[o for o in self.outcomes.outcomes if o.problem != where])
        return Memory([w for w in self.won if w.where != where], outcomes)

    def to_text(self) -> str:
        """JSON lines, one fact per line, for the log of a session."""
        return lines_of([*self.won, *self.outcomes.outcomes])


@dataclass(frozen=True)
class _Kind:
    kind: str
    shape: tuple[int, int, int]
    tail: str
    compute: str  # class of the operands' precision
    casts: bool = False  # its weight, as it reads it

    def name(self, backend: str) -> str:
        """The kind in a `Won`: on `cute`, class tf32 has products in tf32 and in f16 under a guard, and one that casts
        its weight has tiles of its own."""
        if self.casts:
            return f"{self.kind} that casts its weight"
        return f"{self.kind} in tf32" if backend == "cute" and self.compute == "tf32" else self.kind

    def cls(self, of: str) -> str:
        """The class in which it is remembered, if it is of a program that was tried in class `of`."""
        return "tf32" if self.compute == "tf32" else of


def described(program: Program, stage: Collective) -> _Kind:
    """The properties by which two products are similar."""
    p = product_of(program, stage)
    kind = {Gemm: "gemm", GroupedGemm: "grouped", Conv: "conv"}[type(stage)]
    shape = (p.l * p.m, p.n, p.k) if kind == "gemm" else (p.m, p.n, p.k)
    return _Kind(kind, shape, _tail(stage), p.cls, p.cast_bytes > 0)


def _tail(stage: Collective) -> str:
    """plain | pointwise | operands | reduced"""
    exprs = [stage.epilogue, *(a.expr for a in stage.also), *(x.expr for x in stage.lets)]
    if any(isinstance(e, ir.Call) and e.fn.startswith(("row_", "col_")) for e in exprs):
        return "reduced"
    if any(True for e in exprs for _ in ir.loads(e)):
        return "operands"
    return "plain" if all(isinstance(e, ir.Acc) for e in exprs) else "pointwise"


def main_stage(program: Program) -> Collective | None:
    """The product with the most work."""
    products = [s for s in program.stages if isinstance(s, Collective)]
    priced = {s.name: product_of(program, s) for s in products}
    return max(products, key=lambda s: priced[s.name].m * priced[s.name].n * priced[s.name].k, default=None)


def won(where: str, cls: str, backend: str, text: str, ms: float, sms: int, stage: str = "") -> Won | None:
    """The entry of a measured program; None if it has no product that can be configured."""
    checked = check(text)
    if checked.program is None:
        return None
    program = resolve(checked.program, sms)
    product = next((s for s in program.stages if s.name == stage), None) or main_stage(program)
    if not isinstance(product, Collective) or product.config.tile is None:
        return None
    d = described(program, product)
    return Won(
        where, d.name(backend), d.cls(cls), backend, d.shape, d.tail, candidates.change(None, product.config), ms
    )


# ---- sources ----


def known(hardware: str, sms: int) -> Memory:
    """Everything known of a device: the repository's results and this machine's. For a module that was searched several
    times, the latest outcomes count."""
    shipped = committed(hardware, sms)
    here = _lines(_file(hardware))
    latest = {(o.problem, o.cls, o.action): o for o in here.outcomes.outcomes}
    return Memory(_fastest([*shipped.won, *here.won]), Outcomes([*shipped.outcomes.outcomes, *latest.values()], FITTED))


def _fastest(entries: Iterable[Won]) -> list[Won]:
    """The fastest per problem, class and back end."""
    best: dict[tuple, Won] = {}
    for w in entries:
        key = (w.where, w.kind, w.cls, w.backend, w.shape)
        if key not in best or w.ms < best[key].ms:
            best[key] = w
    return list(best.values())


def committed(hardware: str, sms: int) -> Memory:
    """The repository's memory, which is the same on every machine and read-only. Reading programs takes seconds, so
    what it comes to is in the repository, too, in a file named by the results that it is of. For other results it is
    made once and kept beside the builds; sessions that start together wait for the first of them. An engine reads it
    before its first session (`known` is for sessions)."""
    with _reading:
        return _committed(hardware, sms)


_reading = Lock()


@lru_cache(maxsize=4)
def _committed(hardware: str, sms: int) -> Memory:
    paths = [p for kind in _READERS for p in sorted(RESULTS.glob(f"{kind}*-{hardware}-*.json"))]
    name = f"{hardware}-{content_key(str(sms), *(p.read_bytes() for p in paths))[:24]}.jsonl"
    aside = default_root() / "memory" / name
    # The installed package has no results, but what they come to.
    gathered = [GATHERED / name] if paths else sorted(GATHERED.glob(f"{hardware}-*.jsonl"))
    if ready := next((path for path in (*gathered, aside) if path.exists()), None):
        memory = _lines(ready)
    else:
        memory = _gathered(paths, sms)
        memory_lines.add(aside, memory.to_text())
    memory.outcomes.fitted = FITTED
    return memory


def _gathered(paths: list[Path], sms: int) -> Memory:
    memory = Memory()
    for path in paths:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            read = next(read for kind, read in _READERS.items() if path.name.startswith(kind))
            read(json.loads(path.read_text(encoding="utf-8")), memory, sms)
    return Memory(_fastest(memory.won), memory.outcomes)


def _example(module: str, cls: str) -> str | None:
    """The suite's program of a module in a class, for the shapes of results that name only the module."""
    for name in (f"{module}_{cls}", module):
        path = PROGRAMS / f"{name}.ucutlass"
        if path.exists():
            return path.read_text(encoding="utf-8")
    return None


def _of_bench(results: dict, memory: Memory, sms: int) -> None:
    for module, row in results["problems"].items():
        for cls, region in dict.fromkeys((t["class"], _region(t)) for t in row["trials"]):
            trials = [t for t in row["trials"] if (t["class"], _region(t)) == (cls, region)]
            timed = [t for t in trials if t.get("ok") and "ms" in t]
            memory.outcomes.outcomes += outcomes(
                [
                    (t["structure"], t.get("predicted_ms"), t.get("ms") if t.get("ok") else None)
                    for t in trials
                    if t.get("structure") and not t.get("settings") and not t.get("algebraic")
                ],
                row["id"], cls,
            )  # fmt: skip
            if not timed:
                continue
            best = min(timed, key=_own_ms)
            text = best.get("text") or (_example(module, cls) if not region else None)
            entry = won(row["id"], cls, best["backend"], text, _own_ms(best), sms) if text else None
            if entry is not None and not best.get("text"):
                if not best.get("settings"):
                    continue  # its configuration is not known
                entry = replace(entry, settings=best["settings"])
            if entry is not None:
                memory.won.append(entry)


def _region(trial: dict) -> int:
    """The region of the program, in a module with regions; 0: the whole module."""
    return trial.get("part", {}).get("region", 0)


def _own_ms(trial: dict) -> float:
    """The time of the program alone."""
    return trial.get("part", {}).get("region_ms", trial["ms"])


def _of_suite(results: dict, memory: Memory, sms: int) -> None:
    for row in results["results"]:
        if not row.get("ok") or "ms" not in row:
            continue
        path = PROGRAMS / f"{row['program']}.ucutlass"
        if path.exists():
            entry = won(row["id"], row["class"], row["backend"], path.read_text(encoding="utf-8"), row["ms"], sms)
            if entry is not None:
                memory.won.append(entry)


_READERS = {"bench": _of_bench, "suite59": _of_suite}  # by the beginning of a results file's name


def outcomes(trials: list[tuple[str, float | None, float | None]], where: str, cls: str) -> list[Outcome]:
    """Structures compared with the first one, from trials (structure, predicted ms, measured ms or None if it failed)
    that leave every choice to the compiler."""
    if not trials or not trials[0][1] or not trials[0][2]:
        return []
    _, base_predicted, base = trials[0]
    return [
        Outcome(structure, base_predicted / predicted, base / ms if ms else None, where, cls)
        for structure, predicted, ms in trials[1:]
        if predicted
    ]


# ---- this machine's own ----


def _file(hardware: str) -> Path:
    return default_root() / "memory" / f"{hardware}.jsonl"


def _lines(path: Path) -> Memory:
    return parsed(memory_lines.read(path))


def parsed(text: str) -> Memory:
    """A memory from its JSON lines, without torn lines and lines of other versions."""
    memory = Memory(outcomes=Outcomes(fitted=FITTED))
    for line in text.splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            fact = json.loads(line)
            if "settings" in fact:
                memory.won.append(Won(**{**fact, "shape": tuple(fact["shape"])}))
            else:
                memory.outcomes.add(Outcome(**fact))
    return memory


def lines_of(facts: Iterable[Won | Outcome]) -> str:
    return "".join(json.dumps(asdict(x)) + "\n" for x in facts)


def session_of(graph: OpGraph) -> str:
    """`where` for a session on this module: the same for the same operations on the same shapes, whatever its name and
    its text."""
    numbers: dict[str, int] = {}

    def described(name: str) -> list:
        known = name in numbers
        t, number = graph.tensors[name], numbers.setdefault(name, len(numbers))
        return [number] if known else [number, t.shape, t.dtype, t.kind, t.layout]

    ops = [[op.op, [described(n) for n in op.inputs], [described(n) for n in op.outputs], op.attrs] for op in graph.ops]
    text = json.dumps([ops, [described(n) for n in graph.outputs]], sort_keys=True, default=str)
    return SESSION + content_key(text)[:16]


def keep(hardware: str, lesson: str) -> None:
    """Append the JSON lines of a session's measurements on this machine. Errors here do not affect the session. Lines
    that the file holds (of a session that was lost at its end and resumed) are not added again."""
    if lesson:
        memory_lines.add(_file(hardware), lesson)


__all__ = [
    "Memory", "Won", "committed", "keep", "known", "lines_of", "main_stage", "outcomes", "parsed", "session_of", "won",
]  # fmt: skip
