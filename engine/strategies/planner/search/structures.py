"""The programs of one class that differ in structure, the one expected to be fastest first.

A Choice defines a structure: where a reduction happens, whether operands are copied so that they are read along K, in
which type intermediates are stored, whether images are read in PyTorch's layout. Each is checked and generated, and
those that fail are left out. The expected times are the attainable model's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product

from dsl import ir
from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.ir import Collective, Conv, DType, Gemm, Program
from dsl.lower.plan.rescue import WAIT_MS, chosen
from dsl.printer import to_text
from dsl.rules import legal
from engine.classes import HALVES
from engine.strategies.planner.lowering import fp8
from engine.strategies.planner.lowering.choice import COMPUTE, Choice
from engine.strategies.planner.lowering.drafts import Attention, Convolution, Draft, Product
from engine.strategies.planner.lowering.lower import Lowered
from engine.strategies.planner.lowering.norm_stores import late
from engine.strategies.planner.lowering.pipeline import program
from engine.strategies.planner.lowering.rules.recurrent import Recurrent
from engine.strategies.planner.lowering.storage_choice import as_it_lies, casts_its_weight
from engine.strategies.planner.search import candidates
from engine.strategies.planner.search.candidates import Ranked
from sol.attainable import Attainable, joined_with, predict, product_of
from sol.hardware import Hardware

MOST = 4  # structures per class
FINER = 2  # of them at most with products in tf32, in a class of half precision
BY_CPP = ", built by nvcc"
SCALED = ", scaled by powers of two into f16's range"
IN_TF32 = ", products in tf32"


@dataclass
class Structure:
    """One structure in one class. `base`: checked, with the configuration of `main` auto and the model's best for the
    other products; `ranked`: configurations of `main`, best first; `ms`: expected with everything auto; `rows`: images
    are read in PyTorch's layout; `narrow`: intermediates are stored in half precision."""

    words: str
    base: Program
    first: Program
    backend: str
    ms: float
    main: str = ""
    rows: bool = False
    narrow: bool = False
    ranked: list[Ranked] = field(default_factory=list)

    @cached_property
    def key(self) -> str:
        return skeleton(self.base)

    @property
    def finer(self) -> bool:
        """Return True if its products are in a finer class than the one that it is tried in."""
        return IN_TF32 in self.words

    def named(self, name: str) -> Structure:
        """The same with programs of that name."""
        base, first = replace(self.base, name=name), replace(self.first, name=name)
        return replace(self, base=base, first=first, ranked=list(self.ranked))


def skeleton(p: Program) -> str:
    """The text of a program without its configurations, which all trials of one structure share."""
    stages = tuple(
        replace(s, config=ir.Config(compute=s.config.compute, backend=s.config.backend))
        if isinstance(s, Collective)
        else s
        for s in p.stages
    )
    return to_text(replace(p, name="p", stages=stages))


def structures(lowered: Lowered, cls: str, hw: Hardware, reasons: list[str], finer: bool = False) -> list[Structure]:
    """The structures that some back end takes, not tuned yet. The reasons against the others are added to `reasons`.
    `finer`: a class of half precision has products in tf32 as well, where they are expected to be faster."""
    if cls == "fp8" and (why := fp8.lacking(lowered)):
        reasons.append(why)
        return []
    exact = any(isinstance(d, Attention) and d.in_f32 for d in lowered.stages)
    if cls == "tf32" and exact:
        reasons.append("PyTorch's own attention of f32 tensors is more exact than f16 operands")
        return []
    images = any(isinstance(d, Convolution) and as_it_lies(d, lowered.dtype) for d in lowered.stages)
    by_text: dict[str, Structure] = {}
    texts: set[str] = set()
    choices = [(cls, choice) for choice in _choices(lowered, cls, images)]
    if cls == "tf32" and lowered.dtype == "f32":
        for rows, fuse in product((False, True) if images else (False,), (False, True)):
            choices += [("f16", c) for c in _guarded(lowered, Choice(rows=rows, fuse=fuse, guard=True))]
    if finer and cls in HALVES and lowered.dtype == "f32" and not exact:  # a cast may cost more than it saves
        choices += [("tf32", choice) for choice in _choices(lowered, "tf32", images)]
    accepted: set[Choice] = set()
    for compute, choice in choices:
        text = to_text(program(lowered, compute, choice))
        known = text in texts or (choice.guard and replace(choice, narrow=True) in accepted)
        texts.add(text)
        if known:
            continue
        checked = check(text)
        if not checked.ok:
            reasons.append(checked.diagnostics[0].message)
            continue
        words = str(choice) + (IN_TF32 if compute == "tf32" != cls else "")
        structure = opened(checked.program, words, hw, reasons)
        if structure is not None:
            accepted.add(choice)
            structure.rows, structure.narrow = choice.rows, choice.narrow
            by_text[text] = structure
    return _best(list(by_text.values()))


def _choices(lowered: Lowered, cls: str, images: bool) -> list[Choice]:
    """Every structure of a class that has no guard. `images`: some convolution can read images as they lie."""
    cast = lowered.dtype == "f32" if cls == "fp8" else COMPUTE[cls].value != lowered.dtype and cls != "tf32"
    turns = (False, False), (True, False), (True, True)  # operands copied to lie along K, the first one alone
    out = []
    both = False, True
    weights = both if lowered.dtype == "f32" and cls in HALVES and any(map(_reads_weight, lowered.stages)) else (False,)
    lates = both if cast and late(lowered.stages, lowered.results) != lowered.stages else (False,)
    for rows, (along_k, first), fuse, narrow, later, own in product(both, turns, both, both, lates, weights):
        if (along_k and cls != "tf32") or (narrow and not cast) or (rows and not images) or (later and not narrow):
            continue
        out.append(Choice(along_k, fuse, narrow, rows, first=first, late=later, weights=own))
    if cls == "tf32" and any(isinstance(d, Recurrent) for d in lowered.stages):
        out += [replace(choice, exact=True) for choice in out]
    return out


