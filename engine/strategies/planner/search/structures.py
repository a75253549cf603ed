"""The programs of one class that differ in structure, the one expected to be fastest first.

Structure is what a Choice says: where a reduction happens, whether operands are copied to lie along K, in which type
intermediates are stored, whether images are read as they lie. Each is checked and generated; what fails is left out.
The expectation is the attainable model's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

from dsl import ir
from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.guard import rescue
from dsl.ir import Collective, Conv, DType, Gemm, Program
from dsl.printer import to_text
from dsl.rules import legal
from engine.strategies.planner.lowering import fp8
from engine.strategies.planner.lowering.choice import COMPUTE, Choice
from engine.strategies.planner.lowering.drafts import Convolution
from engine.strategies.planner.lowering.lower import Lowered
from engine.strategies.planner.lowering.pipeline import program
from engine.strategies.planner.lowering.storage_choice import as_it_lies
from engine.strategies.planner.search import candidates
from engine.strategies.planner.search.candidates import Ranked
from sol.attainable import Attainable, predict, product_of
from sol.hardware import Hardware

MOST = 4  # structures of a class
# Of a guarded program's flag, and of each rescue kernel that finds it down: the median of the products in
# engine/results/guard-h200-2026-11-21.json.
WAIT_MS = 0.0026


@dataclass
class Structure:
    """One structure in one class. `base`: checked, the configuration of `main` auto and that of the other products
    the model's best; `ranked`: configurations of `main`, best first; `ms`: expected with everything auto; `rows`:
    images are read as they lie."""

    words: str
    base: Program
    first: Program
    backend: str
    ms: float
    main: str = ""
    rows: bool = False
    ranked: list[Ranked] = field(default_factory=list)

    @cached_property
    def key(self) -> str:
        return skeleton(self.base)


def skeleton(p: Program) -> str:
    """The text of a program without its configurations: what two trials of one structure share."""
    stages = tuple(
        replace(s, config=ir.Config(compute=s.config.compute)) if isinstance(s, Collective) else s for s in p.stages
    )
    return to_text(replace(p, name="p", stages=stages))


def structures(lowered: Lowered, cls: str, hw: Hardware, reasons: list[str]) -> list[Structure]:
    """Those that some back end takes, not tuned yet; why the others are not goes to `reasons`."""
    if cls == "fp8" and (why := fp8.lacking(lowered)):
        reasons.append(why)
        return []
    cast = lowered.dtype == "f32" if cls == "fp8" else COMPUTE[cls].value != lowered.dtype and cls != "tf32"
    images = any(isinstance(d, Convolution) and as_it_lies(d, lowered.dtype) for d in lowered.stages)
    found: dict[str, Structure] = {}
    seen: set[str] = set()
    choices: list[tuple[str, Choice]] = []
    turns = (False, False), (True, False), (True, True)  # operands copied to lie along K, the first one alone
    for rows, (along_k, first), fuse, narrow in product((False, True), turns, (False, True), (False, True)):
        if (along_k and cls != "tf32") or (narrow and not cast) or (rows and not images):
            continue
        choices.append((cls, Choice(along_k, fuse, narrow, rows, first=first)))
    if cls == "tf32" and lowered.dtype == "f32":
        for rows, fuse in product((False, True) if images else (False,), (False, True)):
            choices += [("f16", c) for c in _guarded(lowered, Choice(rows=rows, fuse=fuse, guard=True))]
    taken: set[Choice] = set()
    for compute, choice in choices:
        text = to_text(program(lowered, compute, choice))
        known = text in seen or (choice.guard and replace(choice, narrow=True) in taken)
        seen.add(text)
        if known:
            continue
        checked = check(text)
        if not checked.ok:
            reasons.append(checked.diagnostics[0].message)
            continue
        made = opened(checked.program, str(choice), hw, reasons)
        if made is not None:
            taken.add(choice)
            made.rows = choice.rows
            found[text] = made
    return _best(list(found.values()))


def _guarded(lowered: Lowered, plain: Choice) -> list[Choice]:
    """First with what products alone read in f16 where it is made; then with casts of their own, which are taken where
    nothing is of that kind, or where no back end takes the first."""
    first = replace(plain, narrow=True)
    same = program(lowered, "f16", first) == program(lowered, "f16", plain)
    return [plain] if same else [first, plain]


def _best(found: list[Structure]) -> list[Structure]:
    """The few expected to be fastest; of those that read images as they lie, those that do not and those with a guard
    one each at least, since the model has to be right about several kinds of kernel to choose between them."""
    ranked = sorted(found, key=lambda s: s.ms)
    first = {(s.rows, s.base.guard): s for s in reversed(ranked)}
    kept = ranked[:MOST]
    missing = [s for s in first.values() if s not in kept]
    return [*kept[: MOST - len(missing)], *missing]


def opened(p: Program, words: str, hw: Hardware, reasons: list[str]) -> Structure | None:
    """A structure with the back end that takes it: `cute` when it can, else `cpp`; None with the reason kept."""
    compiled = generate(p, hw.sms)
    backend = next((b for b in ("cute", "cpp") if b in compiled.sources), None)
    if backend is None:
        reasons.append("; ".join(f"{name}: {r.message}" for name, r in compiled.refused.items()))
        return None
    return Structure(words, p, p, backend, expected(compiled.resolved, hw))


def expected(resolved: Program, hw: Hardware) -> float:
    """Milliseconds of a resolved program."""
    waits = (1 + len(rescue(resolved).stages)) * WAIT_MS if resolved.guard else 0.0
    return waits + predict(resolved, hw).ms


def tune(s: Structure, hw: Hardware) -> None:
    """Rank the configurations of the product that takes longest; the other products take the model's best."""
    types = legal.types_of(s.base)
    products = [x for x in s.base.stages if isinstance(x, Gemm | Conv) and legal.configured(x, types)]
    products = [x for x in products if legal.compute_of(x, types) is not DType.F32]
    if not products:
        return
    ranked, known = {}, {}
    for x in products:  # layers of one shape rank alike
        key = repr((legal.program_problem(s.base, x), product_of(s.base, x), x.config))
        if key not in known:
            known[key] = candidates.rank(s.base, x, hw, s.backend)
        ranked[x.name] = known[key]
    main = max(products, key=lambda x: ranked[x.name][0].ms if ranked[x.name] else 0.0)
    rest = {x.name: ranked[x.name][0].config for x in products if x is not main and ranked[x.name]}
    tuned = tuple(replace(x, config=rest[x.name]) if x.name in rest else x for x in s.base.stages)
    s.base, s.main, s.ranked = replace(s.base, stages=tuned), main.name, ranked[main.name]


def prediction(p: Program, hw: Hardware) -> Attainable:
    """Of a checked program with every `auto` filled in."""
    from dsl.resolve import resolve

    return predict(resolve(p, hw.sms), hw)
