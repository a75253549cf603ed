"""A role's reply by rule, from the prompt alone."""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import dataclass
from typing import Any

from engine.llm.prompts import clip
from engine.llm.rehearse import evolving, mistakes, templates, tree_moves
from engine.llm.rehearse.modules import module_of
from engine.llm.rehearse.opinions import opinion_of
from engine.llm.rehearse.pool import Drawn, hardware_of, pool
from engine.llm.rehearse.raw_kernels import raw_kernel

STEP = 0.4  # chance that a draw stops at each candidate of the pool, best first
MOST_SOURCE = 200_000
_FORM = re.compile(r"Reply with one JSON object of the form (\w{1,40}) ")
_WORK = re.compile(r"<<<(module|program|description) ([0-9a-f]{16})\n")
_GPU = re.compile(r"to be made faster on ([^\n:]{1,80}):")
_CLASSES = re.compile(r"Precision classes that count: ([^.\n]{1,80})\.")
_IDEA = re.compile(r"# The (?:hypothesis|strategy) to implement\n([^\n]{1,400}) \((?:expected|weight)")
_BEST = re.compile(r"The best so far is trial \d+ \(right, ([0-9.e+-]{1,20}) ms")
_TRIED = re.compile(r"^\d+\. ([^\n]{1,400}) \[(\w+)\]: ", re.MULTILINE)
_SHOWN = re.compile(r"^<<<candidate ([0-9a-f]{16})\n(.*?)\n\1 end>>>$", re.MULTILINE | re.DOTALL)
_WANTED = re.compile(r"(?:Nominate|Propose) (\d{1,2}) (?:hypotheses|strategies)")


@dataclass(frozen=True)
class Work:
    """What a prompt asks for."""

    form: str
    kind: str
    source: str
    gpu: str
    classes: tuple[str, ...]
    idea: str
    best_ms: float | None
    wanted: int
    tried: frozenset[tuple[str, str]] = frozenset()  # (change, class) of the trials in the prompt
    shown: frozenset[str] = frozenset()  # the candidates that the prompt shows whole


def read(prompt: str) -> Work:
    """The parts of a prompt that the rules need; "" for what it lacks."""
    start, source, kind = _WORK.search(prompt), "", "module"
    if start is not None:
        end = prompt.find(f"\n{start[2]} end>>>", start.end())
        kind, source = start[1], prompt[start.end() : end if end >= 0 else None][:MOST_SOURCE]
    forms, gpu, classes = _FORM.findall(prompt), _GPU.search(prompt), _CLASSES.search(prompt)
    idea, best, wanted = _IDEA.search(prompt), _BEST.search(prompt), _WANTED.search(prompt)
    return Work(
        forms[-1] if forms else "", kind, source, gpu[1] if gpu else "",
        tuple(c.strip() for c in classes[1].split(",")) if classes else ("tf32", "f16"), idea[1] if idea else "",
        float(best[1]) if best else None, int(wanted[1]) if wanted else 4,
        frozenset(_TRIED.findall(prompt)), frozenset(text.strip() for _, text in _SHOWN.findall(prompt)),
    )  # fmt: skip


