"""The forms of the replies of `optiml`'s roles. A reply may hold anything, so every field is bounded."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engine.llm.replies import Form, Kernel, Line, Program, Text

Limit = Literal["compute", "memory", "latency", "occupancy"]
MOST_PROPOSALS = 8
CONFIDENCE = Field(0.5, ge=0.0, le=1.0, description="how sure you are that it is right and faster, from 0 to 1")
TARGETS = Field("memory", description="the bottleneck that the edit is aimed at")


class Proposal(Form):
    """One strategy of the mixture, in words."""

    title: Text = Field(min_length=1, max_length=200, description="the strategy of the implementation, in one line")
    weight: float = Field(gt=0, le=1000, description="how promising it is, relative to the other strategies")
    why: Text = Field("", max_length=600, description="one line: the reason, with numbers")


class Proposals(Form):
    """The mixture: strategies that differ."""

    strategies: list[Proposal] = Field(min_length=1, max_length=MOST_PROPOSALS)


class Bottleneck(Form):
    """What limits a candidate."""

    limit: Limit = Field(description="what limits the candidate")
    evidence: list[Line] = Field(max_length=6, description="facts of the profile that show it, one a line")
    advice: Text = Field("", max_length=600, description="one line: what an edit should change")


class ProgramEdit(Program):
    """An edit of a program: the whole new program."""

    targets: Limit = TARGETS
    confidence: float = CONFIDENCE


class KernelEdit(Kernel):
    """An edit of a kernel: the whole new kernel."""

    targets: Limit = TARGETS
    confidence: float = CONFIDENCE
