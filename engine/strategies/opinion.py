"""A model's opinion of a trial, beside its evidence and never instead of it.

A session led by a model asks for it with the option `opinion`, for each raw kernel that has a verdict and for each
trial whose evidence is suspicious. It is logged and shown. No verdict, time or best depends on it. Whether a finding is
inherited follows from the parents of the trial alone, without a model.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Literal

from pydantic import Field

from engine.llm.replies import Form, Text
from engine.strategies.api import Ask, Finished, Reply, Show, Verb

ROLE = "opinion"
WORDS = ("No issue", "Minor", "Original gaming", "Inherited gaming")  # of the μCUTLASS study
GAMING = "gaming"  # the verdict of a line of evidence that names a trick
SUSPICIOUS = (GAMING, "library only", "minor")  # verdicts of a line of evidence
MOST_ANCESTORS = 1000
MOST_LINES = 12  # of evidence in a prompt
WORDS_SHOWN = 600  # characters of a reason on the page


class Opinion(Form):
    """A model's opinion of a candidate."""

    verdict: Literal["No issue", "Minor", "Original gaming", "Inherited gaming"] = Field(
        description="whether the candidate games the measurement, by itself or as a part of it that an earlier one had"
    )
    reason: Text = Field(max_length=WORDS_SHOWN, description="one or two sentences: what shows it")


def wanted(trial: Finished, instance: bool = False) -> bool:
    """Whether a trial gets an opinion: a raw kernel with a verdict, or any trial with suspicious evidence. An instance
    of a template that has its opinion gets one for suspicious evidence alone."""
    if not trial.number:
        return False
    suspicious = any(line.get("verdict") in SUSPICIOUS for line in trial.evidence)
    return suspicious or (trial.form == "kernel" and not trial.failed and not instance)


def tricks(trial: Finished) -> set[str]:
    """The names of the findings that are tricks."""
    return {str(line["name"]) for line in trial.evidence if line.get("verdict") == GAMING and line.get("name")}


def inherited(
    trial: Finished, trials: Iterable[Finished], parents: Mapping[int, int | None]
) -> tuple[int, list[str]] | None:
    """The nearest ancestor with a trick of this trial, and their names; None if the trial inherits none."""
    own, known = tricks(trial), {t.number: t for t in trials}
    number = parents.get(trial.number)
    for _ in range(MOST_ANCESTORS):
        ancestor = known.get(number) if number else None
        if ancestor is None or not own:
            return None
        if shared := own & tricks(ancestor):
            return ancestor.number, sorted(shared)
        number = parents.get(number)
    return None


def give(writer: Any, trial: Finished) -> Generator[Verb, Any, None]:
    """Ask for the opinion of a trial, once, and log it. A reply that fits no form is no opinion, with its reason.
    `writer`: an engine.strategies.writing.Writer."""
    from engine.llm.prompts import clip, facts, render

    line = inherited(trial, writer.state.trials, writer.parents)
    evidence = [f"{e.get('name', '')} ({e.get('verdict', '')}): {e.get('said', '')}" for e in trial.evidence]
    known = writer.facts(history=False) | {
        "candidate": {"number": trial.number, "words": facts.words(trial), "text": trial.text[: facts.MOST_TEXT]},
        "evidence": evidence[:MOST_LINES],
        "ancestor": {"number": line[0], "names": line[1]} if line else None,
    }  # fmt: skip
    reply: Reply = yield Ask(ROLE, render(ROLE, Opinion, **known), Opinion)
    opinion = reply.value if isinstance(reply.value, Opinion) else None
    writer.state = yield Show(
        ROLE,
        {
            "trial": trial.number, "verdict": opinion.verdict if opinion else "",
            "reason": clip(opinion.reason if opinion else reply.reason, WORDS_SHOWN), "model": clip(reply.model, 80),
        },
    )  # fmt: skip


__all__ = ["ROLE", "WORDS", "Opinion", "give", "inherited", "tricks", "wanted"]