class Player:
    """`skill`: share of replies without a mistake, from 0 to 1; `seed`: of the draws. The same prompt gets the same
    reply, unless it is asked `again` (a repeated request of the same text)."""

    def __init__(self, skill: float = 1.0, seed: int = 0):
        self.skill, self.seed = skill, seed
        self._asked: dict[str, int] = {}

    def reply(self, prompt: str) -> str:
        key = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()
        again = self._asked.setdefault(key, 0)
        self._asked[key] += 1
        rng = random.Random(f"{self.seed} {key} {again}")
        work = read(prompt)
        mistake = ""
        if rng.random() >= self.skill:
            mistake = rng.choice(mistakes.OF_KERNELS if work.form.startswith("Kernel") else mistakes.OF_PROGRAMS)
        if work.form in templates.FORMS:
            mistake = templates.mistake_of(work.form, mistake, rng)
            value = templates.reply_of(work.form, prompt, self._drawn(work), work, mistake, rng)
        else:
            value = evolving.value(prompt, work, mistake, lambda: self._program(work, "", rng))
            value = value or self._value(work, mistake, rng, prompt)
        return mistakes.written(value, mistake, rng)

    def _value(self, work: Work, mistake: str, rng: random.Random, prompt: str) -> dict[str, Any]:
        match work.form:
            case "Program":
                return self._program(work, mistake, rng)
            case "Kernel":
                return raw_kernel(work.source, work.kind, work.classes, mistake, work.gpu)
            case "Analysis":
                return self._analysis(work)
            case "Ideas":
                return self._ideas(work, rng)
            case "Proposals":
                return tree_moves.proposals(self._ideas(work, rng))
            case "Bottleneck":
                return tree_moves.bottleneck(prompt)
            case "ProgramEdit":
                return self._program(work, mistake, rng) | tree_moves.aim(prompt)
            case "KernelEdit":
                return raw_kernel(work.source, work.kind, work.classes, mistake, work.gpu) | tree_moves.aim(prompt)
            case "Module":
                return module_of(work.source, mistake)
            case "Opinion":
                return opinion_of(prompt)
            case "Lessons":
                return {"lessons": ["Rehearsed: what the model of the GPU ranks first was tried first."]}
        return {"text": "This rehearsal has no rule for this form."}

    def _drawn(self, work: Work) -> tuple[Drawn, ...]:
        """The pool without what the prompt says was tried; all of it if that is everything."""
        drawn = pool(work.source, work.kind, work.classes, work.gpu)
        return (
            tuple(
                d
                for d in drawn
                if (clip(words_of(d), 160), d.cls) not in work.tried and d.text.strip() not in work.shown
            )
            or drawn
        )

    def _program(self, work: Work, mistake: str, rng: random.Random) -> dict[str, Any]:
        drawn = self._drawn(work)
        if not drawn:
            return {"program": "# no part of this module is a program of the language", "cls": work.classes[0],
                    "change": "nothing to rehearse", "why": "The planner lowers no part of this module."}  # fmt: skip
        named = [d for d in drawn if work.idea and title(d) == work.idea]
        chosen = named[0] if named else drawn[_place(rng, len(drawn))]
        slowest = max(drawn, key=lambda d: d.ms or 0.0)
        chosen = mistakes.spoiled(chosen, mistake, slowest)
        return {
            "program": chosen.text, "cls": chosen.cls, "change": words_of(chosen),
            "why": chosen.why, "predicted_ms": chosen.ms,
        }  # fmt: skip

    def _analysis(self, work: Work) -> dict[str, Any]:
        gpu = hardware_of(work.gpu)
        facts = [f"the planner has {len(self._drawn(work))} candidates for {gpu.title}"]
        if work.best_ms is not None:
            facts.append(f"the best candidate takes {work.best_ms:.4g} ms")
        return {"bottleneck": "Rehearsed: the report's first lever.", "observations": facts}

    def _ideas(self, work: Work, rng: random.Random) -> dict[str, Any]:
        drawn = list(self._drawn(work))
        chosen = [drawn.pop(_place(rng, len(drawn))) for _ in range(min(work.wanted, len(drawn)))]
        slowest = max((d.ms for d in chosen if d.ms), default=None)
        before = work.best_ms or slowest or 1.0
        return {
            "hypotheses": [
                {
                    "title": title(d), "action": action(d), "speedup": min(1000.0, before / (d.ms or before)),
                    "implementation": 1.2, "performance": 1.5, "why": d.why,
                }
                for d in chosen
            ]
            or [{"title": "nothing to rehearse", "speedup": 1.0, "implementation": 1.0, "performance": 1.0}]
        }  # fmt: skip


def words_of(drawn: Drawn) -> str:
    """The line that says what a candidate is."""
    return drawn.change or "the planner's candidate"


def title(drawn: Drawn) -> str:
    """A candidate's title as a hypothesis: one line that names it among the pool."""
    return clip(f"{words_of(drawn)} in {drawn.cls}", 200)


def action(drawn: Drawn) -> str:
    """The clause that a candidate changes, as engine.strategies.mucutlass.memory names actions."""
    for word in ("split_k", "stream_k", "tile", "cluster", "schedule", "stages", "swizzle"):
        if word in drawn.change:
            return word
    return "other"


def _place(rng: random.Random, many: int) -> int:
    """A geometric draw: 0 with chance STEP, then 1, and so on; the last takes the rest."""
    place = 0
    while place < many - 1 and rng.random() > STEP:
        place += 1
    return place


__all__ = ["Player", "Work", "read", "title"]