def _reads_weight(draft: Draft) -> bool:
    """Return True for a product that may cast its weight, in f32, as it reads it."""
    return isinstance(draft, Product) and casts_its_weight(draft, DType.F16, DType.F32)


def _guarded(lowered: Lowered, plain: Choice) -> list[Choice]:
    """First with what only products read stored in f16; then with separate casts, for use if there is nothing of that
    kind, or if no back end takes the first."""
    first = replace(plain, narrow=True)
    same = program(lowered, "f16", first) == program(lowered, "f16", plain)
    return [plain] if same else [first, plain]


def _best(candidates: list[Structure]) -> list[Structure]:
    """The few that are expected to be fastest, with at least one each that reads images in PyTorch's layout, that does
    not, and that has a guard: the model would have to be right about several kinds of kernel to choose between them.
    Of those in a finer class than theirs a few, and only what is expected to be faster than all others."""
    ranked = sorted(candidates, key=lambda s: s.ms)
    own = next((s.ms for s in ranked if not s.finer), float("inf"))
    faster = [s for s in ranked if s.finer and s.ms < own][:FINER]
    ranked = [s for s in ranked if not s.finer or s in faster]
    first = {(s.rows, s.base.guard, s.finer): s for s in reversed(ranked)}
    best = ranked[:MOST]
    missing = [s for s in first.values() if s not in best]
    return [*best[: MOST - len(missing)], *missing]


def opened(p: Program, words: str, hw: Hardware, reasons: list[str]) -> Structure | None:
    """A structure with the back end that takes it: `cute` if possible, else `cpp`; None, with the reason in
    `reasons`."""
    compiled = generate(p, hw.sms, first=True)
    backend = next(iter(compiled.sources), None)
    if backend is None:
        reasons.append("; ".join(f"{name}: {r.message}" for name, r in compiled.refused.items()))
        return None
    return Structure(words, p, p, backend, expected(compiled.resolved, hw))


def on_cpp(s: Structure, hw: Hardware) -> Structure | None:
    """The same products on the back end `cpp`, not tuned yet; None if there are none, or if it takes them not."""
    stages = tuple(
        replace(x, config=ir.Config(compute=x.config.compute, backend="cpp")) if isinstance(x, Collective) else x
        for x in s.base.stages
    )
    checked = check(to_text(replace(s.base, stages=stages))) if stages != s.base.stages else None
    new = opened(checked.program, s.words + BY_CPP, hw, []) if checked is not None and checked.ok else None
    return new and replace(new, narrow=s.narrow)


def expected(resolved: Program, hw: Hardware) -> float:
    """Predicted milliseconds of a resolved program; of a guarded one, with its flag and idle rescue kernels."""
    waits = (1 + len(chosen(resolved).stages)) * WAIT_MS if resolved.guard else 0.0
    return waits + predict(resolved, hw).ms


def tune(s: Structure, hw: Hardware, rankings: dict[tuple, list[Ranked]] | None = None) -> None:
    """Rank the configurations of the product that takes longest; the other products take the model's best.

    `rankings`: those of other structures on the same device, which this one takes or adds to.
    """
    products = tunable(s.base)
    if not products:
        return
    ranked, rankings = {}, {} if rankings is None else rankings
    for x in products:  # layers of one shape have the same ranking
        key = _ranked_alike(s, x)
        if key not in rankings:
            rankings[key] = _ranking(_Alike((hw, *key), s.base, x))
        ranked[x.name] = rankings[key]
    main = max(products, key=lambda x: ranked[x.name][0].ms if ranked[x.name] else 0.0)
    rest = {x.name: ranked[x.name][0].config for x in products if x is not main and ranked[x.name]}
    tuned = tuple(replace(x, config=rest[x.name]) if x.name in rest else x for x in s.base.stages)
    s.base, s.main, s.ranked = replace(s.base, stages=tuned), main.name, ranked[main.name]


@dataclass(frozen=True)
class _Alike:
    """A product; equal to every other one that has the same ranking."""

    key: tuple
    program: Program = field(compare=False)
    stage: Gemm | Conv = field(compare=False)


@lru_cache(maxsize=64)  # a room of students brings the same modules, and a session that goes on its own
def _ranking(product: _Alike) -> list[Ranked]:
    hw, backend = product.key[:2]
    return candidates.rank(product.program, product.stage, hw, backend)


def _ranked_alike(s: Structure, x: Gemm | Conv) -> tuple:
    """All that decides the ranking of a product's configurations."""
    key = (s.backend, legal.program_problem(s.base, x), product_of(s.base, x), x.config)
    if isinstance(x, Conv):
        types = [s.base.type_of(o.name) for o in x.operands]
        key += (*types, x.type, x.stride, x.padding, x.dilation, x.groups, x.transposed)
    norm = joined_with(s.base, x)  # its time depends on more than the product
    return key if norm is None else (*key, norm, s.base)


def tunable(p: Program) -> list[Gemm | Conv]:
    """The products and convolutions of a checked program that have a configuration to choose."""
    types = legal.types_of(p)
    products = [x for x in p.stages if isinstance(x, Gemm | Conv) and legal.configured(x, types)]
    return [x for x in products if legal.compute_of(x, types) is not DType.F32]


def prediction(p: Program, hw: Hardware) -> Attainable:
    """The prediction for a checked program with every `auto` filled in."""
    from dsl.resolve import resolve

    return predict(resolve(p, hw.sms), hw)
